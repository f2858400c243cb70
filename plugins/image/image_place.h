/* Where the store is and whose ids its layers have. Used by the plugin in kern and by everything else of images. */
#ifndef IMAGE_PLACE_H
#define IMAGE_PLACE_H

#include "kern/plugin.h"

#include "image_ref.h"

#include <limits.h>

#define IMAGE_IDS_PLAIN  0u /* root: as in the image; a box gets them shifted by an idmapped mount */
#define IMAGE_IDS_RANGE  1u /* the caller and its subordinate range */
#define IMAGE_IDS_FOLDED 2u /* all the caller's */

struct image_ids {
    uint32_t kind;
    uint32_t uid, gid; /* the caller: root of the layers, but for PLAIN */
    uint32_t uid_start, uid_count, gid_start, gid_count;
    int32_t userns; /* RANGE: a user namespace with these ids, once one was kept: image_keep_ids(); else -1 */
    char name[64];  /* of the folder below layers/ */
};

/* $XDG_DATA_HOME/kern/images or what stands for it. 0 or -errno. */
int image_directory(char *ret_path, size_t size);

/* `want_range` 0: one id, as with --no-uid-range. A range that cannot be had is none. */
void image_find_ids(int want_range, struct image_ids *ret_ids);

/* The file of a full reference below refs/: "/" is written "+". */
void image_ref_file(const char *full, char ret_name[static IMAGE_REF_SIZE]);

#endif
