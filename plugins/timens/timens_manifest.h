/* What kern knows of the timens plugin without opening it. */
#ifndef TIMENS_MANIFEST_H
#define TIMENS_MANIFEST_H

#include "kern/plugin.h"

/* A hundred years: the kernel itself takes at most about 146. */
#define TIMENS_MOST INT64_C(3155760000)

static const struct kern_option timens_option_table[] = {
    {.name = "name",
     .type = KERN_STRING,
     .flags = KERN_OPT_PROFILE | KERN_OPT_REQUIRED,
     .help = "what follows timens: on the command line"},
    {.name = "boottime",
     .type = KERN_INT,
     .flags = KERN_OPT_PROFILE,
     .fallback = "0",
     .arg = "SECONDS",
     .help = "added to the clock since boot, and to /proc/uptime with --no-view: the view shows the box's "
             "age there",
     .min = -TIMENS_MOST,
     .max = TIMENS_MOST},
    {.name = "monotonic",
     .type = KERN_INT,
     .flags = KERN_OPT_PROFILE,
     .fallback = "0",
     .arg = "SECONDS",
     .help = "added to the monotonic clock",
     .min = -TIMENS_MOST,
     .max = TIMENS_MOST},
    {.name = "source-date-epoch",
     .type = KERN_INT,
     .flags = KERN_OPT_PROFILE,
     .arg = "SECONDS",
     .help = "SOURCE_DATE_EPOCH, which tools take for the time of a build",
     .max = INT64_MAX},
    {.name = "seed",
     .type = KERN_INT,
     .flags = KERN_OPT_PROFILE,
     .arg = "N",
     .help = "SEED, PYTHONHASHSEED and PERL_HASH_SEED: the same order of hashes each run",
     .max = UINT32_MAX},
    {.name = NULL},
};

#define TIMENS_MANIFEST                                                                       \
    .name = "timens", .version = KERN_VERSION,                                                \
    .summary = "clocks of the box's own (boot, monotonic), and what makes runs reproducible", \
    .stage = KERN_STAGE_LIMIT, .flags = KERN_PLUGIN_LEAN, .profile = "timens", .pool = NULL,  \
    .options = timens_option_table

#endif
