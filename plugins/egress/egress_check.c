/* The check of what a client says; see egress_check.h. Pure; in the worker. */
#include "egress_check.h"

#include "egress_denial.h"
#include "egress_tls.h"

#include <errno.h>
#include <string.h>

#define RECORD_CHANGE_CIPHER 20
#define RECORD_ALERT         21
#define RECORD_HANDSHAKE     22
#define CLIENT_HELLO         1 /* type of a handshake message */
#define ALERT_WARNING        1 /* level of an alert */

static long refuse(struct egress_check *check, uint8_t reason, const char *why)
{
    check->refused = reason;
    check->why = why;
    return -EACCES;
}

void egress_check_start(struct egress_check *check, const char *name, uint16_t port, int ech)
{
    *check = (struct egress_check){.port = port, .must = port == 80 || port == 443, .ech = ech != 0};
    memcpy(check->name, name, strlen(name) + 1); /* a clean name: it fits */
}

/* ---- TLS ---- */

static long check_hello(struct egress_check *check, const uint8_t *bytes, size_t length)
{
    struct egress_hello hello;
    int failed = egress_tls_hello(bytes, length, &hello);
    if (failed == -EAGAIN)
        return 0;
    if (failed != 0)
        return refuse(check, EGRESS_DENIAL_NOT_WEB, "a TLS handshake that cannot be read");
    if (!hello.named)
        return refuse(check, EGRESS_DENIAL_NO_NAME, NULL);
    memcpy(check->said, hello.said, sizeof(check->said));
    if (strcmp(hello.name, check->name) != 0)
        return refuse(check, EGRESS_DENIAL_OTHER_NAME, NULL);
    if (hello.hidden && !check->ech)
        return refuse(check, EGRESS_DENIAL_HIDDEN, NULL);
    /* A server that asks again skips such data, and then reads a hello that was not seen among it. */
    if (hello.early)
        return refuse(check, EGRESS_DENIAL_NOT_WEB, "TLS early data, which a second name could hide behind");
    check->said[0] = '\0';
    check->state = EGRESS_CHECK_TLS;
    return (long)hello.records;
}

/* A server that asks again (HelloRetryRequest) gets a second ClientHello, still in the clear: it must name the same host. The
 * first record that is neither that nor a signal to change ciphers ends the part that can be seen. */
static long check_records(struct egress_check *check, const uint8_t *bytes, size_t length)
{
    if (check->passing > 0) {
        size_t step = length < check->passing ? length : check->passing;
        check->passing -= step;
        return (long)step;
    }
    if (bytes[0] == RECORD_HANDSHAKE) {
        if (length >= 5 && bytes[3] == 0 && bytes[4] == 0)
            return refuse(check, EGRESS_DENIAL_NOT_WEB, "an empty TLS handshake record");
        if (length < 6)
            return 0;
        if (bytes[5] == CLIENT_HELLO)
            return check_hello(check, bytes, length);
    } else if (bytes[0] == RECORD_CHANGE_CIPHER || bytes[0] == RECORD_ALERT) {
        if (length < 5)
            return 0;
        check->passing = 5 + ((size_t)bytes[3] << 8 | bytes[4]);
        return check_records(check, bytes, length);
    }
    check->state = EGRESS_CHECK_OPAQUE;
    return (long)length;
}

/* ---- HTTP ---- */

static int names_us(const struct egress_check *check, const struct egress_authority *host)
{
    return !host->is_address && strcmp(host->name, check->name) == 0 &&
           (host->port == 0 || host->port == check->port);
}

static long check_head(struct egress_check *check, const uint8_t *bytes, size_t length)
{
    struct egress_head head;
    const char *why = NULL;
    int failed = egress_http_head(bytes, length, &head, &why);
    if (failed == -EAGAIN) {
        check->state = EGRESS_CHECK_HEAD;
        return 0;
    }
    if (failed != 0)
        return refuse(check, EGRESS_DENIAL_REQUEST, why);
    if (head.connect)
        return refuse(check, EGRESS_DENIAL_REQUEST, "a CONNECT inside a connection");
    if (!names_us(check, &head.host)) {
        memcpy(check->said, head.host.name, sizeof(check->said));
        return refuse(check, EGRESS_DENIAL_OTHER_HOST, NULL);
    }
    /* The body of an answer that is still on its way could pass for the answer to this one. */
    if (head.upgrade && check->asked)
        return refuse(check, EGRESS_DENIAL_REQUEST,
                      "an Upgrade that is not the first request of its connection");
    check->asked = 1;
    check->left = head.body_length;
    check->chunks = (struct egress_chunks){0};
    check->state = head.upgrade                       ? EGRESS_CHECK_UPGRADE
                   : head.body == EGRESS_BODY_LENGTH  ? EGRESS_CHECK_LENGTH
                   : head.body == EGRESS_BODY_CHUNKED ? EGRESS_CHECK_CHUNKS
                   : check->once                      ? EGRESS_CHECK_ENDED
                                                      : EGRESS_CHECK_HEAD;
    return (long)head.length;
}

static void end_body(struct egress_check *check)
{
    check->state = check->once ? EGRESS_CHECK_ENDED : EGRESS_CHECK_HEAD;
}

static long check_chunks(struct egress_check *check, const uint8_t *bytes, size_t length)
{
    size_t taken = 0;
    int done = 0;
    if (egress_http_chunks(&check->chunks, bytes, length, &taken, &done) != 0)
        return refuse(check, EGRESS_DENIAL_REQUEST, "a chunk that is no plain chunk");
    if (done)
        end_body(check);
    return (long)taken;
}

/* ---- PROXY headers ---- */

#define PROXY_LINE_MOST 107 /* with its end, says the protocol */
#define PROXY_HEAD      16  /* of version 2: what says how long the rest is */

static int starts_alike(const uint8_t *bytes, size_t length, const char *with, size_t with_length)
{
    return memcmp(bytes, with, length < with_length ? length : with_length) == 0;
}

/* The line of version 1, from behind its first word to its end. Servers skip what they do not know in it: nothing of that goes. */
static int is_proxy_line(const char *line, size_t length)
{
    static const char *const begins[] = {"TCP4 ", "TCP6 ", "UNKNOWN"};
    size_t at = 0;
    for (size_t i = 0; at == 0 && i < 3; i++)
        if (length >= strlen(begins[i]) && memcmp(line, begins[i], strlen(begins[i])) == 0)
            at = strlen(begins[i]);
    if (at == 0)
        return 0;
    while (at < length && line[at] != '\0' && strchr("0123456789abcdefABCDEF.: ", line[at]) != NULL)
        at++;
    return at + 2 == length && line[at] == '\r';
}

/* How long the header of version 2 is; 0 when that is not clear yet; -EBADMSG for one that says more than addresses: it could name
 * a host. */
static long proxy_head(const uint8_t *bytes, size_t length)
{
    static const uint16_t address[] = {0, 12, 36, 216}; /* none, IPv4, IPv6, unix */
    if (length < PROXY_HEAD)
        return 0;
    uint16_t rest = (uint16_t)(bytes[14] << 8 | bytes[15]);
    if ((bytes[12] != 0x20 && bytes[12] != 0x21) || bytes[13] >> 4 > 3 || rest != address[bytes[13] >> 4])
        return -EBADMSG;
    return length < (size_t)PROXY_HEAD + rest ? 0 : PROXY_HEAD + rest;
}

/* A server behind a balancer of loads takes such a header first, and a ClientHello or a request behind it: so these are looked at
 * there. Returns how long the header is, -EAGAIN for not yet clear, 0 for none, or -EACCES. */
static long check_proxy_header(struct egress_check *check, const uint8_t *bytes, size_t length)
{
    static const char line[] = "PROXY ", signature[] = "\r\n\r\n\0\r\nQUIT\n";
    long size = 0;
    if (length >= sizeof(line) - 1 && starts_alike(bytes, length, line, sizeof(line) - 1)) {
        if (egress_http_looks_so(bytes, length) == 1)
            return 0; /* a request of that method */
        const uint8_t *end = memchr(bytes, '\n', length);
        size = end != NULL ? end + 1 - bytes : 0;
        if (size > PROXY_LINE_MOST || (size > 0 && !is_proxy_line((const char *)bytes + sizeof(line) - 1,
                                                                  (size_t)size - sizeof(line) + 1)))
            size = -EBADMSG;
    } else if (starts_alike(bytes, length, signature, sizeof(signature) - 1)) {
        size = proxy_head(bytes, length);
    } else {
        return 0;
    }
    if (size < 0 || (size > 0 && check->proxied))
        return refuse(check, EGRESS_DENIAL_REQUEST,
                      "a PROXY header that says more than addresses, or a second one");
    return size > 0 ? size : -EAGAIN;
}

/* ---- What only servers of TLS take for it ---- */

/* In front of its ClientHello a client may send warnings, which Go and BoringSSL pass over; and Go reads a ClientHello whatever the
 * version of its record says, OpenSSL one in the form of SSL 2, which names no host. None of that is done by clients that mean what
 * they say. But a number of two bytes can begin like it: so it is looked at until the type of the message, as servers do. Returns 1,
 * 0, or -EAGAIN for not yet clear. */
static int is_odd_tls(const uint8_t *bytes, size_t length)
{
    if (bytes[0] >= 0x80 && bytes[0] <= 0xc0) /* SSL 2: a length, the type, version 3 */
        return length > 2 && bytes[2] != CLIENT_HELLO ? 0 : length > 3 ? bytes[3] == 3 : -EAGAIN;
    if ((bytes[0] != RECORD_ALERT && bytes[0] != RECORD_HANDSHAKE) || (length > 1 && bytes[1] > 15))
        return 0;
    if (bytes[0] == RECORD_ALERT && ((length > 3 && bytes[3] != 0) || (length > 4 && bytes[4] != 2)))
        return 0;
    return length > 5 ? bytes[5] == (bytes[0] == RECORD_ALERT ? ALERT_WARNING : CLIENT_HELLO) : -EAGAIN;
}

/* ---- The beginning ---- */

static long check_start(struct egress_check *check, const uint8_t *bytes, size_t length)
{
    long header = check->must ? 0 : check_proxy_header(check, bytes, length);
    if (header == -EAGAIN || header == -EACCES)
        return header == -EAGAIN ? 0 : header;
    if (header > 0) {
        check->proxied = 1;
        check->word_length = 0;
        return header;
    }
    if (bytes[0] == RECORD_HANDSHAKE && (length < 2 || bytes[1] == 3))
        return check_hello(check, bytes, length);
    int odd = check->must ? 0 : is_odd_tls(bytes, length);
    if (odd != 0)
        return odd == -EAGAIN
                   ? 0
                   : refuse(check, EGRESS_DENIAL_NOT_WEB, "TLS that does not begin with a ClientHello");
    int http = check->must ? 1 : egress_http_looks_so(bytes, length);
    if (http == -EAGAIN) {
        /* A server does nothing for a method alone, and a client with a protocol of its own may wait for the answer. */
        if (length > sizeof(check->word) || !egress_http_is_word(bytes, length))
            return 0;
        memcpy(check->word, bytes, length);
        check->word_length = (uint8_t)length;
        return (long)length;
    }
    if (http == 1 && check->must && (bytes[0] < 'A' || bytes[0] > 'z'))
        return refuse(check, EGRESS_DENIAL_NOT_WEB, NULL);
    if (http == 1)
        return check_head(check, bytes, length);
    check->state = EGRESS_CHECK_OPAQUE;
    return (long)length;
}

/* The same with the word in front that was let through before. */
static long check_after_word(struct egress_check *check, const uint8_t *bytes, size_t length)
{
    uint8_t whole[EGRESS_WORD_MOST + EGRESS_HEAD_MOST];
    size_t word = check->word_length, more = length < EGRESS_HEAD_MOST ? length : EGRESS_HEAD_MOST;
    memcpy(whole, check->word, word);
    memcpy(whole + word, bytes, more);
    long passed = check->state == EGRESS_CHECK_START ? check_start(check, whole, word + more)
                                                     : check_head(check, whole, word + more);
    if (passed <= 0)
        return passed;
    if (check->state != EGRESS_CHECK_START)
        check->word_length = 0;
    return passed - (long)word;
}

long egress_check_feed(struct egress_check *check, const uint8_t *bytes, size_t length)
{
    if (length == 0)
        return 0;
    if (check->word_length > 0)
        return check_after_word(check, bytes, length);
    switch (check->state) {
    case EGRESS_CHECK_START:
        return check_start(check, bytes, length);
    case EGRESS_CHECK_TLS:
        return check_records(check, bytes, length);
    case EGRESS_CHECK_HEAD:
        return check_head(check, bytes, length);
    case EGRESS_CHECK_CHUNKS:
        return check_chunks(check, bytes, length);
    case EGRESS_CHECK_LENGTH: {
        size_t step = length < check->left ? length : (size_t)check->left;
        check->left -= step;
        if (check->left == 0)
            end_body(check);
        return (long)step;
    }
    case EGRESS_CHECK_UPGRADE:
    case EGRESS_CHECK_ENDED: /* nothing that comes after the one request goes anywhere */
        return 0;
    case EGRESS_CHECK_OPAQUE:
        break;
    }
    return (long)length;
}

void egress_check_answer(struct egress_check *check, const uint8_t *bytes, size_t length)
{
    if (check->state != EGRESS_CHECK_UPGRADE)
        return;
    /* An answer that came in pieces counts as no: what the client sends then must be a request again. */
    int yes = length >= 12 && memcmp(bytes, "HTTP/1.1 101", 12) == 0;
    check->state = yes ? EGRESS_CHECK_OPAQUE : check->once ? EGRESS_CHECK_ENDED : EGRESS_CHECK_HEAD;
}
