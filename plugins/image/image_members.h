/* The files of an archive of images, as blobs of the store with their names in the archive. */
#ifndef IMAGE_MEMBERS_H
#define IMAGE_MEMBERS_H

#include "image_tool.h"

struct image_member {
    char *name; /* without "./" */
    char *link; /* a symlink or hard link: the member that it means; else NULL */
    char digest[IMAGE_DIGEST_SIZE];
    uint64_t size;
};

struct image_members {
    struct image_member *member;
    size_t count, room;
};

/* Reads the archive, plain or compressed, in a process of its own with no rights; or the directory. */
int image_members_read(struct image_store *store, int in, struct image_members *ret_members,
                       struct kern_error *err);
/* By name, through links of the archive; NULL when there is none. */
const struct image_member *image_members_find(const struct image_members *members, const char *name);
void image_members_clear(struct image_members *members);

#endif
