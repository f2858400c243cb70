/* The few facts of an ext4 image that kern itself looks at, and how large an image must be to hold a given size. Pure. */
#ifndef VDISK_EXT4_H
#define VDISK_EXT4_H

#include <stdint.h>

#define VDISK_BLOCK       4096u
#define VDISK_SUPER_AT    1024
#define VDISK_SUPER_BYTES 1024
#define VDISK_GROWS       "kern grows " /* and a number, in the field of the last mount point */

struct vdisk_super {
    uint64_t blocks, free_blocks, reserved;
    uint32_t clean; /* unmounted in order, no journal to replay, no errors seen */
    uint64_t size;  /* that it was made for: its label says it; 0: it does not */
    uint32_t grows; /* it was being made larger, and that did not come to its end */
    uint64_t used;  /* with `grows`: the blocks that files took when it was begun, modulo 2^64 */
};

/* -EINVAL for what is no ext4 with blocks of 4096 bytes. */
int vdisk_read_super(const unsigned char bytes[VDISK_SUPER_BYTES], struct vdisk_super *ret_super);

/* How many blocks must be free in a new file system so that the box can write `size` bytes and no more. `kernel`: the kernel
 * mounts it and keeps some back for itself (fs/ext4: a fiftieth, at most 4096 blocks); fuse2fs keeps back what is reserved. */
uint64_t vdisk_wanted_free(uint64_t size, const struct vdisk_super *made, uint32_t kernel);
/* The first guess at an image's size in bytes, and the next one after what mkfs made of the last. */
uint64_t vdisk_first_guess(uint64_t size);
uint64_t vdisk_next_guess(uint64_t bytes, const struct vdisk_super *made, uint64_t wanted_free);

#endif
