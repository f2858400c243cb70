/* What the core and the built-in cgroup plugin say to each other beyond kern/plugin.h: where the box's groups are,
 * what they enforce, what they counted. Internal: third-party plugins never see it. The functions are the core's
 * (core/api.c) and run in kern; the hooks are the plugin's and run in kern too. */
#ifndef CORE_BOX_LIMITS_H
#define CORE_BOX_LIMITS_H

#include "kern/plugin.h"

#define CORE_LIMIT_UNKNOWN (-1)

/* One row of "limits" in the report. Setting a name again replaces its row. */
struct core_limit {
    const char *name; /* memory pids cpu cpuset io swap; a literal, kept by address */
    char asked[32];   /* memory and swap in bytes, pids and io a number, cpu in CPUs, cpuset a list */
    int32_t enforced; /* 1 yes, 0 no, CORE_LIMIT_UNKNOWN */
    char by[16];      /* cgroup2 cgroup1 affinity none */
};

/* -1 wherever the kernel keeps no such figure: the report says null then. */
struct core_usage {
    int64_t peak_memory; /* bytes */
    int64_t cpu_us;
    int64_t peak_pids;
    int64_t oom_kills; /* tasks of the box that the kernel's OOM killer ended, whoever ran out of memory */
    int32_t oom_own;   /* 1: it acted against the box's own cap; 0: it did not; -1 unknown */
};

struct core_group_hooks {
    /* After the box has ended and before teardown removes the groups; also usable while it runs. Fills every
     * field, the unknown ones with -1. */
    void (*collect)(kern_box *box, void *state, struct core_usage *ret_usage);
    /* Ends every process of the box's groups. Returns 1 when none is left to be seen, 0 when the box has no group
     * (then only the pid namespace can end it), or -errno. Blocks for at most some milliseconds. */
    int (*kill)(kern_box *box, void *state);
};

/* Exported by kern to its plugins. */
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* Unique among living boxes and after them; [A-Za-z0-9._-] of at most 128 characters. */
const char *core_box_id(const kern_box *box);

void core_limit_set(kern_box *box, const struct core_limit *limit);

/* Called before a group is made: appends its absolute path to the box's state file, so that a later run can hand it
 * to cgroup_sweep() when this one is killed. */
int core_box_record_group(kern_box *box, const char *path, struct kern_error *err);

/* What CLONE_INTO_CGROUP takes for the box's first process. The plugin's: valid until teardown. */
void core_box_cgroup2(kern_box *box, int32_t fd);

/* An O_PATH descriptor of a group that the box sees read-only under /sys/fs/cgroup/CONTROLLER, or under
 * /sys/fs/cgroup itself where `controller` is NULL (v2). The plugin's: valid until teardown. */
void core_box_bind_cgroup(kern_box *box, int32_t fd, const char *controller);

/* `memory_cap` is what binds the box's first process while it still builds (0: nothing does): the core shares its
 * memory with it only when that is large enough. `hooks` must be static; `state` is the plugin's block. */
void core_box_group_hooks(kern_box *box, const struct core_group_hooks *hooks, void *state,
                          uint64_t memory_cap);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif
