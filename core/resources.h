/* Where kern keeps what outlives a run; see resources.c. Host side. */
#ifndef CORE_RESOURCES_H
#define CORE_RESOURCES_H

#include <stddef.h>

/* $XDG_DATA_HOME/kern or what stands for it. 0 or -errno. */
int core_data_directory(char *ret_path, size_t size);
/* mkdir -p: parents 0700, the last one 0755. 0 or -errno. */
int core_make_path(const char *path);
/* Named volumes with a size: it stands beside them, in VOLUMES/.sizes/NAME, where no box can change it. Names were checked. 0 or
 * -errno; a size of 0 forgets it. */
int core_volume_set_size(const char *name, uint64_t bytes);

#endif
