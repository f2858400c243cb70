/* The process of `kern run`: the host's own, in control groups and nothing else; see launch.h. Its caller's environment,
 * directory, session and root stay what they are. Host side; the child runs on a copy of kern's memory until it executes.
 *
 * No namespace keeps what the command starts together, so its control group does: whatever is left in it when the command
 * has ended goes with it. */
#include "launch.h"

#include "cleanup.h"
#include "clone.h"
#include "env.h"
#include "guard.h"
#include "sys.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define EXIT_BUILD     125
#define NOT_EXECUTABLE 126
#define NOT_FOUND      127

static int enter_all(kern_box *box, struct kern_error *err)
{
    for (size_t i = 0; i < box->order_count; i++) {
        struct core_plugin *plugin = box->order[i];
        if (plugin->table->enter == NULL)
            continue;
        atomic_store(&box->shared->enter_index, (uint32_t)i);
        atomic_store(&box->shared->progress, CORE_ENTERING);
        box->entering = plugin;
        int failed = core_guard_enter(box, plugin, err);
        if (failed != 0) {
            kern_fail(err, -failed, "the hook failed without saying why");
            core_error_context(err, plugin->name, "enter");
            return failed;
        }
    }
    box->entering = NULL;
    const struct kern_values *options = &box->options;
    if (kern_get_source(options, "nice") == KERN_FROM_DEFAULT)
        return 0;
    int nice_value = (int)kern_get_int(options, "nice");
    if (setpriority(PRIO_PROCESS, 0, nice_value) == 0)
        return 0;
    int code = errno;
    kern_fail(err, code, "cannot set the priority to --nice %d", nice_value);
    kern_hint(err, "without privilege the priority can only be lowered");
    return -code;
}

/* A kern that is killed cannot end a whole tree, but the command it can. */
static int follow_kern(const kern_box *box)
{
    struct pollfd kern = {.fd = box->kern_pidfd, .events = POLLIN};
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
        return -errno;
    return poll(&kern, 1, 0) > 0 ? -ESRCH : 0; /* gone before we asked to hear of it */
}

static void restore_signals(const kern_box *box)
{
    (void)signal(SIGXFSZ, SIG_DFL); /* kern ignores these two for itself */
    (void)signal(SIGPIPE, SIG_DFL);
    (void)sys_call(SYS_rt_sigprocmask, SIG_SETMASK, SYS_P(&box->child_sigmask), 0, 8, 0, 0); /* valid */
}

static int host_main(void *arg)
{
    kern_box *box = arg;
    struct kern_error *err = &box->shared->error;
    int failed = follow_kern(box);
    if (failed != 0)
        kern_fail(err, -failed, "cannot tie the command to kern");
    else
        failed = enter_all(box, err);
    if (failed != 0) {
        atomic_store(&box->shared->exec_failed, EXIT_BUILD);
        _exit(EXIT_BUILD);
    }
    atomic_store(&box->shared->progress, CORE_EXECUTING);
    restore_signals(box);
    (void)execvpe(box->command[0], box->command, box->child_env);
    int code = errno == ENOENT ? NOT_FOUND : NOT_EXECUTABLE;
    kern_fail(err, 0, "cannot start '%s': %s", box->command[0], strerror(errno));
    atomic_store(&box->shared->exec_failed, (uint32_t)code);
    _exit(code);
}

int core_launch_host(kern_box *box, struct kern_error *err)
{
    struct clone_args args = {.flags = CLONE_PIDFD,
                              .exit_signal = SIGCHLD,
                              .pidfd = (uint64_t)(uintptr_t)&box->shared->outer_pidfd};
    if (box->cgroup_fd >= 0) {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = (uint64_t)box->cgroup_fd;
    }
    long pid = core_clone(&args, host_main, box);
    if (pid < 0)
        return kern_fail(err, (int)-pid, "cannot start a process for the command");
    box->outer_pid = (pid_t)pid;
    box->outer_pidfd = box->shared->outer_pidfd;
    box->shared->inner_pidfd = fcntl(box->outer_pidfd, F_DUPFD_CLOEXEC, 3);
    kern_close_fd(&box->child_channel_fd); /* its end says that the command is executed */
    return box->shared->inner_pidfd >= 0 ? 0
                                         : kern_fail(err, errno, "cannot keep the process of the command");
}

void core_launch_host_reap(kern_box *box)
{
    struct rusage usage = {0};
    int status = 0;
    if (box->outer_pid == 0)
        return;
    while (wait4(box->outer_pid, &status, 0, &usage) < 0 && errno == EINTR)
        continue;
    box->outer_pid = 0;
    box->shared->status = status;
    box->shared->cpu_usec = ((int64_t)usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 +
                            usage.ru_utime.tv_usec + usage.ru_stime.tv_usec;
    atomic_store(&box->shared->ended, 1);
}
