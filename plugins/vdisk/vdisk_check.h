/* Judges a [[vdisk]] profile against its [[disk]] pool. Pure: compiled into the plugin and into kern itself, which refuses a
 * kern.toml when it is read. */
#ifndef VDISK_CHECK_H
#define VDISK_CHECK_H

#include "kern/plugin.h"

/* The least that is worth an ext4. */
#define VDISK_DISK_LEAST (INT64_C(1) << 20)

/* `pool` is NULL for the backend "ram". */
int vdisk_check(const kern_values *profile, const kern_values *pool, struct kern_error *err);

#endif
