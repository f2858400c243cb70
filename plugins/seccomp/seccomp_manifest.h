/* What kern knows of the seccomp plugin without opening it: its place, its options. Shared by the plugin itself and
 * by core/catalog.c, so that flags and keys have one source. */
#ifndef SECCOMP_MANIFEST_H
#define SECCOMP_MANIFEST_H

#include "kern/plugin.h"

static const struct kern_option seccomp_option_table[] = {
    {.name = "seccomp",
     .type = KERN_PATH,
     .flags = KERN_OPT_FLAG | KERN_OPT_BOX | KERN_OPT_GUARDED,
     .arg = "FILE",
     .help = "a Docker or OCI seccomp profile in JSON"},
    {.name = NULL},
};

#define SECCOMP_MANIFEST                                                                  \
    .name = "seccomp", .version = KERN_VERSION, .summary = "the system call filter",      \
    .stage = KERN_STAGE_FILTER, .flags = KERN_PLUGIN_LEAN, .profile = NULL, .pool = NULL, \
    .options = seccomp_option_table

#endif
