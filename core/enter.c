/* The way of an exec'd command into a living box; see execs.h. Two processes: a helper, which joins the namespaces on kern's
 * memory (or a copy) and is never seen from the box, and the command's process, which is a copy from its first moment.
 *
 * What runs in the box meanwhile may be hostile, unlike at the start. So the process is not dumpable before it can be seen
 * (nobody in the box may look into it or change it), nothing of the root is opened before the identity is in place,
 * and the filter's listener must be with kern before the command is executed. Needs what the first process needs. */
#include "execs.h"

#include "cleanup.h"
#include "clone.h"
#include "copy.h"
#include "inner.h"
#include "launch.h"
#include "sys.h"

#include <linux/sched.h>
#include <sched.h>
#include <string.h>
#include <sys/prctl.h>

#define EXIT_BUILD 125

/* ---- The helper ---- */

static int join(const kern_box *box, struct kern_error *err)
{
    uint64_t flags = CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS;
    if (!box->share_network)
        flags |= CLONE_NEWNET;
    if (!box->host_userns)
        flags |= CLONE_NEWUSER;
    int failed = sys_setns(box->outer_pidfd, flags);
    if (failed == 0)
        failed = sys_prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    if (failed == 0)
        failed = sys_setns(box->space_fd[CORE_SPACE_PID], CLONE_NEWPID);
    if (failed == 0 && box->space_fd[CORE_SPACE_TIME] >= 0)
        failed = sys_setns(box->space_fd[CORE_SPACE_TIME], 0);
    if (failed == 0 && box->ids.inner_uid_map[0] != '\0')
        failed = sys_setns(box->space_fd[CORE_SPACE_USER], CLONE_NEWUSER);
    return failed == 0 ? 0 : kern_fail(err, -failed, "cannot join the namespaces of box \"%s\"", box->name);
}

static int command_main(void *arg);

int core_exec_helper(void *arg)
{
    struct core_execution *execution = arg;
    const kern_box *box = execution->box;
    struct kern_error *err = &execution->shared->error;
    if (join(box, err) != 0)
        return 1;
    /* kern's own child, which it waits for; a helper that ends leaves nobody behind. */
    struct clone_args args = {.flags = CLONE_PARENT | CLONE_PIDFD,
                              .pidfd = (uint64_t)(uintptr_t)&execution->shared->inner_pidfd};
    if (box->cgroup_fd >= 0) {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = (uint64_t)box->cgroup_fd;
    }
    long pid = core_clone(&args, command_main, execution);
    if (pid < 0)
        return kern_fail(err, (int)-pid, "cannot start a process in box \"%s\"", box->name);
    execution->shared->pid = (int32_t)pid;
    return 0;
}

/* ---- The command's process ---- */

/* Only kern's own plugins: what those of others did to the first process is not known to be right for a second one. */
static int enter_stage(kern_box *box, uint32_t stage, struct kern_error *err)
{
    for (size_t i = 0; i < box->order_count; i++) {
        struct core_plugin *plugin = box->order[i];
        if (plugin->table->stage != stage || !plugin->builtin || plugin->table->enter == NULL)
            continue;
        box->entering = plugin;
        int failed = plugin->table->enter(box, plugin->state, err);
        if (failed != 0) {
            kern_fail(err, -failed, "the hook failed without saying why");
            core_error_context(err, plugin->name, "enter");
            return failed;
        }
    }
    return 0;
}

static int become_root(const kern_box *box, struct kern_error *err)
{
    int failed = 0;
    if (box->space_fd[CORE_SPACE_GROUP] >= 0)
        failed = sys_setns(box->space_fd[CORE_SPACE_GROUP], CLONE_NEWCGROUP);
    if (failed != 0)
        return kern_fail(err, -failed, "cannot join the control group namespace of the box");
    if (box->ids.become != 0) {
        failed = sys_setgroups(0, NULL);
        failed = failed == 0 ? sys_setresgid(0) : failed;
        failed = failed == 0 ? sys_setresuid(0) : failed;
    }
    if (failed != 0)
        return kern_fail(err, -failed, "cannot become root of the box's id range");
    /* A change of ids may have brought it back. */
    failed = sys_prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    return failed == 0 ? 0 : kern_fail(err, -failed, "cannot hide kern's memory from the box");
}

static int take_streams(const struct core_execution *execution, struct kern_error *err)
{
    for (int fd = 0; fd <= 2; fd++) {
        long failed = sys_call(SYS_dup3, execution->stream[fd], fd, 0, 0, 0, 0);
        if (failed < 0)
            return kern_fail(err, (int)-failed, "cannot give the command its standard streams");
    }
    return 0;
}

/* With the command's own rights, and kern's descriptors already closed: /proc/self/fd leads nowhere. */
static int change_workdir(const char *path, struct kern_error *err)
{
    int fd = sys_open_beneath(AT_FDCWD, path, O_PATH | O_DIRECTORY, 0, 0);
    int failed = fd < 0 ? fd : sys_fchdir(fd);
    if (fd >= 0)
        (void)sys_close(fd); /* only a place */
    if (failed == 0)
        return 0;
    kern_fail(err, -failed, "cannot change to working directory \"%s\"", path);
    if (failed == -ENOENT)
        kern_hint(err, "make it first, or leave out --workdir");
    return failed;
}

static int take_place(kern_box *box, const struct core_execution *execution, struct kern_error *err)
{
    int root = sys_open(AT_FDCWD, "/", O_PATH | O_DIRECTORY, 0);
    int failed = root < 0 ? root : sys_chdir("/");
    if (failed != 0)
        return kern_fail(err, -failed, "cannot reach the root of the box");
    box->root_fd = root;
    return take_streams(execution, err);
}

static int build(kern_box *box, const struct core_execution *execution, struct kern_error *err)
{
    int failed = enter_stage(box, KERN_STAGE_LIMIT, err);
    if (failed == 0)
        failed = become_root(box, err);
    if (failed == 0)
        failed = take_place(box, execution, err);
    if (failed == 0)
        failed = enter_stage(box, KERN_STAGE_IDENTITY, err);
    if (failed == 0 && box->own_terminal)
        failed = core_child_terminal(box, err);
    if (failed == 0)
        failed = core_close_inherited(box, err);
    if (failed == 0)
        failed = change_workdir(execution->workdir, err);
    return failed == 0 ? enter_stage(box, KERN_STAGE_FILTER, err) : failed;
}

/* kern says whether it watches the filter's listener: without that nobody would answer the calls that it stops. */
static int await_acceptance(kern_box *box, struct kern_error *err)
{
    if (box->sent == 0)
        return 0;
    core_await_word(&box->shared->go);
    return atomic_load(&box->shared->go) == 1
               ? 0
               : kern_fail(err, EBUSY, "kern cannot watch the filter of another command in the box");
}

/* The end of the channel says that it is under way, as an exec would. The root was closed with all the rest. It stays for a while, and
 * the change of ids may have made it one whose memory others of the same user may read. */
static int copy(const kern_box *box, const struct core_execution *execution)
{
    if (sys_prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0)
        return EXIT_BUILD;
    (void)sys_close(box->child_channel_fd); /* nothing more is said there */
    int root = sys_open(AT_FDCWD, "/", O_PATH | O_DIRECTORY, 0);
    return root < 0 ? EXIT_BUILD : core_copy_serve(root, execution->command);
}

static int command_main(void *arg)
{
    const struct core_execution *execution = arg;
    kern_box *box = execution->box; /* a copy from here on, like everything */
    struct kern_error *err = &execution->shared->error;
    box->shared = execution->shared;
    box->child_channel_fd = execution->child_channel;
    box->own_terminal = (execution->flags & CORE_EXEC_TERMINAL) != 0;
    box->window = execution->window;
    box->command = execution->command;
    box->child_env = execution->env;
    box->reentered = true;
    box->sent = 0;
    core_forget_caller();
    atomic_store(&box->shared->progress, CORE_ENTERING);
    if (build(box, execution, err) != 0 || await_acceptance(box, err) != 0) {
        atomic_store(&box->shared->exec_failed, EXIT_BUILD);
        sys_exit(EXIT_BUILD);
    }
    atomic_store(&box->shared->progress, CORE_EXECUTING);
    sys_exit((execution->flags & CORE_EXEC_COPY) != 0 ? copy(box, execution) : core_exec_command(box, err));
}
