/* What kern knows of the cgroup plugin without opening it: its place, its options. Shared by the plugin itself and
 * by core/catalog.c, so that flags and keys have one source. */
#ifndef CGROUP_MANIFEST_H
#define CGROUP_MANIFEST_H

#include "kern/plugin.h"

#define FLEET (KERN_OPT_BOX | KERN_OPT_GUARDED)
#define LIMIT (KERN_OPT_FLAG | KERN_OPT_BOX | KERN_OPT_RUN)

static const struct kern_option cgroup_option_table[] = {
    {.name = "memory",
     .type = KERN_SIZE,
     .flags = LIMIT,
     .letter = "m",
     .arg = "SIZE",
     .fallback = "512m",
     .min = 1,
     .max = INT64_MAX,
     .help = "memory cap"},
    {.name = "memory-swap-max",
     .type = KERN_SIZE,
     .flags = LIMIT,
     .arg = "SIZE",
     .fallback = "0",
     .min = 0,
     .max = INT64_MAX,
     .help = "swap on top of the memory cap"},
    {.name = "cpus",
     .type = KERN_FLOAT,
     .flags = LIMIT,
     .arg = "N",
     .min = 1,
     .max = 4096000,
     .help = "CPU time per second of time, in CPUs (default: no cap)"},
    {.name = "cpuset-cpus",
     .type = KERN_STRING,
     .flags = LIMIT,
     .arg = "LIST",
     .help = "CPUs to run on, such as 0-2,4"},
    {.name = "io-weight",
     .type = KERN_INT,
     .flags = LIMIT,
     .arg = "N",
     .min = 1,
     .max = 10000,
     .help = "share of disk time"},
    {.name = "pids-limit",
     .type = KERN_INT,
     .flags = LIMIT,
     .arg = "N",
     .fallback = "512",
     .min = 2,
     .max = 4194304,
     .help = "processes and threads at most"},
    {.name = "require-limits",
     .type = KERN_BOOL,
     .flags = LIMIT,
     .help = "refuse to start unless the memory and pids caps read back"},
    {.name = "allow-uncapped",
     .type = KERN_BOOL,
     .flags = LIMIT | KERN_OPT_GUARDED,
     .help = "say nothing where a cap cannot bind"},
    {.name = "fleet-memory-max",
     .type = KERN_SIZE,
     .flags = FLEET,
     .arg = "SIZE",
     .min = 1,
     .max = INT64_MAX,
     .help = "memory cap of all boxes together (KERN_FLEET_MEMORY_MAX)"},
    {.name = "fleet-pids-max",
     .type = KERN_INT,
     .flags = FLEET,
     .arg = "N",
     .min = 2,
     .max = 4194304,
     .help = "processes and threads of all boxes together (KERN_FLEET_PIDS_MAX)"},
    {.name = NULL},
};

#undef FLEET
#undef LIMIT

#define CGROUP_MANIFEST                                                                        \
    .name = "cgroup", .version = KERN_VERSION,                                                 \
    .summary = "limits through control groups v2 or v1, read back", .stage = KERN_STAGE_LIMIT, \
    .flags = KERN_PLUGIN_LEAN, .profile = NULL, .pool = NULL, .options = cgroup_option_table

#endif
