/* The processes of `kern run`: the command, the host's own, in control groups and nothing else; and its keeper. See launch.h.
 * Environment, directory, session and root stay the caller's. Host side; both run on copies of kern's memory.
 *
 * No namespace keeps what the command starts together. A control group may, but not each user has one. So a keeper stands between
 * kern and the command: all that the command started and whose parent ended becomes its child, however often it forked and
 * whichever session it made, and goes when the command has ended, or kern has. That is not done by kern itself: it could not tell
 * children of the command from those that it was started with (sleep 9 & exec kern run ...), and a killed one ends nobody. */
#include "launch.h"

#include "cleanup.h"
#include "clone.h"
#include "env.h"
#include "guard.h"
#include "supervise.h"
#include "sys.h"

#include <dirent.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define EXIT_BUILD     125
#define NOT_EXECUTABLE 126
#define NOT_FOUND      127

#define REST_MOST_NS  INT64_C(2000000000) /* what forks faster than it is ended must not hold kern for ever */
#define LOOK_AGAIN_NS 20000000

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

static bool kern_is_gone(const kern_box *box)
{
    struct pollfd kern = {.fd = box->kern_pidfd, .events = POLLIN};
    return poll(&kern, 1, 0) > 0;
}

/* The keeper ends the command when kern dies; this is for a keeper that is killed itself. */
static int follow_keeper(const kern_box *box)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
        return -errno;
    return kern_is_gone(box) ? -ESRCH : 0;
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
    int failed = follow_keeper(box);
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

/* ---- The keeper ---- */

/* Strikes every child there is now. A number of /proc is struck only when the kernel says that it is a child: those stay what
 * they are until this process waits for them, also where /proc is another namespace's. */
static bool strike_children(void)
{
    DIR *proc = opendir("/proc");
    bool struck = false, refused = false;
    const struct dirent *entry;
    while (proc != NULL && (entry = readdir(proc)) != NULL) {
        siginfo_t info;
        pid_t pid = atoi(entry->d_name); /* 0 for what is no number */
        if (pid <= 0 || waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) != 0)
            continue;
        bool hit = kill(pid, SIGKILL) == 0;
        struck = struck || hit;
        refused = refused || !hit;
    }
    if (proc != NULL)
        (void)closedir(proc);
    return struck || !refused; /* one that was born meanwhile is met next time */
}

static void wait_for_news(int64_t most_ns)
{
    sigset_t news;
    struct timespec wait = {.tv_nsec = most_ns};
    (void)sigemptyset(&news);
    (void)sigaddset(&news, SIGCHLD); /* valid signals */
    (void)sigaddset(&news, SIGTERM);
    (void)sigtimedwait(&news, NULL,
                       most_ns > 0 ? &wait : NULL); /* interrupted: the caller looks and comes back */
}

/* The children of what dies here become children here, so each round goes one generation deeper. */
static bool end_the_rest(void)
{
    for (int64_t until = core_now_ns() + REST_MOST_NS;;) {
        pid_t ended;
        while ((ended = waitpid(-1, NULL, WNOHANG | __WALL)) > 0)
            continue;
        if (ended < 0)
            return true;
        if (!strike_children() || core_now_ns() > until)
            return false;
        wait_for_news(LOOK_AGAIN_NS);
    }
}

/* Waits for what has ended by now; true when the command has. */
static bool reap(kern_box *box, pid_t command)
{
    struct rusage usage = {0};
    int status = 0;
    pid_t ended;
    while ((ended = wait4(-1, &status, WNOHANG | __WALL, &usage)) > 0 && ended != command)
        continue;
    if (ended != command)
        return ended < 0; /* it is no child any more: cannot be, but must not be waited for */
    box->shared->status = status;
    box->shared->cpu_usec = ((int64_t)usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 +
                            usage.ru_utime.tv_usec + usage.ru_stime.tv_usec;
    atomic_store(&box->shared->ended, 1);
    return true;
}

static pid_t start_command(kern_box *box)
{
    struct clone_args args = {.flags = CLONE_PIDFD,
                              .exit_signal = SIGCHLD,
                              .pidfd = (uint64_t)(uintptr_t)&box->shared->inner_pidfd};
    if (box->cgroup_fd >= 0) {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = (uint64_t)box->cgroup_fd;
    }
    long pid = core_clone(&args, host_main, box);
    (void)close(box->child_channel_fd); /* kern's, too: its end says that the command is executed */
    if (pid < 0)
        kern_fail(&box->shared->error, (int)-pid, "cannot start a process for the command");
    return (pid_t)pid;
}

/* Takes no signal but the two that it waits for: the terminal's are for kern and the command, which are in the same group. */
static int keeper_main(void *arg)
{
    kern_box *box = arg;
    static const uint64_t one = 1;
    sigset_t all;
    (void)sigfillset(&all); /* valid */
    (void)sigprocmask(SIG_BLOCK, &all, NULL);
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0 || prctl(PR_SET_PDEATHSIG, SIGTERM) != 0) {
        kern_fail(&box->shared->error, errno, "cannot keep together what the command starts");
        _exit(EXIT_BUILD);
    }
    pid_t command = start_command(box);
    if (command < 0)
        _exit(EXIT_BUILD);
    while (!reap(box, command) && !kern_is_gone(box))
        wait_for_news(0);
    atomic_store(&box->shared->outlived, !end_the_rest());
    (void)!write(box->ended_fd, &one, sizeof(one)); /* otherwise kern notices our own end */
    _exit(0);
}

int core_launch_host(kern_box *box, struct kern_error *err)
{
    /* One table of descriptors, so that the keeper holds nothing that kern has closed, and the command's pidfd is kern's. */
    struct clone_args args = {.flags = CLONE_PIDFD | CLONE_FILES,
                              .exit_signal = SIGCHLD,
                              .pidfd = (uint64_t)(uintptr_t)&box->shared->outer_pidfd};
    long pid = core_clone(&args, keeper_main, box);
    if (pid < 0)
        return kern_fail(err, (int)-pid, "cannot start a process for the command");
    box->outer_pid = (pid_t)pid;
    box->outer_pidfd = box->shared->outer_pidfd;
    return 0;
}

void core_launch_host_finish(kern_box *box)
{
    core_launch_wait(box);
    if (atomic_load(&box->shared->ended) == 0 &&
        box->shared->inner_pidfd >= 0) /* somebody killed the keeper */
        (void)sys_call(SYS_pidfd_send_signal, box->shared->inner_pidfd, SIGKILL, 0, 0, 0, 0);
    if (atomic_load(&box->shared->outlived) != 0)
        kern_warn(box, "a process that the command started is left: it changed its user, or forks faster "
                       "than kern ends it");
}
