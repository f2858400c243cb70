/* The catalog: every plugin that this run knows, loaded or not. Built-in ones are known by their manifest
 * (the table without hooks, compiled into kern), so that flags and keys can be read before anything is opened. */
#ifndef CORE_CATALOG_H
#define CORE_CATALOG_H

#include "options.h"

struct core_profile {
    char *name;
    struct kern_values values;
    struct kern_values pool;
    bool has_pool;
};

struct core_plugin {
    const struct kern_plugin *table; /* a manifest until loaded */
    const char *name;
    char *path;   /* the file it came from; NULL for a built-in not yet found */
    bool builtin; /* ships with kern */
    bool always;  /* takes part in each box */
    bool wanted;  /* takes part in this one */
    bool loaded;
    bool completed;    /* the table is a copy of an older plugin's shorter one, to be freed */
    bool entered;      /* prepare was entered: teardown is due */
    uint64_t held[16]; /* KERN_DEBUG=plugins: the descriptors that its prepare opened, a bit for each */
    void *state;
    struct kern_values own; /* third-party plugins: flags --NAME-OPTION and [[plugin]] keys */
    struct core_profile *profile;
    uint32_t profile_count;
};

struct core_catalog {
    struct core_plugin *plugin;
    size_t count;
};

/* The built-ins of this build. `core` itself is the first row: it owns the options of the engine (timeout,
 * report, ...) and has no hooks, so it counts as loaded. vcpu's manifest has its `check` already: that is pure, and a
 * kern.toml is judged without opening the plugin. */
int core_catalog_builtin(struct core_catalog *ret_catalog, struct kern_error *err);
/* Adds a third-party plugin whose table is at hand (already loaded and verified). Its name, kind and pool must be
 * free. Pointers to rows that were handed out before are void afterwards. */
int core_catalog_add(struct core_catalog *catalog, const struct kern_plugin *table, const char *path,
                     struct core_plugin **ret_plugin, struct kern_error *err);
/* `state` belongs to the engine and is not freed here. */
void core_catalog_clear(struct core_catalog *catalog);
struct core_plugin *core_catalog_find(const struct core_catalog *catalog, const char *name);
/* The plugin that serves KIND:NAME tokens of this kind, or NULL. */
struct core_plugin *core_catalog_kind(const struct core_catalog *catalog, const char *kind);
/* Whether it is the manifest of one that ships with kern. */
bool core_catalog_is_manifest(const struct kern_plugin *table);
/* Whether its profiles count in `kern run`: it limits, or is a third party's that has an option with KERN_OPT_RUN. */
bool core_catalog_runs_bare(const struct core_plugin *plugin);

#endif
