/* The processes behind a disk without root. */
#ifndef VDISK_SERVER_H
#define VDISK_SERVER_H

#include "vdisk_state.h"

/* In a copy of kern: becomes the server of the disk's image, and sends its mount into disk->hand_out. `outer` is a pidfd of the
 * process whose user namespace is the box's; what the server prints goes to `said`. */
_Noreturn void vdisk_server_run(const struct vdisk_disk *disk, int outer, int said);

#endif
