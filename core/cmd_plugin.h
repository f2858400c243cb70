/* The parts of `kern plugin` that have files of their own. Host side. */
#ifndef CORE_CMD_PLUGIN_H
#define CORE_CMD_PLUGIN_H

#include "kern/plugin.h"

/* Writes a project for a plugin into a new folder NAME. `kind` is the KIND of its profiles, or NULL for none. */
int core_plugin_new(const char *name, const char *kind, struct kern_error *err);

/* Looks at a built plugin and prints what it finds. Returns 0 when nothing is wrong with it, -EINVAL (err is set) when something is. */
int core_plugin_check(const char *path, struct kern_error *err);
/* Opens the plugin in this process, which is to end afterwards, and runs its hooks on a box that is never started. 0, 1 when one of
 * them is at fault, CORE_TRY_NO_ENTER when enter could not be tried here; why is printed. Adds the notes among that to *notes. */
#define CORE_TRY_NO_ENTER 2
int core_plugin_try(const char *path, int *notes);
/* A line of what is found: "ok", "note" or "wrong", and the text. */
void core_plugin_say(const char *verdict, const char *format, ...) KERN_PRINTF(2, 3);

#endif
