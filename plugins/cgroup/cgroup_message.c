/* D-Bus messages; see cgroup_message.h. Pure. The other side is the caller's own service manager or the system's; what it
 * says is read as if it were anybody's. */
#include "cgroup_message.h"

#include <errno.h>
#include <string.h>

#define LITTLE      'l'
#define METHOD_CALL 1
#define RETURN      2
#define ERROR       3
#define PROTOCOL    1
#define WHOLE_MOST  ((size_t)128 << 20) /* by the specification */

enum field {
    FIELD_PATH = 1,
    FIELD_INTERFACE,
    FIELD_MEMBER,
    FIELD_ERROR,
    FIELD_REPLY_TO,
    FIELD_DESTINATION,
    FIELD_SIGNATURE = 8
};

/* ---- Writing ---- */

static void put(struct cgroup_message *message, const void *bytes, size_t length)
{
    if (message->too_long || length > sizeof(message->bytes) - message->length) {
        message->too_long = 1;
        return;
    }
    memcpy(message->bytes + message->length, bytes, length);
    message->length += length;
}

static void align(struct cgroup_message *message, size_t to)
{
    static const uint8_t zeros[8] = {0};
    put(message, zeros, (to - message->length % to) % to);
}

static void store(uint8_t *at, uint32_t number)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(number >> (8 * i));
}

void cgroup_message_u32(struct cgroup_message *message, uint32_t number)
{
    uint8_t bytes[4];
    store(bytes, number);
    align(message, 4);
    put(message, bytes, sizeof(bytes));
}

void cgroup_message_string(struct cgroup_message *message, const char *text)
{
    size_t length = strlen(text);
    cgroup_message_u32(message, (uint32_t)length);
    put(message, text, length + 1);
}

void cgroup_message_signature(struct cgroup_message *message, const char *signature)
{
    uint8_t length = (uint8_t)strlen(signature); /* of a few characters */
    put(message, &length, 1);
    put(message, signature, (size_t)length + 1);
}

void cgroup_message_struct(struct cgroup_message *message)
{
    align(message, 8);
}

size_t cgroup_message_array(struct cgroup_message *message, uint32_t to)
{
    cgroup_message_u32(message, 0);
    size_t array = message->length;
    align(message, to); /* the padding before the first element does not count */
    /* The start of the elements follows from where the length stands and their alignment: both fit one number. */
    return array << 4 | to;
}

void cgroup_message_close(struct cgroup_message *message, size_t array)
{
    size_t at = array >> 4, to = array & 15;
    size_t first = (at + to - 1) / to * to;
    if (!message->too_long)
        store(message->bytes + at - 4, (uint32_t)(message->length - first));
}

static void put_field(struct cgroup_message *message, enum field field, const char *type, const char *text)
{
    uint8_t code = (uint8_t)field;
    align(message, 8);
    put(message, &code, 1);
    cgroup_message_signature(message, type);
    if (type[0] == 'g')
        cgroup_message_signature(message, text);
    else
        cgroup_message_string(message, text);
}

void cgroup_message_call(struct cgroup_message *message, uint32_t serial, const char *destination,
                         const char *path, const char *interface, const char *member, const char *signature)
{
    const uint8_t start[4] = {LITTLE, METHOD_CALL, 0, PROTOCOL};
    *message = (struct cgroup_message){.length = 0};
    put(message, start, sizeof(start));
    cgroup_message_u32(message, 0); /* of the body; end() knows it */
    cgroup_message_u32(message, serial);
    size_t fields = cgroup_message_array(message, 8);
    put_field(message, FIELD_PATH, "o", path);
    put_field(message, FIELD_INTERFACE, "s", interface);
    put_field(message, FIELD_MEMBER, "s", member);
    if (destination != NULL)
        put_field(message, FIELD_DESTINATION, "s", destination);
    if (signature[0] != '\0')
        put_field(message, FIELD_SIGNATURE, "g", signature);
    cgroup_message_close(message, fields);
    align(message, 8);
    message->body = message->length;
}

int cgroup_message_end(struct cgroup_message *message)
{
    if (message->too_long)
        return -EMSGSIZE;
    store(message->bytes + 4, (uint32_t)(message->length - message->body));
    return 0;
}

/* ---- Reading ---- */

struct reader {
    const uint8_t *bytes;
    size_t length;
    size_t at;
    int bad;
};

static uint32_t load(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static const uint8_t *take(struct reader *reader, size_t count)
{
    if (reader->bad || count > reader->length - reader->at) {
        reader->bad = 1;
        return NULL;
    }
    reader->at += count;
    return reader->bytes + reader->at - count;
}

static void skip_to(struct reader *reader, size_t to)
{
    (void)take(reader, (to - reader->at % to) % to); /* a lack is remembered */
}

static uint32_t take_u32(struct reader *reader)
{
    skip_to(reader, 4);
    const uint8_t *at = take(reader, 4);
    return at != NULL ? load(at) : 0;
}

/* A text with its length before it, in 4 bytes or in 1, and a NUL behind it. */
static const char *take_text(struct reader *reader, int is_signature)
{
    const uint8_t *one = is_signature ? take(reader, 1) : NULL;
    size_t length = is_signature ? (one != NULL ? *one : 0) : take_u32(reader);
    const uint8_t *text = length < SIZE_MAX ? take(reader, length + 1) : NULL;
    if (text == NULL || text[length] != '\0' || strlen((const char *)text) != length) {
        reader->bad = 1;
        return "";
    }
    return (const char *)text;
}

static void copy(char *to, size_t room, const char *text)
{
    size_t length = strlen(text);
    length = length < room ? length : room - 1;
    memcpy(to, text, length);
    to[length] = '\0';
}

int cgroup_reply_length(const uint8_t *head, size_t *ret_length)
{
    if (head[0] != LITTLE || head[3] != PROTOCOL)
        return -EPROTO;
    size_t body = load(head + 4), fields = load(head + 12);
    if (body > WHOLE_MOST || fields > WHOLE_MOST)
        return -EMSGSIZE;
    *ret_length = CGROUP_MESSAGE_HEAD + (fields + 7) / 8 * 8 + body;
    return 0;
}

static void take_field(struct reader *reader, struct cgroup_reply *reply, const char **signature)
{
    skip_to(reader, 8);
    const uint8_t *code = take(reader, 1);
    const char *type = take_text(reader, 1);
    if (code == NULL || type[0] == '\0' || type[1] != '\0') {
        reader->bad = 1; /* all fields of the header are of one simple type */
        return;
    }
    switch (type[0]) {
    case 'u': {
        uint32_t number = take_u32(reader);
        if (*code == FIELD_REPLY_TO)
            reply->to = number;
        return;
    }
    case 'g': {
        const char *text = take_text(reader, 1);
        if (*code == FIELD_SIGNATURE)
            *signature = text;
        return;
    }
    case 's':
    case 'o': {
        const char *text = take_text(reader, 0);
        if (*code == FIELD_ERROR)
            copy(reply->error, sizeof(reply->error), text);
        return;
    }
    default:
        reader->bad = 1;
    }
}

int cgroup_reply_parse(const uint8_t *bytes, size_t length, struct cgroup_reply *ret_reply)
{
    size_t whole;
    if (length < CGROUP_MESSAGE_HEAD || cgroup_reply_length(bytes, &whole) < 0 || whole != length)
        return -EPROTO;
    struct cgroup_reply reply = {.kind = bytes[1] == RETURN  ? CGROUP_REPLY_RETURN
                                         : bytes[1] == ERROR ? CGROUP_REPLY_ERROR
                                                             : CGROUP_REPLY_OTHER};
    const char *signature = "";
    size_t end = CGROUP_MESSAGE_HEAD + load(bytes + 12);
    struct reader reader = {.bytes = bytes, .length = end, .at = CGROUP_MESSAGE_HEAD};
    while (!reader.bad && reader.at < end)
        take_field(&reader, &reply, &signature);
    struct reader body = {.bytes = bytes, .length = length, .at = (end + 7) / 8 * 8, .bad = reader.bad};
    if (signature[0] == 'v')
        signature = take_text(&body, 1);
    if (signature[0] == 's' || signature[0] == 'o')
        copy(reply.text, sizeof(reply.text), take_text(&body, 0));
    if (body.bad)
        return -EPROTO;
    *ret_reply = reply;
    return 0;
}
