/* A group from systemd: the unit that is kept for all boxes of a user. Runs in kern, in prepare. */
#ifndef CGROUP_MANAGER_H
#define CGROUP_MANAGER_H

#include "cgroup_map.h"

#define CGROUP_UNIT "kern-boxes.service"

/* Whether the caller, whose own v2 group is `relative` below the mount point, is one that systemd may be asked for: where
 * the unit's group then stands below the mount point, and whether the caller may put processes there by itself. -ENOENT
 * when it is not. Pure. */
enum cgroup_reach { CGROUP_DIRECTLY, CGROUP_BY_MANAGER };
int cgroup_manager_reach(uint32_t uid, const char *relative, char ret_unit[CGROUP_PATH_MAX],
                         enum cgroup_reach *ret_reach);

/* The group of the unit, below which boxes' groups may be made: one that hands on what it has of `need` (CGROUP_BITs).
 * Starts the unit when it is not there. A caller in a login session is moved into it, next to the boxes: the kernel
 * lets nobody put a process beyond the groups that are theirs. -ENOENT where there is no systemd to ask, or
 * KERN_NO_SCOPE says not to; any other error is what went wrong on the way. */
int cgroup_manager_parent(const struct cgroup_place *place, uint32_t need, char ret_path[CGROUP_PATH_MAX]);

#endif
