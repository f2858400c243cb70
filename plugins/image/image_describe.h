/* What is known of a file besides its bytes: owner, mode, attributes, times. */
#ifndef IMAGE_DESCRIBE_H
#define IMAGE_DESCRIBE_H

#include <stddef.h>
#include <sys/stat.h>

/* Room for what the kernel lets a file have. */
struct image_attributes {
    char names[65536], value[65536];
};

/* Makes the open file `to` like `from`, of which `st` is what fstat(2) says; with `mode` instead of its own. Of extended attributes it
 * takes user.*, but those of overlayfs, and with `capable` the capabilities of a program, where they can be given. 0 or -errno. */
int image_describe(struct image_attributes *room, int from, int to, const struct stat *st, mode_t mode,
                   int capable);

/* In a child that walks down a tree of somebody's: as many descriptors as it may have, for each level takes some, and modes as they
 * are said. A tree that is too deep for that is refused then. */
void image_prepare_walk(void);

#endif
