/* Where this process stands in the control groups: from the text of /proc/self/mountinfo and /proc/self/cgroup to
 * the directory of its own group in each hierarchy. Parsing is pure; cgroup_map_read() runs in kern. */
#ifndef CGROUP_MAP_H
#define CGROUP_MAP_H

#include <stdint.h>

/* Longer paths count as unknown: the state of a box stays small, and no real hierarchy comes near. */
#define CGROUP_PATH_MAX 512

enum cgroup_kind { CGROUP_MEMORY, CGROUP_PIDS, CGROUP_CPU, CGROUP_CPUSET, CGROUP_IO, CGROUP_KINDS };

struct cgroup_place {
    char own[CGROUP_PATH_MAX]; /* directory of the caller's group; empty: this hierarchy is not to be had */
    uint32_t mount_length;     /* own[0..mount_length) is the mount point */
    uint32_t read_only;
};

struct cgroup_map {
    struct cgroup_place v1[CGROUP_KINDS];
    struct cgroup_place accounts; /* v1: cpuacct, which caps nothing and counts CPU time */
    struct cgroup_place v2;
};

const char *cgroup_controller_v1(enum cgroup_kind kind);
const char *cgroup_controller_v2(enum cgroup_kind kind);

void cgroup_map_parse(const char *mountinfo, const char *self_cgroup, struct cgroup_map *ret_map);
int cgroup_map_read(struct cgroup_map *ret_map);

/* The groups on the way from the mount point to the caller's own: 0 is the mount point. Returns -ENOENT past the
 * last one, which is the caller's own. */
int cgroup_place_ancestor(const struct cgroup_place *place, uint32_t index, char ret_path[CGROUP_PATH_MAX]);

#endif
