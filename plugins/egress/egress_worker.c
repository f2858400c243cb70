/* The egress worker: what a box with egress talks to. It reads what the box says and waits for the world, with no capability, no
 * file, and a filter that leaves it the calls of a relay. kern starts it when the box first asks for something; it
 * ends when it has carried what the box sent last. */
#include "egress_world.h"

#include "egress_confine.h"
#include "egress_publish.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define TICK_MS 100

void egress_deny(struct egress_world *world, const char *name, uint16_t port, uint32_t reason)
{
    static const uint64_t one = 1;
    if (egress_denial_count(world->state->denials, name, port, reason) &&
        write(world->news, &one, sizeof(one)) < 0)
        return; /* it is full of news: kern will look */
}

const char *egress_reason(enum egress_verdict verdict, uint32_t *ret_reason)
{
    *ret_reason = verdict == EGRESS_DENIED       ? EGRESS_DENIAL_DENY
                  : verdict == EGRESS_WRONG_PORT ? EGRESS_DENIAL_PORT
                                                 : EGRESS_DENIAL_NO_RULE;
    return egress_denial_text(*ret_reason);
}

/* ---- Sockets of the box ---- */

static void adopt(struct egress_world *world, uint32_t index, int fd)
{
    struct egress_listener *listener = &world->listener[index];
    if (index >= world->state->slot_count || listener->source.fd >= 0) {
        (void)close(fd); /* the box's first process runs kern's code: cannot happen */
        return;
    }
    listener->source.fd = fd;
    if (listener->slot->kind != EGRESS_SLOT_DNS_UDP)
        egress_tune(fd, 1); /* the box is on this machine */
    if (listener->slot->listening)
        listener->added = egress_loop_add(&world->loop, &listener->source, EPOLLIN) == 0;
}

/* Returns 0, or -errno when no more can come. */
static int receive(struct egress_world *world)
{
    struct egress_message head;
    int fd[EGRESS_AT_ONCE];
    int count = egress_receive_fds(world->channel.fd, &head, sizeof(head), fd, EGRESS_AT_ONCE, MSG_DONTWAIT);
    if (count < 0)
        return count == -EAGAIN || count == -EINTR ? 0 : count;
    if (count != head.count)
        return -EPIPE;
    world->v6 = head.v6;
    for (int i = 0; i < count; i++)
        adopt(world, head.slot[i], fd[i]);
    world->complete |= head.last;
    return 0;
}

static void on_channel(struct egress_source *source, uint32_t events)
{
    struct egress_world *world =
        (struct egress_world *)(void *)((char *)source - offsetof(struct egress_world, channel));
    (void)events; /* the end comes out of recvmsg as well */
    if (receive(world) != 0) {
        if (!world->complete)
            _exit(1); /* kern names the worker that has ended */
        egress_loop_remove(&world->loop, source);
        world->ending = 1;
    }
}

/* ---- Life ---- */

static int open_world(struct egress_world *world, struct egress_state *state, int channel, int news)
{
    world->state = state;
    world->news = news;
    world->listener = calloc(state->slot_count, sizeof(*world->listener));
    world->seat = calloc(state->place_count + 1, sizeof(*world->seat));
    if (world->listener == NULL || world->seat == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < state->slot_count; i++) {
        int udp = state->slot[i].kind == EGRESS_SLOT_DNS_UDP;
        world->listener[i] =
            (struct egress_listener){{-1, udp ? egress_serve_udp : egress_accept}, world, &state->slot[i], 0};
    }
    world->channel = (struct egress_source){channel, on_channel};
    world->resolver = (struct egress_resolver){.loop = &world->loop, .files = &state->files};
    world->relays.loop = &world->loop;
    int failed = egress_loop_open(&world->loop);
    return failed != 0 ? failed : egress_loop_add(&world->loop, &world->channel, EPOLLIN);
}

static void tick(struct egress_world *world)
{
    if (world->loop.now_ms < world->next_tick_ms)
        return;
    world->next_tick_ms = world->loop.now_ms + TICK_MS;
    egress_resolve_tick(&world->resolver);
    egress_conn_tick(world);
}

int32_t egress_worker(kern_box *box, void *state, const int32_t *fds, uint32_t count)
{
    struct egress_world *world = calloc(1, sizeof(*world));
    (void)box, (void)count; /* the state has all: it was copied when this process began */
    egress_raise_limit();
    if (world == NULL || open_world(world, state, fds[0], fds[1]) != 0 || egress_confine() != 0)
        return 1;
    while (!world->ending) {
        int busy = world->waiting || world->resolver.lookup_count > 0;
        if (egress_loop_turn(&world->loop, egress_relays_turn(&world->relays, busy ? TICK_MS : -1)) != 0)
            return 1;
        tick(world);
    }
    while (!egress_relays_finish(&world->relays))
        tick(world);
    return 0;
}
