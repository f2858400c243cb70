/* Scratch on disk, for what a tmpfs cannot hold: a directory named after the box, recorded before it is made. Host side. */
#ifndef CORE_SCRATCH_H
#define CORE_SCRATCH_H

#include "box.h"

/* After the box has ended. */
void core_scratch_remove(kern_box *box);
/* What a killed run left: `id` is the name of the box's directory. */
void core_scratch_sweep(const char *id);

/* Bytes that the scratch of a killed run takes on disk, as far as it can be looked into. */
uint64_t core_scratch_size(const char *id);

#endif
