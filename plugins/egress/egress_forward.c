/* The worker of published ports: accepts on the host, connects in the box. It joins the box's user namespace and network, where
 * every socket that it makes from then on is, and gives up what it may do there at once. kern starts it with the
 * first connection, and it ends when it has carried what the box sent last. */
#include "egress_publish.h"

#include "egress_confine.h"
#include "egress_relay.h"
#include "egress_session.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MAX_CONNS 4096
#define TICK_MS   1000

struct world;

struct listener {
    struct egress_source source; /* first */
    struct world *world;
    const struct egress_port *port;
};

struct world {
    struct egress_source channel;
    int ending; /* the box has */
    struct egress_loop loop;
    struct egress_relays relays;
    struct listener *listener;
    struct egress_sessions sessions;
};

/* ---- Into the box ---- */

static int connect_to(uint16_t port, int type, int six)
{
    const struct sockaddr_in v4 = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    const struct sockaddr_in6 v6 = {
        .sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int fd = socket(six ? AF_INET6 : AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), refused = 0;
    if (fd < 0)
        return -errno;
    if (type == SOCK_STREAM)
        egress_tune(fd, 1);
    const struct sockaddr *to = six ? (const struct sockaddr *)&v6 : (const struct sockaddr *)&v4;
    int result = connect(fd, to, six ? sizeof(v6) : sizeof(v4)) == 0 ? 0 : errno;
    socklen_t size = sizeof(refused);
    if (result == EINPROGRESS) /* on a loopback the answer is there already, unless the box is busy */
        result = getsockopt(fd, SOL_SOCKET, SO_ERROR, &refused, &size) == 0 ? refused : errno;
    if (result == 0)
        return fd;
    (void)close(fd); /* nobody listens there */
    return -result;
}

static int connect_box(uint16_t port)
{
    int fd = connect_to(port, SOCK_STREAM, 0);
    return fd < 0 ? connect_to(port, SOCK_STREAM, 1) : fd;
}

/* Who connects, for a server that wants to know: the first line of the PROXY protocol. */
static int announce(struct egress_flow *up, int client)
{
    struct sockaddr_storage peer = {0}, own = {0};
    socklen_t peer_size = sizeof(peer), own_size = sizeof(own);
    char from[INET6_ADDRSTRLEN], to[INET6_ADDRSTRLEN], line[160];
    if (getpeername(client, (struct sockaddr *)&peer, &peer_size) != 0 ||
        getsockname(client, (struct sockaddr *)&own, &own_size) != 0)
        return -errno;
    int six = peer.ss_family == AF_INET6;
    const struct sockaddr_in *peer4 = (const struct sockaddr_in *)&peer,
                             *own4 = (const struct sockaddr_in *)&own;
    const struct sockaddr_in6 *peer6 = (const struct sockaddr_in6 *)&peer,
                              *own6 = (const struct sockaddr_in6 *)&own;
    if (inet_ntop(peer.ss_family, six ? (const void *)&peer6->sin6_addr : &peer4->sin_addr, from,
                  sizeof(from)) == NULL ||
        inet_ntop(own.ss_family, six ? (const void *)&own6->sin6_addr : &own4->sin_addr, to, sizeof(to)) ==
            NULL)
        return -errno;
    int length = snprintf(line, sizeof(line), "PROXY TCP%c %s %s %u %u\r\n", six ? '6' : '4', from, to,
                          ntohs(six ? peer6->sin6_port : peer4->sin_port),
                          ntohs(six ? own6->sin6_port : own4->sin_port)); /* fits */
    return egress_flow_push(up, (const uint8_t *)line, (size_t)length);
}

static void refuse(int fd)
{
    static const struct linger now = {.l_onoff = 1, .l_linger = 0};
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &now,
                     sizeof(now)); /* a reset is what a closed port would say */
    (void)close(fd);               /* nothing was said yet */
}

static void start(struct listener *listener, int client)
{
    struct world *world = listener->world;
    struct egress_relay *relay = world->relays.count < MAX_CONNS ? calloc(1, sizeof(*relay)) : NULL;
    int server = relay != NULL ? connect_box(listener->port->box) : -ENOMEM;
    if (server < 0) {
        free(relay);
        refuse(client);
        return;
    }
    egress_relay_start(&world->relays, relay, client, server);
    if (!relay->ended && listener->port->proxy && announce(&relay->up, client) != 0)
        egress_relay_end(relay, -EIO, 1);
    egress_relay_pump(relay);
}

static void on_accept(struct egress_source *source, uint32_t events)
{
    (void)events; /* it was added for EPOLLIN only */
    struct listener *listener = (struct listener *)source;
    for (int turn = 0; turn < 64; turn++) {
        int fd = egress_loop_accept(&listener->world->loop, source->fd);
        if (fd < 0)
            return;
        start(listener, fd);
    }
}

/* ---- UDP ---- */

static void end_session(struct world *world, struct egress_session *session)
{
    egress_loop_close(&session->source);
    egress_loop_discard(&world->loop, &session->garbage);
}

union control {
    struct cmsghdr head;
    char bytes[CMSG_SPACE(sizeof(struct in6_pktinfo))];
};

static ssize_t hear(int fd, uint8_t *bytes, size_t size, struct egress_peer *ret_peer)
{
    union control control;
    struct iovec data = {.iov_base = bytes, .iov_len = size};
    struct msghdr message = {.msg_name = &ret_peer->address,
                             .msg_namelen = sizeof(ret_peer->address),
                             .msg_iov = &data,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof(control)};
    ssize_t got = recvmsg(fd, &message, 0);
    if (got < 0)
        return got;
    ret_peer->size = message.msg_namelen;
    for (struct cmsghdr *at = CMSG_FIRSTHDR(&message); at != NULL; at = CMSG_NXTHDR(&message, at)) {
        const struct in_pktinfo *v4 = (const void *)CMSG_DATA(at);
        const struct in6_pktinfo *v6 = (const void *)CMSG_DATA(at);
        if (at->cmsg_level == IPPROTO_IP && at->cmsg_type == IP_PKTINFO)
            memcpy(ret_peer->to, &v4->ipi_spec_dst, sizeof(v4->ipi_spec_dst));
        else if (at->cmsg_level == IPPROTO_IPV6 && at->cmsg_type == IPV6_PKTINFO &&
                 !IN6_IS_ADDR_MULTICAST(&v6->ipi6_addr)) /* nobody answers from such a one */
            memcpy(ret_peer->to, &v6->ipi6_addr, sizeof(v6->ipi6_addr));
    }
    return got;
}

/* Who asked one of several addresses waits for an answer from that one. */
static void answer(int fd, uint8_t *bytes, size_t length, struct egress_peer *peer)
{
    union control control = {.bytes = {0}};
    int six = peer->address.ss_family == AF_INET6;
    struct in_pktinfo v4 = {0};
    struct in6_pktinfo v6 = {0};
    memcpy(&v4.ipi_spec_dst, peer->to, sizeof(v4.ipi_spec_dst));
    memcpy(&v6.ipi6_addr, peer->to, sizeof(v6.ipi6_addr));
    size_t size = six ? sizeof(v6) : sizeof(v4);
    control.head = (struct cmsghdr){.cmsg_len = CMSG_LEN(size),
                                    .cmsg_level = six ? IPPROTO_IPV6 : IPPROTO_IP,
                                    .cmsg_type = six ? IPV6_PKTINFO : IP_PKTINFO};
    memcpy(CMSG_DATA(&control.head), six ? (const void *)&v6 : (const void *)&v4, size);
    struct iovec data = {.iov_base = bytes, .iov_len = length};
    const struct msghdr message = {.msg_name = &peer->address,
                                   .msg_namelen = peer->size,
                                   .msg_iov = &data,
                                   .msg_iovlen = 1,
                                   .msg_control = &control,
                                   .msg_controllen = CMSG_SPACE(size)};
    (void)sendmsg(fd, &message, MSG_NOSIGNAL); /* lost like any datagram */
}

static void on_reply(struct egress_source *source, uint32_t events)
{
    struct egress_session *session =
        (struct egress_session *)(void *)((char *)source - offsetof(struct egress_session, source));
    struct listener *listener = (struct listener *)session->listener;
    uint8_t bytes[65536];
    (void)events; /* an error comes out of recv as well: the box's port is closed, perhaps not for long */
    for (int turn = 0; turn < 64; turn++) {
        ssize_t got = recv(source->fd, bytes, sizeof(bytes), 0);
        if (got < 0)
            return;
        session->answered = 1;
        session->used_ms = listener->world->loop.now_ms;
        answer(listener->source.fd, bytes, (size_t)got, &session->peer);
    }
}

static struct egress_session *start_session(struct listener *listener, const struct egress_peer *peer,
                                            int six)
{
    struct world *world = listener->world;
    struct egress_session *session = calloc(1, sizeof(*session));
    int fd = session != NULL ? connect_to(listener->port->box, SOCK_DGRAM, six) : -ENOMEM;
    if (fd < 0) {
        free(session);
        return NULL;
    }
    session->source = (struct egress_source){fd, on_reply};
    session->listener = &listener->source;
    session->peer = *peer;
    struct egress_session *oldest = egress_sessions_make_room(&world->sessions);
    if (oldest != NULL)
        end_session(world, oldest);
    if (egress_loop_add(&world->loop, &session->source, EPOLLIN) != 0) {
        end_session(world, session);
        return NULL;
    }
    egress_sessions_add(&world->sessions, session, world->loop.now_ms);
    return session;
}

/* Returns the session, or NULL when nobody listens in the box where it leads: then it has ended. On a loopback that is known at once,
 * and only until the box has answered it is worth a call to ask. */
static struct egress_session *say(struct world *world, struct egress_session *session, const uint8_t *bytes,
                                  size_t length)
{
    int failed = 0;
    socklen_t size = sizeof(failed);
    if (send(session->source.fd, bytes, length, MSG_NOSIGNAL) < 0)
        failed = errno;
    else if (!session->answered && getsockopt(session->source.fd, SOL_SOCKET, SO_ERROR, &failed, &size) != 0)
        failed = errno;
    session->used_ms = world->loop.now_ms;
    if (failed != ECONNREFUSED)
        return session; /* else lost like any datagram */
    egress_sessions_remove(&world->sessions, session);
    end_session(world, session);
    return NULL;
}

static void on_datagram(struct egress_source *source, uint32_t events)
{
    struct listener *listener = (struct listener *)source;
    struct world *world = listener->world;
    uint8_t bytes[65536];
    (void)events; /* it was added for EPOLLIN only */
    for (int turn = 0; turn < 64; turn++) {
        struct egress_peer peer = {0};
        ssize_t got = hear(source->fd, bytes, sizeof(bytes), &peer);
        if (got < 0)
            return;
        struct egress_session *session = egress_sessions_find(&world->sessions, source, &peer);
        if (session != NULL)
            session = say(world, session, bytes, (size_t)got);
        for (int six = 0; session == NULL && six < 2; six++) {
            session = start_session(listener, &peer, six);
            if (session != NULL)
                session = say(world, session, bytes, (size_t)got);
        }
    }
}

/* ---- Life ---- */

/* As the owner of the box's user namespace this process may join it, and has all capabilities in it then: enough to join its
 * network. They are given up before anybody speaks to this process. */
static int join(int channel)
{
    uint32_t count = 0;
    int fd[2];
    int got = egress_receive_fds(channel, &count, sizeof(count), fd, 2, 0);
    if (got != 2)
        return got < 0 ? got : -EPIPE;
    if (setns(fd[0], CLONE_NEWUSER) != 0 || setns(fd[1], CLONE_NEWNET) != 0)
        return -errno;
    (void)close(fd[0]); /* joined */
    (void)close(fd[1]);
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {{0}, {0}};
    return syscall(SYS_capset, &header, none) == 0 ? 0 : -errno;
}

static int adopt(struct world *world, const struct egress_publish *publish)
{
    uint32_t count = 0;
    int fd[EGRESS_MAX_PORTS];
    int got = egress_receive_fds(publish->late.far, &count, sizeof(count), fd, EGRESS_MAX_PORTS, 0);
    if (got < 0 || (uint32_t)got != publish->ports->count)
        return got < 0 ? got : -EPIPE;
    world->listener = calloc((size_t)got, sizeof(*world->listener));
    if (world->listener == NULL)
        return -ENOMEM;
    for (int i = 0; i < got; i++) {
        const struct egress_port *port = &publish->ports->port[i];
        world->listener[i] = (struct listener){{fd[i], port->udp ? on_datagram : on_accept}, world, port};
    }
    return 0;
}

/* Nothing more is sent there: it is the end. */
static void on_channel(struct egress_source *source, uint32_t events)
{
    struct world *world = (struct world *)(void *)((char *)source - offsetof(struct world, channel));
    (void)events; /* whatever they are */
    egress_loop_remove(&world->loop, source);
    world->ending = 1;
}

static int listen_all(struct world *world, uint32_t count, int channel)
{
    world->channel = (struct egress_source){channel, on_channel};
    world->relays.loop = &world->loop;
    world->relays.box_serves = 1;
    int failed = egress_loop_add(&world->loop, &world->channel, EPOLLIN);
    for (uint32_t i = 0; failed == 0 && i < count; i++)
        failed = egress_loop_add(&world->loop, &world->listener[i].source, EPOLLIN);
    return failed;
}

int32_t egress_publish_serve(const struct egress_publish *publish)
{
    struct world *world = calloc(1, sizeof(*world));
    int64_t next_ms = 0;
    egress_raise_limit();
    if (world == NULL || egress_loop_open(&world->loop) != 0 || adopt(world, publish) != 0 ||
        join(publish->late.far) != 0 || egress_confine() != 0 ||
        listen_all(world, publish->ports->count, publish->late.far) != 0)
        return 1;
    while (!world->ending) {
        int wait = egress_relays_turn(&world->relays, world->sessions.first != NULL ? TICK_MS : -1);
        if (egress_loop_turn(&world->loop, wait) != 0)
            return 1;
        if (world->loop.now_ms < next_ms)
            continue;
        next_ms = world->loop.now_ms + TICK_MS;
        for (struct egress_session *idle;
             (idle = egress_sessions_take_idle(&world->sessions, world->loop.now_ms)) != NULL;)
            end_session(world, idle);
    }
    while (!egress_relays_finish(&world->relays))
        continue;
    return 0;
}
