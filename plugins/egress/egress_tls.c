/* The ClientHello; see egress_tls.h. Pure; in the worker. It may come in pieces: several records, a byte each. */
#include "egress_tls.h"

#include <errno.h>
#include <string.h>

#define RECORD_HANDSHAKE 22
#define CLIENT_HELLO     1
#define SERVER_NAME      0
#define EARLY_DATA       42
#define ECH              0xfe0d
#define ESNI             0xffce /* what ECH was called before */

struct reader {
    const uint8_t *at, *end;
    int bad;
};

static uint32_t take(struct reader *in, unsigned count)
{
    uint32_t value = 0;
    if ((size_t)(in->end - in->at) < count) {
        in->bad = 1;
        in->at = in->end;
        return 0;
    }
    for (unsigned i = 0; i < count; i++)
        value = value << 8 | *in->at++;
    return value;
}

/* A part that starts with its length in `count` bytes. */
static struct reader take_part(struct reader *in, unsigned count)
{
    uint32_t length = take(in, count);
    if ((size_t)(in->end - in->at) < length) {
        in->bad = 1;
        length = (uint32_t)(in->end - in->at);
    }
    struct reader part = {.at = in->at, .end = in->at + length};
    in->at += length;
    return part;
}

static void read_server_name(struct reader in, struct egress_hello *hello, int *bad)
{
    struct reader list = take_part(&in, 2);
    if (in.at != in.end || hello->named)
        in.bad = 1; /* twice: two readers may see two names */
    unsigned entries = 0;
    while (list.at != list.end && !list.bad) {
        uint32_t type = take(&list, 1);
        struct reader name = take_part(&list, 2);
        size_t length = (size_t)(name.end - name.at);
        if (type != 0 || entries++ > 0 || name.bad || length == 0) {
            list.bad = 1;
            break;
        }
        for (size_t i = 0; i < length && i < sizeof(hello->said) - 1; i++)
            hello->said[i] = name.at[i] > ' ' && name.at[i] < 0x7f ? (char)name.at[i] : '?';
        if (egress_name_clean((const char *)name.at, length, hello->name) != 0)
            hello->name[0] = '\0';
    }
    hello->named = 1;
    *bad |= in.bad || list.bad || entries == 0;
}

static int read_hello(struct reader in, struct egress_hello *hello)
{
    int bad = 0;
    (void)take(&in, 2); /* the version: the extension counts where it matters */
    for (int i = 0; i < 8; i++)
        (void)take(&in, 4);  /* random bytes */
    (void)take_part(&in, 1); /* session */
    (void)take_part(&in, 2); /* ciphers, GREASE among them */
    (void)take_part(&in, 1); /* compression */
    if (in.at == in.end && !in.bad)
        return 0; /* no extensions: an old client */
    struct reader extensions = take_part(&in, 2);
    if (in.at != in.end)
        in.bad = 1;
    while (extensions.at != extensions.end && !extensions.bad) {
        uint32_t type = take(&extensions, 2);
        struct reader body = take_part(&extensions, 2);
        if (extensions.bad)
            break;
        if (type == SERVER_NAME)
            read_server_name(body, hello, &bad);
        else if (type == ECH || type == ESNI)
            hello->hidden = 1;
        else if (type == EARLY_DATA)
            hello->early = 1;
    }
    return in.bad || extensions.bad || bad ? -EBADMSG : 0;
}

int egress_tls_hello(const uint8_t *bytes, size_t length, struct egress_hello *ret_hello)
{
    uint8_t joined[EGRESS_HELLO_MOST];
    size_t have = 0, wanted = 4, at = 0;
    while (have < wanted) {
        if (at < length && bytes[at] != RECORD_HANDSHAKE)
            return -EBADMSG;
        if (at + 1 < length && bytes[at + 1] != 3)
            return -EBADMSG;
        if (at + 5 > length)
            return at + 5 > EGRESS_HELLO_MOST ? -EBADMSG : -EAGAIN;
        size_t size = (size_t)bytes[at + 3] << 8 | bytes[at + 4];
        if (size == 0 || size > 16384 || at + 5 + size > EGRESS_HELLO_MOST)
            return -EBADMSG;
        size_t there = length - at - 5 < size ? length - at - 5 : size;
        memcpy(joined + have, bytes + at + 5, there);
        have += there;
        if (have > 0 && joined[0] != CLIENT_HELLO)
            return -EBADMSG;
        if (have >= 4)
            wanted = 4 + ((size_t)joined[1] << 16 | (size_t)joined[2] << 8 | joined[3]);
        if (wanted > EGRESS_HELLO_MOST)
            return -EBADMSG;
        if (there < size)
            return -EAGAIN;
        at += 5 + size;
    }
    if (have != wanted)
        return -EBADMSG; /* another message in the same record */
    struct egress_hello hello = {.records = at};
    int failed = read_hello((struct reader){.at = joined + 4, .end = joined + have}, &hello);
    if (failed == 0)
        *ret_hello = hello;
    return failed;
}
