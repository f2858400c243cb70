/* Published ports, on the side of kern and of the box's first process; see egress_publish.h. The sockets of the host are bound in
 * prepare, so that a port that is taken is known before anything runs. */
#include "egress_late.h"

#include "egress_relay.h"
#include "kern/cleanup.h"
#include "kern/foundation.h"
#include "kern/sys.h"

#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

static int explain(const struct egress_port *port, int code, struct kern_error *err)
{
    char address[EGRESS_ADDRESS_SIZE];
    egress_address_print(&port->address, address, sizeof(address));
    kern_refuse(err, code, "cannot publish port %u of the box on %s%s%s:%u/%s", port->box,
                port->address.v6 ? "[" : "", address, port->address.v6 ? "]" : "", port->host,
                port->udp ? "udp" : "tcp");
    if (code == EADDRINUSE)
        kern_hint(err, "see who has it: ss -%slnp 'sport = :%u'; or publish on another port",
                  port->udp ? "u" : "t", port->host);
    else if (code == EACCES)
        kern_hint(err, "ports below 1024 are root's: publish on one above, such as %u:%u", port->host + 8000u,
                  port->box);
    else if (code == EMFILE)
        kern_hint(err, "each port takes a descriptor: ulimit -n %d", 1024);
    else if (code == EADDRNOTAVAIL || code == EINVAL) /* link-local and mapped addresses are the latter */
        kern_hint(err, "the address must be one of this machine's: ip address");
    return -code;
}

static int open_port(const struct egress_port *port, struct kern_error *err)
{
    static const int on = 1;
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port->host)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port->host)};
    memcpy(&v4.sin_addr, port->address.bytes, 4);
    memcpy(&v6.sin6_addr, port->address.bytes, 16);
    auto_fd fd = socket(port->address.v6 ? AF_INET6 : AF_INET,
                        (port->udp ? SOCK_DGRAM : SOCK_STREAM) | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return explain(port, errno, err);
    if (!port->udp) { /* a connection that has just ended does not keep the port */
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)); /* cannot fail */
        egress_tune(fd, egress_address_is_loopback(&port->address));
    } else if (port->address
                   .v6) { /* where datagrams were sent to comes with them; cannot fail on a new socket */
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, &on, sizeof(on));
    } else {
        (void)setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &on, sizeof(on)); /* the same */
    }
    if (port->address.v6)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)); /* cannot fail on a new socket */
    const struct sockaddr *where =
        port->address.v6 ? (const struct sockaddr *)&v6 : (const struct sockaddr *)&v4;
    if (bind(fd, where, port->address.v6 ? sizeof(v6) : sizeof(v4)) != 0 ||
        (!port->udp && listen(fd, 512) != 0))
        return explain(port, errno, err);
    return steal_fd(&fd);
}

/* The worker gets no more than sixteen descriptors by number, so all of these wait for it in the socket pair. */
static int open_ports(struct egress_publish *publish, struct kern_error *err)
{
    int fd[EGRESS_MAX_PORTS];
    uint32_t count = 0;
    int failed = 0;
    while (failed == 0 && count < publish->ports->count) {
        fd[count] = open_port(&publish->ports->port[count], err);
        failed = fd[count] < 0 ? fd[count] : 0;
        count += failed == 0;
    }
    if (failed == 0) {
        failed = egress_send_fds(publish->late.near, &count, sizeof(count), fd, count);
        if (failed != 0)
            failed = kern_fail(err, -failed, "cannot hand the published ports to their worker");
    }
    while (count > 0)
        kern_close_fd(&fd[--count]);
    return failed;
}

static int check_box(kern_box *box, struct kern_error *err)
{
    const char *net = kern_get_string(kern_options(box), "net");
    if (net != NULL && strcmp(net, "host") == 0) {
        kern_refuse(err, 0,
                    "cannot use --publish together with --net host: the box has the host's ports already");
        kern_hint(err, "leave out one of the two");
        return -EINVAL;
    }
    if (kern_get_ids(box)->how == KERN_IDS_NONE) {
        kern_refuse(
            err, 0,
            "cannot use --publish together with --userns host: the worker joins the box's user namespace");
        kern_hint(err, "leave out --userns host");
        return -EINVAL;
    }
    return 0;
}

int egress_publish_prepare(kern_box *box, struct egress_publish *publish, kern_worker_fn worker,
                           struct kern_error *err)
{
    const kern_values *options = kern_options(box);
    int pair[2];
    publish->late.near = publish->late.far = publish->late.bell = -1;
    publish->active = 1;
    publish->ports = calloc(1, sizeof(*publish->ports));
    if (publish->ports == NULL)
        return kern_fail(err, ENOMEM, "cannot keep the published ports");
    int failed = check_box(box, err);
    for (uint32_t i = 0; failed == 0 && i < kern_get_count(options, "publish"); i++)
        failed = egress_ports_add(publish->ports, kern_get_item(options, "publish", i), err);
    if (failed != 0)
        return failed;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
        return kern_fail(err, errno, "cannot make the channel to the worker of the published ports");
    publish->late.near = pair[0];
    publish->late.far = pair[1];
    failed = open_ports(publish, err);
    return failed != 0 ? failed
                       : egress_late_add(box, &publish->late, publish->ports->count, worker,
                                         &publish->late.far, 1, err);
}

/* This process is still in the user namespace that owns the box's network; later it moves to an inner one. */
int egress_publish_enter(kern_box *box, const struct egress_publish *publish, struct kern_error *err)
{
    static const char *const names[] = {"self/ns/user", "self/ns/net"};
    uint32_t count = 0;
    int fd[2], failed = 0;
    for (; count < 2 && failed == 0; count += failed == 0) {
        fd[count] = sys_open(kern_child_get_proc(box), names[count], O_RDONLY, 0);
        failed = fd[count] < 0 ? fd[count] : 0;
    }
    if (failed == 0)
        failed = egress_send_fds(publish->late.near, &count, sizeof(count), fd, count);
    while (count > 0)
        (void)sys_close(fd[--count]); /* the worker has its own */
    return failed == 0 ? 0
                       : kern_fail(err, -failed, "cannot hand the box's network to the worker of its ports");
}

void egress_publish_clear(kern_box *box, struct egress_publish *publish)
{
    if (!publish->active)
        return;
    egress_late_clear(box, &publish->late);
    kern_close_fd(&publish->late.near);
    kern_close_fd(&publish->late.far);
    free(publish->ports);
    publish->ports = NULL;
}
