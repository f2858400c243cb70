/* Writes the limits into the box's groups and reads each back once: a cap counts as enforced only when the kernel
 * returns it. Runs in kern, in prepare. */
#include "cgroup_file.h"
#include "cgroup_state.h"

#include "kern/cleanup.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

const char *cgroup_backend(const struct cgroup_group *group)
{
    return group->in_unit ? "scope" : group->version == 2 ? "cgroup2" : "cgroup1";
}

/* `result` of the write, `text` read back (empty: it could not be read), `right` whether that is what was asked. */
static void judge(struct cgroup_bound *bound, const struct cgroup_group *group, int result, const char *text,
                  bool right)
{
    *bound = (struct cgroup_bound){.by = "none"};
    if (result < 0) {
        bound->why = result == -ENOENT ? CGROUP_NO_FILE : CGROUP_FAILED;
        bound->code = -result;
    } else if (text[0] != '\0' && !right) {
        bound->why = CGROUP_MISREAD;
    } else {
        bound->enforced = text[0] != '\0' ? 1 : KERN_LIMIT_UNKNOWN;
        bound->by = cgroup_backend(group);
    }
}

static void set_bytes(struct cgroup_bound *bound, const struct cgroup_group *group, const char *file,
                      int64_t bytes)
{
    char value[32], text[64];
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    (void)snprintf(value, sizeof(value), "%" PRId64, bytes); /* 20 characters at most */
    int result = cgroup_write_back(group->dir, file, value, text, sizeof(text));
    int64_t number = cgroup_number(text);
    judge(bound, group, result, text,
          number >= 0 &&
              cgroup_whole_pages((uint64_t)number, page) == cgroup_whole_pages((uint64_t)bytes, page));
}

static void set_memory(struct cgroup_state *state, const struct cgroup_group *group)
{
    const struct cgroup_wish *wish = &state->wish;
    struct cgroup_bound *bound = &state->bound[CGROUP_MEMORY];
    if (group->version == 2) {
        set_bytes(bound, group, "memory.max", wish->memory);
        set_bytes(&state->swap, group, "memory.swap.max", wish->swap);
        /* Before Linux 4.19 there is no such file: the core then ends the box when it sees the counter. */
        (void)cgroup_write(group->dir, "memory.oom.group", "1");
        return;
    }
    set_bytes(bound, group, "memory.limit_in_bytes", wish->memory);
    int64_t both = wish->memory > INT64_MAX - wish->swap ? INT64_MAX : wish->memory + wish->swap;
    set_bytes(&state->swap, group, "memory.memsw.limit_in_bytes", both); /* not below the limit just set */
    /* Version 1 counts the buffers of TCP apart: without a cap of their own a box would hold as much again as the machine has. A
     * kernel without the file keeps no such buffers for a group. */
    char value[32];
    (void)snprintf(value, sizeof(value), "%" PRId64, wish->memory); /* 20 characters at most */
    (void)cgroup_write(group->dir, "memory.kmem.tcp.limit_in_bytes", value);
}

static void set_pids(struct cgroup_state *state, const struct cgroup_group *group)
{
    char value[32], text[64];
    (void)snprintf(value, sizeof(value), "%" PRId64, state->wish.pids); /* 20 characters at most */
    int result = cgroup_write_back(group->dir, "pids.max", value, text, sizeof(text));
    judge(&state->bound[CGROUP_PIDS], group, result, text, cgroup_number(text) == state->wish.pids);
}

static void set_cpu(struct cgroup_state *state, const struct cgroup_group *group)
{
    struct cgroup_bound *bound = &state->bound[CGROUP_CPU];
    struct cgroup_quota quota = cgroup_quota(state->wish.cpus);
    char value[64], text[64] = "";
    int result;
    if (group->version == 2) {
        (void)snprintf(value, sizeof(value), "%" PRId64 " %" PRId64, quota.quota_us, quota.period_us);
        result = cgroup_write_back(group->dir, "cpu.max", value, text, sizeof(text));
    } else {
        (void)snprintf(value, sizeof(value), "%" PRId64, quota.period_us);
        result = cgroup_write(group->dir, "cpu.cfs_period_us", value);
        (void)snprintf(value, sizeof(value), "%" PRId64, quota.quota_us);
        if (result == 0)
            result = cgroup_write_back(group->dir, "cpu.cfs_quota_us", value, text, sizeof(text));
    }
    judge(bound, group, result, text, cgroup_number(text) == quota.quota_us);
    /* v1 refuses a share of CPU time above that of an outer group; then the outer one binds, but not as asked. */
    if (result == -EINVAL)
        bound->why = CGROUP_OUTER_IS_LESS;
}

/* A v1 group takes no process while its memory nodes are unset; v2 inherits them. */
static int inherit_nodes(const struct cgroup_group *group)
{
    char nodes[4096];
    int result = cgroup_read(group->dir, "../cpuset.mems", nodes, sizeof(nodes));
    return result < 0 ? result : cgroup_write(group->dir, "cpuset.mems", nodes);
}

static void set_cpuset(struct cgroup_state *state, const struct cgroup_group *group)
{
    struct cgroup_bound *bound = &state->bound[CGROUP_CPUSET];
    char text[4096] = "";
    int result = group->version == 1 ? inherit_nodes(group) : 0;
    if (result == 0)
        result = cgroup_write_back(group->dir, "cpuset.cpus", state->wish.cpuset, text, sizeof(text));
    if (result == 0 &&
        group->version == 2) /* what was written stands there even where an outer group allows less */
        (void)cgroup_read(group->dir, "cpuset.cpus.effective", text, sizeof(text));
    struct cgroup_cpus real, beyond;
    bool readable = cgroup_cpus_parse(text, &real) == 0;
    judge(bound, group, result, text,
          readable && cgroup_cpus_count(&real) > 0 &&
              cgroup_cpus_minus(&real, &state->wish.mask, &beyond) == 0);
    if (result == -EACCES || result == -EINVAL || result == -ENOSPC)
        bound->why = CGROUP_OUTER_IS_LESS;
}

static void set_io(struct cgroup_state *state, const struct cgroup_group *group)
{
    const struct {
        uint32_t version;
        const char *file;
        uint32_t weight;
    } attempt[] = {
        {2, "io.weight", state->wish.weight},
        {2, "io.bfq.weight", cgroup_weight_bfq(state->wish.weight)},
        {1, "blkio.bfq.weight", cgroup_weight_bfq(state->wish.weight)},
        {1, "blkio.weight", cgroup_weight_blkio(state->wish.weight)},
    };
    struct cgroup_bound *bound = &state->bound[CGROUP_IO];
    bound->why = CGROUP_NO_FILE;
    /* Each scheduler reads a file of its own, and which disks a box will use is not known: all that are there. */
    for (size_t i = 0; i < sizeof(attempt) / sizeof(attempt[0]); i++) {
        if (attempt[i].version != group->version)
            continue;
        char value[16], text[64];
        (void)snprintf(value, sizeof(value), "%u", attempt[i].weight); /* 10 digits at most */
        int result = cgroup_write_back(group->dir, attempt[i].file, value, text, sizeof(text));
        int64_t number =
            strncmp(text, "default ", 8) == 0 ? cgroup_field(text, "default") : cgroup_number(text);
        if (bound->enforced == 0)
            judge(bound, group, result, text, number == (int64_t)attempt[i].weight);
    }
    /* Only some disk schedulers heed a weight, and disks come and go: that it reads back proves nothing more. */
    if (bound->enforced == 1)
        bound->enforced = KERN_LIMIT_UNKNOWN;
}

/* A v1 cpuset without CPUs refuses every process: better no group than a box that cannot start. */
static void leave_cpuset(struct cgroup_group *group)
{
    group->kinds &= ~CGROUP_BIT(CGROUP_CPUSET);
    if (group->version == 1 && group->kinds == 0)
        kern_close_fd(&group->tasks);
}

void cgroup_apply(struct cgroup_state *state)
{
    static void (*const set[CGROUP_KINDS])(struct cgroup_state *, const struct cgroup_group *) = {
        set_memory, set_pids, set_cpu, set_cpuset, set_io};
    for (enum cgroup_kind kind = 0; kind < CGROUP_KINDS; kind++) {
        struct cgroup_group *group = cgroup_group_of(state, kind);
        if (group != NULL)
            set[kind](state, group);
    }
    struct cgroup_group *cpuset = cgroup_group_of(state, CGROUP_CPUSET);
    if (cpuset != NULL && state->bound[CGROUP_CPUSET].why != CGROUP_BOUND)
        leave_cpuset(cpuset);
}
