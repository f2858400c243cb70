/* One direction of a relayed connection: bytes from one socket to another with their half-close, their backpressure and, in bulk,
 * without a copy. Runs in a worker. */
#ifndef EGRESS_FLOW_H
#define EGRESS_FLOW_H

#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/types.h>

#define EGRESS_HELD_MOST 98304 /* what a direction that is looked at may keep until it may go */

struct egress_flow {
    int from, to;
    int pipe[2];    /* only while bytes are in it; -1 otherwise */
    uint32_t piped; /* bytes in the pipe */
    uint8_t *held;  /* read, not yet written; only while there are any */
    uint32_t held_from, held_to, held_size;
    uint32_t cleared; /* of the held bytes, the filter has let these through */
    uint8_t bulk, readable, hung, eof, shut;
    uint8_t urgent; /* reads stop at urgent data with more behind it, and splice for good */
    uint8_t copy;   /* never splice: somebody looks at the bytes, see `seen` */
    /* Sees the bytes that are not cleared yet; returns how many may go, 0 for none yet, or -errno. Sets itself to NULL when it need
     * not see more. */
    long (*filter)(void *data, const uint8_t *bytes, size_t length);
    void (*seen)(void *data, const uint8_t *bytes, size_t length); /* with `copy`: each read */
    void *data;
};

struct egress_pipes {
    int pipe[32][2];
    uint32_t count;
};

#define EGRESS_FLOW_EVENTS (EPOLLIN | EPOLLPRI | EPOLLOUT | EPOLLRDHUP | EPOLLET)

void egress_flow_init(struct egress_flow *flow, int from, int to);
/* What epoll says of the socket that the flow reads. */
void egress_flow_hear(struct egress_flow *flow, uint32_t events);
/* Moves what can be moved. 0: nothing more to do until an event; 1: there is more, other connections come first; -errno: the
 * connection is broken, or the filter refused. */
int egress_flow_pump(struct egress_flow *flow, struct egress_pipes *pipes);
/* Puts bytes in front of what will be read: they go through the filter like all others. 0 or -errno. */
int egress_flow_push(struct egress_flow *flow, const uint8_t *bytes, size_t length);
void egress_flow_clear(struct egress_flow *flow);

#endif
