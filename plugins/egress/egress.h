/* What the two sides of the egress plugin share: kern prepares it, the box's first process makes the sockets that it lists, and
 * the worker serves them. */
#ifndef EGRESS_H
#define EGRESS_H

#include "egress_denial.h"
#include "egress_host.h"
#include "egress_publish.h"
#include "egress_rules.h"

/* In the box. The resolver has a loopback address of its own, so that 127.0.0.1:53 stays free. */
#define EGRESS_PROXY_PORT 3128

#define EGRESS_MAX_SLOTS  900 /* sockets made for one box; a soft limit of 1024 descriptors holds them */
#define EGRESS_POOL_SLOTS 256 /* of these, for names of wildcard rules */
#define EGRESS_NET_SLOTS  600 /* and for addresses of rules that name networks */
#define EGRESS_POOL_PORTS 8

enum egress_slot_kind {
    EGRESS_SLOT_DNS_UDP,
    EGRESS_SLOT_DNS_TCP,
    EGRESS_SLOT_PROXY,
    EGRESS_SLOT_HOST,
    EGRESS_SLOT_NET
};

/* One socket of the box that the worker serves. */
struct egress_slot {
    uint8_t kind;
    uint8_t listening; /* from the start; those of the pool when a name takes them */
    uint16_t port;
    uint16_t host; /* EGRESS_SLOT_HOST: index of the place */
    struct egress_address address;
};

/* A synthetic address: of one name for good, or of the pool. */
struct egress_place {
    uint8_t fixed;
    char name[EGRESS_NAME_SIZE]; /* "" in the pool until a name takes it */
};

#define EGRESS_MAX_PLACES 512

struct egress_message {            /* with up to EGRESS_AT_ONCE descriptors */
    uint16_t count, last, v6;      /* last: no more come; v6: the box's kernel has IPv6 */
    uint16_t slot[EGRESS_AT_ONCE]; /* which socket each descriptor is */
};

struct egress_state {
    int active;
    struct egress_late late; /* the box's sockets travel on its channel */
    int news;                /* eventfd: the worker has counted a new sort of denial */
    struct egress_rules *rules;
    struct egress_host_files files;
    struct egress_slot *slot;
    uint32_t slot_count;
    struct egress_place *place;
    uint32_t place_count;
    struct egress_denials *denials;
    uint64_t told[EGRESS_DENIAL_ROWS];
    uint64_t told_more;
    struct egress_publish publish;
};

/* Pure: the sockets and addresses that the rules ask for. Appends notes for what is left out through `note`. */
int egress_plan(struct egress_state *state, int *ret_cut, struct kern_error *err);
void egress_place_address(uint32_t index, int v6, struct egress_address *ret_address);
/* enter. */
int egress_make_sockets(const struct egress_state *state, struct kern_error *err);
/* The worker's whole life. */
int32_t egress_worker(kern_box *box, void *state, const int32_t *fds, uint32_t count);

#endif
