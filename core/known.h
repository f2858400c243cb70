/* What a plugin may say to this kern: a value that this header does not have comes from a plugin that was built for a newer kern. It
 * is refused, and it is said which of the two to update; ignored, it would be something else than what the plugin's author meant.
 * Pure; used by the loader, the functions of plugin.h and the fake box. */
#ifndef CORE_KNOWN_H
#define CORE_KNOWN_H

#include "kern/plugin.h"

/* The plugin's table: interface, release, sizes, name, flags and each option. 0 or a negative errno. */
int core_known_table(const struct kern_plugin *table, const char *path, struct kern_error *err);
/* Reads all that a table which is known so far leads to: whoever cannot trust its pointers calls it where a crash is caught. Returns the
 * bytes of all its texts. */
size_t core_known_reach(const struct kern_plugin *table);
/* The flags of a mount at `target`. */
int core_known_mount(const char *target, uint32_t flags, struct kern_error *err);
/* A filter rule, which may be an older, shorter one. */
int core_known_rule(const struct kern_rule *rule, struct kern_error *err);

#endif
