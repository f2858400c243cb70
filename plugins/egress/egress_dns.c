/* DNS messages; see egress_dns.h. Pure; in the worker. Every byte read here may be hostile. */
#include "egress_dns.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define HEADER  12
#define CLASS_1 1 /* the internet */

static uint16_t get16(const uint8_t *at)
{
    return (uint16_t)(at[0] << 8 | at[1]);
}

static void put16(uint8_t *at, uint16_t value)
{
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

static uint32_t get32(const uint8_t *at)
{
    return (uint32_t)get16(at) << 16 | get16(at + 2);
}

static size_t put_byte(char *text, size_t used, uint8_t byte)
{
    int plain = (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') ||
                (byte >= 'A' && byte <= 'Z') || byte == '-' || byte == '_';
    if (plain) {
        text[used] = (char)byte;
        return used + 1;
    }
    text[used] = '\\';
    text[used + 1] = (char)('0' + byte / 100);
    text[used + 2] = (char)('0' + byte / 10 % 10);
    text[used + 3] = (char)('0' + byte % 10);
    return used + 4;
}

/* Reads the name at *at as text and moves *at behind it. A pointer may only lead backwards, so there is no circle. */
static int read_name(const uint8_t *message, size_t length, size_t *at, char ret_text[EGRESS_DNS_TEXT])
{
    size_t pos = *at, used = 0, total = 0, limit = *at;
    int jumped = 0;
    while (pos < length && message[pos] != 0) {
        uint8_t count = message[pos];
        if ((count & 0xc0) == 0xc0) {
            if (pos + 1 >= length)
                return -EBADMSG;
            size_t target = (size_t)(count & 0x3f) << 8 | message[pos + 1];
            if (target >= limit)
                return -EBADMSG;
            if (!jumped)
                *at = pos + 2;
            jumped = 1;
            limit = pos = target;
            continue;
        }
        total += count + 1u;
        if ((count & 0xc0) != 0 || pos + 1 + count > length || total > 254)
            return -EBADMSG;
        if (used > 0)
            ret_text[used++] = '.';
        for (uint8_t i = 0; i < count; i++)
            used = put_byte(ret_text, used, message[pos + 1 + i]);
        pos += count + 1u;
    }
    if (pos >= length)
        return -EBADMSG;
    if (!jumped)
        *at = pos + 1;
    ret_text[used] = '\0';
    return 0;
}

int egress_dns_read_question(const uint8_t *message, size_t length, struct egress_question *ret_question)
{
    struct egress_question question = {0};
    if (length < HEADER || (message[2] & 0x80) != 0) /* too short, or a reply */
        return -EBADMSG;
    question.id = get16(message);
    question.flags = get16(message + 2);
    question.end = HEADER;
    size_t at = HEADER;
    int failed = (message[2] & 0x78) != 0 || get16(message + 4) != 1 ||
                 read_name(message, length, &at, question.name) != 0 || at + 4 > length;
    if (!failed) {
        question.type = get16(message + at);
        question.class = get16(message + at + 2);
        question.end = at + 4;
    }
    *ret_question = question;
    return failed ? -EINVAL : 0;
}

size_t egress_dns_write_answer(const uint8_t *message, const struct egress_question *question, int rcode,
                               const struct egress_address *address, uint32_t ttl,
                               uint8_t ret_message[EGRESS_DNS_MOST])
{
    int asked = question->end > HEADER; /* an unreadable question is not repeated */
    size_t used = asked ? question->end : HEADER;
    if (used + 28 > EGRESS_DNS_MOST)
        return 0;
    memcpy(ret_message, message, used);
    memset(ret_message + 4, 0, HEADER - 4);
    ret_message[2] =
        (uint8_t)(0x80 | (message[2] & 0x79));        /* a reply; opcode and "recursion desired" as asked */
    ret_message[3] = (uint8_t)(0x80 | (rcode & 0xf)); /* recursion is available */
    ret_message[5] = asked ? 1 : 0;
    if (address == NULL)
        return used;
    size_t size = address->v6 ? 16 : 4;
    uint8_t *record = ret_message + used;
    put16(record, 0xc000 | HEADER); /* the name of the question */
    put16(record + 2, question->type);
    put16(record + 4, CLASS_1);
    put16(record + 6, (uint16_t)(ttl >> 16));
    put16(record + 8, (uint16_t)ttl);
    put16(record + 10, (uint16_t)size);
    memcpy(record + 12, address->bytes, size);
    ret_message[7] = 1;
    return used + 12 + size;
}

size_t egress_dns_write_query(uint16_t id, const char *name, uint16_t type,
                              uint8_t ret_message[EGRESS_DNS_MOST])
{
    /* EDNS: replies of up to 1232 bytes, which no network on the way cuts into pieces. */
    static const uint8_t edns[] = {0, 0, 41, 1232 >> 8, 1232 & 0xff, 0, 0, 0, 0, 0, 0};
    size_t used = HEADER;
    memset(ret_message, 0, HEADER);
    put16(ret_message, id);
    ret_message[2] = 1; /* recursion desired */
    ret_message[5] = 1;
    ret_message[11] = 1;
    for (const char *at = name; *at != '\0';) {
        size_t count = strcspn(at, ".");
        if (count == 0 || count > 63 || used + count + 2 > HEADER + 255)
            return 0;
        ret_message[used++] = (uint8_t)count;
        memcpy(ret_message + used, at, count);
        used += count;
        at += count + (at[count] == '.');
    }
    ret_message[used++] = 0;
    put16(ret_message + used, type);
    put16(ret_message + used + 2, CLASS_1);
    memcpy(ret_message + used + 4, edns, sizeof(edns));
    return used + 4 + sizeof(edns);
}

/* ---- Replies ---- */

struct record {
    char owner[EGRESS_DNS_TEXT];
    uint16_t type, class, size;
    uint32_t ttl;
    size_t data;
};

static int read_record(const uint8_t *message, size_t length, size_t *at, struct record *ret_record)
{
    if (read_name(message, length, at, ret_record->owner) != 0 || *at + 10 > length)
        return -EBADMSG;
    ret_record->type = get16(message + *at);
    ret_record->class = get16(message + *at + 2);
    ret_record->ttl = get32(message + *at + 4);
    ret_record->size = get16(message + *at + 8);
    ret_record->data = *at + 10;
    *at += 10 + (size_t)ret_record->size;
    return *at <= length ? 0 : -EBADMSG;
}

static int take_address(const uint8_t *message, const struct record *record, struct egress_reply *reply)
{
    size_t size = record->type == EGRESS_TYPE_AAAA ? 16 : 4;
    if (record->size != size)
        return -EBADMSG;
    struct egress_address address = {.v6 = size == 16};
    memcpy(address.bytes, message + record->data, size);
    int class = egress_address_class(&address);
    reply->worst = class > reply->worst ? class : reply->worst;
    if (record->ttl < reply->ttl)
        reply->ttl = record->ttl;
    if (reply->count < EGRESS_DNS_ADDRESSES) /* to these many one may connect; one of them will do */
        reply->address[reply->count++] = address;
    return 0;
}

/* One pass over the answers: addresses of `owner`, or the name that it is an alias of, which is put into `owner`. */
static int read_answers(const uint8_t *message, size_t length, size_t at, uint16_t type,
                        char owner[EGRESS_DNS_TEXT], int *ret_alias, struct egress_reply *reply)
{
    struct record record;
    char target[EGRESS_DNS_TEXT];
    *ret_alias = 0;
    for (uint16_t i = get16(message + 6); i > 0; i--) {
        if (read_record(message, length, &at, &record) != 0)
            return -EBADMSG;
        if (record.class != CLASS_1 || strcasecmp(record.owner, owner) != 0)
            continue;
        if (record.type == type && take_address(message, &record, reply) != 0)
            return -EBADMSG;
        if (record.type == EGRESS_TYPE_CNAME && !*ret_alias) {
            size_t data = record.data;
            if (read_name(message, length, &data, target) != 0)
                return -EBADMSG;
            *ret_alias = 1;
            if (record.ttl < reply->ttl)
                reply->ttl = record.ttl;
        }
    }
    if (*ret_alias)
        memcpy(owner, target, sizeof(target));
    return 0;
}

int egress_dns_read_reply(const uint8_t *message, size_t length, uint16_t id, const char *name, uint16_t type,
                          struct egress_reply *ret_reply)
{
    char owner[EGRESS_DNS_TEXT];
    struct egress_reply reply = {.ttl = 3600};
    size_t at = HEADER;
    if (length < HEADER || get16(message) != id || (message[2] & 0xf8) != 0x80 || get16(message + 4) != 1)
        return -EBADMSG;
    if (read_name(message, length, &at, owner) != 0 || at + 4 > length || strcasecmp(owner, name) != 0 ||
        get16(message + at) != type || get16(message + at + 2) != CLASS_1)
        return -EBADMSG;
    at += 4;
    reply.rcode = message[3] & 0xf;
    reply.cut = (message[2] & 2) != 0;
    int alias = 1;
    for (int hops = 0; !reply.cut && reply.rcode == 0 && alias && reply.count == 0; hops++)
        if (hops == 12 || read_answers(message, length, at, type, owner, &alias, &reply) != 0)
            return -EBADMSG;
    *ret_reply = reply;
    return 0;
}
