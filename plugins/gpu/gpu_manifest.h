/* What kern knows of the gpu plugin without opening it. */
#ifndef GPU_MANIFEST_H
#define GPU_MANIFEST_H

#include "kern/plugin.h"

static const struct kern_option gpu_option_table[] = {
    {.name = "name",
     .type = KERN_STRING,
     .flags = KERN_OPT_PROFILE | KERN_OPT_REQUIRED,
     .help = "what follows gpu: on the command line"},
    {.name = "device",
     .type = KERN_STRING,
     .flags = KERN_OPT_PROFILE | KERN_OPT_REQUIRED | KERN_OPT_LIST,
     .arg = "ID",
     .help = "which: the address of the device (\"0000:03:00.0\"), or its node (\"renderD128\", \"accel0\")"},
    {.name = "vendor",
     .type = KERN_STRING,
     .flags = KERN_OPT_PROFILE,
     .arg = "0xID",
     .help = "what each of them must be, such as 0x1002: another one is refused"},
    {.name = NULL},
};

#define GPU_MANIFEST                                                                                \
    .name = "gpu", .version = KERN_VERSION,                                                         \
    .summary = "the named render and accelerator nodes, and no others", .stage = KERN_STAGE_DEVICE, \
    .flags = KERN_PLUGIN_LEAN, .profile = "gpu", .pool = NULL, .options = gpu_option_table

#endif
