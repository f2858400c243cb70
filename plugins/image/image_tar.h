/* A layer's tar becomes files: in a process of its own, beneath one directory. */
#ifndef IMAGE_TAR_H
#define IMAGE_TAR_H

#include "image_store_impl.h"

/* What both sides see of a process that unpacks; in memory that they share. The parent believes nothing of it but what
 * it has checked. */
struct image_tar_result {
    struct kern_error error;
    uint64_t bytes, entries;
    uint64_t devices; /* left out */
    uint32_t done;    /* 1: the archive came to its end */
};

struct image_tar_job {
    int in;   /* the plain tar */
    int root; /* the directory */
    struct image_limits limits;
    struct image_total *total;
    uint32_t uids, gids; /* ids from these on become 0; 0: all do, nothing is given away */
    struct image_tar_result *result;
};

/* 0, or -1 with result->error set. Needs CHOWN, DAC_OVERRIDE, FOWNER, FSETID and SETFCAP over the ids of the files. */
int image_tar_unpack(const struct image_tar_job *job);

#endif
