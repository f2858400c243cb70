/* What kern knows of the view plugin without opening it: its place, its options. Shared by the plugin itself and
 * by core/catalog.c, so that flags and keys have one source. */
#ifndef VIEW_MANIFEST_H
#define VIEW_MANIFEST_H

#include "kern/plugin.h"

static const struct kern_option view_option_table[] = {
    {.name = "no-view",
     .type = KERN_BOOL,
     .flags = KERN_OPT_FLAG | KERN_OPT_BOX,
     .help = "show the host's CPU and memory figures in the box"},
    {.name = NULL},
};

#define VIEW_MANIFEST                                                                      \
    .name = "view", .version = KERN_VERSION,                                               \
    .summary = "the box's own CPUs, memory, load and uptime in /proc and in system calls", \
    .stage = KERN_STAGE_MOUNT, .flags = KERN_PLUGIN_LEAN, .profile = NULL, .pool = NULL,   \
    .options = view_option_table

#endif
