/* Clones the box's outer init and gives it its ids; see launch.h. Host side.
 *
 * The clone shares memory with kern (CLONE_VM without VFORK) because copying kern's page tables, and faulting its pages
 * in again, is a fifth of a start. What that forbids the child is written in sys.h and plugin.h; where it cannot be
 * had (a tiny memory cap, sanitizers, a plugin that is not lean, an init that stays) the same code runs on a copy. */
#include "launch.h"

#include "cleanup.h"
#include "clone.h"
#include "mounts.h"
#include "program.h"
#include "sys.h"

#include <linux/futex.h>
#include <linux/magic.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <sys/wait.h>

#define STACK_SIZE ((size_t)64 * 1024)
#define GUARD_SIZE ((size_t)4096)

void core_signal_word(_Atomic uint32_t *word, uint32_t value)
{
    atomic_store_explicit(word, value, memory_order_release);
    (void)sys_call(SYS_futex, SYS_P(word), FUTEX_WAKE, INT32_MAX, 0, 0, 0); /* nobody may be waiting */
}

void core_await_word(_Atomic uint32_t *word)
{
    while (atomic_load_explicit(word, memory_order_acquire) == 0)
        (void)sys_call(SYS_futex, SYS_P(word), FUTEX_WAIT, 0, 0, 0,
                       0); /* woken, changed or interrupted: look again */
}

/* Two stacks in one mapping, each with a page below it that faults: an overrun must not reach kern's data. */
static int map_stacks(kern_box *box, struct kern_error *err)
{
    char **const stack[] = {&box->outer_stack, &box->inner_stack};
    size_t count = sizeof(stack) / sizeof(stack[0]), each = GUARD_SIZE + STACK_SIZE;
    char *base = mmap(NULL, count * each, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return kern_fail(err, errno, "cannot map stacks for the box's first processes");
    for (size_t i = 0; i < count; i++) {
        if (mprotect(base + i * each, GUARD_SIZE, PROT_NONE) != 0)
            return kern_fail(err, errno, "cannot guard the stacks of the box's first processes");
        *stack[i] = base + i * each + GUARD_SIZE;
    }
    box->stack_size = STACK_SIZE;
    return 0;
}

static int write_file(pid_t pid, const char *name, const char *text, struct kern_error *err)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name); /* fits by its parts */
    auto_fd fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return kern_fail(err, errno, "cannot open \"%s\"", path);
    if (write(fd, text, strlen(text)) < 0)
        return kern_fail(err, errno, "cannot write the id map \"%s\"", path);
    return 0;
}

static int write_maps(const kern_box *box, struct kern_error *err)
{
    if (box->ids.how == KERN_IDS_HELPER)
        return core_map_with_helpers(&box->ids, box->outer_pid, err);
    int failed = write_file(box->outer_pid, "uid_map", box->ids.uid_map, err);
    return failed != 0 ? failed : write_file(box->outer_pid, "gid_map", box->ids.gid_map, err);
}

/* /dev/stdout in the box opens the pipe behind it anew, which its owner decides: kern's root is nobody there. Only pipes that
 * have no name are given away; a terminal or a file keeps its owner. */
static void give_pipes(const kern_box *box)
{
    for (int fd = 0; fd <= 2; fd++) {
        struct statfs fs;
        if (fstatfs(fd, &fs) == 0 && fs.f_type == PIPEFS_MAGIC)
            (void)!fchown(fd, box->ids.base, box->ids.gid_base); /* the stream itself works as it is */
    }
}

/* Host ids differ from box ids where kern is real root: binds are copied, given the box's ids, and handed over as detached
 * mounts, because the box itself may not do that to file systems it does not own. */
static int idmap_sources(kern_box *box, struct kern_error *err)
{
    if (box->ids.shifted == 0)
        return 0;
    give_pipes(box);
    if (box->disk_fd >= 0 && fchownat(box->disk_fd, "", box->ids.base, box->ids.gid_base, AT_EMPTY_PATH) != 0)
        return kern_fail(err, errno, "cannot give the scratch directory to the box");
    return core_idmap_mounts(box, err);
}

static int clone_outer(kern_box *box, struct kern_error *err)
{
    uint64_t flags = CLONE_NEWNS | CLONE_NEWPID | CLONE_PIDFD | CLONE_FILES;
    if (!box->host_userns)
        flags |= CLONE_NEWUSER;
    if (!box->fork_style)
        flags |= CLONE_VM;
    struct clone_args args = {
        .flags = flags, .exit_signal = SIGCHLD, .pidfd = (uint64_t)(uintptr_t)&box->shared->outer_pidfd};
    if (!box->fork_style) {
        args.stack = (uint64_t)(uintptr_t)box->outer_stack;
        args.stack_size = box->stack_size;
    }
    long pid = core_clone(&args, core_outer_main, box);
    if (pid == -ENOSYS && !box->fork_style) {
        /* An outer sandbox hides clone3; the older call can copy, but not share. */
        box->fork_style = true;
        return clone_outer(box, err);
    }
    if (pid < 0) {
        kern_fail(err, (int)-pid, "cannot clone the namespaces of the box");
        core_explain_userns((int)-pid, err);
        return (int)pid;
    }
    box->outer_pid = (pid_t)pid;
    box->outer_pidfd = box->shared->outer_pidfd;
    return 0;
}

int core_launch(kern_box *box, struct kern_error *err)
{
    bool maps_are_ours = box->ids.how == KERN_IDS_PARENT || box->ids.how == KERN_IDS_HELPER;
    atomic_store(&box->shared->go, maps_are_ours ? 0 : 1);
    core_offer_trees(box);
    box->own_file_at_risk = core_program_is_at_risk(&box->ids);
    int failed = box->fork_style ? 0 : map_stacks(box, err);
    if (failed == 0 && box->ids.shifted != 0)
        failed = core_detach_sources(box, err);
    if (failed == 0)
        failed = clone_outer(box, err);
    if (failed != 0 || !maps_are_ours)
        return failed;
    failed = write_maps(box, err);
    if (failed == 0)
        failed = idmap_sources(box, err);
    if (failed == 0)
        core_signal_word(&box->shared->go, 1);
    return failed;
}

void core_launch_wait(kern_box *box)
{
    if (box->outer_pid == 0)
        return;
    while (sys_call(SYS_wait4, box->outer_pid, 0, __WALL, 0, 0, 0) == -EINTR)
        continue;
    box->outer_pid = 0;
}

void core_launch_undo(kern_box *box)
{
    if (box->outer_pid == 0)
        return;
    (void)sys_call(SYS_pidfd_send_signal, box->outer_pidfd, SIGKILL, 0, 0, 0,
                   0); /* gone already is as good */
    core_launch_wait(box);
    kern_close_fd(&box->outer_pidfd);
}

void core_launch_forget(kern_box *box)
{
    core_program_forget(box);
    if (box->outer_stack != NULL)
        (void)munmap(box->outer_stack - GUARD_SIZE,
                     2 * (GUARD_SIZE + STACK_SIZE)); /* as map_stacks() made it */
    box->outer_stack = box->inner_stack = NULL;
}
