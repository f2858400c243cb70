/* Entries of a layer as files beneath its directory. */
#ifndef IMAGE_TAR_ENTRY_H
#define IMAGE_TAR_ENTRY_H

#include "image_tar.h"

#include <archive.h>
#include <archive_entry.h>
#include <time.h>

struct image_tar_time {
    char *path;
    struct timespec at;
};

struct image_tar {
    struct archive *tar;
    int root;
    int parent; /* the directory of the entry at hand; kept, because the next entry mostly has the same */
    char parent_path[PATH_MAX];
    const char *name; /* of the entry at hand, for what is said */
    struct image_limits limits;
    struct image_total *total;
    uint32_t uids, gids;
    struct image_tar_time *time; /* of directories: what is made in them later would change it */
    size_t time_count, time_room, time_bytes;
    struct image_tar_result *result;
    struct kern_error *err;
};

/* Opens the directory at `path`, made where it is missing. */
int image_tar_parent(struct image_tar *t, const char *path);
/* The entry as `base` in that directory. */
int image_tar_make(struct image_tar *t, struct archive_entry *entry, const char *base);
int image_tar_hide(struct image_tar *t, const char *hidden);
int image_tar_opaque(struct image_tar *t);
/* What is remembered of times becomes the files'. */
void image_tar_times(struct image_tar *t);
void image_tar_clear(struct image_tar *t);

#endif
