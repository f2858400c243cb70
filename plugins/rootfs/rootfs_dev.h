/* The parts of a root that every box has: /dev, /proc with its covers, /sys with the box's own control group. They run
 * in enter, beneath the new root by descriptor. */
#ifndef ROOTFS_DEV_H
#define ROOTFS_DEV_H

#include "kern/foundation.h"

int rootfs_mount_dev(kern_box *box, int root, struct kern_error *err);
int rootfs_mount_proc(kern_box *box, int root, struct kern_error *err);
int rootfs_mount_sys(kern_box *box, int root, struct kern_error *err);

#endif
