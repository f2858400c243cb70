/* HTTP/1 request heads; see egress_http.h. Pure; in the worker. What two readers could understand in two ways is refused: that
 * is what request smuggling lives on. */
#include "egress_http.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

static int is_token(uint8_t c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

int egress_http_is_word(const uint8_t *bytes, size_t length)
{
    size_t at = 0;
    while (at < length && is_token(bytes[at]))
        at++;
    return at == length;
}

static int is_blank(uint8_t c)
{
    return c == ' ' || c == '\t';
}

/* Loosely, because servers are loose: empty lines and blanks may come first, any word may be a method, anything may follow it. Whoever
 * begins so and goes on without an end of the line is taken at the word, and refused as a request. */
int egress_http_looks_so(const uint8_t *bytes, size_t length)
{
    size_t at = 0;
    while (at < length && (bytes[at] == '\r' || bytes[at] == '\n'))
        at++;
    while (at < length && is_blank(bytes[at]))
        at++;
    size_t method = at;
    while (at < length && is_token(bytes[at]))
        at++;
    if (at < length && (at == method || !is_blank(bytes[at])))
        return 0;
    for (size_t i = at; i < length; i++) {
        if (bytes[i] == '\n')
            return 0;
        if (i >= at + 5 && strncasecmp((const char *)bytes + i - 4, "HTTP/", 5) == 0)
            return 1;
    }
    return length < EGRESS_LINE_MOST ? -EAGAIN : 1;
}

int egress_http_authority(const char *text, size_t length, struct egress_authority *ret_authority)
{
    struct egress_authority authority = {0};
    const char *host = text, *port = NULL;
    size_t host_length = length;
    if (length > 0 && text[0] == '[') {
        const char *end = memchr(text, ']', length);
        if (end == NULL)
            return -EINVAL;
        host++;
        host_length = (size_t)(end - host);
        if (end + 1 < text + length && end[1] != ':')
            return -EINVAL;
        port = end + 1 < text + length ? end + 2 : NULL;
    } else {
        const char *colon = memchr(text, ':', length);
        host_length = colon != NULL ? (size_t)(colon - text) : length;
        port = colon != NULL ? colon + 1 : NULL;
    }
    if (port != NULL) {
        uint32_t number = 0;
        for (const char *c = port; c < text + length; c++)
            number = *c < '0' || *c > '9' || number > 65535 ? 70000 : number * 10 + (uint32_t)(*c - '0');
        if (port == text + length || number == 0 || number > 65535)
            return -EINVAL;
        authority.port = (uint16_t)number;
    }
    authority.is_address = egress_address_parse(host, host_length, &authority.address) == 0;
    if (authority.is_address ? authority.address.v6 != (host != text) : host != text)
        return -EINVAL; /* brackets are for IPv6, and for nothing else */
    if (!authority.is_address && egress_name_clean(host, host_length, authority.name) != 0)
        return -EINVAL;
    *ret_authority = authority;
    return 0;
}

int egress_http_same(const struct egress_authority *a, const struct egress_authority *b)
{
    if (a->is_address != b->is_address)
        return 0;
    return a->is_address ? memcmp(&a->address, &b->address, sizeof(a->address)) == 0
                         : strcmp(a->name, b->name) == 0;
}

/* ---- The request line ---- */

static const char *read_target(const char *target, size_t length, const char *line, struct egress_head *head)
{
    if (head->connect)
        return egress_http_authority(target, length, &head->target) == 0 && head->target.port != 0
                   ? NULL
                   : "CONNECT to what is not HOST:PORT";
    if (length > 0 && target[0] == '/')
        return NULL;
    if (length == 1 && target[0] == '*')
        return NULL;
    if (length < 8 || strncasecmp(target, "http://", 7) != 0)
        return "a request for what is neither a path nor an http:// address";
    size_t count = 0;
    while (7 + count < length && strchr("/?#", target[7 + count]) == NULL)
        count++;
    if (egress_http_authority(target + 7, count, &head->target) != 0)
        return "an address without a plain host name";
    head->absolute = 1;
    head->path = (size_t)(target + 7 + count - line);
    return NULL;
}

static const char *read_line(const char *line, size_t length, struct egress_head *head)
{
    size_t method = 0;
    while (method < length && is_token((uint8_t)line[method]))
        method++;
    if (method == 0 || method >= length || line[method] != ' ')
        return "not a request line";
    const char *target = line + method + 1;
    size_t rest = length - method - 1, count = 0;
    while (count < rest && (uint8_t)target[count] > ' ' && (uint8_t)target[count] < 0x7f)
        count++;
    if (count == 0 || rest - count != 9 ||
        (memcmp(target + count, " HTTP/1.1", 9) != 0 && memcmp(target + count, " HTTP/1.0", 9) != 0))
        return "not an HTTP/1 request line";
    head->method = method;
    head->connect = method == 7 && memcmp(line, "CONNECT", 7) == 0;
    return read_target(target, count, line, head);
}

/* ---- The headers ---- */

struct seen {
    int length, encoding, old;
};

static int is(const char *name, size_t length, const char *word)
{
    return length == strlen(word) && strncasecmp(name, word, length) == 0;
}

static const char *read_length(const char *value, size_t length, struct egress_head *head, struct seen *seen)
{
    uint64_t number = 0;
    if (seen->length++ > 0)
        return "two Content-Length headers";
    if (length == 0 || length > 18)
        return "a Content-Length that is not a number";
    for (size_t i = 0; i < length; i++) {
        if (value[i] < '0' || value[i] > '9')
            return "a Content-Length that is not a number";
        number = number * 10 + (uint64_t)(value[i] - '0');
    }
    head->body_length = number;
    if (number > 0)
        head->body = EGRESS_BODY_LENGTH;
    return NULL;
}

static const char *read_header(const char *name, size_t name_length, const char *value, size_t length,
                               struct egress_head *head, struct seen *seen)
{
    if (is(name, name_length, "host")) {
        if (head->has_host)
            return "two Host headers";
        head->has_host = 1;
        return egress_http_authority(value, length, &head->host) == 0 ? NULL : "a Host that is no host name";
    }
    if (is(name, name_length, "content-length"))
        return read_length(value, length, head, seen);
    if (is(name, name_length, "transfer-encoding")) {
        if (seen->encoding++ > 0 || !is(value, length, "chunked"))
            return "a Transfer-Encoding other than chunked";
        head->body = EGRESS_BODY_CHUNKED;
        return NULL;
    }
    if (is(name, name_length, "upgrade")) {
        if (!is(value, length, "websocket"))
            return "an Upgrade to what cannot be checked";
        head->upgrade = 1;
    }
    return NULL;
}

/* One line without its end. */
static const char *read_field(const char *line, size_t length, struct egress_head *head, struct seen *seen)
{
    size_t name = 0;
    while (name < length && is_token((uint8_t)line[name]))
        name++;
    if (name == 0 || name >= length || line[name] != ':')
        return "a header line without a plain name";
    size_t start = name + 1;
    while (start < length && (line[start] == ' ' || line[start] == '\t'))
        start++;
    while (length > start && (line[length - 1] == ' ' || line[length - 1] == '\t'))
        length--;
    return read_header(line, name, line + start, length - start, head, seen);
}

static const char *read_fields(const char *bytes, size_t at, struct egress_head *head)
{
    struct seen seen = {0};
    while (at + 2 < head->length) {
        const char *line = bytes + at, *end = memchr(line, '\r', head->length - at);
        size_t length = (size_t)(end - line); /* it is there: the lines were looked at before */
        const char *why = read_field(line, length, head, &seen);
        if (why != NULL)
            return why;
        at += length + 2;
    }
    if (seen.encoding > 0 && seen.length > 0)
        return "both a Content-Length and a Transfer-Encoding";
    if (seen.encoding > 0 && bytes[strcspn(bytes, "\r") - 1] == '0')
        return "a Transfer-Encoding in HTTP/1.0";
    return NULL;
}

/* Lines end with CR LF, and neither stands elsewhere. Returns the length of the head, 0 when its end is not there yet. */
static size_t find_end(const uint8_t *bytes, size_t length, const char **ret_why)
{
    for (size_t i = 0; i < length; i++) {
        uint8_t c = bytes[i];
        if (c == '\0' || (c < ' ' && c != '\t' && c != '\r' && c != '\n') || c == 0x7f) {
            *ret_why = "a control character in the head of a request";
            return 0;
        }
        if ((c == '\n' && (i == 0 || bytes[i - 1] != '\r')) ||
            (c == '\r' && i + 1 < length && bytes[i + 1] != '\n')) {
            *ret_why = "a line that does not end with CR LF";
            return 0;
        }
        if (c == '\n' && i >= 3 && bytes[i - 2] == '\n')
            return i + 1;
    }
    return 0;
}

int egress_http_head(const uint8_t *bytes, size_t length, struct egress_head *ret_head, const char **ret_why)
{
    struct egress_head head = {0};
    const char *text = (const char *)bytes, *why = NULL;
    head.length = find_end(bytes, length < EGRESS_HEAD_MOST ? length : EGRESS_HEAD_MOST, &why);
    if (why == NULL && head.length == 0 && length >= EGRESS_HEAD_MOST)
        why = "a head of more than 65536 bytes";
    if (why == NULL && head.length == 0)
        return -EAGAIN;
    if (why == NULL) {
        size_t line = (size_t)((const char *)memchr(text, '\r', head.length) - text);
        why = read_line(text, line, &head);
        if (why == NULL)
            why = read_fields(text, line + 2, &head);
    }
    if (why == NULL && !head.connect && !head.has_host)
        why = "a request without a Host";
    if (why == NULL && head.absolute &&
        (!egress_http_same(&head.target, &head.host) ||
         (head.target.port != 0 ? head.target.port : 80) != (head.host.port != 0 ? head.host.port : 80)))
        why = "an address that differs from the Host header";
    if (why == NULL && head.connect && head.body != EGRESS_BODY_NONE)
        why = "a CONNECT with a body";
    if (why == NULL && head.upgrade && head.body != EGRESS_BODY_NONE)
        why = "an Upgrade with a body";
    if (why != NULL) {
        *ret_why = why;
        return -EBADMSG;
    }
    *ret_head = head;
    return 0;
}

/* ---- Chunks ---- */

enum { CHUNK_SIZE, CHUNK_SIZE_END, CHUNK_DATA, CHUNK_CR, CHUNK_LF, CHUNK_LAST_CR, CHUNK_LAST_LF };

static int hex(uint8_t c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

static int chunk_byte(struct egress_chunks *chunks, uint8_t c)
{
    switch (chunks->state) {
    case CHUNK_SIZE:
        if (c == '\r' && chunks->digits > 0) {
            chunks->state = CHUNK_SIZE_END;
            return 0;
        }
        if (hex(c) < 0 || ++chunks->digits > 15) /* no extensions: nobody needs them, smugglers do */
            return -EBADMSG;
        chunks->left = chunks->left << 4 | (uint64_t)hex(c);
        return 0;
    case CHUNK_SIZE_END:
        chunks->digits = 0;
        chunks->state = chunks->left > 0 ? CHUNK_DATA : CHUNK_LAST_CR;
        return c == '\n' ? 0 : -EBADMSG;
    case CHUNK_CR:
        chunks->state = CHUNK_LF;
        return c == '\r' ? 0 : -EBADMSG;
    case CHUNK_LF:
        chunks->state = CHUNK_SIZE;
        return c == '\n' ? 0 : -EBADMSG;
    case CHUNK_LAST_CR: /* no trailers either */
        chunks->state = CHUNK_LAST_LF;
        return c == '\r' ? 0 : -EBADMSG;
    default:
        chunks->state = CHUNK_SIZE;
        return c == '\n' ? 1 : -EBADMSG;
    }
}

int egress_http_chunks(struct egress_chunks *chunks, const uint8_t *bytes, size_t length, size_t *ret_taken,
                       int *ret_done)
{
    size_t at = 0;
    int result = 0;
    while (at < length && result == 0) {
        if (chunks->state == CHUNK_DATA) {
            size_t step = length - at < chunks->left ? length - at : (size_t)chunks->left;
            at += step;
            chunks->left -= step;
            if (chunks->left == 0)
                chunks->state = CHUNK_CR;
            continue;
        }
        result = chunk_byte(chunks, bytes[at++]);
        if (result < 0)
            return result;
    }
    *ret_taken = at;
    *ret_done = result;
    return 0;
}
