/* Judges a [[vcpu]] profile against its [[cpu]] pool. Pure: compiled into the plugin and into kern itself,
 * which refuses a kern.toml when it is read. */
#ifndef VCPU_CHECK_H
#define VCPU_CHECK_H

#include "kern/plugin.h"

/* `pool` is NULL for the backend "host". Refuses a profile that is larger than its pool, or a cpuset that
 * cannot be read. */
int vcpu_check(const kern_values *profile, const kern_values *pool, struct kern_error *err);

#endif
