/* Denied hosts, counted; see egress_denial.h. In the worker (counting) and in kern (words). */
#include "egress_denial.h"

#include <string.h>

const char *egress_denial_text(uint32_t reason)
{
    static const char *const text[EGRESS_DENIAL_COUNT] = {
        [EGRESS_DENIAL_NO_RULE] = "no egress rule allows it",
        [EGRESS_DENIAL_PORT] = "no egress rule allows this port",
        [EGRESS_DENIAL_DENY] = "an egress rule denies it",
        [EGRESS_DENIAL_NOT_A_NAME] = "not a host name",
        [EGRESS_DENIAL_ADDRESS] = "no egress rule allows this address",
        [EGRESS_DENIAL_SPECIAL] = "the name leads to an address of this machine or its networks",
        [EGRESS_DENIAL_OTHER_NAME] = "TLS named another host",
        [EGRESS_DENIAL_NO_NAME] = "TLS named no host",
        [EGRESS_DENIAL_HIDDEN] = "TLS hides whom it names (encrypted ClientHello)",
        [EGRESS_DENIAL_NOT_WEB] = "neither TLS nor HTTP on a port of web servers",
        [EGRESS_DENIAL_OTHER_HOST] = "HTTP named another host",
        [EGRESS_DENIAL_REQUEST] = "an HTTP request that cannot be checked",
        [EGRESS_DENIAL_SLOW] = "it did not say in time whom it means",
        [EGRESS_DENIAL_FULL] = "too many names of wildcard rules at one time",
    };
    return reason < EGRESS_DENIAL_COUNT ? text[reason] : "refused";
}

int egress_denial_count(struct egress_denials *denials, const char *name, uint16_t port, uint32_t reason)
{
    uint32_t rows = atomic_load_explicit(&denials->rows, memory_order_relaxed);
    for (uint32_t i = 0; i < rows; i++) {
        struct egress_denial *row = &denials->row[i];
        /* A name that is too long for its row is the same one again as far as the row goes. */
        if (row->port == port && row->reason == reason &&
            strncmp(row->name, name, sizeof(row->name) - 1) == 0) {
            atomic_fetch_add_explicit(&row->count, 1, memory_order_relaxed);
            return 0;
        }
    }
    if (rows == EGRESS_DENIAL_ROWS) {
        atomic_fetch_add_explicit(&denials->more, 1, memory_order_relaxed);
        return 0;
    }
    struct egress_denial *row = &denials->row[rows];
    size_t length = strnlen(name, sizeof(row->name) - 1);
    memcpy(row->name, name, length);
    row->name[length] = '\0';
    row->port = port;
    row->reason = reason;
    atomic_store_explicit(&row->count, 1, memory_order_relaxed);
    atomic_store_explicit(&denials->rows, rows + 1, memory_order_release);
    return 1;
}
