/* What the worker tells kern: which hosts the box was denied, counted in memory that both share. Written by the worker, which
 * reads hostile bytes, so kern trusts nothing in it. */
#ifndef EGRESS_DENIAL_H
#define EGRESS_DENIAL_H

#include "egress_name.h"

#include <stdatomic.h>

#define EGRESS_DENIAL_ROWS 512
#define EGRESS_DENIAL_NAME 256

enum egress_denial_reason {
    EGRESS_DENIAL_NO_RULE,
    EGRESS_DENIAL_PORT,
    EGRESS_DENIAL_DENY,
    EGRESS_DENIAL_NOT_A_NAME,
    EGRESS_DENIAL_ADDRESS,
    EGRESS_DENIAL_SPECIAL,
    EGRESS_DENIAL_OTHER_NAME,
    EGRESS_DENIAL_NO_NAME,
    EGRESS_DENIAL_HIDDEN,
    EGRESS_DENIAL_NOT_WEB,
    EGRESS_DENIAL_OTHER_HOST,
    EGRESS_DENIAL_REQUEST,
    EGRESS_DENIAL_SLOW,
    EGRESS_DENIAL_FULL,
    EGRESS_DENIAL_COUNT,
};

struct egress_denial {
    char name[EGRESS_DENIAL_NAME];
    uint32_t port, reason;
    _Atomic uint64_t count;
};

struct egress_denials {
    _Atomic uint32_t rows;
    _Atomic uint64_t more; /* denials that had no room */
    struct egress_denial row[EGRESS_DENIAL_ROWS];
};

const char *egress_denial_text(uint32_t reason);
/* The worker's: counts one. Returns 1 when the row is new. */
int egress_denial_count(struct egress_denials *denials, const char *name, uint16_t port, uint32_t reason);

#endif
