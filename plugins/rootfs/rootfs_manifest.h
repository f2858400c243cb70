/* What kern knows of the rootfs plugin without opening it: its place, its options. Shared by the plugin itself and
 * by core/catalog.c, so that flags and keys have one source. */
#ifndef ROOTFS_MANIFEST_H
#define ROOTFS_MANIFEST_H

#include "kern/plugin.h"

static const struct kern_option rootfs_option_table[] = {
    {.name = "rootfs",
     .type = KERN_PATH,
     .flags = KERN_OPT_FLAG | KERN_OPT_BOX | KERN_OPT_GUARDED,
     .arg = "DIR",
     .help = "directory to use as the root (default: the host root)"},
    {.name = "bind-rootfs",
     .type = KERN_BOOL,
     .flags = KERN_OPT_FLAG | KERN_OPT_BOX | KERN_OPT_GUARDED,
     .help = "write into the directory itself, no overlay"},
    {.name = "read-only",
     .type = KERN_BOOL,
     .flags = KERN_OPT_FLAG | KERN_OPT_BOX,
     .alias = "ro",
     .help = "read-only root"},
    {.name = "volume",
     .type = KERN_STRING,
     .flags = KERN_OPT_FLAG | KERN_OPT_BOX | KERN_OPT_LIST,
     .letter = "v",
     .arg = "SRC:DST[:ro|:rw[,nocopy][,max=SIZE]]",
     .help = "bind a host path into the box"},
    {.name = "mount",
     .type = KERN_STRING,
     .flags = KERN_OPT_FLAG | KERN_OPT_BOX | KERN_OPT_LIST,
     .arg = "type=bind,src=,dst=[,ro]",
     .help = "the same; takes a colon in a path"},
    {.name = "tmpfs",
     .type = KERN_STRING,
     .flags = KERN_OPT_FLAG | KERN_OPT_BOX | KERN_OPT_LIST,
     .arg = "/PATH[:SIZE]",
     .help = "fresh tmpfs in the box"},
    {.name = "scratch",
     .type = KERN_STRING,
     .flags = KERN_OPT_FLAG | KERN_OPT_BOX,
     .arg = "ram|disk[:SIZE]",
     .help = "where the root's changes go; memory by default"},
    {.name = "add-host",
     .type = KERN_STRING,
     .flags = KERN_OPT_FLAG | KERN_OPT_BOX | KERN_OPT_LIST,
     .arg = "NAME:IP",
     .help = "a line in the box's /etc/hosts"},
    {.name = NULL},
};

#define ROOTFS_MANIFEST                                                                     \
    .name = "rootfs", .version = KERN_VERSION,                                              \
    .summary = "the root file system: host root, directory, overlay, volumes, /dev, /proc", \
    .stage = KERN_STAGE_ROOT, .flags = KERN_PLUGIN_LEAN, .profile = NULL, .pool = NULL,     \
    .options = rootfs_option_table

#endif
