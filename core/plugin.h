/* Finding, verifying and opening plugins. Host side, before the clone. */
#ifndef CORE_PLUGIN_H
#define CORE_PLUGIN_H

#include "catalog.h"

/* Opens what the box wants: every wanted built-in gets its hooks. Nothing is ever closed again: code may be running. */
int core_plugin_load_wanted(struct core_catalog *catalog, struct kern_error *err);

/* A third-party plugin by name (searched in the plugin directories) or by absolute path; adds it to the catalog. */
int core_plugin_add_named(struct core_catalog *catalog, const char *name, bool trusted_path,
                          struct core_plugin **ret_plugin, struct kern_error *err);
int core_plugin_add_path(struct core_catalog *catalog, const char *path, struct core_plugin **ret_plugin,
                         struct kern_error *err);

/* A function of a heavy object beside the plugins, opened only when it is needed. NULL with the error set. */
void *core_plugin_companion(const char *object, const char *function, struct kern_error *err);

/* Whether a function that kern exports is one of kern/foundation.h. */
bool core_plugin_is_foundation(const char *function);

/* The directory of this installation's plugins, relative to the running binary; "" in a static build. */
int core_plugin_directory(char *ret_path, size_t size, struct kern_error *err);

#endif
