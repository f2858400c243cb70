/* The answers to sched_getaffinity and sysinfo. Runs in the supervisor's loop, for each such call of the box: kern fills in
 * what the kernel would, and writes it into the caller's memory.
 *
 * Only through /proc/TID/mem: what was opened stays the memory of one process, so when the notification is still valid after
 * the opening, it is the caller's. A number alone might mean somebody else by the time of the write. */
#include "view_state.h"

#include "kern/cleanup.h"
#include "kern/sys.h"

#include <linux/magic.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

static void answer(struct kern_call *call, int error, int64_t result)
{
    call->error = error;
    call->result = error == 0 ? result : 0;
}

/* Pointers may carry a tag in their first byte there. */
static off_t place(uint64_t address)
{
#if defined(__aarch64__)
    address &= UINT64_MAX >> 8;
#endif
    return (off_t)address;
}

/* 0, or the errno that the call fails with. */
static int put(const struct kern_call *call, uint64_t address, const void *bytes, size_t length)
{
    char path[40];
    (void)snprintf(path, sizeof(path), "/proc/%d/mem", call->pid); /* fits: a number is short */
    auto_fd memory = open(path, O_WRONLY | O_CLOEXEC);
    if (memory < 0)
        return EPERM;
    uint64_t cookie = call->cookie;
    if (ioctl(call->listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &cookie) != 0)
        return EINTR; /* nobody will hear it */
    return pwrite(memory, bytes, length, place(address)) == (ssize_t)length ? 0 : EFAULT;
}

/* The procfs that the caller sees. Its root may be a directory of its own choosing, so no link is followed there. */
static int open_proc_of(const struct kern_call *call)
{
    char path[40];
    int proc = -1;
    struct kern_error ignored = {0};
    (void)snprintf(path, sizeof(path), "/proc/%d/root", call->pid); /* fits: a number is short */
    auto_fd root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0 || view_open_place(root, "proc", PROC_SUPER_MAGIC, &proc, &ignored) != 0)
        return -1;
    return proc;
}

/* The mask of a process or thread that the box names by a number of its own. Where it cannot be learnt, the box's own mask is as
 * good an answer as any. */
static int mask_of(const struct view_state *state, const struct kern_call *call, struct view_cpus *ret_mask)
{
    static const char key[] = "\nCpus_allowed_list:\t";
    char path[32], text[16384];
    int32_t id = (int32_t)call->arg[0];
    auto_fd proc = id < 0 ? -1 : open_proc_of(call);
    (void)snprintf(path, sizeof(path), "%d/status", id); /* fits: a number is short */
    long length = proc < 0 ? 0 : view_read(proc, path, text, sizeof(text));
    if (id < 0 || length == -ENOENT || length == -ESRCH)
        return -ESRCH;
    const char *list = length > 0 ? strstr(text, key) : NULL;
    if (list == NULL || view_cpus_parse(list + sizeof(key) - 1, ret_mask) != 0)
        *ret_mask = state->shown;
    return 0;
}

static void answer_affinity(const struct view_state *state, struct kern_call *call)
{
    struct view_cpus real = {{0}}, told;
    int32_t id = (int32_t)call->arg[0];
    uint32_t size = (uint32_t)call->arg[1];
    if (size % sizeof(uint64_t) != 0) {
        answer(call, EINVAL, 0);
        return;
    }
    if (size > sizeof(real))
        size = sizeof(real); /* the kernel fills no more either */
    /* For another task, kern's own mask tells how long one is, and whether it fits. */
    long length = sys_call(SYS_sched_getaffinity, id == 0 ? call->pid : 0, size, SYS_P(&real), 0, 0, 0);
    if (length >= 0 && id != 0)
        length = mask_of(state, call, &real) == 0 ? length : -ESRCH;
    if (length < 0) {
        answer(call, (int)-length, 0);
        return;
    }
    view_cpus_narrow(&real, &state->shown, state->cpu_count, &told);
    answer(call, put(call, call->arg[2], &told, (size_t)length), length);
}

static void answer_sysinfo(const struct view_state *state, struct kern_call *call)
{
    struct sysinfo info;
    struct view_figures figures = state->figures;
    figures.uptime_us = view_now_us() - (uint64_t)state->start_us;
    if (!state->shows_memory) {
        (void)sysinfo(&info); /* a valid pointer: cannot fail */
        figures.memory =
            (struct view_memory){.total = (uint64_t)info.totalram * info.mem_unit,
                                 .used = (uint64_t)(info.totalram - info.freeram) * info.mem_unit,
                                 .shmem = (uint64_t)info.sharedram * info.mem_unit,
                                 .swap_total = (uint64_t)info.totalswap * info.mem_unit,
                                 .swap_used = (uint64_t)(info.totalswap - info.freeswap) * info.mem_unit};
    }
    view_sysinfo(&figures, &info);
    answer(call, put(call, call->arg[0], &info, sizeof(info)), 0);
}

void view_answer(struct view_state *state, struct kern_call *call)
{
    if (call->call == SYS_sysinfo)
        answer_sysinfo(state, call);
    else
        answer_affinity(state, call);
}

static int32_t on_call(kern_box *box, void *block, struct kern_call *call)
{
    return view_pace(box, block, call);
}

static int take_call(kern_box *box, int32_t number, struct kern_error *err)
{
    struct kern_rule rule = {.struct_size = sizeof(rule), .call = number, .action = KERN_RULE_NOTIFY};
    int failed = kern_add_rule(box, &rule, err);
    return failed != 0 ? failed : kern_on_call(box, number, on_call, err);
}

int view_add_calls(kern_box *box, const struct view_state *state, struct kern_error *err)
{
    int failed = state->narrows ? take_call(box, SYS_sched_getaffinity, err) : 0;
    return failed != 0 ? failed : take_call(box, SYS_sysinfo, err);
}
