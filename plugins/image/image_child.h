/* Children with the ids of a layer's files, and with few rights. */
#ifndef IMAGE_CHILD_H
#define IMAGE_CHILD_H

#include "image_store_impl.h"

#define IMAGE_CHILD_NO_IDS 9 /* exit code: the ids could not be had */

/* Its exit code, or 128 + signal. */
int image_wait_child(int32_t pid);

/* In a child: closes all but the standard streams and `keep`, which become 100, 101, ...; makes `root` (-1: none) its
 * root where it may, and leaves it no file by name but below that (-1: none at all), no way to other processes and no socket;
 * keeps no capability but those in the mask. 0 or -errno. */
int image_confine(int root, const int *keep, size_t count, uint32_t caps);
#define IMAGE_KEPT(n) (100 + (n))

#endif
