/* A relayed connection; see egress_relay.h. Runs in a worker. */
#include "egress_relay.h"

#include <errno.h>
#include <malloc.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define LOOK_MS 100
#define MANY    256 /* connections: with less, what they held is not worth a call */

void egress_tune(int fd, int near)
{
    static const int on = 1, idle = 60, interval = 15, probes = 4, near_buffer = 256 << 10;
    static const char unpaced[] = "reno";
    /* None of these can fail on a TCP socket, and without them the connection still works. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (near) {
        /* Left to itself the kernel lets megabytes wait: more than the caches hold, which costs more than a third of the speed. */
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &near_buffer, sizeof(near_buffer));
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &near_buffer, sizeof(near_buffer));
        /* Where the machine's choice is BBR, a timer for each few packets keeps their distance: half the worker's time in a virtual
         * machine. The one that every kernel has and lets everybody choose does nothing of the kind. */
        (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, unpaced, sizeof(unpaced) - 1);
        return;
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
}

static void on_event(struct egress_source *source, uint32_t events)
{
    struct egress_side *side = (struct egress_side *)source;
    struct egress_relay *relay = side->relay;
    struct egress_flow *reads = side == &relay->client ? &relay->up : &relay->down;
    egress_flow_hear(reads, events);
    egress_relay_pump(relay);
}

void egress_relay_start(struct egress_relays *all, struct egress_relay *relay, int client, int server)
{
    relay->all = all;
    relay->client = (struct egress_side){{client, on_event}, relay};
    relay->server = (struct egress_side){{server, on_event}, relay};
    egress_flow_init(&relay->up, client, server);
    egress_flow_init(&relay->down, server, client);
    all->count++;
    int failed = egress_loop_add(all->loop, &relay->client.source, EGRESS_FLOW_EVENTS);
    if (failed == 0)
        failed = egress_loop_add(all->loop, &relay->server.source, EGRESS_FLOW_EVENTS);
    if (failed != 0)
        egress_relay_end(relay, failed, 1);
}

static void reset(int fd)
{
    static const struct linger now = {.l_onoff = 1, .l_linger = 0};
    if (fd >= 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now)); /* an orderly end then */
}

void egress_relay_end(struct egress_relay *relay, int failed, int with_reset)
{
    if (relay->ended)
        return;
    relay->ended = 1;
    if (with_reset) {
        reset(relay->client.source.fd);
        reset(relay->server.source.fd);
    }
    egress_loop_close(&relay->client.source);
    egress_loop_close(&relay->server.source);
    egress_flow_clear(&relay->up);
    egress_flow_clear(&relay->down);
    relay->all->count--;
    relay->all->done -= relay->done;
    if (relay->over != NULL)
        relay->over(relay, failed);
    if (!relay->ready) /* else the list of those that wait for their turn still leads here */
        egress_loop_discard(relay->all->loop, &relay->garbage);
}

void egress_relay_pump(struct egress_relay *relay)
{
    if (relay->ended)
        return;
    int up = egress_flow_pump(&relay->up, &relay->all->pipes), looked_at = relay->up.filter != NULL;
    int down = up >= 0 ? egress_flow_pump(&relay->down, &relay->all->pipes) : 0;
    /* What the server said may be what the client's next bytes waited for. */
    if (up == 0 && down >= 0 && looked_at && relay->up.held != NULL)
        up = egress_flow_pump(&relay->up, &relay->all->pipes);
    if (up < 0 || down < 0) {
        egress_relay_end(relay, up < 0 ? up : down, 1);
        return;
    }
    if (relay->up.shut && relay->down.shut) {
        egress_relay_end(relay, 0, 0);
        return;
    }
    if (!relay->done && (relay->all->box_serves ? relay->down.shut : relay->up.shut)) {
        relay->done = 1;
        relay->all->done++;
    }
    if ((up == 1 || down == 1) && !relay->ready) {
        relay->ready = 1;
        relay->next_ready = relay->all->ready;
        relay->all->ready = relay;
    }
}

/* What many connections held at one time lies between what is still in use, where free() leaves it. */
static void give_back(struct egress_relays *all)
{
    if (all->count >= all->most / 4) {
        all->most = all->count > all->most ? all->count : all->most;
        return;
    }
    if (all->most > MANY)
        (void)malloc_trim(0); /* 0: there was nothing to give back */
    all->most = all->count;
}

int egress_relays_turn(struct egress_relays *all, int otherwise)
{
    give_back(all);
    struct egress_relay *list = all->ready;
    all->ready = NULL;
    while (list != NULL) {
        struct egress_relay *relay = list;
        list = relay->next_ready;
        relay->ready = 0;
        if (relay->ended)
            egress_loop_discard(all->loop, &relay->garbage);
        else
            egress_relay_pump(relay);
    }
    return all->ready != NULL ? 0 : otherwise;
}

/* Connections that nobody has taken yet are events, too. */
int egress_relays_finish(struct egress_relays *all)
{
    int failed = egress_loop_turn(all->loop, egress_relays_turn(all, all->loop->events > 0 ? 0 : LOOK_MS));
    return failed != 0 || (all->loop->events <= 0 && all->ready == NULL && all->count == all->done);
}
