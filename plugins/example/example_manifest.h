/* What kern knows of the example plugin without opening it: its place, its options. Shared by the plugin itself and
 * by core/catalog.c, so that flags and keys have one source. */
#ifndef EXAMPLE_MANIFEST_H
#define EXAMPLE_MANIFEST_H

#include "kern/plugin.h"

static const struct kern_option example_option_table[] = {
    {.name = "name",
     .type = KERN_STRING,
     .flags = KERN_OPT_PROFILE | KERN_OPT_REQUIRED,
     .help = "what follows greeting: on the command line"},
    {.name = "text",
     .type = KERN_STRING,
     .flags = KERN_OPT_PROFILE,
     .fallback = "hello",
     .help = "the line in the file"},
    {.name = "path",
     .type = KERN_STRING,
     .flags = KERN_OPT_PROFILE,
     .fallback = "/etc/greeting",
     .help = "where the file stands in the box"},
    {.name = NULL},
};

#define EXAMPLE_MANIFEST                                                                       \
    .name = "example", .version = KERN_VERSION,                                                \
    .summary = "puts a file with a greeting into the box; the plugin that a newcomer copies",  \
    .stage = KERN_STAGE_MOUNT, .flags = KERN_PLUGIN_LEAN, .profile = "greeting", .pool = NULL, \
    .options = example_option_table

#endif
