/* What the box's groups counted, ending what is in them, and the watch that makes version 1 end a whole box when
 * memory is out. Runs in kern: in the supervisor loop and after the box has ended. */
#include "cgroup_file.h"
#include "cgroup_state.h"
#include "cgroup_sweep.h"

#include "kern/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>

#define OOM_LOOK_MS  5
#define OOM_LOOK_MAX 40

#define CHARGE_BATCH_PAGES 64

static int64_t number_in(const struct cgroup_group *group, const char *file)
{
    char text[64];
    if (group == NULL || cgroup_read(group->dir, file, text, sizeof(text)) < 0)
        return -1;
    return cgroup_number(text);
}

static int64_t field_in(const struct cgroup_group *group, const char *file, const char *key)
{
    char text[1024];
    if (group == NULL || cgroup_read(group->dir, file, text, sizeof(text)) < 0)
        return -1;
    return cgroup_field(text, key);
}

static int64_t kills_in(const struct cgroup_group *group)
{
    char text[1024];
    return cgroup_read(group->dir, "memory.events", text, sizeof(text)) < 0 ? -1 : cgroup_oom_kills(text);
}

/* v1 counts failed charges of memory, but not (seen with Linux 6.18) of memory and swap together, which fail first where no
 * swap is allowed: so usage at the cap, less a batch of charges, tells too. */
static bool was_full(const struct cgroup_group *group)
{
    int64_t cap = number_in(group, "memory.limit_in_bytes");
    int64_t batch = CHARGE_BATCH_PAGES * sysconf(_SC_PAGESIZE);
    return number_in(group, "memory.failcnt") > 0 ||
           (cap >= 0 && number_in(group, "memory.max_usage_in_bytes") >= cap - batch);
}

/* A kill for memory that an outer group or the machine ran out of counts as well. The own cap was the cause when it
 * was hit; v2 says so. */
static int32_t own_cap_hit(const struct cgroup_group *group, int64_t kills)
{
    if (kills <= 0)
        return kills < 0 ? -1 : 0;
    return group->version == 2 ? field_in(group, "memory.events", "oom") > 0 : was_full(group);
}

/* The cap that binds all boxes, one level above this one's. */
static uint64_t fleet_cap_hit(const struct cgroup_state *state, const struct cgroup_group *group)
{
    if (group == NULL || !state->fleet.memory_binds)
        return 0;
    auto_fd dir = openat(group->dir, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
    const struct cgroup_group fleet = {.dir = dir, .version = group->version};
    bool hit = dir >= 0 &&
               (fleet.version == 2 ? cgroup_fleet_oom(dir) > state->fleet.out_of_memory : was_full(&fleet));
    return hit ? (uint64_t)state->fleet.memory : 0;
}

/* Counted where there is a cap. v1 counts in nanoseconds. */
static int64_t throttled(const struct cgroup_group *cpu)
{
    if (cpu != NULL && cpu->version == 2)
        return field_in(cpu, "cpu.stat", "throttled_usec");
    int64_t ns = field_in(cpu, "cpu.stat", "throttled_time");
    return ns < 0 ? -1 : ns / 1000;
}

/* v2 counts without any controller; v1, in nanoseconds, where there is a group for it. */
static int64_t cpu_time(const struct cgroup_state *state)
{
    int64_t us = -1;
    for (uint32_t i = 0; i < state->group_count; i++) {
        const struct cgroup_group *group = &state->group[i];
        int64_t ns = group->counts ? number_in(group, "cpuacct.usage") : -1;
        if (group->version == 2)
            us = field_in(group, "cpu.stat", "usage_usec");
        else if (ns >= 0)
            us = ns / 1000;
    }
    return us;
}

void cgroup_collect(kern_box *box, void *opaque, struct kern_usage *ret_usage)
{
    (void)box; /* the hook has it for those who need it */
    struct cgroup_state *state = opaque;
    const struct cgroup_group *memory = cgroup_group_of(state, CGROUP_MEMORY);
    const struct cgroup_group *pids = cgroup_group_of(state, CGROUP_PIDS);
    struct kern_usage usage = {.cpu_us = -1, .throttled_us = -1};
    if (memory != NULL && memory->version == 2) {
        usage.peak_memory = number_in(memory, "memory.peak"); /* Linux 5.19 */
        usage.oom_kills = kills_in(memory);
    } else {
        usage.peak_memory = number_in(memory, "memory.max_usage_in_bytes");
        usage.oom_kills = field_in(memory, "memory.oom_control", "oom_kill"); /* Linux 4.13 */
    }
    usage.oom_own = own_cap_hit(memory, usage.oom_kills);
    if (usage.oom_kills > 0 && usage.oom_own != 1)
        usage.oom_fleet = fleet_cap_hit(state, memory);
    usage.peak_pids = number_in(pids, "pids.peak"); /* Linux 6.1 */
    usage.cpu_us = cpu_time(state);
    usage.throttled_us = throttled(cgroup_group_of(state, CGROUP_CPU));
    *ret_usage = usage;
}

int cgroup_kill(kern_box *box, void *opaque)
{
    (void)box; /* the hook has it for those who need it */
    struct cgroup_state *state = opaque;
    /* Every process of the box is in each of its groups, so one does: the one whose forks can be stopped, where there is one. */
    const struct cgroup_group *group = cgroup_group_of(state, CGROUP_PIDS);
    for (uint32_t i = 0; group == NULL && i < state->group_count; i++)
        if (state->group[i].version == 2 || state->group[i].tasks >= 0)
            group = &state->group[i];
    return group != NULL ? cgroup_kill_group(group->dir) : 0;
}

static void close_watched(kern_box *box, int32_t *fd)
{
    if (*fd < 0)
        return;
    kern_unwatch(box, *fd);
    kern_close_fd(fd);
}

void cgroup_oom_unwatch(kern_box *box, struct cgroup_state *state)
{
    close_watched(box, &state->oom_timer);
    close_watched(box, &state->oom_event);
}

static int end_if_killed(kern_box *box, struct cgroup_state *state)
{
    if (field_in(cgroup_group_of(state, CGROUP_MEMORY), "memory.oom_control", "oom_kill") <= 0)
        return 0;
    (void)cgroup_kill(box, state); /* the box ends, or the core's own kill will do it */
    return 1;
}

static void on_timer(kern_box *box, void *opaque, int32_t fd, uint32_t events)
{
    (void)events; /* it can only have expired */
    struct cgroup_state *state = opaque;
    uint64_t ticks;
    (void)!read(fd, &ticks, sizeof(ticks)); /* clears the event; how late we are does not matter */
    if (end_if_killed(box, state) || ++state->oom_looks >= OOM_LOOK_MAX)
        close_watched(box, &state->oom_timer);
}

/* The event comes just before the kernel chooses whom to kill, and also when an outer group is out of memory and
 * the victim is somebody else: so the counter decides, now or a few looks later. */
static void on_oom(kern_box *box, void *opaque, int32_t fd, uint32_t events)
{
    (void)events; /* an eventfd only ever becomes readable */
    struct cgroup_state *state = opaque;
    uint64_t count;
    (void)!read(fd, &count, sizeof(count)); /* clears the event; the number says nothing */
    state->oom_looks = 0;
    if (end_if_killed(box, state) || state->oom_timer >= 0)
        return;
    auto_fd timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    struct itimerspec pace = {.it_interval.tv_nsec = OOM_LOOK_MS * 1000000L,
                              .it_value.tv_nsec = OOM_LOOK_MS * 1000000L};
    struct kern_error ignored = {.category = KERN_ERROR_NONE};
    if (timer < 0 || timerfd_settime(timer, 0, &pace, NULL) < 0 ||
        kern_watch(box, timer, EPOLLIN, on_timer, &ignored) < 0)
        return; /* the core still sees the counter once the command ends */
    state->oom_timer = steal_fd(&timer);
}

void cgroup_oom_watch(kern_box *box, struct cgroup_state *state)
{
    const struct cgroup_group *group = cgroup_group_of(state, CGROUP_MEMORY);
    if (group == NULL || group->version != 1)
        return;
    auto_fd event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    auto_fd control = openat(group->dir, "memory.oom_control", O_RDONLY | O_CLOEXEC);
    char order[32];
    (void)snprintf(order, sizeof(order), "%d %d", event, control); /* two int at most */
    struct kern_error ignored = {.category = KERN_ERROR_NONE};
    /* 14 us at the start of a box; without it the box still ends when its first process does. */
    if (event < 0 || control < 0 || cgroup_write(group->dir, "cgroup.event_control", order) < 0 ||
        kern_watch(box, event, EPOLLIN, on_oom, &ignored) < 0)
        return;
    state->oom_event = steal_fd(&event);
}
