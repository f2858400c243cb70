/* A D-Bus connection; see cgroup_bus.h. Runs in kern, in prepare. Nothing here waits longer than the deadline that was
 * given for the whole conversation, whatever the other side does. */
#include "cgroup_bus.h"

#include "kern/cleanup.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#define ANSWER_MOST ((size_t)16 << 10) /* longer ones are not for us, and are read past */
#define LINE_MOST   256

static int64_t now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail with a valid clock and pointer */
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int await(const struct cgroup_bus *bus, short events)
{
    for (;;) {
        int64_t left = bus->deadline_ms - now_ms();
        struct pollfd one = {.fd = bus->fd, .events = events};
        int ready = left > 0 ? poll(&one, 1, (int)left) : 0;
        if (ready > 0)
            return 0;
        if (ready == 0)
            return -ETIMEDOUT;
        if (errno != EINTR)
            return -errno;
    }
}

static int send_all(const struct cgroup_bus *bus, const void *bytes, size_t length)
{
    for (size_t sent = 0; sent < length;) {
        ssize_t n = send(bus->fd, (const char *)bytes + sent, length - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n >= 0) {
            sent += (size_t)n;
            continue;
        }
        int result = errno == EAGAIN ? await(bus, POLLOUT) : errno == EINTR ? 0 : -errno;
        if (result < 0)
            return result;
    }
    return 0;
}

/* `bytes` may be NULL: read past them. */
static int receive_all(const struct cgroup_bus *bus, uint8_t *bytes, size_t length)
{
    uint8_t waste[512];
    for (size_t got = 0; got < length;) {
        size_t want = length - got;
        if (bytes == NULL && want > sizeof(waste))
            want = sizeof(waste);
        ssize_t n = recv(bus->fd, bytes != NULL ? bytes + got : waste, want, MSG_DONTWAIT);
        if (n == 0)
            return -ECONNRESET;
        if (n > 0) {
            got += (size_t)n;
            continue;
        }
        int result = errno == EAGAIN ? await(bus, POLLIN) : errno == EINTR ? 0 : -errno;
        if (result < 0)
            return result;
    }
    return 0;
}

/* ---- Opening ---- */

static int connect_to(const char *path, int *ret_fd)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (path == NULL || strlen(path) >= sizeof(address.sun_path))
        return -ENOENT;
    strcpy(address.sun_path, path); /* fits */
    auto_fd fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    struct timeval patience = {.tv_sec = 1}; /* a full backlog: connect() of a local socket waits otherwise */
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)); /* a longer wait at worst */
    if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
        return -errno;
    /* Whoever listens there is asked to move this process: it must be the system's or the caller's own. */
    struct ucred peer;
    socklen_t length = sizeof(peer);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) < 0)
        return -errno;
    if (peer.uid != 0 && peer.uid != geteuid())
        return -EPERM;
    *ret_fd = steal_fd(&fd);
    return 0;
}

/* "OK GUID\r\n"; what was sent after BEGIN is answered later. */
static int read_welcome(const struct cgroup_bus *bus)
{
    uint8_t line[LINE_MOST];
    for (size_t used = 0; used < sizeof(line); used++) {
        int result = receive_all(bus, line + used, 1);
        if (result < 0)
            return result;
        if (line[used] == '\n')
            return strncmp((const char *)line, "OK ", 3) == 0 ? 0 : -EACCES;
    }
    return -EPROTO;
}

static int introduce(const struct cgroup_bus *bus)
{
    char uid[16], text[LINE_MOST] = "", *at = text;
    (void)snprintf(uid, sizeof(uid), "%u", (unsigned)geteuid()); /* ten digits at most */
    *at++ = '\0';                                                /* the byte that carries who sent it */
    at += sprintf(at, "AUTH EXTERNAL ");
    for (const char *digit = uid; *digit != '\0'; digit++)
        at += sprintf(at, "%02x", (unsigned)*digit);
    at += sprintf(at, "\r\nBEGIN\r\n");
    int result = send_all(bus, text, (size_t)(at - text));
    return result < 0 ? result : read_welcome(bus);
}

static int say_hello(struct cgroup_bus *bus)
{
    struct cgroup_message message;
    struct cgroup_reply reply;
    cgroup_message_call(&message, ++bus->serial, "org.freedesktop.DBus", "/org/freedesktop/DBus",
                        "org.freedesktop.DBus", "Hello", "");
    int result = cgroup_bus_ask(bus, &message, &reply);
    return result < 0 ? result : reply.kind == CGROUP_REPLY_RETURN ? 0 : -EACCES;
}

int cgroup_bus_open(const char *manager, const char *bus, int64_t patience_ms, struct cgroup_bus *ret_bus)
{
    auto_fd fd = -1;
    struct cgroup_bus opened = {.deadline_ms = now_ms() + patience_ms};
    int result = connect_to(manager, &fd);
    if (result < 0) {
        result = connect_to(bus, &fd);
        opened.destination = "org.freedesktop.systemd1";
    }
    opened.fd = fd;
    if (result == 0)
        result = introduce(&opened);
    if (result == 0 && opened.destination != NULL)
        result = say_hello(&opened);
    if (result < 0)
        return result;
    (void)steal_fd(&fd); /* the connection has it */
    *ret_bus = opened;
    return 0;
}

void cgroup_bus_close(struct cgroup_bus *bus)
{
    kern_close_fd(&bus->fd);
}

/* ---- Asking ---- */

void cgroup_bus_call(struct cgroup_bus *bus, struct cgroup_message *message, const char *path,
                     const char *interface, const char *member, const char *signature)
{
    cgroup_message_call(message, ++bus->serial, bus->destination, path, interface, member, signature);
}

int cgroup_bus_ask(struct cgroup_bus *bus, struct cgroup_message *message, struct cgroup_reply *ret_reply)
{
    uint8_t bytes[ANSWER_MOST];
    int result = cgroup_message_end(message);
    if (result == 0)
        result = send_all(bus, message->bytes, message->length);
    while (result == 0) {
        size_t length = 0;
        struct cgroup_reply reply;
        result = receive_all(bus, bytes, CGROUP_MESSAGE_HEAD);
        if (result == 0)
            result = cgroup_reply_length(bytes, &length);
        if (result < 0)
            break;
        bool whole = length <= sizeof(bytes);
        result = receive_all(bus, whole ? bytes + CGROUP_MESSAGE_HEAD : NULL, length - CGROUP_MESSAGE_HEAD);
        if (result < 0 || !whole)
            continue; /* a signal: managers tell everybody of everything */
        result = cgroup_reply_parse(bytes, length, &reply);
        if (result == 0 && reply.kind != CGROUP_REPLY_OTHER && reply.to == bus->serial) {
            *ret_reply = reply;
            return 0;
        }
        if (result == -EPROTO && bytes[1] != 2 && bytes[1] != 3)
            result = 0; /* a signal with richer fields than those of an answer */
    }
    return result;
}
