/* The worker's resolver; see egress_resolve.h. Each lookup asks for both sorts of addresses over one socket, whose port the kernel
 * picks, with ids that cannot be guessed; a reply must repeat the question. */
#include "egress_resolve.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#define TRY_MS      2000 /* for one server */
#define OTHER_MS    500  /* for the second sort of address, when one has come */
#define ROUNDS      2
#define TTL_MOST_MS 60000
#define TTL_LEAST   2000
#define WAITERS     8192
#define LOOKUPS     64

struct waiter {
    egress_resolved_fn done;
    void *data;
};

struct egress_lookup {
    struct egress_garbage garbage; /* first */
    struct egress_source udp, tcp;
    struct egress_resolver *resolver;
    struct egress_lookup *next;
    char name[EGRESS_NAME_SIZE];
    struct {
        uint16_t id, type;
        uint8_t answered, over_tcp;
    } ask[2];
    uint32_t tries, waiter_count, ttl;
    int64_t deadline_ms;
    struct egress_result result;
    int bad; /* of the answers so far, one was no answer */
    struct waiter *waiter;
    uint32_t tcp_used, tcp_sent;
    uint8_t tcp_bytes[EGRESS_DNS_MOST + 2];
};

#define LOOKUP_OF(source_, member) \
    ((struct egress_lookup *)(void *)((char *)(source_)-offsetof(struct egress_lookup, member)))

/* ---- Ends ---- */

static void remember(struct egress_resolver *resolver, const struct egress_lookup *lookup)
{
    struct egress_cached *oldest = &resolver->cached[0];
    for (size_t i = 1; i < EGRESS_CACHED; i++)
        if (resolver->cached[i].until_ms < oldest->until_ms)
            oldest = &resolver->cached[i];
    int64_t ttl = (int64_t)lookup->ttl * 1000;
    ttl = ttl > TTL_MOST_MS ? TTL_MOST_MS : ttl;
    ttl = ttl < TTL_LEAST || lookup->result.count == 0 ? TTL_LEAST : ttl;
    memcpy(oldest->name, lookup->name, sizeof(oldest->name));
    oldest->until_ms = resolver->loop->now_ms + ttl;
    oldest->result = lookup->result;
}

static void finish(struct egress_lookup *lookup)
{
    struct egress_resolver *resolver = lookup->resolver;
    for (struct egress_lookup **at = &resolver->lookups; *at != NULL; at = &(*at)->next)
        if (*at == lookup) {
            *at = lookup->next;
            break;
        }
    resolver->lookup_count--;
    egress_loop_close(&lookup->udp);
    egress_loop_close(&lookup->tcp);
    lookup->result.failed = lookup->result.count == 0 && lookup->bad;
    if (!lookup->result.failed)
        remember(resolver, lookup);
    for (uint32_t i = 0; i < lookup->waiter_count; i++)
        if (lookup->waiter[i].done != NULL)
            lookup->waiter[i].done(lookup->waiter[i].data, &lookup->result);
    free(lookup->waiter);
    lookup->waiter = NULL;
    lookup->waiter_count = 0;
    egress_loop_discard(resolver->loop, &lookup->garbage);
}

/* Returns 1 when the lookup is over. */
static int take_reply(struct egress_lookup *lookup, const uint8_t *message, size_t length)
{
    for (int i = 0; i < 2; i++) {
        struct egress_reply reply;
        if (lookup->ask[i].answered || egress_dns_read_reply(message, length, lookup->ask[i].id, lookup->name,
                                                             lookup->ask[i].type, &reply) != 0)
            continue;
        if (reply.cut) {
            lookup->ask[i].over_tcp = 1;
            return 0;
        }
        if (reply.rcode != EGRESS_RCODE_OK && reply.rcode != EGRESS_RCODE_NO_NAME) {
            lookup->deadline_ms = 0; /* it cannot say: perhaps the next can */
            return 0;
        }
        lookup->ask[i].answered = 1;
        lookup->result.worst = reply.worst > lookup->result.worst ? reply.worst : lookup->result.worst;
        for (uint32_t j = 0; j < reply.count; j++)
            lookup->result.address[lookup->result.count++] = reply.address[j];
        if (reply.count > 0 && reply.ttl < lookup->ttl)
            lookup->ttl = reply.ttl;
        if (lookup->result.count > 0 && lookup->deadline_ms > lookup->resolver->loop->now_ms + OTHER_MS)
            lookup->deadline_ms = lookup->resolver->loop->now_ms + OTHER_MS;
        break;
    }
    if (!lookup->ask[0].answered || !lookup->ask[1].answered)
        return 0;
    finish(lookup);
    return 1;
}

/* ---- Asking ---- */

static int open_server(const struct egress_resolver *resolver, uint32_t index, int type)
{
    const struct egress_address *server = &resolver->files->server[index];
    struct sockaddr_in6 v6 = {
        .sin6_family = AF_INET6, .sin6_port = htons(53), .sin6_scope_id = resolver->files->scope[index]};
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(53)};
    memcpy(&v6.sin6_addr, server->bytes, 16);
    memcpy(&v4.sin_addr, server->bytes, 4);
    int fd = socket(server->v6 ? AF_INET6 : AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    const struct sockaddr *to = server->v6 ? (const struct sockaddr *)&v6 : (const struct sockaddr *)&v4;
    if (connect(fd, to, server->v6 ? sizeof(v6) : sizeof(v4)) != 0 && errno != EINPROGRESS) {
        int failed = -errno;
        (void)close(fd); /* nothing was sent */
        return failed;
    }
    return fd;
}

static void on_udp(struct egress_source *source, uint32_t events)
{
    struct egress_lookup *lookup = LOOKUP_OF(source, udp);
    uint8_t message[EGRESS_DNS_MOST];
    (void)events; /* an error comes out of recv as well */
    for (;;) {
        ssize_t got = recv(source->fd, message, sizeof(message), 0);
        if (got < 0 && errno != EAGAIN && errno != EINTR)
            lookup->deadline_ms = 0; /* nobody listens there: the next server, at the next tick */
        if (got < 0)
            break;
        if (take_reply(lookup, message, (size_t)got))
            return;
    }
}

static void ask_udp(struct egress_lookup *lookup)
{
    struct egress_resolver *resolver = lookup->resolver;
    uint8_t message[EGRESS_DNS_MOST];
    egress_loop_close(&lookup->udp);
    lookup->deadline_ms = resolver->loop->now_ms + TRY_MS;
    lookup->udp = (struct egress_source){
        open_server(resolver, lookup->tries++ % resolver->files->server_count, SOCK_DGRAM), on_udp};
    if (lookup->udp.fd < 0 || egress_loop_add(resolver->loop, &lookup->udp, EPOLLIN | EPOLLET) != 0) {
        lookup->deadline_ms = 0;
        return;
    }
    for (int i = 0; i < 2; i++) {
        if (lookup->ask[i].answered)
            continue;
        if (getrandom(&lookup->ask[i].id, sizeof(lookup->ask[i].id), 0) != sizeof(lookup->ask[i].id))
            continue; /* cannot happen for two bytes; the deadline would end it */
        size_t length = egress_dns_write_query(lookup->ask[i].id, lookup->name, lookup->ask[i].type, message);
        (void)send(lookup->udp.fd, message, length, MSG_NOSIGNAL); /* asked again when nothing comes back */
    }
}

/* ---- TCP, for replies that were cut ---- */

static void on_tcp(struct egress_source *source, uint32_t events);

static void ask_tcp(struct egress_lookup *lookup, int which)
{
    struct egress_resolver *resolver = lookup->resolver;
    uint32_t server = (lookup->tries - 1) % resolver->files->server_count;
    lookup->tcp = (struct egress_source){open_server(resolver, server, SOCK_STREAM), on_tcp};
    lookup->tcp_sent = 0;
    size_t length = egress_dns_write_query(lookup->ask[which].id, lookup->name, lookup->ask[which].type,
                                           lookup->tcp_bytes + 2);
    lookup->tcp_bytes[0] = (uint8_t)(length >> 8);
    lookup->tcp_bytes[1] = (uint8_t)length;
    lookup->tcp_used = (uint32_t)length + 2;
    lookup->ask[which].over_tcp = 2;
    if (lookup->tcp.fd < 0 ||
        egress_loop_add(resolver->loop, &lookup->tcp, EPOLLIN | EPOLLOUT | EPOLLET) != 0)
        lookup->deadline_ms = 0;
}

/* The next reply that was cut, when none is being asked for. */
static void ask_cut(struct egress_lookup *lookup)
{
    for (int i = 0; i < 2 && lookup->tcp.fd < 0; i++)
        if (lookup->ask[i].over_tcp == 1)
            ask_tcp(lookup, i);
}

static void on_tcp(struct egress_source *source, uint32_t events)
{
    struct egress_lookup *lookup = LOOKUP_OF(source, tcp);
    (void)events; /* what can be done is tried */
    if (lookup->tcp_sent == 0) {
        /* Some hundred bytes into the empty buffer of a new connection: whole, or not connected yet. */
        if (send(source->fd, lookup->tcp_bytes, lookup->tcp_used, MSG_NOSIGNAL) != (ssize_t)lookup->tcp_used)
            return;
        lookup->tcp_sent = 1;
        lookup->tcp_used = 0;
    }
    for (;;) {
        ssize_t got = recv(source->fd, lookup->tcp_bytes + lookup->tcp_used,
                           sizeof(lookup->tcp_bytes) - lookup->tcp_used, 0);
        if (got <= 0) {
            if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
                egress_loop_close(source);
                lookup->deadline_ms = 0;
            }
            return;
        }
        lookup->tcp_used += (uint32_t)got;
        size_t length = (size_t)lookup->tcp_bytes[0] << 8 | lookup->tcp_bytes[1];
        if (lookup->tcp_used < 2 || lookup->tcp_used < length + 2)
            continue;
        egress_loop_close(source);
        if (!take_reply(lookup, lookup->tcp_bytes + 2, length))
            ask_cut(lookup);
        return;
    }
}

/* ---- For others ---- */

static int from_hosts(const struct egress_resolver *resolver, const char *name,
                      struct egress_result *ret_result)
{
    struct egress_result result = {0};
    for (uint32_t i = 0; i < resolver->files->host_count; i++)
        if (strcmp(resolver->files->host[i].name, name) == 0) {
            const struct egress_address *address = &resolver->files->host[i].address;
            int class = egress_address_class(address);
            result.worst = class > result.worst ? class : result.worst;
            if (result.count < sizeof(result.address) / sizeof(result.address[0]))
                result.address[result.count++] = *address;
        }
    if (result.count > 0)
        *ret_result = result;
    return result.count > 0;
}

static struct egress_lookup *start_lookup(struct egress_resolver *resolver, const char *name)
{
    struct egress_lookup *lookup = resolver->lookup_count < LOOKUPS ? calloc(1, sizeof(*lookup)) : NULL;
    if (lookup == NULL)
        return NULL;
    lookup->resolver = resolver;
    lookup->udp.fd = lookup->tcp.fd = -1;
    lookup->ttl = 3600;
    lookup->ask[0].type = EGRESS_TYPE_A;
    lookup->ask[1].type = EGRESS_TYPE_AAAA;
    memcpy(lookup->name, name, strlen(name) + 1); /* a clean name: it fits */
    lookup->next = resolver->lookups;
    resolver->lookups = lookup;
    resolver->lookup_count++;
    ask_udp(lookup);
    return lookup;
}

static int add_waiter(struct egress_lookup *lookup, struct waiter waiter)
{
    if ((lookup->waiter_count & (lookup->waiter_count - 1)) == 0) { /* room for the next power of two */
        size_t room = lookup->waiter_count == 0 ? 1 : 2 * (size_t)lookup->waiter_count;
        struct waiter *grown = room <= WAITERS ? reallocarray(lookup->waiter, room, sizeof(*grown)) : NULL;
        if (grown == NULL)
            return -ENOMEM;
        lookup->waiter = grown;
    }
    lookup->waiter[lookup->waiter_count++] = waiter;
    return 0;
}

void egress_resolve(struct egress_resolver *resolver, const char *name, egress_resolved_fn done, void *data)
{
    struct egress_result result = {.failed = 1};
    if (from_hosts(resolver, name, &result)) {
        done(data, &result);
        return;
    }
    for (size_t i = 0; i < EGRESS_CACHED; i++) {
        const struct egress_cached *cached = &resolver->cached[i];
        if (cached->until_ms > resolver->loop->now_ms && strcmp(cached->name, name) == 0) {
            result = cached->result; /* a copy: `done` may ask again */
            done(data, &result);
            return;
        }
    }
    struct egress_lookup *lookup = resolver->lookups;
    while (lookup != NULL && strcmp(lookup->name, name) != 0)
        lookup = lookup->next;
    if (lookup == NULL)
        lookup = start_lookup(resolver, name);
    if (lookup == NULL || add_waiter(lookup, (struct waiter){done, data}) != 0)
        done(data, &result);
}

void egress_resolve_forget(struct egress_resolver *resolver, const void *data)
{
    for (struct egress_lookup *lookup = resolver->lookups; lookup != NULL; lookup = lookup->next)
        for (uint32_t i = 0; i < lookup->waiter_count; i++)
            if (lookup->waiter[i].data == data)
                lookup->waiter[i].done = NULL;
}

void egress_resolve_tick(struct egress_resolver *resolver)
{
    for (struct egress_lookup *lookup = resolver->lookups, *next; lookup != NULL; lookup = next) {
        next = lookup->next;
        ask_cut(lookup);
        if (lookup->deadline_ms > resolver->loop->now_ms)
            continue;
        egress_loop_close(&lookup->tcp);
        for (int i = 0; i < 2; i++)
            lookup->ask[i].over_tcp = 0;
        if (lookup->result.count == 0 && lookup->tries < ROUNDS * resolver->files->server_count) {
            ask_udp(lookup);
            continue;
        }
        lookup->bad = 1;
        finish(lookup);
    }
}
