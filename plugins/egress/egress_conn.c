/* A connection of the box to the world: accepted on a synthetic address (or from the proxy), resolved, connected, checked, relayed.
 * Runs in the worker. */
#include "egress_world.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define HELLO_MS   30000 /* to say whom it means */
#define RESOLVE_MS 15000
#define CONNECT_MS 10000 /* for one address */

static void wait_for(struct egress_conn *conn, int64_t ms)
{
    conn->deadline_ms = conn->world->loop.now_ms + ms;
    conn->world->waiting = 1;
}

static void link_conn(struct egress_conn *conn)
{
    conn->next = conn->world->conns;
    if (conn->next != NULL)
        conn->next->prev = conn;
    conn->world->conns = conn;
}

static void forget(struct egress_conn *conn)
{
    if (conn->prev != NULL)
        conn->prev->next = conn->next;
    else
        conn->world->conns = conn->next;
    if (conn->next != NULL)
        conn->next->prev = conn->prev;
    if (conn->place >= 0)
        conn->world->seat[conn->place].conns--;
    if (conn->state == EGRESS_CONN_RESOLVE)
        egress_resolve_forget(&conn->world->resolver, conn);
    free(conn->early);
    conn->early = NULL;
}

static void on_over(struct egress_relay *relay, int failed)
{
    struct egress_conn *conn = (struct egress_conn *)relay;
    const struct egress_check *check = &conn->check;
    if (failed == -EACCES && check->refused != 0) {
        int other = check->refused == EGRESS_DENIAL_OTHER_NAME || check->refused == EGRESS_DENIAL_OTHER_HOST;
        egress_deny(conn->world, other && check->said[0] != '\0' ? check->said : conn->name, conn->port,
                    check->refused);
    } else if (failed == -EMSGSIZE) {
        egress_deny(conn->world, conn->name, conn->port, EGRESS_DENIAL_REQUEST);
    }
    forget(conn);
}

/* Ends a connection that has come to no relay yet: reset, for an orderly end would look like an answer, unless there was one. */
void egress_conn_end(struct egress_conn *conn)
{
    egress_relay_end(&conn->relay, 0, !conn->told);
}

/* ---- Relaying ---- */

static void settle_deadline(struct egress_conn *conn)
{
    enum egress_check_state state = conn->check.state;
    const struct egress_flow *up = &conn->relay.up;
    int open = up->filter != NULL &&
               ((state == EGRESS_CHECK_START && conn->check.must) || (up->held != NULL && up->cleared == 0));
    if (!open || state == EGRESS_CHECK_OPAQUE || state == EGRESS_CHECK_UPGRADE || state == EGRESS_CHECK_ENDED)
        conn->deadline_ms = 0;
    else if (conn->deadline_ms == 0)
        wait_for(conn, HELLO_MS);
}

static long check(void *data, const uint8_t *bytes, size_t length)
{
    struct egress_conn *conn = data;
    long passed = egress_check_feed(&conn->check, bytes, length);
    if (passed >= 0 && conn->check.state == EGRESS_CHECK_OPAQUE)
        conn->relay.up.filter = NULL;
    conn->relay.down.copy = conn->check.state == EGRESS_CHECK_UPGRADE;
    return passed;
}

static void see_answer(void *data, const uint8_t *bytes, size_t length)
{
    struct egress_conn *conn = data;
    egress_check_answer(&conn->check, bytes, length);
    if (conn->check.state == EGRESS_CHECK_OPAQUE)
        conn->relay.up.filter = NULL;
    if (conn->check.state != EGRESS_CHECK_UPGRADE)
        conn->relay.down.copy = 0;
}

static void start_relay(struct egress_conn *conn)
{
    int failed = conn->proxy ? egress_proxy_connected(conn) : 0;
    conn->state = EGRESS_CONN_RELAY;
    conn->deadline_ms = 0;
    struct egress_flow *up = &conn->relay.up, *down = &conn->relay.down;
    egress_flow_init(up, conn->relay.client.source.fd, conn->relay.server.source.fd);
    egress_flow_init(down, up->to, up->from);
    up->data = down->data = conn;
    egress_flow_hear(up, conn->client_heard);
    egress_flow_hear(down, conn->server_heard);
    if (conn->checked) {
        up->filter = check;
        down->seen = see_answer;
    }
    if (failed == 0)
        failed = egress_flow_push(up, conn->early, conn->early_length);
    free(conn->early);
    conn->early = NULL;
    if (failed != 0) {
        egress_relay_end(&conn->relay, failed, 1);
        return;
    }
    egress_relay_pump(&conn->relay);
    if (!conn->relay.ended)
        settle_deadline(conn);
}

/* ---- Connecting ---- */

static void connect_next(struct egress_conn *conn);

static void on_server(struct egress_source *source, uint32_t events)
{
    struct egress_conn *conn = (struct egress_conn *)((struct egress_side *)source)->relay;
    if (conn->state == EGRESS_CONN_RELAY) {
        struct egress_relay *relay = &conn->relay;
        egress_flow_hear(&relay->down, events);
        egress_relay_pump(relay);
        if (!relay->ended)
            settle_deadline(conn);
        return;
    }
    int failed = 0;
    socklen_t size = sizeof(failed);
    conn->server_heard = events;
    if (getsockopt(source->fd, SOL_SOCKET, SO_ERROR, &failed, &size) != 0 || failed != 0) {
        egress_loop_close(source);
        connect_next(conn);
        return;
    }
    if ((events & EPOLLOUT) != 0)
        start_relay(conn);
}

static int connect_to(struct egress_conn *conn, const struct egress_address *to)
{
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(conn->port)};
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(conn->port)};
    memcpy(&v6.sin6_addr, to->bytes, 16);
    memcpy(&v4.sin_addr, to->bytes, 4);
    int fd = socket(to->v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    egress_tune(fd, egress_address_is_loopback(to));
    const struct sockaddr *where = to->v6 ? (const struct sockaddr *)&v6 : (const struct sockaddr *)&v4;
    if (connect(fd, where, to->v6 ? sizeof(v6) : sizeof(v4)) != 0 && errno != EINPROGRESS) {
        int failed = -errno;
        (void)close(fd); /* nothing was sent */
        return failed;
    }
    return fd;
}

/* The addresses that were judged, one after the other, and no others. */
static void connect_next(struct egress_conn *conn)
{
    conn->state = EGRESS_CONN_CONNECT;
    while (conn->tried < conn->address_count) {
        int fd = connect_to(conn, &conn->address[conn->tried++]);
        if (fd < 0)
            continue;
        conn->relay.server = (struct egress_side){{fd, on_server}, &conn->relay};
        wait_for(conn, CONNECT_MS);
        if (egress_loop_add(&conn->world->loop, &conn->relay.server.source, EGRESS_FLOW_EVENTS) == 0)
            return;
        egress_loop_close(&conn->relay.server.source);
    }
    if (conn->proxy)
        egress_proxy_failed(conn, EGRESS_DENIAL_COUNT, "the host cannot be reached");
    egress_conn_end(conn);
}

/* Where the name leads is no place for this connection: EGRESS_DENIAL_*, or EGRESS_DENIAL_COUNT for nothing wrong. */
static uint32_t judge_result(const struct egress_conn *conn, const struct egress_result *result)
{
    if (result->worst == EGRESS_NEVER || (result->worst == EGRESS_PRIVATE && !conn->private_too))
        return EGRESS_DENIAL_SPECIAL;
    const struct egress_rules *rules = conn->world->state->rules;
    const struct egress_rule *rule;
    for (uint32_t i = 0; i < result->count; i++)
        if (egress_rules_address(rules, &result->address[i], conn->port, &rule) == EGRESS_DENIED)
            return EGRESS_DENIAL_DENY;
    return EGRESS_DENIAL_COUNT;
}

/* All addresses are judged before one is used: a name that leads to one place it must not lead to is refused as a whole. */
static void on_resolved(void *data, const struct egress_result *result)
{
    struct egress_conn *conn = data;
    conn->state = EGRESS_CONN_CONNECT; /* nobody is asked any more */
    uint32_t wrong = judge_result(conn, result);
    if (wrong != EGRESS_DENIAL_COUNT) {
        egress_deny(conn->world, conn->name, conn->port, wrong);
        if (conn->proxy)
            egress_proxy_failed(conn, wrong, NULL);
        egress_conn_end(conn);
        return;
    }
    for (uint32_t i = 0; i < result->count; i++)
        if (conn->address_count < sizeof(conn->address) / sizeof(conn->address[0]))
            conn->address[conn->address_count++] = result->address[i];
    if (result->count == 0) {
        if (conn->proxy)
            egress_proxy_failed(conn, EGRESS_DENIAL_COUNT,
                                result->failed ? "no name server answers for it"
                                               : "there is no host of this name");
        egress_conn_end(conn);
        return;
    }
    connect_next(conn);
}

void egress_conn_reach(struct egress_conn *conn, const struct egress_rule *rule)
{
    conn->private_too = rule->private_too;
    conn->checked = !conn->is_address && rule->tls != EGRESS_TLS_ANY;
    /* The proxy has begun the check of what it forwards itself. */
    if (conn->check.name[0] == '\0' && conn->checked)
        egress_check_start(&conn->check, conn->name, conn->port, rule->tls == EGRESS_TLS_ECH);
    wait_for(conn, RESOLVE_MS);
    if (conn->is_address) {
        conn->address_count = 1;
        connect_next(conn);
        return;
    }
    conn->state = EGRESS_CONN_RESOLVE;
    egress_resolve(&conn->world->resolver, conn->name, on_resolved, conn);
}

/* ---- Accepting ---- */

static void on_client(struct egress_source *source, uint32_t events)
{
    struct egress_conn *conn = (struct egress_conn *)((struct egress_side *)source)->relay;
    struct egress_relay *relay = &conn->relay;
    if (conn->state == EGRESS_CONN_RELAY) {
        egress_flow_hear(&relay->up, events);
        egress_relay_pump(relay);
        if (!relay->ended)
            settle_deadline(conn);
        return;
    }
    conn->client_heard |= events;
    if ((events & (EPOLLHUP | EPOLLERR)) != 0) {
        egress_conn_end(conn); /* it does not wait for us any more */
    } else if (conn->state == EGRESS_CONN_HEAD) {
        egress_proxy_start(conn);
    } /* else what it says waits in its socket */
}

static void start_direct(struct egress_conn *conn, const struct egress_slot *slot)
{
    struct egress_world *world = conn->world;
    const struct egress_rule *rule;
    enum egress_verdict verdict;
    conn->port = slot->port;
    if (slot->kind == EGRESS_SLOT_NET) {
        conn->is_address = 1;
        conn->address[0] = slot->address;
        egress_address_print(&slot->address, conn->name, sizeof(conn->name));
        verdict = egress_rules_address(world->state->rules, &slot->address, slot->port, &rule);
    } else {
        conn->place = slot->host;
        world->seat[conn->place].conns++;
        memcpy(conn->name, world->state->place[conn->place].name, sizeof(conn->name));
        verdict = egress_rules_name(world->state->rules, conn->name, slot->port, &rule);
    }
    if (verdict == EGRESS_ALLOWED) {
        egress_conn_reach(conn, rule);
        return;
    }
    uint32_t reason;
    (void)egress_reason(verdict, &reason);
    egress_deny(world, conn->name, conn->port, reason);
    egress_conn_end(conn);
}

static void start_conn(struct egress_listener *listener, int fd)
{
    static const int on = 1;
    struct egress_world *world = listener->world;
    struct egress_conn *conn = world->relays.count < EGRESS_MAX_CONNS ? calloc(1, sizeof(*conn)) : NULL;
    if (conn == NULL) {
        (void)close(fd); /* a box with that many connections can wait for one of them to end */
        return;
    }
    /* The rest it has from its listener; this also where it came before that was tuned. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    conn->world = world;
    conn->place = -1;
    conn->relay.all = &world->relays;
    conn->relay.over = on_over;
    conn->relay.client = (struct egress_side){{fd, on_client}, &conn->relay};
    conn->relay.server = (struct egress_side){{-1, on_server}, &conn->relay};
    egress_flow_init(&conn->relay.up, -1, -1);
    egress_flow_init(&conn->relay.down, -1, -1);
    world->relays.count++;
    link_conn(conn);
    conn->proxy = listener->slot->kind == EGRESS_SLOT_PROXY;
    wait_for(conn, HELLO_MS);
    if (egress_loop_add(&world->loop, &conn->relay.client.source, EGRESS_FLOW_EVENTS) != 0)
        egress_conn_end(conn);
    else if (!conn->proxy)
        start_direct(conn, listener->slot);
}

void egress_accept(struct egress_source *source, uint32_t events)
{
    struct egress_listener *listener = (struct egress_listener *)source;
    (void)events; /* it was added for EPOLLIN only */
    for (int turn = 0; turn < 64; turn++) {
        int fd = egress_loop_accept(&listener->world->loop, source->fd);
        if (fd < 0)
            return;
        if (listener->slot->kind == EGRESS_SLOT_DNS_TCP)
            egress_serve_tcp(listener->world, fd);
        else
            start_conn(listener, fd);
    }
}

void egress_conn_tick(struct egress_world *world)
{
    world->waiting = 0; /* an open connection that says nothing costs nothing */
    for (struct egress_conn *conn = world->conns, *next; conn != NULL; conn = next) {
        next = conn->next;
        world->waiting |= conn->deadline_ms > world->loop.now_ms;
        if (conn->deadline_ms == 0 || conn->deadline_ms > world->loop.now_ms)
            continue;
        if (conn->state == EGRESS_CONN_CONNECT) {
            egress_loop_close(&conn->relay.server.source);
            connect_next(conn);
            continue;
        }
        if (conn->state == EGRESS_CONN_RELAY && conn->relay.up.held != NULL)
            egress_deny(world, conn->name, conn->port, EGRESS_DENIAL_SLOW);
        egress_conn_end(conn);
    }
}
