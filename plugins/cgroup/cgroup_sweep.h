/* Ending and removing a group, whoever made it. Compiled into the plugin (teardown) and into the core (the sweep of
 * what a killed kern left behind); needs cgroup_file.c and nothing else. Runs in kern. */
#ifndef CGROUP_SWEEP_H
#define CGROUP_SWEEP_H

#include <stdint.h>

/* Every group of kern is PARENT/kern.BOXID; nothing with another last component is ever touched. */
#define CGROUP_NAME_PREFIX "kern."
/* Around the boxes that share a cap (cgroup_fleet.c); swept with the last of them. */
#define CGROUP_FLEET "kern.fleet"

/* Kills every process of the group behind `dir`. Returns 1 when none is left to be seen, else -errno. */
int cgroup_kill_group(int dir);

/* Kills what is left in the group at `path` and in groups below it, and removes them all. A group that is gone is a
 * success. -EINVAL for a path that is not kern's, -EBUSY when it would not empty within CGROUP_SWEEP_MS. */
int cgroup_sweep(const char *path);
#define CGROUP_SWEEP_MS 1200
/* The same within *left_ms, of which the waiting is taken off: for many groups together. */
int cgroup_sweep_within(const char *path, int64_t *left_ms);

#endif
