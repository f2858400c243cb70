/* What kern knows of the vcpu plugin without opening it: its place, its options. Shared by the plugin itself and
 * by core/catalog.c, so that flags and keys have one source. */
#ifndef VCPU_MANIFEST_H
#define VCPU_MANIFEST_H

#include "kern/plugin.h"

#define KEY KERN_OPT_PROFILE

static const struct kern_option vcpu_option_table[] = {
    {.name = "name",
     .type = KERN_STRING,
     .flags = KEY | KERN_OPT_REQUIRED,
     .help = "what follows vcpu: on the command line"},
    {.name = "backend",
     .type = KERN_STRING,
     .flags = KEY,
     .fallback = "host",
     .help = "\"host\", or the id of a [[cpu]] pool"},
    {.name = "extends",
     .type = KERN_STRING,
     .flags = KEY,
     .help = "another [[vcpu]] whose keys are taken over"},
    {.name = "cpus",
     .type = KERN_FLOAT,
     .flags = KEY,
     .min = 1,
     .max = 4096000,
     .help = "CPU time per second of time, in CPUs"},
    {.name = "memory", .type = KERN_SIZE, .flags = KEY, .min = 1, .max = INT64_MAX, .help = "memory cap"},
    {.name = "cpuset", .type = KERN_STRING, .flags = KEY, .help = "CPUs to run on, such as 0-2,4"},
    {.name = "numa",
     .type = KERN_INT,
     .flags = KEY,
     .min = 0,
     .max = 1023,
     .help = "run on the CPUs of this NUMA node"},
    {.name = "nice", .type = KERN_INT, .flags = KEY, .min = -20, .max = 19, .help = "scheduling priority"},
    {.name = "id",
     .type = KERN_STRING,
     .flags = KERN_OPT_POOL | KERN_OPT_REQUIRED,
     .help = "what a profile's backend names"},
    {.name = "cores",
     .type = KERN_FLOAT,
     .flags = KERN_OPT_POOL,
     .min = 1,
     .max = 4096000,
     .help = "CPUs in the pool"},
    {.name = "memory",
     .type = KERN_SIZE,
     .flags = KERN_OPT_POOL,
     .min = 1,
     .max = INT64_MAX,
     .help = "memory in the pool"},
    {.name = "cpuset", .type = KERN_STRING, .flags = KERN_OPT_POOL, .help = "CPUs of the pool"},
    {.name = "numa",
     .type = KERN_INT,
     .flags = KERN_OPT_POOL,
     .min = 0,
     .max = 1023,
     .help = "NUMA node of the pool"},
    {.name = NULL},
};

#undef KEY

#define VCPU_MANIFEST                                                                       \
    .name = "vcpu", .version = KERN_VERSION, .summary = "CPU and memory profiles",          \
    .stage = KERN_STAGE_LIMIT, .flags = KERN_PLUGIN_LEAN, .profile = "vcpu", .pool = "cpu", \
    .options = vcpu_option_table

#endif
