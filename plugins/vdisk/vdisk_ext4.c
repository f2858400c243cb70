/* Facts and sizes of ext4 images; see vdisk_ext4.h. Pure; used in prepare, on the host. */
#include "vdisk_ext4.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC        0xef53u
#define STATE_VALID  1u
#define STATE_ERRORS 2u
#define WANTS_REPLAY 0x4u  /* incompat: the journal has something */
#define HAS_64BIT    0x80u /* incompat: block counts have a high half */
#define LOST_FOUND   4u    /* blocks of the directory that kern removes after the first mount */
#define FIRST_EXTENTS \
    ((uint64_t)32 << 20) /* a file of more has extents beyond those that fit into its inode */

static uint32_t word(const unsigned char *bytes, unsigned at)
{
    return (uint32_t)bytes[at] | (uint32_t)bytes[at + 1] << 8 | (uint32_t)bytes[at + 2] << 16 |
           (uint32_t)bytes[at + 3] << 24;
}

static uint32_t half(const unsigned char *bytes, unsigned at)
{
    return (uint32_t)bytes[at] | (uint32_t)bytes[at + 1] << 8;
}

/* Of 16 bytes at most. */
static uint64_t label_number(const unsigned char *label)
{
    uint64_t number = 0;
    for (int i = 0; i < 16 && label[i] != 0; i++) {
        if (label[i] < '0' || label[i] > '9')
            return 0;
        number = number * 10 + label[i] - '0';
    }
    return number;
}

/* Of 64 bytes at most. */
static uint32_t growth(const unsigned char *mounted, uint64_t *ret_used)
{
    char text[65] = "";
    memcpy(text, mounted, 64);
    *ret_used = 0;
    if (strncmp(text, VDISK_GROWS, sizeof(VDISK_GROWS) - 1) != 0)
        return 0;
    *ret_used = strtoull(text + sizeof(VDISK_GROWS) - 1, NULL, 10);
    return 1;
}

int vdisk_read_super(const unsigned char bytes[VDISK_SUPER_BYTES], struct vdisk_super *ret_super)
{
    if (half(bytes, 56) != MAGIC || word(bytes, 24) != 2) /* blocks of 1024 << 2 */
        return -EINVAL;
    uint32_t incompat = word(bytes, 96), state = half(bytes, 58);
    uint64_t high = (incompat & HAS_64BIT) != 0 ? 32 : 64;
    *ret_super = (struct vdisk_super){
        .blocks = word(bytes, 4) | (high == 32 ? (uint64_t)word(bytes, 336) << high : 0),
        .reserved = word(bytes, 8) | (high == 32 ? (uint64_t)word(bytes, 340) << high : 0),
        .free_blocks = word(bytes, 12) | (high == 32 ? (uint64_t)word(bytes, 344) << high : 0),
        .size = label_number(bytes + 120),
        .clean = (state & STATE_VALID) != 0 && (state & STATE_ERRORS) == 0 && (incompat & WANTS_REPLAY) == 0,
    };
    ret_super->grows = growth(bytes + 136, &ret_super->used);
    return 0;
}

uint64_t vdisk_wanted_free(uint64_t size, const struct vdisk_super *made, uint32_t kernel)
{
    uint64_t kept = made->blocks / 50 < 4096 ? made->blocks / 50 : 4096;
    uint64_t data = (size + VDISK_BLOCK - 1) / VDISK_BLOCK;
    return data - LOST_FOUND + (size > FIRST_EXTENTS) + (kernel ? kept : made->reserved);
}

uint64_t vdisk_first_guess(uint64_t size)
{
    uint64_t blocks = (size + VDISK_BLOCK - 1) / VDISK_BLOCK;
    return (blocks + blocks / 64 + blocks / 50 + 512) * VDISK_BLOCK;
}

uint64_t vdisk_next_guess(uint64_t bytes, const struct vdisk_super *made, uint64_t wanted_free)
{
    if (made->free_blocks <= wanted_free)
        return bytes + (wanted_free - made->free_blocks) * VDISK_BLOCK;
    uint64_t over = (made->free_blocks - wanted_free) * VDISK_BLOCK;
    return bytes > over + VDISK_BLOCK ? bytes - over : bytes;
}
