/* The worker: a process for whatever reads hostile bytes or waits for the world. It has no capabilities, only the descriptors
 * that it was given, a filter of its own, and dies with kern. Started in kern: before the box's clone,
 * or, where a box may never need it, when its plugin calls for it. */
#include "worker.h"

#include "cleanup.h"
#include "log.h"
#include "supervise.h"
#include "sys.h"

#include <kern/foundation.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static int compare(const void *a, const void *b)
{
    return *(const int32_t *)a - *(const int32_t *)b;
}

/* Closes everything above standard error that is not in the list. */
static int keep_only(const int32_t *fds, uint32_t count)
{
    int32_t sorted[16];
    for (uint32_t i = 0; i < count; i++)
        sorted[i] = fds[i];
    qsort(sorted, count, sizeof(sorted[0]), compare);
    unsigned from = 3;
    for (uint32_t i = 0; i < count; i++) {
        unsigned fd = (unsigned)sorted[i];
        if (fd > from && syscall(SYS_close_range, from, fd - 1, 0) != 0)
            return -errno;
        from = fd >= from ? fd + 1 : from;
    }
    return syscall(SYS_close_range, from, ~0U, 0) == 0 ? 0 : -errno;
}

static int drop_capabilities(void)
{
    for (int cap = 0; cap < 64; cap++)
        if (prctl(PR_CAPBSET_READ, cap, 0, 0, 0) == 1)
            (void)prctl(PR_CAPBSET_DROP, cap, 0, 0,
                        0); /* EPERM without privilege: then there is nothing to drop */
    (void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); /* known since 4.3 */
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {{0}, {0}};
    return syscall(SYS_capset, &header, none) == 0 ? 0 : -errno;
}

static bool is_log(const kern_box *box, const struct core_worker *worker)
{
    return box->log_worker > 0 && worker == &box->worker[box->log_worker - 1];
}

_Noreturn static void run(kern_box *box, struct core_worker *worker, pid_t parent)
{
    struct core_plugin *owner = worker->owner;
    sigset_t none;
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL); /* kern's forwarded signals mean nothing here */
    sys_end_with(parent);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0)
        _exit(
            1); /* what the box reads and writes is not a worker's; stderr stays, for what goes wrong here */
    /* That of a detached box's caller is not to be held. The log's own worker would wait for itself. */
    if (box->detached && dup2(is_log(box, worker) ? null : box->std_fd[2], STDERR_FILENO) < 0)
        _exit(1);
    /* What kern believes of the box's first process is not for one that a stranger may have taken over. */
    (void)munmap(box->shared, sizeof(*box->shared)); /* was mapped with this size */
    box->shared = NULL;
    if (keep_only(worker->fd, worker->count) != 0 || drop_capabilities() != 0 ||
        kern_confine_calls(KERN_CALLS_NETWORK | KERN_CALLS_FORK | KERN_CALLS_JOIN | KERN_CALLS_FILES) != 0) {
        core_log_failure("cannot confine the worker of plugin %s", owner->name);
        _exit(1);
    }
    _exit(worker->fn(box, owner->state, worker->fd, worker->count));
}

static int start(kern_box *box, struct core_worker *worker, struct kern_error *err)
{
    pid_t parent = getpid();
    worker->called = false;
    pid_t pid = fork();
    if (pid < 0)
        return kern_fail(err, errno, "cannot start the worker of plugin \"%s\"", worker->owner->name);
    if (pid == 0)
        run(box, worker, parent);
    worker->pid = pid;
    worker->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (worker->pidfd < 0)
        return kern_fail(err, errno, "cannot watch the worker of plugin \"%s\"", worker->owner->name);
    return 0;
}

int core_workers_start(kern_box *box, struct kern_error *err)
{
    int failed = 0;
    for (size_t i = 0; failed == 0 && i < box->worker_count; i++)
        if (!box->worker[i].late)
            failed = start(box, &box->worker[i], err);
    return failed;
}

/* Not in the callback that called for it: what guards kern against that callback would be the worker's as well. */
void core_workers_start_called(kern_box *box)
{
    for (size_t i = 0; i < box->worker_count; i++) {
        struct core_worker *worker = &box->worker[i];
        struct kern_error error = {0};
        if (!worker->called)
            continue;
        int failed = start(box, worker, &error);
        struct epoll_event event = {.events = EPOLLIN, .data.fd = worker->pidfd};
        if (failed == 0 && epoll_ctl(box->epoll_fd, EPOLL_CTL_ADD, worker->pidfd, &event) == 0)
            continue;
        if (failed == 0)
            kern_fail(&error, errno, "cannot watch the worker of plugin \"%s\"", worker->owner->name);
        core_log_error(&error);
        core_lose_worker(box, worker);
    }
}

void core_workers_end(kern_box *box)
{
    const struct kern_event ended = {.struct_size = sizeof(ended), .event = KERN_EVENT_ENDED};
    if (box->executed)
        core_event(box, &ended);
    core_workers_start_called(box);
    for (size_t i = 0; i < box->worker_count; i++)
        if (box->worker[i].pid > 0 && box->worker[i].end_ms == 0 && !is_log(box, &box->worker[i]))
            (void)kill(box->worker[i].pid, SIGKILL); /* our child, not yet reaped */
}

/* One that was not done by then says so through kern: what it carried is lost. */
static void wait_for_end(kern_box *box, const struct core_worker *worker)
{
    struct pollfd end = {.fd = worker->pidfd, .events = POLLIN};
    if (worker->end_ms > 0 && poll(&end, 1, (int)worker->end_ms) == 0)
        kern_warn(box, "what the box had sent last was not taken within %u ms of its end, and is lost",
                  worker->end_ms);
}

void core_workers_stop(kern_box *box)
{
    for (size_t i = 0; i < box->worker_count; i++) {
        struct core_worker *worker = &box->worker[i];
        if (worker->pid > 0) {
            wait_for_end(box, worker);
            (void)kill(worker->pid, SIGKILL); /* our child, not yet reaped */
            (void)waitpid(worker->pid, NULL, 0);
        }
        worker->pid = 0;
        kern_close_fd(&worker->pidfd);
    }
}
