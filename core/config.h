/* kern.toml as a value: which file counts, whether it can be trusted, what it says. Read by core/toml.c,
 * checked through libconfuse (cfg_opt_t made from the option tables), kept as plain options. Host side. */
#ifndef CORE_CONFIG_H
#define CORE_CONFIG_H

#include "catalog.h"

/* Who chose the file decides what it may set (design, section 2). */
#define CORE_CONFIG_OWN      0 /* $XDG_CONFIG_HOME/kern/kern.toml or /etc/kern/kern.toml */
#define CORE_CONFIG_FOREIGN  1 /* --config or KERN_CONFIG: perhaps another's project */
#define CORE_CONFIG_COMPILED 2 /* no file: etc/kern.toml.example as compiled in */

struct core_config; /* opaque */

/* `path` is --config's argument or NULL; the environment and the usual places decide then. A missing chosen
 * file is an error; a missing usual one is not. All that the catalog knows is checked here, so that a faulty file
 * is refused when it is read. Tables of plugins that are not in this build give a note through `note` (may be
 * NULL); so do unknown ones, unless the file declares plugins: then core_config_bind() tells. */
int core_config_load(const char *path, const struct core_catalog *catalog, struct core_config **ret_config,
                     void (*note)(void *data, const char *text), void *data, struct kern_error *err);
/* To be called once the plugins that the file declares are in the catalog: checks their tables as well, and notes
 * those that nobody serves. */
int core_config_bind(const struct core_config *config, const struct core_catalog *catalog,
                     void (*note)(void *data, const char *text), void *data, struct kern_error *err);
void core_config_free(struct core_config *config);

/* The file looked at, for messages: a path, or "(compiled default)". And its trust, CORE_CONFIG_*. */
const char *core_config_path(const struct core_config *config);
int core_config_trust(const struct core_config *config);

/* [box] into `values` at rank KERN_FROM_CONFIG. */
int core_config_box(const struct core_config *config, struct kern_values *values, struct kern_error *err);

/* Each [[plugin]] table, in order. `name` or `path` is NULL when not given. `apply` puts the table's other keys
 * into the plugin's own values. */
struct core_plugin_entry {
    const char *name;
    const char *path;
    bool enabled;
    int line;
};
size_t core_config_plugins(const struct core_config *config, const struct core_plugin_entry **ret_entries);
int core_config_plugin_values(const struct core_config *config, size_t index, struct core_plugin *plugin,
                              struct kern_error *err);

/* Resolves KIND:NAME (extends chain, pool of its backend, table check hook if the plugin is loaded) and appends
 * it to plugin->profile. An unknown name is refused with the file looked at, the profiles that exist and how to
 * make one. */
int core_config_profile(const struct core_config *config, struct core_plugin *plugin, const char *name,
                        struct kern_error *err);
/* The table [KIND] of a plugin that may have one, appended to plugin->profile with an empty name. Returns 1 when there is
 * one, 0 when not. */
int core_config_standing(const struct core_config *config, struct core_plugin *plugin,
                         struct kern_error *err);
/* Every key of a resolved profile that is also a box option is a box default at rank KERN_FROM_PROFILE. Where it
 * replaces what an earlier profile had set, the later wins and a note says so (`note` may be NULL). */
int core_config_apply_profile(const struct core_profile *profile, const char *kind, struct kern_values *box,
                              void (*note)(void *data, const char *text), void *data, struct kern_error *err);

/* For `kern config list`, completions and messages: names of the profiles of a kind, NULL-terminated, in file
 * order; owned by the config. */
const char *const *core_config_names(const struct core_config *config, const char *kind);
/* Resolves every profile of every kind: what `kern validate` does. The first fault is reported. */
int core_config_check_all(const struct core_config *config, const struct core_catalog *catalog,
                          struct kern_error *err);

#endif
