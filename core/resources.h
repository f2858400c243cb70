/* Where kern keeps what outlives a run; see resources.c. Host side. */
#ifndef CORE_RESOURCES_H
#define CORE_RESOURCES_H

#include "kern/plugin.h"

#include <stddef.h>

/* $XDG_DATA_HOME/kern or what stands for it. 0 or -errno. */
int core_data_directory(char *ret_path, size_t size);
/* mkdir -p: parents 0700, the last one 0755. 0 or -errno. */
int core_make_path(const char *path);
/* Makes a named volume that is not there yet. `bytes` is its size, 0 for none: it stands beside the volumes, in
 * VOLUMES/.sizes/NAME, where no box can change it. */
int core_volume_create(const char *name, uint64_t bytes, struct kern_error *err);
/* What stands beside a volume that is gone. 0 or -errno. */
int core_volume_forget(const char *name);

#endif
