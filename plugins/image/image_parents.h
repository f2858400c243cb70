/* Directories that a layer has only as the way to its files: an archive need not have an entry for them, and then says nothing of
 * their mode and owner. A lower layer may. */
#ifndef IMAGE_PARENTS_H
#define IMAGE_PARENTS_H

#include "image_store_impl.h"

enum image_parent {
    IMAGE_PARENT_WAY,   /* leads to such a directory */
    IMAGE_PARENT_MADE,  /* is one */
    IMAGE_PARENT_KNOWN, /* was one, until its own entry came */
};

/* Notes it at an open directory of a layer that is being unpacked. Where the file system cannot, nothing is noted. */
void image_parents_mark(int folder, enum image_parent kind);
/* 1 when the layer (its open directory) has such directories. */
int image_parents_are_in(int layer);

/* Makes in the empty directory `out` what is to be above the layers (open directories, the topmost first; what the lowest ones have
 * below an opaque root is left out by the caller): each directory of which an upper layer hides what a lower one says, and those on
 * the way there, as the lower ones say. *ret_made: 0 when there are none. 0 or -errno. In a process that is root over their ids. */
int image_parents_restore(const int *layers, uint32_t count, int out, int *ret_made);

#endif
