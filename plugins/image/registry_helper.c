/* Docker's credential helpers; see registry_helper.h. Runs in kern itself, as the caller, whose programs these are. */
#include "registry_helper.h"

#include "kern/cleanup.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

#define PATIENCE 60000 /* ms: some helpers ask the user */

extern char **environ;

static int spawn(const char *program, const char *word, int socket, pid_t *ret_pid)
{
    posix_spawn_file_actions_t actions;
    char *const argv[] = {(char *)(uintptr_t)program, (char *)(uintptr_t)word, NULL};
    if (posix_spawn_file_actions_init(&actions) != 0)
        return -ENOMEM;
    /* Secrets travel on a socket, never in words; what it complains about is in its answer. */
    int r = posix_spawn_file_actions_adddup2(&actions, socket, STDIN_FILENO);
    r = r != 0 ? r : posix_spawn_file_actions_adddup2(&actions, socket, STDOUT_FILENO);
    r = r != 0 ? r : posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    r = r != 0 ? r : posix_spawnp(ret_pid, program, &actions, NULL, argv, environ);
    (void)posix_spawn_file_actions_destroy(&actions); /* cannot fail */
    return -r;
}

static int64_t now_ms(void)
{
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail for this clock */
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Writes the input, reads the answer. 0 or -errno. */
static int talk(int fd, const char *input, char *ret_answer)
{
    size_t left = strlen(input), used = 0;
    int64_t deadline = now_ms() + PATIENCE;
    ssize_t sent = left > 0 ? send(fd, input, left, MSG_NOSIGNAL) : 0;
    /* A helper's entry fits a socket's buffer. One that ends without reading says in its exit code what that means. */
    if (sent != (ssize_t)left && (sent >= 0 || (errno != EPIPE && errno != ECONNRESET)))
        return -EIO;
    (void)shutdown(fd, SHUT_WR); /* the end of its input */
    for (;;) {
        int64_t time = deadline - now_ms();
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        if (time <= 0 || poll(&wait, 1, (int)time) == 0)
            return -ETIMEDOUT;
        ssize_t got = recv(fd, ret_answer + used, REGISTRY_HELPER_ANSWER - 1 - used, MSG_DONTWAIT);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            continue;
        if (got < 0 && errno == ECONNRESET) /* it has ended without reading all, as "erase" may */
            return 0;
        if (got < 0)
            return -errno;
        used += (size_t)got;
        ret_answer[used] = '\0';
        if (got == 0)
            return 0;
        if (used == REGISTRY_HELPER_ANSWER - 1)
            return -E2BIG;
    }
}

/* Helpers say so in words only. */
static int knows_nothing(const char *answer)
{
    return strstr(answer, "credentials not found") != NULL ||
           strstr(answer, "not found in native keychain") != NULL;
}

static int judge(const char *program, int status, char *answer, struct kern_error *err)
{
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    if (knows_nothing(answer))
        return -ENOENT;
    answer[strcspn(answer, "\r\n")] = '\0';
    return kern_refuse(err, 0, "credential helper \"%s\" fails: %.200s", program,
                       answer[0] != '\0' ? answer : "it says nothing");
}

int registry_helper_run(const char *name, const char *word, const char *input, char *ret_answer,
                        struct kern_error *err)
{
    char program[100];
    int pair[2], status = 0;
    pid_t pid;
    (void)snprintf(program, sizeof(program), "docker-credential-%s", name); /* fits */
    ret_answer[0] = '\0';
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        return kern_fail(err, errno, "cannot talk to \"%s\"", program);
    auto_fd ours = pair[0];
    auto_fd theirs = pair[1];
    int r = spawn(program, word, theirs, &pid);
    if (r < 0) {
        kern_refuse(err, -r, "cannot run credential helper \"%s\"", program);
        kern_hint(err, "install it, or take \"credsStore\" and \"credHelpers\" out of Docker's config.json");
        return -EPERM; /* not -ENOENT, which means something else here */
    }
    kern_close_fd(&theirs);
    r = talk(ours, input, ret_answer);
    if (r < 0)
        (void)kill(pid, SIGKILL);   /* our child, not yet reaped */
    (void)waitpid(pid, &status, 0); /* it is ours */
    if (r < 0)
        return kern_refuse(err, -r, "cannot talk to credential helper \"%s\"", program);
    return judge(program, status, ret_answer, err);
}
