/* The supervisor's control socket; see control.h. Requests come from the same user, are one short packet each, and are
 * answered without waiting: a client that does not read loses its answer, never our time. */
#include "control.h"

#include "cleanup.h"
#include "registry.h"
#include "supervise.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

static void socket_name(const kern_box *box, char *ret_name, size_t size)
{
    (void)snprintf(ret_name, size, "sockets/%s", box->name); /* names are bounded */
}

/* sun_path holds 107 bytes; the run directory is reached through our own descriptor, whatever its length. */
static int bind_socket(const kern_box *box, int fd, const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int used = snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/%s", box->run_fd, name);
    if (used < 0 || (size_t)used >= sizeof(address.sun_path))
        return -ENAMETOOLONG;
    return bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0 ? 0 : -errno;
}

int core_control_listen(kern_box *box)
{
    char name[CORE_NAME_MAX + 16];
    socket_name(box, name, sizeof(name));
    struct kern_error ignored = {0};
    if (core_registry_record(box, "socket", name, &ignored) != 0)
        return -EIO;                      /* what cannot be swept is not made */
    (void)unlinkat(box->run_fd, name, 0); /* a dead box's; usually there is none */
    if (mkdirat(box->run_fd, "sockets", 0700) != 0 && errno != EEXIST)
        return -errno;
    auto_fd fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    mode_t before = umask(077);
    int failed = bind_socket(box, fd, name);
    (void)umask(before);
    if (failed != 0 || listen(fd, 8) != 0)
        return failed != 0 ? failed : -errno;
    box->control_fd = steal_fd(&fd);
    return 0;
}

static bool is_same_user(int fd)
{
    struct ucred peer;
    socklen_t size = sizeof(peer);
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
           (peer.uid == geteuid() || peer.uid == 0);
}

static const char *answer(kern_box *box, const char *request, char *text, size_t size)
{
    if (strcmp(request, "status") == 0) {
        (void)snprintf(text, size, "{\"name\": \"%s\", \"pid\": %d, \"executed\": %s}", box->name,
                       (int)getpid(),
                       box->executed ? "true" : "false"); /* sized for it; the name needs no escaping */
        return text;
    }
    if (strcmp(request, "stop") == 0) {
        box->escalated = true;
        core_stop_box(box, SIGTERM);
        return "ok";
    }
    if (strcmp(request, "kill") == 0) {
        box->stop_signal = SIGKILL;
        core_kill_box(box);
        return "ok";
    }
    return "error: unknown request";
}

static void on_request(kern_box *box, void *state, int32_t fd, uint32_t events)
{
    (void)state, (void)events; /* readable, or the client is gone: reading tells */
    char request[64], text[256];
    ssize_t length = recv(fd, request, sizeof(request) - 1, MSG_DONTWAIT);
    kern_unwatch(box, fd);
    if (length > 0) {
        request[length] = '\0';
        const char *reply = answer(box, request, text, sizeof(text));
        (void)send(fd, reply, strlen(reply),
                   MSG_DONTWAIT | MSG_NOSIGNAL); /* a client that went away needs no answer */
    }
    (void)close(fd); /* one request a connection */
}

/* A client may take its time: its request comes through the loop. Those that find no room are turned away. */
void core_control_accept(kern_box *box)
{
    auto_fd fd = accept4(box->control_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0 || !is_same_user(fd))
        return;
    struct kern_error full = {0};
    box->current = &box->catalog->plugin[0]; /* the core's own row */
    if (kern_watch(box, fd, EPOLLIN, on_request, &full) == 0)
        (void)steal_fd(&fd);
    box->current = NULL;
}

void core_control_close(kern_box *box)
{
    if (box->control_fd < 0)
        return;
    char name[CORE_NAME_MAX + 16];
    socket_name(box, name, sizeof(name));
    (void)unlinkat(box->run_fd, name, 0); /* recorded: the sweep finds it otherwise */
    kern_close_fd(&box->control_fd);
}
