/* What kern knows of the image plugin without opening it: its place, its options. Shared by the plugin itself and
 * by core/catalog.c, so that flags and keys have one source. */
#ifndef IMAGE_MANIFEST_H
#define IMAGE_MANIFEST_H

#include "kern/foundation.h"

static const struct kern_option image_option_table[] = {
    {.name = "image",
     .type = KERN_STRING,
     .flags = KERN_OPT_FLAG | KERN_OPT_BOX,
     .arg = "REF",
     .help = "an image as the root"},
    {.name = "pull",
     .type = KERN_ENUM,
     .flags = KERN_OPT_FLAG | KERN_OPT_BOX,
     .arg = "WHEN",
     .fallback = "missing",
     .choices = (const char *const[]){"missing", "never", "always", NULL},
     .help = "when to ask the registry for the image"},
    {.name = NULL},
};

static const char *const image_before[] = {"rootfs", NULL};

#define IMAGE_MANIFEST                                                                                    \
    .name = "image", .version = KERN_VERSION,                                                             \
    .summary = "images: layers below an overlay, and their settings", .stage = KERN_STAGE_ROOT,           \
    .flags = KERN_PLUGIN_LEAN | KERN_PLUGIN_FIRST, .before = image_before, .profile = NULL, .pool = NULL, \
    .options = image_option_table

#endif
