/* The environment of the command: base, plugins, files, flags, in that order. Host side, before the clone. */
#ifndef CORE_ENV_H
#define CORE_ENV_H

#include "box.h"

/* Reads one --env-file: lines trimmed, `#` and blank ones skipped, split at the first `=`, no quotes. */
int core_env_parse(char *text, const char *file, struct core_list *list, struct kern_error *err);
/* Fills box->child_env. HOME points into box->home unless it was given. */
int core_env_build(kern_box *box, struct kern_error *err);
/* The same for `kern run`: the caller's own environment is the base, less the descriptors that were for kern. */
int core_env_build_host(kern_box *box, struct kern_error *err);

/* What --env-file and --env say, in that order. */
int core_env_overrides(const kern_values *options, struct core_list *list, struct kern_error *err);

#endif
