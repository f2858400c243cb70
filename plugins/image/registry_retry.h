/* Whether a request that failed is worth another attempt, and when. Pure. */
#ifndef REGISTRY_RETRY_H
#define REGISTRY_RETRY_H

#include <stdbool.h>
#include <stdint.h>

#define REGISTRY_RETRY_LONGEST 60000 /* ms: who asks for more than that is not waited for */

/* What became of an attempt. */
struct registry_attempt {
    uint32_t number;     /* 1 for the first */
    int32_t connection;  /* a CURLcode, 0 when there was an answer */
    const char *detail;  /* libcurl's words for it; may be NULL */
    uint32_t status;     /* of HTTP, 0 when there was none */
    int64_t retry_after; /* seconds, -1 when the answer had no such header */
    uint32_t progressed; /* bytes came in that need not come again: the count begins anew */
};

/* Milliseconds to wait before the next attempt; -1: it is no use. `limit` is the number of attempts. `noise`, any
 * number, spreads the attempts of several clients. */
int64_t registry_retry(const struct registry_attempt *attempt, uint32_t limit, uint32_t noise);

/* The value of Retry-After: seconds, or a date that is held against `now` (seconds since 1970). -1: neither. */
int64_t registry_retry_after(const char *value, int64_t now);

#endif
