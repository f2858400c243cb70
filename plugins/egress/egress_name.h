/* Host names and addresses as the egress rules see them. Pure: in kern (rules), in the worker (all else). */
#ifndef EGRESS_NAME_H
#define EGRESS_NAME_H

#include <stddef.h>
#include <stdint.h>

#define EGRESS_NAME_SIZE    254 /* 253 characters are the longest name that DNS can carry */
#define EGRESS_ADDRESS_SIZE 48

struct egress_address {
    uint8_t v6;        /* 1: sixteen bytes count, else the first four */
    uint8_t bytes[16]; /* network order */
};

/* Lower case, one trailing dot taken off, letters, digits, '-' and '_' in labels of 1 to 63. A name whose last label is a
 * number is none: somebody may read it as an address (127.1, 0x7f000001). 0 or -EINVAL, then *ret_name is untouched. */
int egress_name_clean(const char *text, size_t length, char ret_name[EGRESS_NAME_SIZE]);
/* Whether a reader of addresses somewhere may take the text for one: the last label is a number, decimal or hexadecimal. */
int egress_name_is_number(const char *text, size_t length);
/* Dotted quad or IPv6, in the one notation that everybody reads alike; no zone, no port. 0 or -EINVAL. */
int egress_address_parse(const char *text, size_t length, struct egress_address *ret_address);
/* At most 45 characters. */
void egress_address_print(const struct egress_address *address, char *ret_text, size_t size);
/* Whether the first `prefix` bits are those of `net`. */
int egress_address_within(const struct egress_address *address, const struct egress_address *net,
                          unsigned prefix);

#define EGRESS_PUBLIC  0 /* an address of the internet */
#define EGRESS_PRIVATE 1 /* of this machine or its networks: only for rules that say private */
#define EGRESS_NEVER   2 /* no host has it: multicast, unspecified, mapped and tunnelled forms */
/* What a name may resolve to. */
int egress_address_class(const struct egress_address *address);
/* 127.0.0.0/8, ::1. */
int egress_address_is_loopback(const struct egress_address *address);

#endif
