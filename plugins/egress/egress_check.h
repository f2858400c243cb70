/* What a client says on a connection, held against the host that the connection is for: the name in the ClientHello, the Host of
 * every request. Pure; in the worker. */
#ifndef EGRESS_CHECK_H
#define EGRESS_CHECK_H

#include "egress_http.h"

enum egress_check_state {
    EGRESS_CHECK_START,
    EGRESS_CHECK_TLS,     /* after a ClientHello: there may be a second */
    EGRESS_CHECK_HEAD,    /* between requests */
    EGRESS_CHECK_LENGTH,  /* in a body */
    EGRESS_CHECK_CHUNKS,  /* in a body that comes in chunks */
    EGRESS_CHECK_UPGRADE, /* a WebSocket was asked for: what follows depends on the answer */
    EGRESS_CHECK_OPAQUE,  /* nothing more to see */
    EGRESS_CHECK_ENDED,   /* one request was all that this connection may carry: the rest is dropped */
};

#define EGRESS_WORD_MOST 32

struct egress_check {
    enum egress_check_state state;
    uint8_t must;    /* the port is one of web servers: what is neither TLS nor HTTP is refused */
    uint8_t ech;     /* an encrypted ClientHello is accepted */
    uint8_t asked;   /* a request went through */
    uint8_t once;    /* ENDED after the request that is on its way */
    uint8_t proxied; /* a PROXY header went ahead */
    uint16_t port;
    size_t passing; /* bytes of the record on its way */
    uint64_t left;
    struct egress_chunks chunks;
    char name[EGRESS_NAME_SIZE];
    /* The first word, let through because it may be all that the client has to say for now, and kept because it may be a method. */
    uint8_t word[EGRESS_WORD_MOST], word_length;
    uint8_t refused; /* EGRESS_DENIAL_*, once feed has failed */
    const char *why;
    char said[EGRESS_NAME_SIZE]; /* the name that was said instead, or "" */
};

/* `port` 80 and 443 must carry HTTP or TLS. */
void egress_check_start(struct egress_check *check, const char *name, uint16_t port, int ech);
/* How many of the bytes, which follow those that were let through before, may go; 0 when more must be seen, or -EACCES. */
long egress_check_feed(struct egress_check *check, const uint8_t *bytes, size_t length);
/* The server's first bytes after an Upgrade. */
void egress_check_answer(struct egress_check *check, const uint8_t *bytes, size_t length);

#endif
