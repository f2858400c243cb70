/* The box's first process, from the clone to the command; see launch.h. It runs the enter hooks stage by stage and, between
 * them, the few steps that belong to no plugin: attaching mounts, pivoting, joining the namespaces that the outer init made
 * meanwhile, giving up ownership. Perhaps on kern's memory: raw calls, no allocation.
 *
 * Needs, up to the inner user namespace: all capabilities in the box's outer user namespace. */
#include "inner.h"

#include "cleanup.h"
#include "clone.h"
#include "guard.h"
#include "launch.h"
#include "mounts.h"
#include "sys.h"

#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

#define EXIT_BUILD 125

_Noreturn static void die(int code)
{
    sys_exit(code);
}

/* What the caller's shell arranged for itself (ignored signals, a mask, a umask) is not the box's business. */
void core_forget_caller(void)
{
    (void)sys_call(SYS_setsid, 0, 0, 0, 0, 0, 0); /* a new process leads no group: cannot fail */
    struct {
        void (*handler)(int);
        unsigned long flags;
        void (*restorer)(void);
        uint64_t mask;
    } plain = {0};
    for (int signal = 1; signal <= 64; signal++)
        (void)sys_call(SYS_rt_sigaction, signal, SYS_P(&plain), 0, 8, 0, 0); /* SIGKILL and SIGSTOP refuse */
    (void)sys_call(SYS_umask, 022, 0, 0, 0, 0, 0);
}

static void progress(kern_box *box, enum core_progress step)
{
    atomic_store(&box->shared->progress, step);
}

void core_moment(kern_box *box, const char *name)
{
    struct core_shared *shared = box->shared;
    if (!box->timing || shared->moment_count == sizeof(shared->moment) / sizeof(shared->moment[0]))
        return;
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail with a valid clock and pointer */
    shared->moment[shared->moment_count++] =
        (struct core_moment){.name = name, .at_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec};
}

/* Root of the outer user namespace may be an id that the host does not give to us: take it, and shed what the host gave. */
static int become_root(const kern_box *box, struct kern_error *err)
{
    if (box->ids.become == 0)
        return 0;
    int failed = sys_setgroups(0, NULL);
    if (failed == 0)
        failed = sys_setresgid(0);
    if (failed == 0)
        failed = sys_setresuid(0);
    if (failed != 0)
        return kern_fail(err, -failed, "cannot become root of the box's id range");
    /* A change of ids hides /proc/PID from the process itself, where an id map is still to be written. */
    (void)sys_prctl(PR_SET_DUMPABLE, 1, 0, 0, 0); /* if it fails, writing that map says so */
    return 0;
}

/* A PID 1 does not die of abort(), which goes on to a fault then: so that kern is told what it was. */
static void on_abort(int signal)
{
    (void)signal; /* it is only there for one */
    die(CORE_ABORTED);
}

static void catch_abort(bool on)
{
    struct {
        void (*handler)(int);
        unsigned long flags;
        void (*restorer)(int); /* x86_64 wants one; the handler does not return */
        uint64_t mask;
    } action = {
        .handler = on ? on_abort : SIG_DFL, .flags = 0x04000000 /* SA_RESTORER */, .restorer = on_abort};
    (void)sys_call(SYS_rt_sigaction, SIGABRT, SYS_P(&action), 0, 8, 0, 0); /* a valid signal */
}

static int enter_one(kern_box *box, struct core_plugin *plugin, struct kern_error *err)
{
    if (plugin->builtin)
        return plugin->table->enter(box, plugin->state, err);
    catch_abort(true);
    int failed = core_guard_enter(box, plugin, err);
    catch_abort(false);
    return failed;
}

/* Runs the hooks of the stages first..last, in order; *at is where the last call stopped. */
static int enter_stages(kern_box *box, size_t *at, uint32_t last, struct kern_error *err)
{
    for (; *at < box->order_count && box->order[*at]->table->stage <= last; (*at)++) {
        struct core_plugin *plugin = box->order[*at];
        if (plugin->table->enter == NULL)
            continue;
        atomic_store(&box->shared->enter_index, (uint32_t)*at);
        progress(box, CORE_ENTERING);
        box->entering = plugin;
        int failed = enter_one(box, plugin, err);
        progress(box, CORE_PIVOTING);
        core_moment(box, plugin->name);
        if (failed != 0) {
            kern_fail(err, -failed, "the hook failed without saying why");
            core_error_context(err, plugin->name, "enter");
            return failed;
        }
    }
    return 0;
}

int core_pivot(kern_box *box, struct kern_error *err)
{
    int failed = sys_fchdir(box->root_fd);
    if (failed == 0)
        failed = (int)sys_call(SYS_pivot_root, SYS_P("."), SYS_P("."), 0, 0, 0, 0);
    if (failed != 0)
        return kern_fail(err, -failed, "cannot make the new root the root");
    /* The old root now lies on top of the new one; taking it away bares the new. */
    failed = sys_umount(".", MNT_DETACH);
    if (failed == 0)
        failed = sys_chdir("/");
    return failed == 0 ? 0 : kern_fail(err, -failed, "cannot leave the host's root");
}

static int join_spaces(kern_box *box, struct kern_error *err)
{
    core_await_word(&box->shared->spaces_ready);
    int failed = 1 - (int)atomic_load(&box->shared->spaces_ready);
    if (failed != 0)
        return kern_fail(err, -failed, "cannot make the network, ipc and uts namespaces of the box");
    uint64_t flags = CLONE_NEWIPC | CLONE_NEWUTS;
    if (!box->share_network)
        flags |= CLONE_NEWNET;
    failed = sys_setns(box->shared->outer_pidfd, flags);
    return failed == 0
               ? 0
               : kern_fail(err, -failed, "cannot join the network, ipc and uts namespaces of the box");
}

/* ---- The inner user namespace ---- */

static int write_own_map(const kern_box *box, const char *path, const char *text)
{
    int fd = sys_open(box->proc_fd, path, O_WRONLY, 0);
    if (fd < 0)
        return fd;
    long written = sys_write(fd, text, strlen(text));
    (void)sys_close(fd); /* procfs took the text at the write */
    return written < 0 ? (int)written : 0;
}

/* A map of more than one id can only be written from the parent namespace with its privileges, which this process has just
 * given up: the outer init still has them. */
static int ask_for_maps(kern_box *box)
{
    static const uint64_t one = 1;
    long asked = sys_write(box->maps_fd, &one, sizeof(one));
    if (asked < 0)
        return (int)asked;
    core_await_word(&box->shared->inner_written);
    return 1 - (int)atomic_load(&box->shared->inner_written);
}

int core_inner_userns(kern_box *box, struct kern_error *err)
{
    uint64_t flags = CLONE_NEWCGROUP | box->extra_namespaces;
    bool inner = box->ids.inner_uid_map[0] != '\0';
    int failed = sys_unshare(flags | (inner ? CLONE_NEWUSER : 0));
    if (failed != 0)
        return kern_fail(err, -failed, "cannot make the inner user namespace of the box");
    if (inner && box->ids.how != KERN_IDS_SELF) {
        failed = ask_for_maps(box);
    } else if (inner) {
        failed = write_own_map(box, "self/uid_map", box->ids.inner_uid_map);
        if (failed == 0)
            failed = write_own_map(box, "self/gid_map", box->ids.inner_gid_map);
    }
    return failed == 0 ? 0 : kern_fail(err, -failed, "cannot write the id map of the inner user namespace");
}

/* For those who come later (kern exec): only this process has these. Where one cannot be had, exec says so. */
static void send_spaces(kern_box *box)
{
    static const char *const names[CORE_SPACES] = {"self/ns/pid", "self/ns/user", "self/ns/cgroup",
                                                   "self/ns/time_for_children"};
    for (uint32_t i = 0; i < CORE_SPACES; i++) {
        struct kern_error ignored = {0};
        if (i == CORE_SPACE_TIME && (box->extra_namespaces & CLONE_NEWTIME) == 0)
            continue;
        int fd = sys_open(box->proc_fd, names[i], O_RDONLY, 0);
        if (fd < 0)
            continue;
        (void)kern_send_fd(box, CORE_TAG_SPACE + i, fd, &ignored); /* see above */
        (void)sys_close(fd);                                       /* kern has it now */
    }
}

/* For `kern diff`: nobody can reach it any more when the old root has gone. Only of a box that stays, because whoever holds it waits
 * for the removal of what is in it. */
static void send_changes(kern_box *box)
{
    struct kern_error ignored = {0};
    const char *name = NULL;
    int32_t parent = -1;
    if (!box->detached || box->disk_path[0] != '\0')
        return;
    (void)kern_child_scratch(box, &parent, &name); /* the place itself is below the mount */
    auto_fd top = sys_open(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0);
    auto_fd upper = top >= 0 ? sys_open(top, "upper", O_PATH | O_DIRECTORY | O_NOFOLLOW, 0) : -1;
    if (upper >= 0)
        (void)kern_send_fd(box, CORE_TAG_CHANGES, upper, &ignored); /* the box starts without */
}

/* ---- The whole way ---- */

static int change_workdir(const kern_box *box, int workdir, struct kern_error *err)
{
    int failed = sys_fchdir(workdir);
    const char *path = kern_get_string(&box->options, "workdir");
    return failed == 0 ? 0 : kern_fail(err, -failed, "cannot change to working directory \"%s\"", path);
}

static int build_root(kern_box *box, size_t *at, struct kern_error *err)
{
    /* Nothing that is mounted from here on may appear on the host. */
    int failed = sys_mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
    if (failed != 0)
        return kern_fail(err, -failed, "cannot make the mounts private");
    failed = enter_stages(box, at, KERN_STAGE_ROOT, err);
    if (failed == 0)
        failed = core_attach_mounts(box, err);
    if (failed == 0)
        failed = enter_stages(box, at, KERN_STAGE_PIVOT, err);
    return failed != 0 ? failed : kern_child_seal_sys(box, err);
}

static int seal_root(kern_box *box, struct kern_error *err)
{
    if (!box->read_only)
        return 0;
    char path[40];
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", box->root_fd); /* fits: a number is short */
    int failed = sys_mount(NULL, path, NULL, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV, NULL);
    return failed == 0 ? 0 : kern_fail(err, -failed, "cannot make the root read-only");
}

/* As the caller: root of the box's own id range may not look into the run directory. */
static int open_scratch(kern_box *box, struct kern_error *err)
{
    int fd = sys_open(AT_FDCWD, box->run_path, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0);
    int parent = fd < 0 ? fd : sys_open(fd, "..", O_PATH | O_DIRECTORY, 0);
    if (parent < 0)
        return kern_fail(err, -parent, "cannot open the run directory \"%s\"", box->run_path);
    box->scratch_fd = fd; /* both are closed at exec, like everything in this process */
    box->scratch_parent_fd = parent;
    if (box->disk_path[0] == '\0')
        return 0;
    int disk =
        sys_open_beneath(AT_FDCWD, box->disk_path, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0, RESOLVE_NO_SYMLINKS);
    if (disk < 0)
        return kern_fail(err, -disk, "cannot open the box's scratch directory \"%s\"", box->disk_path);
    box->child_disk_fd = disk;
    return 0;
}

/* Close-on-exec is too late: the kernel resolves the command, its #! line and its loader while these descriptors are still open,
 * and a hostile root may name them through /proc/self/fd. Only the channel stays, a socket that leads nowhere. */
int core_close_inherited(const kern_box *box, struct kern_error *err)
{
    int channel = box->child_channel_fd;
    long failed = channel > 3 ? sys_call(SYS_close_range, 3, channel - 1, 0, 0, 0, 0) : 0;
    if (failed == 0)
        failed = sys_call(SYS_close_range, channel + 1, ~0U, 0, 0, 0, 0);
    return failed == 0 ? 0
                       : kern_fail(err, (int)-failed, "cannot close kern's descriptors before the command");
}

static int build(kern_box *box, struct kern_error *err)
{
    size_t at = 0;
    auto_fd workdir = -1;
    const char *path = kern_get_string(&box->options, "workdir");
    int failed = open_scratch(box, err);
    core_await_word(&box->shared->go); /* kern writes the maps while the processes start */
    if (failed == 0)
        failed = become_root(box, err);
    if (failed == 0)
        failed = build_root(box, &at, err);
    if (failed == 0 && path != NULL)
        failed = core_root_mkdirs(box, path, &workdir, err);
    if (failed == 0)
        failed = seal_root(box, err);
    if (failed == 0 && kern_get_int(&box->options, "bind-rootfs") == 0)
        send_changes(box);
    if (failed == 0)
        failed = core_pivot(box, err);
    core_moment(box, "pivot");
    if (failed == 0)
        failed = join_spaces(box, err);
    core_moment(box, "join");
    if (failed == 0)
        failed = enter_stages(box, &at, KERN_STAGE_NETWORK, err);
    if (failed == 0 && box->own_terminal)
        failed = core_child_terminal(box, err);
    if (failed == 0)
        failed = core_inner_userns(box, err);
    if (failed == 0)
        send_spaces(box);
    core_moment(box, "userns");
    if (failed == 0 && path != NULL)
        failed = change_workdir(box, workdir, err);
    if (failed == 0)
        failed = enter_stages(box, &at, KERN_STAGE_IDENTITY, err);
    if (failed == 0)
        failed = core_close_inherited(box, err);
    return failed != 0 ? failed : enter_stages(box, &at, UINT32_MAX, err);
}

/* Those of a detached box are not kern's own. */
static void take_streams(const kern_box *box)
{
    for (int fd = 0; fd <= 2 && box->std_fd[fd] >= 0; fd++)
        (void)sys_call(SYS_dup3, box->std_fd[fd], fd, 0, 0, 0, 0); /* both are open: cannot fail */
}

int core_inner_main(void *arg)
{
    kern_box *box = arg;
    struct kern_error *err = &box->shared->error;
    core_moment(box, "cloned");
    core_forget_caller();
    take_streams(box);
    if (build(box, err) != 0) {
        atomic_store(&box->shared->exec_failed, EXIT_BUILD);
        die(EXIT_BUILD);
    }
    progress(box, CORE_EXECUTING);
    int code = box->want_init ? core_run_init(box, err) : core_exec_command(box, err);
    die(code);
}
