/* --landlock-rw: only the paths listed may be written; and streams that are files. The probe runs in kern, the rest in the box's first process. */
#ifndef CREDS_LANDLOCK_H
#define CREDS_LANDLOCK_H

#include "kern/plugin.h"

/* Whether this kernel can hold the promise, and whether the paths are absolute. */
int creds_landlock_check(const kern_values *options, struct kern_error *err);

/* Opens the listed paths below `root`. Needs the rights to reach them: before the ids change. */
int creds_landlock_build(int root, const kern_values *options, int *ret_ruleset, struct kern_error *err);

/* Rules without --landlock-rw, where a file of the host is a standard stream to be read only: everything of the box at `root`
 * stays writable, and so do the streams that are. Leaves *ret_ruleset alone where none are needed, or to be had. */
int creds_landlock_streams(int root, int *ret_ruleset, struct kern_error *err);

/* Binds this process and all it becomes. Needs no_new_privs. */
int creds_landlock_bind(int ruleset, struct kern_error *err);

#endif
