/* What kern knows of the vdisk plugin without opening it: its place, its options. Shared by the plugin itself and
 * by core/catalog.c, so that keys have one source. */
#ifndef VDISK_MANIFEST_H
#define VDISK_MANIFEST_H

#include "kern/plugin.h"

#define VDISK_SIZE_MAX ((INT64_C(64) << 40) - 1) /* beyond it no file system takes an image */

#define KEY  KERN_OPT_PROFILE
#define POOL KERN_OPT_POOL

static const char *const vdisk_busy_words[] = {"refuse", "ram", NULL};

static const struct kern_option vdisk_option_table[] = {
    {.name = "name",
     .type = KERN_STRING,
     .flags = KEY | KERN_OPT_REQUIRED,
     .help = "what follows vdisk: on the command line; the box has it at /vdisk/NAME"},
    {.name = "backend",
     .type = KERN_STRING,
     .flags = KEY,
     .fallback = "ram",
     .help = "\"ram\", or the id of a [[disk]] pool"},
    {.name = "size",
     .type = KERN_SIZE,
     .flags = KEY | KERN_OPT_REQUIRED,
     .min = 65536,
     .max = VDISK_SIZE_MAX,
     .help = "how much it holds"},
    {.name = "persistent",
     .type = KERN_BOOL,
     .flags = KEY,
     .help = "keep what is written for the next box that names it"},
    {.name = "on-busy",
     .type = KERN_ENUM,
     .flags = KEY,
     .fallback = "refuse",
     .choices = vdisk_busy_words,
     .help = "when another box has it: refuse to start, or an empty one in memory"},
    {.name = "iops",
     .type = KERN_INT,
     .flags = KEY,
     .min = 1,
     .max = 1000000000,
     .help = "reads, and writes, per second"},
    {.name = "bandwidth",
     .type = KERN_SIZE,
     .flags = KEY,
     .min = 4096,
     .max = INT64_C(1) << 50,
     .help = "bytes read, and written, per second"},
    {.name = "id",
     .type = KERN_STRING,
     .flags = POOL | KERN_OPT_REQUIRED,
     .help = "what a profile's backend names"},
    {.name = "path",
     .type = KERN_PATH,
     .flags = POOL | KERN_OPT_REQUIRED,
     .help = "directory that holds the images"},
    {.name = "size",
     .type = KERN_SIZE,
     .flags = POOL,
     .min = 1,
     .max = INT64_MAX,
     .help = "how much all images in it may hold together"},
    {.name = "default",
     .type = KERN_BOOL,
     .flags = POOL,
     .help = "the pool of profiles that name no backend"},
    {.name = NULL},
};

#undef KEY
#undef POOL

/* Not lean: enter waits for another process. */
#define VDISK_MANIFEST                                                                              \
    .name = "vdisk", .version = KERN_VERSION, .summary = "disks of a size, in memory or in a file", \
    .stage = KERN_STAGE_MOUNT, .flags = 0, .profile = "vdisk", .pool = "disk", .options = vdisk_option_table

#endif
