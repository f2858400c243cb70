/* The limits of a box through control groups: v2 where it can be had, v1 otherwise, each read back. This file: the
 * table and its hooks. prepare and teardown run in kern; enter runs in the box's first process.
 *
 * enter needs no capability and no namespace: on v2 the process was cloned into its group, on v1 it writes itself
 * into files that prepare opened. It must run before a cgroup namespace is made, or the box would see a path that
 * leads out of it. */
#include "cgroup_manifest.h"

#include "cgroup_file.h"
#include "cgroup_state.h"
#include "cgroup_sweep.h"

#include "kern/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

#define MEMORY_AND_PIDS (CGROUP_BIT(CGROUP_MEMORY) | CGROUP_BIT(CGROUP_PIDS))
#define PIDS_MOST       4194304 /* PID_MAX_LIMIT of 64-bit machines: no cap at all */

static const struct kern_group_hooks group_hooks = {
    .collect = cgroup_collect, .kill = cgroup_kill, .need_io = cgroup_need_io};

static void init_state(struct cgroup_state *state)
{
    state->oom_event = -1;
    state->oom_timer = -1;
    for (enum cgroup_kind kind = 0; kind < CGROUP_KINDS; kind++)
        state->bound[kind] = (struct cgroup_bound){.by = "none"};
    state->swap = (struct cgroup_bound){.by = "none", .why = CGROUP_NO_FILE};
}

static int read_cpuset(struct cgroup_wish *wish, struct kern_error *err)
{
    int result = cgroup_cpus_parse(wish->cpuset, &wish->mask);
    if (result < 0 || cgroup_cpus_count(&wish->mask) == 0) {
        result = kern_refuse(err, 0, "--cpuset-cpus \"%.128s\" is not a list of CPUs", wish->cpuset);
        kern_hint(err, "write it like 0-2,4");
        return result;
    }
    char text[4096];
    struct cgroup_cpus online, missing;
    if (cgroup_read(AT_FDCWD, "/sys/devices/system/cpu/online", text, sizeof(text)) < 0 ||
        cgroup_cpus_parse(text, &online) < 0)
        return 0; /* without /sys the kernel is the judge, when the list is used */
    if (cgroup_cpus_minus(&wish->mask, &online, &missing) == 0)
        return 0;
    char named[64], there[128];
    cgroup_cpus_format(&missing, named, sizeof(named));
    cgroup_cpus_format(&online, there, sizeof(there));
    result = kern_refuse(err, 0, "--cpuset-cpus \"%.128s\" names CPUs that are not online: %s", wish->cpuset,
                         named);
    kern_hint(err, "online here: %s", there);
    return result;
}

static int read_wishes(const kern_values *options, struct cgroup_wish *wish, struct kern_error *err)
{
    if (kern_get_int(options, "require-limits") && kern_get_int(options, "allow-uncapped"))
        return kern_refuse(err, 0, "--require-limits and --allow-uncapped exclude each other");
    wish->kinds = MEMORY_AND_PIDS;
    wish->memory = kern_get_int(options, "memory");
    wish->swap = kern_get_int(options, "memory-swap-max");
    wish->pids = kern_get_int(options, "pids-limit");
    wish->cpus = kern_get_float(options, "cpus");
    wish->weight = (uint32_t)kern_get_int(options, "io-weight");
    wish->cpuset = kern_get_string(options, "cpuset-cpus");
    if (wish->cpus > 0)
        wish->kinds |= CGROUP_BIT(CGROUP_CPU);
    if (wish->weight > 0)
        wish->kinds |= CGROUP_BIT(CGROUP_IO);
    if (wish->cpuset != NULL)
        wish->kinds |= CGROUP_BIT(CGROUP_CPUSET);
    wish->asked = wish->kinds;
    return wish->cpuset != NULL ? read_cpuset(wish, err) : 0;
}

/* Of a process of the host only what was asked for is capped; the groups of memory and pids count all the same, and hold
 * together what is to be ended. */
static void spare_host(const kern_values *options, struct cgroup_wish *wish)
{
    bool swap = kern_get_source(options, "memory-swap-max") != KERN_FROM_DEFAULT;
    if (kern_get_source(options, "memory") == KERN_FROM_DEFAULT) {
        wish->asked &= ~CGROUP_BIT(CGROUP_MEMORY);
        wish->memory = INT64_MAX;
        wish->swap = swap ? wish->swap : INT64_MAX;
    }
    if (kern_get_source(options, "pids-limit") == KERN_FROM_DEFAULT) {
        wish->asked &= ~CGROUP_BIT(CGROUP_PIDS);
        wish->pids = PIDS_MOST;
    }
}

/* A mask of its own holds a program that does not mind; one that does can widen it again. */
static void fall_back_to_affinity(struct cgroup_state *state)
{
    struct cgroup_bound *bound = &state->bound[CGROUP_CPUSET];
    if (!(state->wish.kinds & CGROUP_BIT(CGROUP_CPUSET)) || bound->why == CGROUP_BOUND)
        return;
    state->use_affinity = 1;
    bound->by = "affinity";
}

static void report_one(kern_box *box, const char *name, const struct cgroup_bound *bound, const char *asked)
{
    struct kern_limit limit = {.name = name, .enforced = bound->enforced};
    (void)snprintf(limit.asked, sizeof(limit.asked), "%s",
                   asked); /* a CPU list may be cut: the report says enough */
    (void)snprintf(limit.by, sizeof(limit.by), "%s", bound->by); /* all are shorter */
    kern_limit_set(box, &limit);
}

/* Where memory is, pids are as well. */
static const char *fleet_backend(const struct cgroup_state *state)
{
    return state->group_count > 0 ? cgroup_backend(&state->group[0]) : "none";
}

static void report_fleet(kern_box *box, const struct cgroup_state *state)
{
    const struct cgroup_fleet *fleet = &state->fleet;
    const struct {
        const char *name;
        int64_t asked;
        int32_t binds;
    } rows[] = {{"fleet-memory", fleet->memory, fleet->memory_binds},
                {"fleet-pids", fleet->pids, fleet->pids_bind}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char asked[32];
        if (rows[i].asked <= 0)
            continue;
        (void)snprintf(asked, sizeof(asked), "%" PRId64, rows[i].asked); /* numbers fit */
        const struct cgroup_bound bound = {.enforced = rows[i].binds,
                                           .by = rows[i].binds ? fleet_backend(state) : "none"};
        report_one(box, rows[i].name, &bound, asked);
    }
}

static void report_limits(kern_box *box, const struct cgroup_state *state)
{
    const struct cgroup_wish *wish = &state->wish;
    char asked[CGROUP_KINDS][32];
    (void)snprintf(asked[CGROUP_MEMORY], sizeof(asked[0]), "%" PRId64, wish->memory); /* numbers fit */
    (void)snprintf(asked[CGROUP_PIDS], sizeof(asked[0]), "%" PRId64, wish->pids);
    (void)snprintf(asked[CGROUP_CPU], sizeof(asked[0]), "%g", wish->cpus);
    (void)snprintf(asked[CGROUP_CPUSET], sizeof(asked[0]), "%.31s", wish->cpuset != NULL ? wish->cpuset : "");
    (void)snprintf(asked[CGROUP_IO], sizeof(asked[0]), "%u", wish->weight);
    static const char *const name[CGROUP_KINDS] = {"memory", "pids", "cpu", "cpuset", "io"};
    for (enum cgroup_kind kind = 0; kind < CGROUP_KINDS; kind++)
        if (wish->asked & CGROUP_BIT(kind))
            report_one(box, name[kind], &state->bound[kind], asked[kind]);
    report_fleet(box, state);
    if (wish->swap == INT64_MAX || (state->swap.why != CGROUP_BOUND && wish->swap == 0))
        return; /* nobody asked; where there is swap to be afraid of, a warning says it */
    char swap[32];
    (void)snprintf(swap, sizeof(swap), "%" PRId64, wish->swap);
    report_one(box, "swap", &state->swap, swap);
}

static int machine_swaps(void)
{
    char text[512];
    if (cgroup_read(AT_FDCWD, "/proc/swaps", text, sizeof(text)) < 0)
        return 0;
    const char *first = strchr(text, '\n'); /* after the heading */
    return first != NULL && first[1] != '\0';
}

/* One line for each reason, however many caps it holds back. */
static void warn_unbound(kern_box *box, const struct cgroup_state *state)
{
    uint32_t open = 0;
    for (enum cgroup_kind kind = 0; kind < CGROUP_KINDS; kind++)
        if (state->bound[kind].why != CGROUP_BOUND)
            open |= state->wish.asked & CGROUP_BIT(kind);
    for (enum cgroup_kind kind = 0; open != 0 && kind < CGROUP_KINDS; kind++) {
        if (!(open & CGROUP_BIT(kind)))
            continue;
        char names[64], reason[160], remedy[200];
        uint32_t alike = cgroup_unbound_like(state->bound, open, kind, names, sizeof(names));
        open &= ~(alike | CGROUP_BIT(kind));
        const char *mend = cgroup_remedy(&state->bound[kind], kind, remedy, sizeof(remedy));
        kern_warn(box, "%s cap%s not enforced: %s%s%s%s", names, (alike & (alike - 1)) ? "s" : "",
                  cgroup_reason(&state->bound[kind], kind, reason, sizeof(reason)), mend[0] ? " (" : "", mend,
                  mend[0] ? ")" : "");
    }
    if ((state->wish.asked & CGROUP_BIT(CGROUP_MEMORY)) && state->bound[CGROUP_MEMORY].why == CGROUP_BOUND &&
        state->swap.why != CGROUP_BOUND && machine_swaps())
        kern_warn(box, "swap is not capped: this kernel does not count it (boot with swapaccount=1)");
}

static bool fleet_is_loose(const struct cgroup_fleet *fleet)
{
    return (fleet->memory > 0 && !fleet->memory_binds) || (fleet->pids > 0 && !fleet->pids_bind);
}

static int require_bound(const struct cgroup_state *state, struct kern_error *err)
{
    if (fleet_is_loose(&state->fleet))
        return kern_refuse(err, 0,
                           "cannot enforce the fleet caps (KERN_FLEET_MEMORY_MAX, KERN_FLEET_PIDS_MAX) that "
                           "--require-limits asks for");
    for (enum cgroup_kind kind = CGROUP_MEMORY; kind <= CGROUP_PIDS; kind++) {
        const struct cgroup_bound *bound = &state->bound[kind];
        if (bound->enforced == 1 || !(state->wish.asked & CGROUP_BIT(kind)))
            continue;
        char reason[160], remedy[200];
        const char *mend = cgroup_remedy(bound, kind, remedy, sizeof(remedy));
        int result =
            kern_refuse(err, 0, "cannot enforce the %s cap that --require-limits asks for: %s",
                        cgroup_controller_v2(kind),
                        bound->why == CGROUP_BOUND ? "it does not read back"
                                                   : cgroup_reason(bound, kind, reason, sizeof(reason)));
        if (mend[0] != '\0')
            kern_hint(err, "%s", mend);
        return result;
    }
    return 0;
}

void cgroup_tell(kern_box *box, const struct cgroup_group *group)
{
    if (group->version == 2) {
        kern_box_cgroup2(box, group->dir);
        kern_box_bind_cgroup(box, group->dir, NULL);
        return;
    }
    for (enum cgroup_kind kind = 0; kind < CGROUP_KINDS; kind++)
        if (group->kinds & CGROUP_BIT(kind))
            kern_box_bind_cgroup(box, group->dir, cgroup_controller_v1(kind));
}

static void tell_core(kern_box *box, struct cgroup_state *state)
{
    for (uint32_t i = 0; i < state->group_count; i++)
        cgroup_tell(box, &state->group[i]);
    bool capped =
        (state->wish.asked & CGROUP_BIT(CGROUP_MEMORY)) && state->bound[CGROUP_MEMORY].enforced != 0;
    uint64_t cap = capped ? (uint64_t)state->wish.memory : 0;
    kern_box_group_hooks(box, &group_hooks, state, cap);
}

static int cgroup_prepare(kern_box *box, void *opaque, struct kern_error *err)
{
    struct cgroup_state *state = opaque;
    init_state(state);
    const kern_values *options = kern_options(box);
    int result = read_wishes(options, &state->wish, err);
    if (result < 0)
        return result;
    state->fleet.memory = kern_get_int(options, "fleet-memory-max");
    state->fleet.pids = kern_get_int(options, "fleet-pids-max");
    if (kern_box_bare(box))
        spare_host(options, &state->wish);
    struct cgroup_map map;
    result = cgroup_map_read(&map);
    if (result < 0)
        return kern_fail(err, -result, "cannot read \"/proc/self/mountinfo\" and \"/proc/self/cgroup\"");
    result = cgroup_v1_make(box, state, &map, err);
    if (result == 0)
        result = cgroup_v2_make(box, state, &map, err);
    if (result < 0)
        return result;
    cgroup_apply(state);
    fall_back_to_affinity(state);
    report_limits(box, state);
    if (kern_box_strict(box) || kern_get_int(options, "require-limits")) {
        result = require_bound(state, err);
        if (result < 0)
            return result;
    }
    if (!kern_get_int(options, "allow-uncapped")) {
        warn_unbound(box, state);
        if (fleet_is_loose(&state->fleet) && state->group_count > 0)
            kern_warn(box, "fleet caps not enforced: the control group of all boxes cannot be capped");
    }
    cgroup_oom_watch(box, state);
    tell_core(box, state);
    return 0;
}

static int cgroup_enter(kern_box *box, void *opaque, struct kern_error *err)
{
    (void)box; /* the state holds all that is needed */
    const struct cgroup_state *state = opaque;
    for (uint32_t i = 0; i < state->group_count; i++)
        if (state->group[i].tasks >= 0 && write(state->group[i].tasks, "0", 1) < 0)
            return kern_fail(err, errno, "cannot join control group \"%s\"", state->group[i].path);
    if (state->use_affinity &&
        syscall(SYS_sched_setaffinity, 0, sizeof(state->wish.mask), &state->wish.mask) < 0) {
        int result = kern_fail(err, errno, "cannot run on CPUs \"%s\"", state->wish.cpuset);
        kern_hint(err, "see which CPUs kern itself may use: taskset -cp $$");
        return result;
    }
    return 0;
}

static void cgroup_teardown(kern_box *box, void *opaque, const struct kern_outcome *outcome)
{
    (void)outcome; /* groups go however the box ended */
    struct cgroup_state *state = opaque;
    cgroup_oom_unwatch(box, state);
    for (uint32_t i = state->group_count; i-- > 0;) {
        kern_close_fd(&state->group[i].tasks);
        kern_close_fd(&state->group[i].dir);
        (void)cgroup_sweep(state->group[i].path); /* its path is written down: a later run tries again */
    }
    state->group_count = 0;
}

KERN_PLUGIN(CGROUP_MANIFEST, .state_size = sizeof(struct cgroup_state), .prepare = cgroup_prepare,
            .enter = cgroup_enter, .teardown = cgroup_teardown);
