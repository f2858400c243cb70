/* Host names and addresses; see egress_name.h. Pure. */
#include "egress_name.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

static int is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* No locale: what is a letter must not depend on where kern runs. */
static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static int may_stand_in_label(char c)
{
    return (c >= 'a' && c <= 'z') || is_digit(c) || c == '-' || c == '_';
}

int egress_name_is_number(const char *text, size_t length)
{
    if (length > 0 && text[length - 1] == '.')
        length--;
    size_t start = length;
    while (start > 0 && text[start - 1] != '.')
        start--;
    const char *label = text + start;
    size_t count = length - start;
    if (count == 0)
        return 0;
    if (count >= 2 && label[0] == '0' && lower(label[1]) == 'x') {
        for (size_t i = 2; i < count; i++)
            if (!is_digit(label[i]) && (lower(label[i]) < 'a' || lower(label[i]) > 'f'))
                return 0;
        return 1;
    }
    for (size_t i = 0; i < count; i++)
        if (!is_digit(label[i]))
            return 0;
    return 1;
}

int egress_name_clean(const char *text, size_t length, char ret_name[EGRESS_NAME_SIZE])
{
    char name[EGRESS_NAME_SIZE];
    if (length > 0 && text[length - 1] == '.')
        length--;
    if (length == 0 || length >= sizeof(name) || egress_name_is_number(text, length))
        return -EINVAL;
    size_t label = 0;
    for (size_t i = 0; i < length; i++) {
        char c = lower(text[i]);
        name[i] = c;
        if (c == '.') {
            if (label == 0 || name[i - 1] == '-')
                return -EINVAL;
            label = 0;
            continue;
        }
        if (!may_stand_in_label(c) || (label == 0 && c == '-') || ++label > 63)
            return -EINVAL;
    }
    if (label == 0 || name[length - 1] == '-')
        return -EINVAL;
    name[length] = '\0';
    memcpy(ret_name, name, length + 1);
    return 0;
}

int egress_address_parse(const char *text, size_t length, struct egress_address *ret_address)
{
    char copy[INET6_ADDRSTRLEN];
    struct egress_address address = {0};
    if (length == 0 || length >= sizeof(copy) || memchr(text, '\0', length) != NULL)
        return -EINVAL;
    memcpy(copy, text, length);
    copy[length] = '\0';
    address.v6 = memchr(copy, ':', length) != NULL;
    /* inet_pton takes four decimal numbers without leading zeros, and nothing else, for a dotted quad. */
    if (inet_pton(address.v6 ? AF_INET6 : AF_INET, copy, address.bytes) != 1)
        return -EINVAL;
    *ret_address = address;
    return 0;
}

void egress_address_print(const struct egress_address *address, char *ret_text, size_t size)
{
    if (inet_ntop(address->v6 ? AF_INET6 : AF_INET, address->bytes, ret_text, (socklen_t)size) == NULL &&
        size > 0)
        ret_text[0] = '\0'; /* too small a buffer */
}

int egress_address_within(const struct egress_address *address, const struct egress_address *net,
                          unsigned prefix)
{
    if (address->v6 != net->v6)
        return 0;
    unsigned whole = prefix / 8, rest = prefix % 8;
    if (memcmp(address->bytes, net->bytes, whole) != 0)
        return 0;
    uint8_t mask = (uint8_t)(0xff00u >> rest);
    return rest == 0 || ((address->bytes[whole] ^ net->bytes[whole]) & mask) == 0;
}

struct range {
    struct egress_address net;
    uint8_t prefix, is;
};

/* What is in no row is public. */
static const struct range v4_ranges[] = {
    {{0, {0}}, 8, EGRESS_NEVER},                   /* "this network": Linux connects to itself */
    {{0, {10}}, 8, EGRESS_PRIVATE},                /* RFC 1918 */
    {{0, {100, 64}}, 10, EGRESS_PRIVATE},          /* carrier NAT; a cloud keeps its metadata here */
    {{0, {127}}, 8, EGRESS_PRIVATE},               /* loopback of the host */
    {{0, {168, 63, 129, 16}}, 32, EGRESS_PRIVATE}, /* metadata of a cloud on a public address */
    {{0, {169, 254}}, 16, EGRESS_PRIVATE},         /* link-local; metadata of most clouds */
    {{0, {172, 16}}, 12, EGRESS_PRIVATE},          /* RFC 1918 */
    {{0, {192, 0, 0}}, 24, EGRESS_PRIVATE},        /* protocol assignments */
    {{0, {192, 88, 99}}, 24, EGRESS_NEVER},        /* 6to4 relays */
    {{0, {192, 168}}, 16, EGRESS_PRIVATE},         /* RFC 1918 */
    {{0, {198, 18}}, 15, EGRESS_PRIVATE},          /* what this plugin itself answers with */
    {{0, {224}}, 4, EGRESS_NEVER},                 /* multicast */
    {{0, {240}}, 4, EGRESS_NEVER},                 /* reserved, broadcast */
};

static const struct range v6_ranges[] = {
    {{1, {0xfe, 0x80}}, 10, EGRESS_PRIVATE},                         /* link-local */
    {{1, {0xfe, 0xc0}}, 10, EGRESS_PRIVATE},                         /* site-local, of old */
    {{1, {0xfc}}, 7, EGRESS_PRIVATE},                                /* unique local; metadata of a cloud */
    {{1, {0xff}}, 8, EGRESS_NEVER},                                  /* multicast */
    {{1, {0x00, 0x64, 0xff, 0x9b, 0x00, 0x01}}, 48, EGRESS_PRIVATE}, /* local NAT64 */
    {{1, {0x01, 0x00}}, 64, EGRESS_NEVER},                           /* discard */
    {{1, {0x20, 0x01, 0x00, 0x00}}, 32, EGRESS_NEVER},               /* Teredo: an IPv4 address inside */
    {{1, {0x20, 0x01, 0x00, 0x02}}, 48, EGRESS_PRIVATE}, /* what this plugin itself answers with */
    {{1, {0x20, 0x02}}, 16, EGRESS_NEVER},               /* 6to4: an IPv4 address inside */
};

static int class_in(const struct egress_address *address, const struct range *range, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (egress_address_within(address, &range[i].net, range[i].prefix))
            return range[i].is;
    return EGRESS_PUBLIC;
}

static int class_v4(const struct egress_address *address)
{
    return class_in(address, v4_ranges, sizeof(v4_ranges) / sizeof(v4_ranges[0]));
}

int egress_address_is_loopback(const struct egress_address *address)
{
    static const struct egress_address one = {1, {[15] = 1}};
    return address->v6 ? memcmp(address->bytes, one.bytes, 16) == 0 : address->bytes[0] == 127;
}

int egress_address_class(const struct egress_address *address)
{
    static const uint8_t zero[16] = {0}, nat64[12] = {0x00, 0x64, 0xff, 0x9b};
    if (!address->v6)
        return class_v4(address);
    if (memcmp(address->bytes, zero, 15) == 0 && address->bytes[15] == 1)
        return EGRESS_PRIVATE; /* ::1 */
    /* ::, ::/96 and ::ffff:0:0/96: ways to write an IPv4 address that no name server has a reason for. */
    static const struct egress_address low = {1, {0}};
    if (egress_address_within(address, &low, 64))
        return EGRESS_NEVER;
    if (memcmp(address->bytes, nat64, sizeof(nat64)) ==
        0) { /* a network without IPv4: as good as what it leads to */
        struct egress_address inner = {0};
        memcpy(inner.bytes, address->bytes + 12, 4);
        return class_v4(&inner);
    }
    return class_in(address, v6_ranges, sizeof(v6_ranges) / sizeof(v6_ranges[0]));
}
