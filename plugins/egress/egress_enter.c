/* The sockets of a box with egress; see egress.h. Runs in the box's first process, in its network namespace, perhaps on kern's
 * memory: raw calls, nothing allocated. Needs NET_ADMIN (routes) and NET_BIND_SERVICE (low ports) in the user namespace that owns
 * the network namespace. */
#include "egress.h"
#include "egress_publish.h"

#include "kern/sys.h"

#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#define LOOPBACK_INDEX 1 /* the first interface of every network namespace */
#define BACKLOG        512

static int close_raw(int fd, int result)
{
    (void)sys_close(fd); /* raw, as close() would write errno, which is kern's too */
    return result;
}

struct request { /* one attribute that holds an address, one with a number */
    struct nlmsghdr header;
    union {
        struct rtmsg route;
        struct ifaddrmsg address;
    } about;
    uint8_t rest[48];
};

static size_t add_attribute(struct request *request, size_t at, uint16_t type, const void *data, size_t size)
{
    struct rtattr attribute = {.rta_len = (uint16_t)(sizeof(attribute) + size), .rta_type = type};
    uint8_t *place = (uint8_t *)request + at;
    memcpy(place, &attribute, sizeof(attribute));
    memcpy(place + sizeof(attribute), data, size); /* sizes of 4 and 16: nothing to align */
    return at + sizeof(attribute) + size;
}

static int ask_kernel(int netlink, struct request *request, size_t length)
{
    request->header.nlmsg_len = (uint32_t)length;
    request->header.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE;
    long done = sys_call(SYS_sendto, netlink, SYS_P(request), (long)length, 0, 0, 0);
    struct {
        struct nlmsghdr header;
        struct nlmsgerr answer;
        char rest[256];
    } reply = {0};
    if (done >= 0)
        done = sys_call(SYS_recvfrom, netlink, SYS_P(&reply), sizeof(reply), 0, 0, 0);
    if (done < 0)
        return (int)done;
    return reply.header.nlmsg_type == NLMSG_ERROR ? reply.answer.error : -EPROTO;
}

/* Addresses of the range become the box's own: connecting to them stays in the box, and a socket may listen on each. */
static int add_route(int netlink, const struct egress_address *net, uint8_t prefix)
{
    static const uint32_t loopback = LOOPBACK_INDEX;
    struct request request = {.header = {.nlmsg_type = RTM_NEWROUTE},
                              .about.route = {.rtm_family = net->v6 ? AF_INET6 : AF_INET,
                                              .rtm_dst_len = prefix,
                                              .rtm_table = RT_TABLE_LOCAL,
                                              .rtm_protocol = RTPROT_STATIC,
                                              .rtm_scope = RT_SCOPE_HOST,
                                              .rtm_type = RTN_LOCAL}};
    size_t at =
        add_attribute(&request, NLMSG_LENGTH(sizeof(struct rtmsg)), RTA_DST, net->bytes, net->v6 ? 16 : 4);
    at = add_attribute(&request, at, RTA_OIF, &loopback, sizeof(loopback));
    return ask_kernel(netlink, &request, at);
}

/* An address that is not 127.0.0.1 or ::1: without one, libc tells programs that ask for "what this machine can use"
 * (AI_ADDRCONFIG) that it can use nothing. It leads nowhere. */
static int add_address(int netlink, const struct egress_address *address)
{
    uint8_t bits = address->v6 ? 128 : 32;
    struct request request = {.header = {.nlmsg_type = RTM_NEWADDR},
                              .about.address = {.ifa_family = address->v6 ? AF_INET6 : AF_INET,
                                                .ifa_prefixlen = bits,
                                                .ifa_flags = IFA_F_PERMANENT,
                                                .ifa_index = LOOPBACK_INDEX}};
    size_t at =
        add_attribute(&request, NLMSG_LENGTH(sizeof(struct ifaddrmsg)), IFA_LOCAL, address->bytes, bits / 8);
    return ask_kernel(netlink, &request, at);
}

static int add_routes(const struct egress_state *state, int *ret_v6, struct kern_error *err)
{
    static const struct egress_address four = {0, {198, 18}}, six = {1, {0x20, 0x01, 0x00, 0x02}};
    static const struct egress_address own_four = {0, {198, 19, 255, 254}},
                                       own_six = {1, {0x20, 0x01, 0x00, 0x02, [14] = 0xff, [15] = 0xfe}};
    int netlink = (int)sys_call(SYS_socket, AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE, 0, 0, 0);
    if (netlink < 0)
        return kern_fail(err, -netlink, "cannot open a netlink socket to route the box's names");
    int failed = add_route(netlink, &four, 15);
    if (failed == 0)
        failed = add_address(netlink, &own_four);
    /* A kernel without IPv6: names get no such addresses. */
    *ret_v6 = failed == 0 && add_route(netlink, &six, 48) == 0 && add_address(netlink, &own_six) == 0;
    for (uint32_t i = 0; failed == 0 && i < state->rules->count; i++) {
        const struct egress_rule *rule = &state->rules->rule[i];
        if (rule->kind != EGRESS_NET || rule->deny || (rule->net.v6 && !*ret_v6))
            continue;
        failed = add_route(netlink, &rule->net, rule->prefix);
        failed = failed == -EEXIST ? 0 : failed;
    }
    (void)close_raw(netlink, 0);
    return failed == 0 ? 0 : kern_fail(err, -failed, "cannot route the box's names to its loopback \"lo\"");
}

static int make_socket(const struct egress_slot *slot)
{
    static const int on = 1;
    int udp = slot->kind == EGRESS_SLOT_DNS_UDP, six = slot->address.v6;
    int type = (udp ? SOCK_DGRAM : SOCK_STREAM) | SOCK_CLOEXEC | SOCK_NONBLOCK;
    int fd = (int)sys_call(SYS_socket, six ? AF_INET6 : AF_INET, type, 0, 0, 0, 0);
    if (fd < 0)
        return fd;
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(slot->port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(slot->port)};
    memcpy(&v4.sin_addr, slot->address.bytes, 4);
    memcpy(&v6.sin6_addr, slot->address.bytes, 16);
    long failed = 0;
    if (six) /* IPv6 looks for the address on an interface, where a route made it ours */
        failed = sys_call(SYS_setsockopt, fd, SOL_IPV6, IPV6_FREEBIND, SYS_P(&on), sizeof(on), 0);
    if (failed == 0)
        failed =
            sys_call(SYS_bind, fd, six ? SYS_P(&v6) : SYS_P(&v4), six ? sizeof(v6) : sizeof(v4), 0, 0, 0);
    if (failed == 0 && !udp && slot->listening)
        failed = sys_call(SYS_listen, fd, BACKLOG, 0, 0, 0, 0);
    return failed < 0 ? close_raw(fd, (int)failed) : fd;
}

static int explain(const struct egress_slot *slot, int code, struct kern_error *err)
{
    kern_fail(err, code, "cannot listen on port %u of the box for its egress", slot->port);
    if (code == EMFILE)
        kern_hint(err, "a box with egress takes up to %d descriptors: ulimit -n 1024", EGRESS_MAX_SLOTS);
    return -code;
}

int egress_make_sockets(const struct egress_state *state, struct kern_error *err)
{
    int v6 = 0, fd[EGRESS_AT_ONCE];
    int failed = add_routes(state, &v6, err);
    if (failed != 0)
        return failed;
    for (uint32_t at = 0; at < state->slot_count;) {
        struct egress_message head = {.v6 = v6 != 0};
        for (; at < state->slot_count && head.count < EGRESS_AT_ONCE; at++) {
            const struct egress_slot *slot = &state->slot[at];
            if (slot->address.v6 && !v6)
                continue;
            fd[head.count] = make_socket(slot);
            if (fd[head.count] < 0)
                return explain(slot, -fd[head.count], err);
            head.slot[head.count++] = (uint16_t)at;
        }
        head.last = at == state->slot_count;
        failed = egress_send_fds(state->late.near, &head, sizeof(head), fd, head.count);
        for (uint16_t i = 0; i < head.count; i++)
            (void)sys_close(fd[i]); /* the worker has its own, or nobody needs it */
        if (failed != 0)
            return kern_fail(err, -failed, "cannot hand the box's sockets to its egress worker");
    }
    return 0;
}
