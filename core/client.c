/* Talking to supervisors; see client.h. In verbs, which may wait. */
#include "client.h"

#include "cleanup.h"
#include "registry.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#define ATTEMPTS 100 /* of 10 ms: a box gets its socket when it has lived for 20 */
#define ANSWER_S 30

static int try_connect(int run, const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    auto_fd fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    int used = snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/sockets/%s", run, name);
    if (fd < 0 || used < 0 || (size_t)used >= sizeof(address.sun_path))
        return fd < 0 ? -errno : -ENAMETOOLONG;
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0)
        return -errno;
    return steal_fd(&fd);
}

int core_client_connect(const struct core_record *record, int *ret_fd, struct kern_error *err)
{
    auto_fd run = core_registry_run(record->place);
    int fd = run < 0 ? -ENOENT : -EAGAIN;
    for (int i = 0; run >= 0 && fd < 0 && i < ATTEMPTS; i++) {
        fd = try_connect(run, record->name);
        if (fd >= 0 || (fd != -ENOENT && fd != -ECONNREFUSED && fd != -EAGAIN))
            break;
        struct core_record now = {0};
        struct kern_error gone = {0};
        if (core_record_find(record->name, &now, &gone) != 0) {
            *err = gone;
            return -ENOENT;
        }
        core_record_clear(&now);
        (void)nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL); /* a shorter wait only asks sooner */
    }
    if (fd < 0)
        return kern_refuse(err, -fd, "cannot reach the supervisor of box '%s'", record->name);
    *ret_fd = fd;
    return 0;
}

static int start(const struct core_record *record, const char *request, int *ret_fd, struct kern_error *err)
{
    auto_fd fd = -1;
    int failed = core_client_connect(record, &fd, err);
    if (failed != 0)
        return failed;
    if (send(fd, request, strlen(request), MSG_NOSIGNAL) < 0)
        return kern_refuse(err, errno, "cannot ask the supervisor of box '%s'", record->name);
    *ret_fd = steal_fd(&fd);
    return 0;
}

int core_client_begin(const struct core_record *record, const char *request, char *ret_answer, size_t size,
                      int *ret_fd, struct kern_error *err)
{
    auto_fd fd = -1;
    int failed = start(record, request, &fd, err);
    if (failed != 0)
        return failed;
    struct timeval patience = {.tv_sec = ANSWER_S};
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)); /* we wait longer then */
    ssize_t length = recv(fd, ret_answer, size - 1, 0);
    if (length <= 0)
        return kern_refuse(err, length < 0 ? errno : 0, "the supervisor of box '%s' does not answer",
                           record->name);
    ret_answer[length] = '\0';
    if (strncmp(ret_answer, "error: ", 7) == 0)
        return kern_refuse(err, 0, "box '%s': %s", record->name, ret_answer + 7);
    if (ret_fd != NULL)
        *ret_fd = steal_fd(&fd);
    return 0;
}

int core_client_ask(const struct core_record *record, const char *request, char *ret_answer, size_t size,
                    struct kern_error *err)
{
    return core_client_begin(record, request, ret_answer, size, NULL, err);
}

int core_client_wait(const struct core_record *record, int *ret_fd, struct kern_error *err)
{
    return start(record, "wait", ret_fd, err);
}

int core_client_exit(int fd)
{
    char text[32];
    ssize_t length;
    while ((length = recv(fd, text, sizeof(text) - 1, 0)) < 0 && errno == EINTR)
        continue;
    text[length > 0 ? length : 0] = '\0';
    int code = -1;
    return sscanf(text, "exit %d", &code) == 1 ? code : -1;
}
