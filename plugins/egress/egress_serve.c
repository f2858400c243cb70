/* The name server of the box: allowed names get their synthetic address, all others do not exist. Runs in the worker. Nothing is
 * asked of anybody: what a box sends here goes nowhere. */
#include "egress_world.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define TTL     30 /* seconds: how long a program may keep an address of the pool without asking again */
#define IDLE_MS (2 * TTL * 1000)

/* ---- Places ---- */

static int32_t find_place(const struct egress_world *world, const char *name)
{
    for (uint32_t i = 0; i < world->state->place_count; i++)
        if (strcmp(world->state->place[i].name, name) == 0)
            return (int32_t)i;
    return -1;
}

static void start_listening(struct egress_listener *listener)
{
    if (listener->added || listener->source.fd < 0)
        return;
    if (listen(listener->source.fd, 512) != 0)
        return; /* then connecting is refused */
    listener->added = egress_loop_add(&listener->world->loop, &listener->source, EPOLLIN) == 0;
}

/* A free place of the pool, or the one that was left alone for longest. A program that kept its old address reaches another allowed
 * name at most, and the check of what it says there ends that. */
static int32_t free_place(struct egress_world *world)
{
    int32_t best = -1;
    for (uint32_t i = 0; i < world->state->place_count; i++) {
        const struct egress_place *place = &world->state->place[i];
        const struct egress_seat *seat = &world->seat[i];
        if (place->fixed || seat->conns > 0 ||
            (place->name[0] != '\0' && seat->used_ms + IDLE_MS > world->loop.now_ms))
            continue;
        if (best < 0 || seat->used_ms < world->seat[best].used_ms)
            best = (int32_t)i;
    }
    return best;
}

int32_t egress_take_place(struct egress_world *world, const char *name)
{
    int32_t index = find_place(world, name);
    if (index < 0 && (index = free_place(world)) >= 0) {
        struct egress_place *place = &world->state->place[index];
        memcpy(place->name, name, strlen(name) + 1); /* a clean name: it fits */
        for (uint32_t i = 0; i < world->state->slot_count; i++) {
            const struct egress_slot *slot = &world->state->slot[i];
            const struct egress_rule *rule;
            if (slot->kind == EGRESS_SLOT_HOST && slot->host == index &&
                egress_rules_name(world->state->rules, name, slot->port, &rule) == EGRESS_ALLOWED)
                start_listening(&world->listener[i]);
        }
    }
    if (index >= 0)
        world->seat[index].used_ms = world->loop.now_ms;
    return index;
}

/* ---- Answers ---- */

/* Asked by programs that print whom they are connected to; nobody is looking for a way out with them. */
static int is_reverse_of_ours(const char *name)
{
    static const char *const ours[] = {".18.198.in-addr.arpa", ".19.198.in-addr.arpa", ".127.in-addr.arpa",
                                       ".0.0.0.2.0.0.0.1.0.0.2.ip6.arpa"};
    size_t length = strlen(name);
    for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++) {
        size_t count = strlen(ours[i]);
        if (length > count && strcmp(name + length - count, ours[i]) == 0)
            return 1;
    }
    return 0;
}

static size_t answer(struct egress_world *world, const uint8_t *message, size_t length,
                     uint8_t reply[EGRESS_DNS_MOST])
{
    struct egress_question question;
    int failed = egress_dns_read_question(message, length, &question);
    if (failed == -EBADMSG)
        return 0;
    if (failed != 0)
        return egress_dns_write_answer(message, &question, EGRESS_RCODE_FORMAT, NULL, 0, reply);
    char name[EGRESS_NAME_SIZE];
    if (egress_name_clean(question.name, strlen(question.name), name) != 0) {
        egress_deny(world, question.name, 0, EGRESS_DENIAL_NOT_A_NAME);
        return egress_dns_write_answer(message, &question, EGRESS_RCODE_NO_NAME, NULL, 0, reply);
    }
    const struct egress_rule *rule;
    enum egress_verdict verdict = egress_rules_name(world->state->rules, name, 0, &rule);
    if (verdict != EGRESS_ALLOWED || question.class != 1) {
        uint32_t reason;
        (void)egress_reason(verdict, &reason);
        if (!is_reverse_of_ours(name))
            egress_deny(world, name, 0, reason);
        return egress_dns_write_answer(message, &question, EGRESS_RCODE_NO_NAME, NULL, 0, reply);
    }
    int v6 = question.type == EGRESS_TYPE_AAAA;
    if (question.type != EGRESS_TYPE_A && !(v6 && world->v6))
        return egress_dns_write_answer(message, &question, EGRESS_RCODE_OK, NULL, 0, reply);
    int32_t place = egress_take_place(world, name);
    if (place < 0) {
        egress_deny(world, name, 0, EGRESS_DENIAL_FULL);
        return egress_dns_write_answer(message, &question, EGRESS_RCODE_SERVER, NULL, 0, reply);
    }
    struct egress_address address;
    egress_place_address((uint32_t)place, v6, &address);
    return egress_dns_write_answer(message, &question, EGRESS_RCODE_OK, &address, TTL, reply);
}

void egress_serve_udp(struct egress_source *source, uint32_t events)
{
    struct egress_listener *listener = (struct egress_listener *)source;
    uint8_t message[EGRESS_DNS_MOST], reply[EGRESS_DNS_MOST];
    struct sockaddr_storage from;
    (void)events; /* it was added for EPOLLIN only */
    for (int turn = 0; turn < 64; turn++) {
        socklen_t size = sizeof(from);
        ssize_t got = recvfrom(source->fd, message, sizeof(message), 0, (struct sockaddr *)&from, &size);
        if (got < 0)
            return;
        size_t length = answer(listener->world, message, (size_t)got, reply);
        if (length > 0) /* lost like any datagram when there is no room */
            (void)sendto(source->fd, reply, length, MSG_NOSIGNAL, (struct sockaddr *)&from, size);
    }
}

/* ---- Over TCP ---- */

struct tcp_client {
    struct egress_garbage garbage; /* first */
    struct egress_source source;
    struct egress_world *world;
    uint32_t used;
    uint8_t bytes[EGRESS_DNS_MOST + 2];
};

static void end_tcp(struct tcp_client *client)
{
    egress_loop_close(&client->source);
    client->world->relays.count--;
    egress_loop_discard(&client->world->loop, &client->garbage);
}

static void on_tcp(struct egress_source *source, uint32_t events)
{
    struct tcp_client *client =
        (struct tcp_client *)(void *)((char *)source - offsetof(struct tcp_client, source));
    uint8_t reply[EGRESS_DNS_MOST + 2];
    ssize_t got = recv(source->fd, client->bytes + client->used, sizeof(client->bytes) - client->used, 0);
    (void)events; /* the end comes out of recv as well */
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    client->used += got > 0 ? (uint32_t)got : 0;
    int over = got <= 0;
    while (!over && client->used >= 2) {
        size_t length = (size_t)client->bytes[0] << 8 | client->bytes[1];
        over = length > EGRESS_DNS_MOST;
        if (over || client->used < length + 2)
            break;
        size_t out = answer(client->world, client->bytes + 2, length, reply + 2);
        reply[0] = (uint8_t)(out >> 8);
        reply[1] = (uint8_t)out;
        /* Whoever does not read what was asked for gets no more. */
        over = out == 0 || send(source->fd, reply, out + 2, MSG_NOSIGNAL) != (ssize_t)(out + 2);
        client->used -= (uint32_t)length + 2;
        memmove(client->bytes, client->bytes + length + 2, client->used);
    }
    if (over)
        end_tcp(client);
}

void egress_serve_tcp(struct egress_world *world, int fd)
{
    struct tcp_client *client = world->relays.count < EGRESS_MAX_CONNS ? calloc(1, sizeof(*client)) : NULL;
    if (client == NULL) {
        (void)close(fd); /* nothing was said yet */
        return;
    }
    client->world = world;
    client->source = (struct egress_source){fd, on_tcp};
    world->relays.count++;
    if (egress_loop_add(&world->loop, &client->source, EPOLLIN) != 0)
        end_tcp(client); /* nobody would hear it */
}
