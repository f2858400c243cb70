/* A small epoll loop for the workers of this plugin: one process, one thread, edge-triggered. */
#ifndef EGRESS_LOOP_H
#define EGRESS_LOOP_H

#include <stdint.h>

struct egress_source {
    int fd; /* -1: closed, and what is still in this round of events about it is not delivered */
    void (*fn)(struct egress_source *source, uint32_t events);
};

/* What must outlive the round of events in which it ended: freed after it. First member of such structures. */
struct egress_garbage {
    struct egress_garbage *next;
};

struct egress_loop {
    int epoll;
    int spare;        /* a descriptor to give up, see egress_loop_accept() */
    int64_t now_ms;   /* CLOCK_MONOTONIC, read once a round */
    int events;       /* of the last round */
    int looks_around; /* before it sleeps: the last sleep was short */
    struct egress_garbage *garbage;
};

int egress_loop_open(struct egress_loop *loop);
int egress_loop_add(struct egress_loop *loop, struct egress_source *source, uint32_t events);
/* The next connection of a listener, non-blocking; or -1. Where no descriptor is left for it, it is ended: one that stayed in the queue
 * would wake the loop without end. */
int egress_loop_accept(struct egress_loop *loop, int listener);
/* Closes the descriptor; the memory of the source must live until the round is over. */
void egress_loop_close(struct egress_source *source);
/* The same for one that kern has a copy of: closing it does not end what is told of it. */
void egress_loop_remove(struct egress_loop *loop, struct egress_source *source);
void egress_loop_discard(struct egress_loop *loop, struct egress_garbage *garbage);
/* One round. 0 or -errno. */
int egress_loop_turn(struct egress_loop *loop, int timeout_ms);
int64_t egress_now_ms(void);

#endif
