/* What kern knows of the namespace plugin without opening it: its place, its options. Shared by the plugin itself and
 * by core/catalog.c, so that flags and keys have one source. */
#ifndef NAMESPACE_MANIFEST_H
#define NAMESPACE_MANIFEST_H

#include "kern/foundation.h"

static const char *const namespace_userns_words[] = {"auto", "keep", "host", NULL};

static const struct kern_option namespace_option_table[] = {
    {.name = "hostname",
     .type = KERN_STRING,
     .flags = KERN_OPT_FLAG | KERN_OPT_BOX,
     .arg = "NAME",
     .help = "host name in the box (default: the box's name)"},
    {.name = "userns",
     .type = KERN_ENUM,
     .flags = KERN_OPT_FLAG | KERN_OPT_BOX | KERN_OPT_GUARDED,
     .arg = "MODE",
     .fallback = "auto",
     .choices = namespace_userns_words,
     .help = "auto: ids of the box's own; keep: the caller's ids; host: none (root only)"},
    {.name = "uid-range",
     .type = KERN_BOOL,
     .flags = KERN_OPT_FLAG | KERN_OPT_BOX,
     .help = "map the caller's subordinate ids"},
    {.name = "no-uid-range",
     .type = KERN_BOOL,
     .flags = KERN_OPT_FLAG | KERN_OPT_BOX,
     .help = "map one id only"},
    {.name = "sysctl",
     .type = KERN_STRING,
     .flags = KERN_OPT_FLAG | KERN_OPT_BOX | KERN_OPT_LIST,
     .arg = "K=V",
     .help = "a namespaced kernel setting"},
    {.name = NULL},
};

#define NAMESPACE_MANIFEST                                                                       \
    .name = "namespace", .version = KERN_VERSION,                                                \
    .summary = "user, pid, mount, uts, ipc and cgroup namespaces, id maps, host name",           \
    .stage = KERN_STAGE_NETWORK, .flags = KERN_PLUGIN_LEAN | KERN_PLUGIN_FIRST, .profile = NULL, \
    .pool = NULL, .options = namespace_option_table

#endif
