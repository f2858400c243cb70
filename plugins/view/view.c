/* The honest view: where a cap binds, the programs in a box see it: its CPUs, its memory, its load and uptime, in the files
 * that they read and in the calls that they make. This file: the table, and prepare and teardown, which run in kern on the
 * host. Nothing here is a limit: what a program does with the figures cannot harm anybody. */
#include "view_manifest.h"
#include "view_state.h"

#include "kern/cleanup.h"
#include "kern/foundation.h"
#include "kern/sys.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define TEXT_LEAST ((size_t)4096) /* meminfo has half of it */
#define TEXT_CPU   ((size_t)2560) /* what cpuinfo and stat say of one CPU */

const char *const view_file_name[VIEW_FILES] = {"meminfo", "uptime", "loadavg", "stat", "cpuinfo"};

uint64_t view_now_us(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail with a valid clock and pointer */
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static uint64_t host_boot_s(void)
{
    struct timespec wall, up;
    (void)clock_gettime(CLOCK_REALTIME, &wall); /* cannot fail, both */
    (void)clock_gettime(CLOCK_BOOTTIME, &up);
    int64_t ns = (int64_t)(wall.tv_sec - up.tv_sec) * 1000000000 + wall.tv_nsec - up.tv_nsec;
    return ns > 0 ? (uint64_t)(ns / 1000000000) : 0;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static void read_memory(kern_box *box, struct view_state *state)
{
    struct view_memory *memory = &state->figures.memory;
    struct sysinfo host;
    uint64_t cap = kern_memory_cap(box);
    state->shows_memory = cap > 0 && sysinfo(&host) == 0;
    if (!state->shows_memory)
        return;
    uint64_t swap = (uint64_t)host.totalswap * host.mem_unit;
    uint64_t swap_cap = (uint64_t)kern_get_int(kern_options(box), "memory-swap-max");
    memory->total = least(cap, (uint64_t)host.totalram * host.mem_unit);
    memory->swap_total = kern_limit_binds(box, "swap") == 1 ? least(swap_cap, swap) : swap;
}

/* Which CPUs the box may use, and how many of them it is told of. A cap on CPU time is no less a cap because the kernel
 * would let the threads run anywhere: more of them than can run at once only wait for each other. */
static void read_cpus(kern_box *box, struct view_state *state)
{
    struct view_cpus may = {{0}}, listed;
    (void)sys_call(SYS_sched_getaffinity, 0, sizeof(may), SYS_P(&may), 0, 0,
                   0); /* then the set stays empty */
    const char *list = kern_get_string(kern_options(box), "cpuset-cpus");
    double cpus = kern_get_float(kern_options(box), "cpus");
    /* A list binds by a control group or at least by the mask that the box begins with. */
    if (list != NULL && view_cpus_parse(list, &listed) == 0) {
        may = listed;
        state->shows_cpus = 1;
    }
    uint32_t there = view_cpus_count(&may), count = there;
    if (cpus > 0 && cpus < there && kern_limit_binds(box, "cpu") == 1)
        count = (uint32_t)cpus + (cpus > (uint32_t)cpus);
    state->narrows = count < there;
    state->shows_cpus = state->shows_cpus || state->narrows;
    state->cpu_count = count;
    view_cpus_choose(&may, count, (uint32_t)getpid(), &state->shown);
}

static int keep_text(struct view_state *state, enum view_file file, const char *text, size_t length)
{
    char *copy = malloc(length + 1);
    if (copy == NULL)
        return -ENOMEM;
    memcpy(copy, text, length);
    state->text[file] = copy;
    state->length[file] = length;
    return 0;
}

/* Only the beginning of the host's file: the kernel takes its time for each CPU. The supervisor writes the rest later. */
static int write_cpuinfo(struct view_state *state, char *text, size_t room)
{
    char host[8192];
    long length = view_read(AT_FDCWD, "/proc/cpuinfo", host, sizeof(host));
    size_t wrote = length > 0 ? view_cpuinfo_first(host, &state->shown, text, room) : 0;
    return wrote > 0 ? keep_text(state, VIEW_CPUINFO, text, wrote) : 0;
}

static int write_texts(struct view_state *state, struct kern_error *err)
{
    size_t room = TEXT_LEAST + TEXT_CPU * state->cpu_count;
    auto_free char *text = malloc(room);
    if (text == NULL)
        return kern_fail(err, ENOMEM, "cannot write the files of the box's view");
    struct view_figures *figures = &state->figures;
    int failed = 0;
    if (state->shows_memory)
        failed = keep_text(state, VIEW_MEMINFO, text, view_meminfo(&figures->memory, text, room));
    if (failed == 0)
        failed = keep_text(state, VIEW_UPTIME, text, view_uptime(figures, state->cpu_count, text, room));
    if (failed == 0)
        failed = keep_text(state, VIEW_LOADAVG, text, view_loadavg(figures, text, room));
    if (failed == 0)
        failed = keep_text(state, VIEW_STAT, text, view_stat(figures, &state->shown, text, room));
    if (failed == 0 && state->shows_cpus)
        failed = write_cpuinfo(state, text, room);
    return failed == 0 ? 0 : kern_fail(err, -failed, "cannot write the files of the box's view");
}

/* Yama's strictest mode lets nobody write into another process, not even root. */
static int can_answer(void)
{
    char mode[8];
    return view_read(AT_FDCWD, "/proc/sys/kernel/yama/ptrace_scope", mode, sizeof(mode)) <= 0 ||
           mode[0] != '3';
}

static void report(kern_box *box, const struct view_state *state)
{
    if (state->shows_cpus)
        kern_report_int(box, "cpus", state->cpu_count);
    if (state->shows_memory)
        kern_report_int(box, "memory", (int64_t)state->figures.memory.total);
}

static void init(struct view_state *state)
{
    state->store = state->proc = state->timer = state->helper_channel = state->pace.timer = -1;
    state->memory.dir = state->cpu.dir = state->pids.dir = -1;
    for (int i = 0; i < VIEW_FILES; i++)
        state->file[i] = -1;
}

static int prepare(kern_box *box, void *block, struct kern_error *err)
{
    struct view_state *state = block;
    init(state);
    /* Inside another sandbox no call can be answered and no file be put over another. */
    if (kern_get_int(kern_options(box), "no-view") != 0 || kern_nested(box) != 0)
        return 0;
    read_memory(box, state);
    read_cpus(box, state);
    if (!state->shows_memory && !state->shows_cpus)
        return 0; /* nothing binds, so the host's figures are the truth */
    state->start_us = (int64_t)view_now_us();
    state->figures.boot_s = host_boot_s();
    state->figures.tasks = state->figures.running = state->figures.last_pid = 1;
    /* The kernel lets no box in a box mount a procfs when files of the outer one are covered. */
    state->has_files = kern_privileged(box) == 0;
    report(box, state);
    int failed = state->has_files ? write_texts(state, err) : 0;
    if (failed == 0 && can_answer())
        failed = view_add_calls(box, state, err);
    else if (failed == 0)
        kern_note(box, "system calls show the host's figures: kernel.yama.ptrace_scope is 3");
    return failed != 0 ? failed : view_watch(box, state, err);
}

static void teardown(kern_box *box, void *block, const struct kern_outcome *outcome)
{
    struct view_state *state = block;
    (void)outcome; /* nothing to tell */
    view_unwatch(box, state);
    view_pace_end(box, &state->pace);
    for (int i = 0; i < VIEW_FILES; i++)
        free(state->text[i]);
}

KERN_PLUGIN(VIEW_MANIFEST, .state_size = sizeof(struct view_state), .prepare = prepare, .enter = view_enter,
            .teardown = teardown);
