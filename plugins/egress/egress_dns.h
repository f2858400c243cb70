/* DNS messages: what the box asks and gets, what the worker asks and gets of the host's name servers. Pure. */
#ifndef EGRESS_DNS_H
#define EGRESS_DNS_H

#include "egress_name.h"

#define EGRESS_DNS_MOST 4096 /* bytes of a message that is read or written */
#define EGRESS_DNS_TEXT 1025 /* a name as text: each byte may take four characters */

#define EGRESS_TYPE_A     1
#define EGRESS_TYPE_CNAME 5
#define EGRESS_TYPE_PTR   12
#define EGRESS_TYPE_AAAA  28

#define EGRESS_RCODE_OK       0
#define EGRESS_RCODE_FORMAT   1
#define EGRESS_RCODE_SERVER   2
#define EGRESS_RCODE_NO_NAME  3
#define EGRESS_RCODE_NOT_DONE 4

struct egress_question {
    uint16_t id, type, class, flags;
    size_t end;                 /* of the question section in the message */
    char name[EGRESS_DNS_TEXT]; /* dots between labels; bytes that no host name has stand as \DDD */
};

/* 0; -EBADMSG for what deserves no answer; -EINVAL for what gets a format error (id and flags are valid then). */
int egress_dns_read_question(const uint8_t *message, size_t length, struct egress_question *ret_question);
/* The answer to `message`, whose question was read: `address` (or NULL for none) with `ttl`. Returns its length. */
size_t egress_dns_write_answer(const uint8_t *message, const struct egress_question *question, int rcode,
                               const struct egress_address *address, uint32_t ttl,
                               uint8_t ret_message[EGRESS_DNS_MOST]);
/* Asks for a clean name. Returns the length, 0 when the name does not fit. */
size_t egress_dns_write_query(uint16_t id, const char *name, uint16_t type,
                              uint8_t ret_message[EGRESS_DNS_MOST]);

#define EGRESS_DNS_ADDRESSES 16

struct egress_reply {
    int rcode;
    int cut; /* ask again over TCP */
    uint32_t ttl;
    int worst; /* EGRESS_PUBLIC, ...: of all addresses in the reply, also those that there is no room for */
    uint32_t count;
    struct egress_address address[EGRESS_DNS_ADDRESSES];
};

/* The reply to a query of ours; follows aliases within it. 0; -EBADMSG when it is none or cannot be read. */
int egress_dns_read_reply(const uint8_t *message, size_t length, uint16_t id, const char *name, uint16_t type,
                          struct egress_reply *ret_reply);

#endif
