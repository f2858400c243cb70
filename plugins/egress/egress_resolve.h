/* The worker's own resolver: asks the host's name servers, over UDP and, when a reply is cut, TCP. Never blocks. */
#ifndef EGRESS_RESOLVE_H
#define EGRESS_RESOLVE_H

#include "egress_dns.h"
#include "egress_host.h"
#include "egress_loop.h"

struct egress_result {
    int failed; /* no name server answered, or it said that it cannot */
    int worst;  /* of all that the name leads to, see egress_address_class() */
    uint32_t count;
    struct egress_address address[2 * EGRESS_DNS_ADDRESSES];
};

typedef void (*egress_resolved_fn)(void *data, const struct egress_result *result);

struct egress_lookup;

struct egress_cached {
    char name[EGRESS_NAME_SIZE];
    int64_t until_ms;
    struct egress_result result;
};

#define EGRESS_CACHED 64

struct egress_resolver {
    struct egress_loop *loop;
    const struct egress_host_files *files;
    struct egress_lookup *lookups;
    struct egress_cached cached[EGRESS_CACHED];
    uint32_t lookup_count;
};

/* `done` is called once, perhaps at once. */
void egress_resolve(struct egress_resolver *resolver, const char *name, egress_resolved_fn done, void *data);
/* Whoever asked with this `data` is not told any more. */
void egress_resolve_forget(struct egress_resolver *resolver, const void *data);
/* Asks again what was not answered in time. Call it every 100 ms while lookup_count is not 0. */
void egress_resolve_tick(struct egress_resolver *resolver);

#endif
