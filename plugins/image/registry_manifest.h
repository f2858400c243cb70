/* The keys of [registry] in kern.toml: what the registry client may do beyond https to the registry that was named. Read by
 * core/config_registry.c, and only from the user's or the system's own file. */
#ifndef REGISTRY_MANIFEST_H
#define REGISTRY_MANIFEST_H

#include "kern/plugin.h"

/* The caps of a layer and of all layers of one pull or load, for the verbs that take an image from a file (as flags, which win) and for this table. */
#define IMAGE_LIMITS(where)                                                                 \
    {.name = "max-size",                                                                    \
     .type = KERN_SIZE,                                                                     \
     .flags = (where),                                                                      \
     .arg = "SIZE",                                                                         \
     .min = 1,                                                                              \
     .max = INT64_MAX,                                                                      \
     .help = "refuse a layer that unpacks to more (default: 64g)"},                         \
        {.name = "max-ratio",                                                               \
         .type = KERN_INT,                                                                  \
         .flags = (where),                                                                  \
         .arg = "N",                                                                        \
         .min = 1,                                                                          \
         .max = 1000000,                                                                    \
         .help = "refuse a layer that grows to more than N times its size (default: 250)"}, \
        {.name = "max-image-size",                                                          \
         .type = KERN_SIZE,                                                                 \
         .flags = (where),                                                                  \
         .arg = "SIZE",                                                                     \
         .min = 1,                                                                          \
         .max = INT64_MAX,                                                                  \
         .help = "refuse layers that together unpack to more (default: 128g)"},             \
        {.name = "max-image-entries",                                                       \
         .type = KERN_INT,                                                                  \
         .flags = (where),                                                                  \
         .arg = "N",                                                                        \
         .min = 1,                                                                          \
         .max = INT64_C(1000000000),                                                        \
         .help = "refuse layers of more files together (default: 4000000)"},                \
    {                                                                                       \
        .name = "max-entries", .type = KERN_INT, .flags = (where), .arg = "N", .min = 1,    \
        .max = INT64_C(1000000000),                                                         \
        .help = "refuse a layer of more files and directories (default: 1000000)"           \
    }

static const struct kern_option registry_option_table[] = {
    {.name = "mirrors",
     .type = KERN_STRING,
     .flags = KERN_OPT_PLUGIN | KERN_OPT_LIST,
     .arg = "[REGISTRY=]HOST[:PORT][/PATH]",
     .help = "asked first, in this order, for images of the default registry or of REGISTRY"},
    {.name = "plain-http",
     .type = KERN_STRING,
     .flags = KERN_OPT_PLUGIN | KERN_OPT_LIST,
     .arg = "HOST[:PORT]",
     .help = "registries that are spoken to without encryption"},
    {.name = "ca-file",
     .type = KERN_PATH,
     .flags = KERN_OPT_PLUGIN,
     .arg = "FILE",
     .help = "certificates that are trusted beside the system's"},
    {.name = "stall-timeout",
     .type = KERN_DURATION,
     .flags = KERN_OPT_PLUGIN,
     .fallback = "30",
     .arg = "TIME",
     .min = 1000,
     .max = 3600000,
     .help = "a transfer that does not move for so long is begun again where it stopped"},
    {.name = "attempts",
     .type = KERN_INT,
     .flags = KERN_OPT_PLUGIN,
     .fallback = "5",
     .arg = "N",
     .min = 1,
     .max = 100,
     .help = "how often one thing is asked for"},
    {.name = "parallel",
     .type = KERN_INT,
     .flags = KERN_OPT_PLUGIN,
     .fallback = "4",
     .arg = "N",
     .min = 1,
     .max = 16,
     .help = "layers that are fetched at one time"},
    IMAGE_LIMITS(KERN_OPT_PLUGIN),
    {.name = NULL},
};

#endif
