/* Detached boxes; see detach.h. Until the command is executed the supervisor still has the caller's standard error, so that a
 * failure is told where the user looks; afterwards what kern has to say goes to the log. */
#include "detach.h"

#include "cleanup.h"
#include "log.h"
#include "logfile.h"
#include "registry.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define DRAIN_MS 2000 /* for a log on a slow disk */

struct hello {
    int32_t pid;
    char name[CORE_NAME_MAX + 1];
};

static int await_child(pid_t child, int fd)
{
    struct hello hello;
    ssize_t got;
    while ((got = read(fd, &hello, sizeof(hello))) < 0 && errno == EINTR)
        continue;
    if (got == (ssize_t)sizeof(hello)) {
        (void)printf("started '%s' [pid %d, detached]\n", hello.name, hello.pid); /* checked below */
        return core_log_close_stdout();
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return code != 0 ? code : 125; /* it has said why */
}

bool core_detach(kern_box *box, int *ret_code)
{
    int pipe_fds[2];
    *ret_code = 125;
    if (pipe2(pipe_fds, O_CLOEXEC) != 0) {
        core_log_failure("cannot make a pipe: %s", strerror(errno));
        return true;
    }
    pid_t child = fork();
    if (child < 0) {
        core_log_failure("cannot start a supervisor: %s", strerror(errno));
        return true;
    }
    if (child == 0) {
        (void)close(pipe_fds[0]); /* the other half's */
        (void)setsid();           /* a process just forked leads no group: cannot fail */
        box->detached = true;
        box->detach_fd = pipe_fds[1];
        return false;
    }
    (void)close(pipe_fds[1]); /* as above */
    *ret_code = await_child(child, pipe_fds[0]);
    (void)close(pipe_fds[0]); /* read to its end */
    return true;
}

static void replace(int from, int to)
{
    if (from >= 0)
        (void)dup2(from, to); /* both are open: cannot fail */
}

/* The row and the log of an earlier box of this name make room. */
static int open_logs(kern_box *box, int ret_files[2], struct kern_error *err)
{
    char path[CORE_NAME_MAX + 24];
    (void)snprintf(path, sizeof(path), "exited/%s", box->name); /* names are bounded */
    (void)unlinkat(box->run_fd, path, 0);                       /* there may be none */
    (void)snprintf(path, sizeof(path), "logs/%s", box->name);   /* as above */
    if ((mkdirat(box->run_fd, "logs", 0700) != 0 && errno != EEXIST) ||
        (mkdirat(box->run_fd, path, 0700) != 0 && errno != EEXIST))
        return kern_fail(err, errno, "cannot make the folder of the log of box \"%s\"", box->name);
    auto_fd logs = core_registry_folder(box->run_fd, "logs");
    auto_fd folder = logs >= 0 ? core_registry_folder(logs, box->name) : -1;
    for (int i = 0; i < 2; i++) {
        char name[2] = {(char)('0' + i), '\0'};
        ret_files[i] = folder < 0 ? -1
                                  : openat(folder, name,
                                           O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC |
                                               (box->restarts == 0 ? O_TRUNC : 0),
                                           0600);
        if (ret_files[i] < 0)
            return kern_fail(err, folder < 0 ? EPERM : errno, "cannot open the log of box \"%s\"", box->name);
    }
    return 0;
}

int core_detach_prepare(kern_box *box, struct kern_error *err)
{
    if (!box->detached)
        return 0;
    int out[2] = {-1, -1}, problem[2] = {-1, -1}, file[2] = {-1, -1};
    int failed = open_logs(box, file, err);
    if (failed == 0 && (pipe2(out, O_CLOEXEC) != 0 || pipe2(problem, O_CLOEXEC) != 0))
        failed = kern_fail(err, errno, "cannot make the pipes to the log");
    box->std_fd[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    box->std_fd[1] = out[1];
    box->std_fd[2] = problem[1];
    if (failed == 0 && box->std_fd[0] < 0)
        failed = kern_fail(err, errno, "cannot open \"/dev/null\"");
    const int32_t fds[4] = {out[0], problem[0], file[0], file[1]};
    if (box->restarts > 0) /* nobody else would hear why it cannot run again */
        replace(box->std_fd[2], STDERR_FILENO);
    box->current = &box->catalog->plugin[0]; /* the core's own row */
    if (failed == 0)
        failed = kern_add_worker(box, core_logfile_main, fds, 4, err);
    box->current = NULL;
    /* Ours until the worker runs: core_detach_executed() and a failed start close them with everything. */
    if (failed == 0) {
        box->log_worker = box->worker_count;
        memcpy(box->log_fd, fds, sizeof(fds));
    }
    return failed;
}

void core_detach_executed(kern_box *box)
{
    auto_fd null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (size_t i = 0; i < 4; i++)
        kern_close_fd(&box->log_fd[i]); /* the worker has them */
    struct hello hello = {.pid = (int32_t)getpid()};
    memcpy(hello.name, box->name, sizeof(hello.name));
    replace(null, STDIN_FILENO);
    replace(null, STDOUT_FILENO);
    replace(box->std_fd[2], STDERR_FILENO);
    if (box->detach_fd >= 0 && write(box->detach_fd, &hello, sizeof(hello)) < 0)
        errno = 0; /* the caller has gone meanwhile: the box is detached all the same */
    kern_close_fd(&box->detach_fd);
}

void core_detach_finish(kern_box *box)
{
    if (!box->detached || box->log_worker == 0)
        return;
    if (box->executed || box->restarts > 0) {
        auto_fd null = open("/dev/null", O_RDWR | O_CLOEXEC);
        replace(null, STDERR_FILENO);
    }
    for (int i = 0; i < 3; i++)
        kern_close_fd(&box->std_fd[i]);
    for (size_t i = 0; i < 4; i++)
        kern_close_fd(&box->log_fd[i]);
    struct pollfd worker = {.fd = box->worker[box->log_worker - 1].pidfd, .events = POLLIN};
    if (worker.fd >= 0)
        (void)poll(&worker, 1, DRAIN_MS); /* it ends when all has been written */
}
