/* Which node a name means, from sysfs: the kernel's word on what is what. Reads below a folder, so tests bring their own. In kern. */
#ifndef GPU_FIND_H
#define GPU_FIND_H

#include "kern/plugin.h"

struct gpu_node {
    char name[32]; /* renderD128, accel0 */
    char path[64]; /* below /dev: dri/renderD128, accel/accel0 */
    char class[8]; /* below /sys/class: drm, accel */
    uint32_t major, minor;
    char address[64]; /* of the device behind it: 0000:03:00.0; "" where it has none */
    char vendor[16];  /* "0x1002", or "" */
};

/* Calls `fn` for each node below `classes` (a descriptor of /sys/class) that the id means. Returns how many, or a negative errno: what fn
 * returned, or why nothing could be read. */
typedef int (*gpu_node_fn)(void *data, const struct gpu_node *node);
int gpu_find(int classes, const char *id, gpu_node_fn fn, void *data);

#endif
