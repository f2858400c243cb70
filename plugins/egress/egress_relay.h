/* A relayed connection: two sockets, two flows. Runs in a worker. */
#ifndef EGRESS_RELAY_H
#define EGRESS_RELAY_H

#include "egress_flow.h"
#include "egress_loop.h"

struct egress_relays;

struct egress_side {
    struct egress_source source; /* first: events come here */
    struct egress_relay *relay;
};

struct egress_relay {
    struct egress_garbage garbage; /* first */
    struct egress_relays *all;
    struct egress_relay *next_ready; /* those that had their share and have more */
    uint8_t ready, ended, registered, done;
    struct egress_side client, server;
    struct egress_flow up, down; /* client to server, server to client */
    /* Told once, when the connection is over; `failed` is 0 or the -errno of the flow that broke. The structure itself is freed
     * by the loop. */
    void (*over)(struct egress_relay *relay, int failed);
};

struct egress_relays {
    struct egress_loop *loop;
    struct egress_pipes pipes;
    struct egress_relay *ready;
    uint32_t count, most; /* most: since memory was given back */
    uint32_t done;        /* of them, so many have nothing more of the box's to carry */
    uint8_t box_serves;   /* what the box says goes down */
};

/* Both sockets are connected and non-blocking; the relay owns them. */
void egress_relay_start(struct egress_relays *all, struct egress_relay *relay, int client, int server);
void egress_relay_pump(struct egress_relay *relay);
/* Ends it; with a reset where `reset`, so that no side takes it for an orderly end. */
void egress_relay_end(struct egress_relay *relay, int failed, int reset);
/* Another turn for those that had their share. Returns how long the loop may sleep: 0 or `otherwise`. */
int egress_relays_turn(struct egress_relays *all, int otherwise);
/* One more round for a worker whose box has ended. Returns 1 when nothing is left that the box had sent. */
int egress_relays_finish(struct egress_relays *all);
/* As every connection here wants it: TCP_NODELAY; keepalive when the other end is far, small buffers and no pacing when it is on
 * this machine. Before the connection: on a socket that is to connect, or on a listener, from which connections inherit it. Once
 * connected, a socket keeps the pacing that it began with. */
void egress_tune(int fd, int near);

#endif
