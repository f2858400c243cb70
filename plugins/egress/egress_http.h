/* The head of an HTTP/1 request: to whom it speaks and how long its body is, read so strictly that no server can read it
 * otherwise. Pure; in the worker. */
#ifndef EGRESS_HTTP_H
#define EGRESS_HTTP_H

#include "egress_name.h"

#define EGRESS_HEAD_MOST 65536

enum egress_body { EGRESS_BODY_NONE, EGRESS_BODY_LENGTH, EGRESS_BODY_CHUNKED };

struct egress_authority {
    int is_address;
    char name[EGRESS_NAME_SIZE]; /* clean; "" for an address */
    struct egress_address address;
    uint16_t port; /* 0: none was given */
};

struct egress_head {
    size_t length;       /* with the empty line */
    size_t method, path; /* the method's length; where the path starts in an absolute target, else 0 */
    int connect, absolute, has_host, upgrade;
    struct egress_authority target; /* of CONNECT and of an absolute URI */
    struct egress_authority host;
    enum egress_body body;
    uint64_t body_length;
};

/* -EAGAIN: more bytes are needed; -EBADMSG: not to be forwarded, *ret_why says why; 0. */
int egress_http_head(const uint8_t *bytes, size_t length, struct egress_head *ret_head, const char **ret_why);
#define EGRESS_LINE_MOST 8192
/* Whether the bytes start with a line that a web server may take for a request: 1, 0, or -EAGAIN for not yet clear. */
int egress_http_looks_so(const uint8_t *bytes, size_t length);
/* Whether they are all such as a method is made of. */
int egress_http_is_word(const uint8_t *bytes, size_t length);
/* "HOST", "HOST:PORT", "[IPV6]:PORT". 0 or -EINVAL. */
int egress_http_authority(const char *text, size_t length, struct egress_authority *ret_authority);
int egress_http_same(const struct egress_authority *a, const struct egress_authority *b);

/* Where a body that came in chunks stands. */
struct egress_chunks {
    uint8_t state, digits;
    uint64_t left;
};
/* How many of the bytes belong to the body: all, or up to its end (*ret_done). -EBADMSG for anything unusual. */
int egress_http_chunks(struct egress_chunks *chunks, const uint8_t *bytes, size_t length, size_t *ret_taken,
                       int *ret_done);

#endif
