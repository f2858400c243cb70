/* The worker's world: its loop, its resolver, the box's sockets, its connections. One process, one thread. */
#ifndef EGRESS_WORLD_H
#define EGRESS_WORLD_H

#include "egress.h"
#include "egress_check.h"
#include "egress_relay.h"
#include "egress_resolve.h"

#define EGRESS_MAX_CONNS 4096

struct egress_world;

struct egress_listener {
    struct egress_source source; /* first */
    struct egress_world *world;
    const struct egress_slot *slot;
    uint8_t added; /* the loop knows it */
};

struct egress_seat { /* what the worker knows of a place */
    int64_t used_ms; /* a name was last asked for */
    uint32_t conns;
};

enum egress_conn_state { EGRESS_CONN_HEAD, EGRESS_CONN_RESOLVE, EGRESS_CONN_CONNECT, EGRESS_CONN_RELAY };

struct egress_conn {
    struct egress_relay relay; /* first */
    struct egress_world *world;
    struct egress_conn *next, *prev;
    enum egress_conn_state state;
    uint8_t proxy, tunnel;               /* came through the proxy; and was a CONNECT */
    uint8_t told;                        /* the proxy has told the client why it ends */
    uint32_t client_heard, server_heard; /* events so far */
    uint8_t checked, tried, address_count, is_address, private_too;
    uint16_t port;
    int32_t place;       /* or -1 */
    int64_t deadline_ms; /* 0: none */
    struct egress_address address[8];
    uint8_t *early; /* HEAD: what the client has said so far; later: what goes first */
    uint32_t early_length;
    struct egress_check check;
    char name[EGRESS_NAME_SIZE]; /* what the connection is for; an address as text */
};

struct egress_world {
    struct egress_loop loop;
    struct egress_relays relays;
    struct egress_resolver resolver;
    struct egress_state *state;
    struct egress_source channel;
    int news, v6, complete;
    int ending;                       /* the box has */
    int waiting;                      /* a connection has a deadline */
    struct egress_listener *listener; /* one for each slot */
    struct egress_seat *seat;         /* one for each place */
    struct egress_conn *conns;
    int64_t next_tick_ms;
};

void egress_deny(struct egress_world *world, const char *name, uint16_t port, uint32_t reason);
/* The words for a refusal, for who can read them. */
const char *egress_reason(enum egress_verdict verdict, uint32_t *ret_reason);

/* egress_serve.c: DNS of the box. */
void egress_serve_udp(struct egress_source *source, uint32_t events);
void egress_serve_tcp(struct egress_world *world, int fd);
/* The place of a name that is allowed on some port; -1 when there is none left. */
int32_t egress_take_place(struct egress_world *world, const char *name);

/* egress_conn.c: connections. */
void egress_accept(struct egress_source *source, uint32_t events);
void egress_conn_tick(struct egress_world *world);
/* Takes the connection to NAME:PORT further: `early` is what the client has said already. */
void egress_conn_reach(struct egress_conn *conn, const struct egress_rule *rule);
void egress_conn_end(struct egress_conn *conn);

/* egress_proxy.c */
void egress_proxy_start(struct egress_conn *conn);
/* The server is there, or cannot be reached: tells the client. Returns 0, or -errno when the connection is to end. */
int egress_proxy_connected(struct egress_conn *conn);
void egress_proxy_failed(struct egress_conn *conn, uint32_t reason, const char *detail);

#endif
