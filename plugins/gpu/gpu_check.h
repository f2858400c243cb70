/* What can name a render or accelerator node, and whether a profile does. Pure; also compiled into kern, which judges profiles without
 * opening the plugin. */
#ifndef GPU_CHECK_H
#define GPU_CHECK_H

#include "kern/plugin.h"

/* 1 for renderD128 and accel0. Not cardN: such a node can set modes and take the screen. */
int gpu_is_node(const char *name);
/* 1 when `id` can be an address or the name of such a node. */
int gpu_is_id(const char *id);
int gpu_check(const kern_values *profile, const kern_values *pool, struct kern_error *err);

#endif
