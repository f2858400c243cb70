/* What a start needs only when something is missing. */
#ifndef IMAGE_FETCH_H
#define IMAGE_FETCH_H

#include "image_fill.h"

#include "kern/foundation.h"

/* Fetches the image as `kern pull` would, in a child. */
int image_fetch(kern_box *box, const char *text, struct kern_error *err);
/* Unpacks what is missing of an image of the store for these ids, in a child. */
int image_repair(kern_box *box, const char *full, int want_range, struct kern_error *err);
/* Gives a new named volume what the image `text` has at its path, in a child. */
int image_fill(kern_box *box, const char *text, const struct image_fill *fill, struct kern_error *err);
/* Whether the user mounts something at that path. */
int image_is_mounted(const kern_values *options, const char *path);

#endif
