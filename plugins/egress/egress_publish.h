/* Published ports: sockets of the host, made in prepare, and a worker that has joined the box's network. */
#ifndef EGRESS_PUBLISH_H
#define EGRESS_PUBLISH_H

#include "egress_ports.h"

#define EGRESS_AT_ONCE 200 /* descriptors in one message: the kernel takes 253 */

struct egress_held;

struct egress_late { /* a worker that starts when it is first needed; see egress_late.h */
    int waits;
    int near, far; /* of its channel: what is sent on `near`, the worker reads from `far` */
    int bell;      /* epoll of the sockets that call for it */
    uint32_t worker;
    struct egress_held *held; /* what was sent to it so far */
    uint32_t count;
};

struct egress_publish {
    int active;
    struct egress_late late; /* sockets and namespaces travel on its channel */
    struct egress_ports *ports;
};

/* prepare: makes the sockets of the host and asks for the worker. */
int egress_publish_prepare(kern_box *box, struct egress_publish *publish, kern_worker_fn worker,
                           struct kern_error *err);
/* enter: hands the box's network to the worker. */
int egress_publish_enter(kern_box *box, const struct egress_publish *publish, struct kern_error *err);
void egress_publish_clear(kern_box *box, struct egress_publish *publish);
/* The worker's whole life. */
int32_t egress_publish_serve(const struct egress_publish *publish);

/* Descriptors on a SOCK_SEQPACKET pair, up to EGRESS_AT_ONCE at a time; raw calls: in enter as well. 0 or -errno. */
int egress_send_fds(int channel, const void *bytes, size_t length, const int *fd, uint32_t count);
/* Blocks unless `flags` say otherwise. Returns how many descriptors came, or -errno. */
int egress_receive_fds(int channel, void *bytes, size_t length, int *ret_fd, uint32_t most, int flags);

#endif
