/* The supervisor's control socket; see control.h. Requests come from the same user, are one short packet each, and are
 * answered without waiting: a client that does not read loses its answer, never our time. */
#include "control.h"

#include "attach_client.h"
#include "cleanup.h"
#include "execs.h"
#include "records.h"
#include "registry.h"
#include "supervise.h"
#include "sys.h"

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
        return -EIO; /* what cannot be swept is not made */
    if (box->control_fd >= 0)
        return 0;                         /* of the run before */
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

/* The number after "WORD ", or `otherwise` where there is none; false for anything else. */
static bool number_after(const char *request, const char *word, int64_t most, int64_t otherwise,
                         int64_t *ret_number)
{
    size_t length = strlen(word);
    if (strncmp(request, word, length) != 0)
        return false;
    *ret_number = otherwise;
    if (request[length] == '\0')
        return otherwise != INT64_MIN;
    size_t digits = request[length] == ' ' ? strspn(request + length + 1, "0123456789") : 0;
    if (digits == 0 || digits > 12 || request[length + 1 + digits] != '\0')
        return false;
    *ret_number = strtoll(request + length + 1, NULL, 10);
    return *ret_number <= most;
}

static const char *answer(kern_box *box, const char *request, char *text, size_t size)
{
    int64_t number = 0;
    if (strcmp(request, "status") == 0) {
        (void)snprintf(text, size, "{\"name\": \"%s\", \"pid\": %d, \"executed\": %s}", box->name,
                       (int)getpid(),
                       box->executed ? "true" : "false"); /* sized for it; the name needs no escaping */
        return text;
    }
    if (number_after(request, "stop", INT64_C(31536000000), -1, &number)) {
        core_stop_gently(box, number);
        return "ok";
    }
    if (strcmp(request, "kill") == 0) {
        box->stopping = true;
        box->stop_signal = SIGKILL;
        core_kill_box(box);
        return "ok";
    }
    if (number_after(request, "signal", 64, INT64_MIN, &number) && number > 0)
        return core_signal_command(box, (int)number) == 0 ? "ok" : "error: the command has ended";
    if (strcmp(request, "pid1") == 0) {
        (void)snprintf(text, size, "%d", core_command_pid(box)); /* fits */
        return text;
    }
    if (strcmp(request, "paused") == 0 || strcmp(request, "unpaused") == 0) {
        box->paused = request[0] == 'p';
        core_record_change(box, "status", box->paused ? "paused" : "running");
        return "ok";
    }
    return "error: unknown request";
}

/* ---- diff ---- */

/* The descriptors of what the box changed, of what was there before, and of the process whose user namespace may read both. */
static void answer_changes(const kern_box *box, int client)
{
    const char *refused = NULL;
    char text[sizeof(box->layer_folder) + 32];
    auto_fd own = -1;
    bool bound = kern_get_int(&box->options, "bind-rootfs") != 0;
    if (box->layer_count == 0 && kern_get_string(&box->options, "rootfs") == NULL)
        refused = "error: its root is a view of the host, and no directory or image that it could change";
    else if (bound)
        refused = "error: it changes its directory itself (--bind-rootfs)";
    else if (box->disk_path[0] != '\0')
        own = sys_open(box->disk_fd, "upper", O_PATH | O_DIRECTORY | O_NOFOLLOW, 0);
    else if (box->changes_fd < 0)
        refused = "error: only of a detached box, or one with --scratch disk, can the changes be reached";
    const int fds[3] = {own >= 0 ? own : box->changes_fd, box->root_source.fd, box->outer_pidfd};
    if (refused == NULL && (fds[0] < 0 || fds[1] < 0 || fds[2] < 0))
        refused = "error: its changes are not there";
    if (refused != NULL) {
        (void)send(client, refused, strlen(refused), MSG_DONTWAIT | MSG_NOSIGNAL); /* as for all answers */
        return;
    }
    int length = snprintf(text, sizeof(text), "changes %d %u %s", box->ids.how != KERN_IDS_NONE,
                          box->layer_count, box->layer_folder);             /* fits */
    (void)sys_send_fds(client, text, (size_t)length, fds, 3, MSG_DONTWAIT); /* as above */
}

/* ---- attach ---- */

static void drop_attached(kern_box *box)
{
    kern_unwatch(box, box->terminal.tap);
    kern_close_fd(&box->terminal.tap);
}

static void on_attached(kern_box *box, void *state, int32_t fd, uint32_t events)
{
    (void)state, (void)events; /* reading tells */
    char packet[CORE_ATTACH_MOST];
    ssize_t length = recv(fd, packet, sizeof(packet), MSG_DONTWAIT);
    struct winsize size;
    if (length < 0 && errno == EAGAIN)
        return;
    if (length <= 1) {
        drop_attached(box);
    } else if (packet[0] == CORE_ATTACH_KEYS) {
        core_terminal_keys(&box->terminal, packet + 1, (size_t)length - 1);
    } else if (packet[0] == CORE_ATTACH_SIZE && length == (ssize_t)sizeof(size) + 1) {
        memcpy(&size, packet + 1, sizeof(size));
        (void)ioctl(box->terminal.master, TIOCSWINSZ, &size); /* the next change comes through again */
    }
}

/* Keeps the connection where it says NULL. */
static const char *attach(kern_box *box, int fd)
{
    struct kern_error full = {0};
    if (!box->detached || !box->own_terminal)
        return "error: it has no terminal to attach to (kern box -d -t gives one)";
    if (box->terminal.master < 0)
        return "error: its terminal is not there";
    if (box->terminal.tap >= 0)
        return "error: somebody is attached already";
    box->current = &box->catalog->plugin[0]; /* the core's own row */
    int failed = kern_watch(box, fd, EPOLLIN, on_attached, &full);
    box->current = NULL;
    if (failed != 0)
        return "error: too many are connected";
    box->terminal.tap = fd;
    (void)send(fd, "ok", 2, MSG_DONTWAIT | MSG_NOSIGNAL); /* one that went away is noticed soon */
    return NULL;
}

static void on_request(kern_box *box, void *state, int32_t fd, uint32_t events)
{
    (void)state, (void)events; /* readable, or the client is gone: reading tells */
    union {
        struct core_exec_ask ask;
        char text[sizeof(struct core_exec_ask) + 1];
    } request;
    char text[256];
    int fds[CORE_EXEC_FDS];
    size_t count = 0;
    long length =
        sys_receive_fds(fd, request.text, sizeof(request.text) - 1, fds, CORE_EXEC_FDS, &count, MSG_DONTWAIT);
    kern_unwatch(box, fd);
    box->client_count--;
    request.text[length > 0 ? length : 0] = '\0';
    if (length == (ssize_t)sizeof(request.ask) && count == CORE_EXEC_FDS &&
        memcmp(request.ask.word, "exec", 5) == 0) {
        core_exec_request(box, fd, &request.ask, fds);
        return;
    }
    for (size_t i = 0; i < count; i++)
        (void)close(fds[i]); /* nobody asked for them */
    if (strcmp(request.text, "wait") == 0 && box->waiter_count < CORE_MAX_WAITER) {
        box->waiter[box->waiter_count++] = fd;
        return;
    }
    if (strcmp(request.text, "changes") == 0) {
        answer_changes(box, fd);
        (void)close(fd); /* as below */
        return;
    }
    bool attaches = strcmp(request.text, "attach") == 0;
    const char *refused = attaches ? attach(box, fd) : NULL;
    if (attaches && refused == NULL)
        return;
    if (refused != NULL) {
        (void)send(fd, refused, strlen(refused), MSG_DONTWAIT | MSG_NOSIGNAL); /* as below */
    } else if (length > 0) {
        const char *reply = answer(box, request.text, text, sizeof(text));
        (void)send(fd, reply, strlen(reply),
                   MSG_DONTWAIT | MSG_NOSIGNAL); /* a client that went away needs no answer */
    }
    (void)close(fd); /* one request a connection */
}

/* A client may take its time: its request comes through the loop. Those that find no room are turned away. */
void core_control_accept(kern_box *box)
{
    auto_fd fd = accept4(box->control_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0 || !is_same_user(fd) || box->client_count >= CORE_MAX_CLIENT)
        return;
    struct kern_error full = {0};
    box->current = &box->catalog->plugin[0]; /* the core's own row */
    if (kern_watch(box, fd, EPOLLIN, on_request, &full) == 0)
        (void)steal_fd(&fd);
    box->client_count += fd < 0;
    box->current = NULL;
}

void core_control_leave(kern_box *box)
{
    if (box->terminal.tap >= 0)
        drop_attached(box);
}

void core_control_close(kern_box *box)
{
    core_control_leave(box);
    if (box->control_fd < 0)
        return;
    char name[CORE_NAME_MAX + 16];
    socket_name(box, name, sizeof(name));
    (void)unlinkat(box->run_fd, name, 0); /* recorded: the sweep finds it otherwise */
    kern_close_fd(&box->control_fd);
}

void core_control_finish(kern_box *box, int exit_code)
{
    char text[24];
    (void)snprintf(text, sizeof(text), "exit %d", exit_code); /* fits */
    for (uint32_t i = 0; i < box->waiter_count; i++) {
        (void)send(box->waiter[i], text, strlen(text),
                   MSG_DONTWAIT | MSG_NOSIGNAL); /* a client that went away needs no answer */
        (void)close(box->waiter[i]);             /* as above */
    }
    box->waiter_count = 0;
}
