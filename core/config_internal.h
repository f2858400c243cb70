/* What the files core/config*.c share, and the tests and the fuzzer of that reader. Host side. */
#ifndef CORE_CONFIG_INTERNAL_H
#define CORE_CONFIG_INTERNAL_H

#include "config.h"
#include "toml.h"

#include <confuse.h>

/* etc/kern.toml.example, put into the binary by CMake (config_example.c.in). Ends in a NUL that is not
 * counted. */
extern const char core_config_example[];
extern const size_t core_config_example_size;

/* ---- config_source.c: which file, whose, and its bytes */

struct config_source {
    char *path;   /* as messages show it */
    char *folder; /* where it really stands: relative paths in it start here. NULL: compiled in */
    char *text;   /* NULL: compiled in */
    size_t length;
    int trust;
};
int config_source_read(const char *chosen, struct config_source *ret_source, struct kern_error *err);
/* The user's own or the system's, whatever --config and KERN_CONFIG say. */
int config_source_read_own(struct config_source *ret_source, struct kern_error *err);
void config_source_clear(struct config_source *source);
/* Where this user's own kern.toml stands or would stand. */
int config_source_own_path(char *ret_path, size_t size);

/* ---- config_schema.c: the option tables as libconfuse's */

/* An option that no key can name: it leads the callbacks, which get no pointer of their own, to their
 * caller. */
#define CONFIG_CONTEXT "@context"

/* The options that one sort of table may hold, as libconfuse wants them. */
struct config_schema {
    const struct kern_option **def;
    cfg_opt_t *opt; /* one for each def, one for the context of callbacks, the end mark */
    size_t count;
    char title[48]; /* "[box]", "[[vcpu]]" */
    bool open;      /* keys that are not listed belong to somebody who is asked later */
};
int config_schema_add(struct config_schema *schema, const struct kern_option *table, uint32_t mask,
                      struct kern_error *err);
int config_schema_finish(struct config_schema *schema, struct kern_error *err);
void config_schema_clear(struct config_schema *schema);
const struct kern_option *config_schema_option(const struct config_schema *schema, const char *name);
/* The same by a key of the file, where `_` counts as `-`. */
const struct kern_option *config_schema_find(const struct config_schema *schema, const struct toml_node *key);

/* ---- config_confuse.c: TOML nodes into libconfuse, checked by the option tables */

/* A key of the file and the option it sets. */
struct config_key {
    const struct toml_node *node;
    const struct kern_option *def;
};

struct config_table {
    const struct toml_node *node;
    const struct config_schema *schema;
    struct config_key *key; /* in the order of the file */
    size_t key_count;
    cfg_t *cfg; /* these keys, and the defaults of the others */
};
int config_table_fill(const struct core_config *config, const struct config_schema *schema,
                      const struct toml_node *node, struct config_table *ret_table, struct kern_error *err);
void config_table_clear(struct config_table *table);
/* The text of one string option, or NULL when the table does not have the key. */
const char *config_table_text(const struct config_table *table, const char *name);
/* The same for a truth value: false also where the key is not given. */
bool config_table_is_true(const struct config_table *table, const char *name);
/* Hands each key of the table to the value of its name; keys whose value was already set by a file are left
 * when `only_unset`. Keys without a value of that name are skipped. */
int config_table_apply(const struct core_config *config, const struct config_table *table,
                       struct kern_values *values, bool only_unset, struct kern_error *err);

/* ---- config_path.c: paths that stand in a kern.toml */

/* Whether the option's text has a path of the host in it. */
bool config_path_is_one(const struct kern_option *def);
/* The text to keep for an option that names a path of the host: relative ones start at the file's folder,
 * and a foreign file may not leave it. NULL in *ret_text: as it stands. */
int config_path_resolve(const struct core_config *config, const struct kern_option *def, const char *text,
                        const char *prefix, char **ret_text, struct kern_error *err);
/* Refuses what only the user may set, when the file is somebody else's. */
int config_guard(const struct core_config *config, const struct kern_option *def,
                 const struct toml_node *node, struct kern_error *err);

/* ---- config_profile.c: [[KIND]] tables and their pools */

struct config_kind {
    const char *name; /* of the kind */
    const char *pool_name;
    bool may_stand; /* one table [KIND] will do */
    bool stands;    /* and is there: the only profile, which has no name */
    const struct kern_option *options;
    struct config_schema profile_schema, pool_schema;
    struct config_table *profile, *pool;
    size_t profile_count, pool_count;
    struct config_kind *next;
};
/* The tables of this plugin's kind: keys, names, pools and chains checked once, then remembered. */
int config_kind_open(const struct core_config *config, const struct kern_plugin *plugin,
                     const struct config_kind **ret_kind, struct kern_error *err);
void config_kind_free(struct config_kind *kind);
/* One profile with its chain and its pool, judged by the plugin's check. */
int config_kind_resolve(const struct core_config *config, const struct config_kind *kind, size_t index,
                        const struct kern_plugin *plugin, struct core_profile *ret_profile,
                        struct kern_error *err);
/* Opens the kind and resolves each of its profiles. */
int config_kind_check(const struct core_config *config, const struct kern_plugin *plugin,
                      struct kern_error *err);
void config_profile_clear(struct core_profile *profile);

/* ---- config_registry.c */

/* The table [registry], if there is one: whether this file may have it, and its keys. */
int config_registry_check(const struct core_config *config, struct kern_error *err);

/* ---- config_attach.c */

struct config_names;
void config_names_free(struct config_names *names);

/* ---- config.c */

/* What is worked out when it is first asked for. */
struct config_lazy {
    struct toml_doc *doc; /* NULL: the compiled default, not yet read */
    struct config_kind *kind;
    struct config_names *names;
};

struct core_config {
    char *path;
    char *folder;
    int trust;
    struct config_lazy *lazy;
    struct config_schema box_schema;
    struct config_table box;
    struct config_schema entry_schema;
    struct core_plugin_entry *entry;
    const struct toml_node **entry_node;
    struct config_table *entry_table; /* owns the strings of `entry` */
    size_t entry_count;
};

/* A document at hand instead of a file: what core_config_load() does after reading. Takes the source. */
int config_parse(struct config_source *source, const struct core_catalog *catalog,
                 struct core_config **ret_config, void (*note)(void *data, const char *text), void *data,
                 struct kern_error *err);
/* core_config_load() for a file whose trust the caller decides: `kern validate`. */
int config_load_as(const char *path, int trust, const struct core_catalog *catalog,
                   struct core_config **ret_config, void (*note)(void *data, const char *text), void *data,
                   struct kern_error *err);
int config_root(const struct core_config *config, const struct toml_node **ret_root, struct kern_error *err);
/* The array of tables of this name, `_` and `-` being one; NULL when the file has none. */
const struct toml_node *config_find(const struct toml_node *table, const char *name);

/* A place for messages, "kern.toml:12:3"; of a long path the end must do. */
struct config_place {
    char text[320];
};
struct config_place config_at(const struct core_config *config, uint32_t line, uint32_t column);

#endif
