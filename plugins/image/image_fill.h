/* The first content of a named volume: what an image has where the volume is put. */
#ifndef IMAGE_FILL_H
#define IMAGE_FILL_H

#include "kern/foundation.h"

struct image_fill {
    const struct kern_wanted_volume *volume;
    const char *links;  /* the image's folder of links in `layers` */
    uint32_t count;     /* of its links */
    int32_t want_range; /* as for image_find_ids(): whose ids these layers have */
    int32_t layers;     /* the store's layers/IDS */
    int32_t volumes;    /* the directory of all named volumes */
};

/* The exported entry for a start, with the contract of kern_volume_content(). Runs in a child of kern. */
KERN_EXPORT int image_tool_fill(const struct image_fill *fill, struct kern_error *err);

/* Removes NAME and all in it from the directory `folder`, also what belongs to the caller's subordinate ids. 0 or -errno. */
KERN_EXPORT int image_tool_remove(int folder, const char *name);

/* Copies all that is in the directory `from`, which nobody changes and nothing of which is believed, into the empty directory `to`,
 * which is the caller's alone; then `to` itself becomes like `from`. Owners, modes, times, hard links and holes stay, of extended
 * attributes user.* and the capabilities of files. Devices and sockets are left out. `inert`: no file becomes setuid or gets
 * capabilities. In a process that may give files to all ids that there are. */
int image_copy_tree(int from, int to, int inert, struct kern_error *err);
/* How many bytes such a copy takes on the disk. */
int image_measure_tree(int from, uint64_t *ret_bytes, struct kern_error *err);

#endif
