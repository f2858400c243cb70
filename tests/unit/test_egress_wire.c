/* What egress reads from the wire: DNS messages, ClientHello, HTTP heads, and the check that is made of them. */
#include "egress_check.h"
#include "egress_denial.h"
#include "egress_dns.h"
#include "egress_tls.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>

/* ---- DNS ---- */

static void a_question_is_answered(void **state)
{
    (void)state; /* no fixture */
    uint8_t query[EGRESS_DNS_MOST], answer[EGRESS_DNS_MOST];
    struct egress_question question;
    struct egress_reply reply;
    for (uint16_t type = 1; type <= 28; type += 27) {
        size_t length = egress_dns_write_query(0x1234, "api.example.com", type, query);
        assert_true(length > 12);
        assert_int_equal(egress_dns_read_question(query, length, &question), 0);
        assert_string_equal(question.name, "api.example.com");
        assert_int_equal(question.type, type);
        struct egress_address address = {.v6 = type == 28, .bytes = {1, 2, 3, 4}};
        size_t size = egress_dns_write_answer(query, &question, 0, &address, 30, answer);
        assert_int_equal(egress_dns_read_reply(answer, size, 0x1234, "API.example.com", type, &reply), 0);
        assert_int_equal(reply.count, 1);
        assert_int_equal(reply.ttl, 30);
        assert_memory_equal(&reply.address[0], &address, sizeof(address));
        assert_int_equal(egress_dns_read_reply(answer, size, 0x1235, "api.example.com", type, &reply),
                         -EBADMSG);
        assert_int_equal(egress_dns_read_reply(answer, size, 0x1234, "b.example.com", type, &reply),
                         -EBADMSG);
        assert_int_equal(egress_dns_read_reply(query, length, 0x1234, "api.example.com", type, &reply),
                         -EBADMSG);
        for (size_t cut = 0; cut < size; cut++)
            assert_int_equal(egress_dns_read_reply(answer, cut, 0x1234, "api.example.com", type, &reply),
                             -EBADMSG);
    }
}

static void odd_names_are_spelled_out(void **state)
{
    (void)state; /* no fixture */
    static const uint8_t query[] = "\x00\x01\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x03"
                                   "a.b\x01\x00\x00\x00\x01\x00\x01";
    struct egress_question question;
    assert_int_equal(egress_dns_read_question(query, sizeof(query) - 1, &question), 0);
    assert_string_equal(question.name, "a\\046b.\\000");
}

static void bad_questions(void **state)
{
    (void)state; /* no fixture */
    uint8_t query[EGRESS_DNS_MOST], answer[EGRESS_DNS_MOST];
    struct egress_question question;
    size_t length = egress_dns_write_query(7, "a.b", 1, query);
    assert_int_equal(egress_dns_read_question(query, 11, &question), -EBADMSG);
    query[2] |= 0x80;
    assert_int_equal(egress_dns_read_question(query, length, &question), -EBADMSG); /* a reply */
    query[2] = 1;
    query[5] = 2;
    assert_int_equal(egress_dns_read_question(query, length, &question), -EINVAL);
    assert_int_equal(egress_dns_write_answer(query, &question, EGRESS_RCODE_FORMAT, NULL, 0, answer), 12);
    query[5] = 1;
    query[12] = 0xc0; /* a name that points at itself */
    query[13] = 12;
    assert_int_equal(egress_dns_read_question(query, length, &question), -EINVAL);
}

/* The answers of a reply: a name, type, and data, all given as bytes. */
static size_t add_record(uint8_t *message, size_t at, const char *owner, uint8_t type, const void *data,
                         uint8_t size)
{
    uint8_t name[EGRESS_DNS_MOST];
    size_t length = egress_dns_write_query(0, owner, 1, name) - 12 - 4 - 11;
    memcpy(message + at, name + 12, length);
    at += length;
    const uint8_t rest[] = {0, type, 0, 1, 0, 0, 0, 60, 0, size};
    memcpy(message + at, rest, sizeof(rest));
    memcpy(message + at + sizeof(rest), data, size);
    message[7]++;
    return at + sizeof(rest) + size;
}

static void aliases_are_followed(void **state)
{
    (void)state; /* no fixture */
    uint8_t message[EGRESS_DNS_MOST];
    struct egress_reply reply;
    size_t length = egress_dns_write_query(9, "a.x", 1, message) - 11;
    message[2] = 0x81;
    message[11] = 0;
    size_t at = add_record(message, length, "evil.x", 1, "\x06\x06\x06\x06", 4); /* not what was asked for */
    at = add_record(message, at, "b.x", 1, "\x01\x02\x03\x04", 4);
    at = add_record(message, at, "a.x", 5,
                    "\x01"
                    "b\x01x",
                    5);
    assert_int_equal(egress_dns_read_reply(message, at, 9, "a.x", 1, &reply), 0);
    assert_int_equal(reply.count, 1);
    assert_int_equal(reply.address[0].bytes[0], 1);
    message[7] = 0;
    at = add_record(message, length, "a.x", 5,
                    "\x01"
                    "a\x01x",
                    5); /* a circle */
    assert_int_equal(egress_dns_read_reply(message, at, 9, "a.x", 1, &reply), -EBADMSG);
    message[7] = 0;
    at = add_record(message, length, "a.x", 1, "\x01\x02\x03\x04\x05", 5);
    assert_int_equal(egress_dns_read_reply(message, at, 9, "a.x", 1, &reply), -EBADMSG);
}

/* ---- TLS ---- */

/* A ClientHello with the names and the extension given, in records of at most `piece` bytes. Returns its length. */
#define ECH        "\xfe\x0d\x00\x01\x00"
#define EARLY_DATA "\x00\x2a\x00\x01\x00"

static size_t make_hello(const char *name, const char *second, const char *extra, size_t piece,
                         uint8_t *ret_bytes)
{
    uint8_t body[1024] = {3, 3};
    size_t at = 34;
    memcpy(body + at, "\x00\x00\x02\x13\x01\x01\x00", 7);
    at += 7;
    size_t start = at;
    at += 2;
    const char *const names[] = {name, second};
    memcpy(body + at, "\x0a\x0a\x00\x00", 4); /* GREASE */
    at += 4;
    for (int i = 0; i < 2; i++) {
        size_t length = names[i] != NULL ? strlen(names[i]) : 0;
        if (names[i] == NULL)
            continue;
        const uint8_t head[] = {
            0, 0, 0, (uint8_t)(length + 5), 0, (uint8_t)(length + 3), 0, 0, (uint8_t)length};
        memcpy(body + at, head, sizeof(head));
        memcpy(body + at + sizeof(head), names[i], length);
        at += sizeof(head) + length;
    }
    if (extra != NULL) {
        memcpy(body + at, extra, 5);
        at += 5;
    }
    body[start] = (uint8_t)((at - start - 2) >> 8);
    body[start + 1] = (uint8_t)(at - start - 2);
    uint8_t message[1100] = {1, 0, (uint8_t)(at >> 8), (uint8_t)at};
    memcpy(message + 4, body, at);
    size_t used = 0;
    for (size_t done = 0; done < at + 4; done += piece) {
        size_t step = at + 4 - done < piece ? at + 4 - done : piece;
        const uint8_t head[] = {22, 3, 1, (uint8_t)(step >> 8), (uint8_t)step};
        memcpy(ret_bytes + used, head, 5);
        memcpy(ret_bytes + used + 5, message + done, step);
        used += 5 + step;
    }
    return used;
}

static void a_hello_names_its_host(void **state)
{
    (void)state; /* no fixture */
    static uint8_t bytes[8192];
    struct egress_hello hello;
    static const size_t piece[] = {1000, 50, 3, 1};
    for (size_t i = 0; i < 4; i++) {
        size_t length = make_hello("API.example.com", NULL, ECH, piece[i], bytes);
        for (size_t cut = 0; cut < length; cut++)
            assert_int_equal(egress_tls_hello(bytes, cut, &hello), -EAGAIN);
        assert_int_equal(egress_tls_hello(bytes, length, &hello), 0);
        assert_string_equal(hello.name, "api.example.com");
        assert_int_equal(hello.hidden, 1);
        assert_int_equal(hello.records, length);
    }
}

static void hellos_that_are_none(void **state)
{
    (void)state; /* no fixture */
    static uint8_t bytes[8192];
    struct egress_hello hello;
    size_t length = make_hello("a.b", "c.d", NULL, 1000, bytes); /* two names */
    assert_int_equal(egress_tls_hello(bytes, length, &hello), -EBADMSG);
    length = make_hello(NULL, NULL, NULL, 1000, bytes);
    assert_int_equal(egress_tls_hello(bytes, length, &hello), 0);
    assert_int_equal(hello.named, 0);
    length = make_hello("a\x01"
                        "b",
                        NULL, 0, 1000, bytes);
    assert_int_equal(egress_tls_hello(bytes, length, &hello), 0);
    assert_string_equal(hello.name, "");
    assert_string_equal(hello.said, "a?b");
    length = make_hello("a.b", NULL, NULL, 1000, bytes);
    bytes[8]++; /* the message is longer than its record, and then there is something else */
    memcpy(bytes + length, "\x17\x03\x03\x00\x01x", 6);
    assert_int_equal(egress_tls_hello(bytes, length + 6, &hello), -EBADMSG);
    bytes[8] -= 2; /* bytes behind the message */
    assert_int_equal(egress_tls_hello(bytes, length, &hello), -EBADMSG);
    assert_int_equal(egress_tls_hello((const uint8_t *)"\x16\x03\x01\x00\x00", 5, &hello), -EBADMSG);
    assert_int_equal(egress_tls_hello((const uint8_t *)"\x16\x03\x01\x40\x01\x01", 6, &hello), -EBADMSG);
    assert_int_equal(egress_tls_hello((const uint8_t *)"\x16\x03\x01\x00\x05\x01\x7f", 7, &hello), -EAGAIN);
    assert_int_equal(egress_tls_hello((const uint8_t *)"\x16\x03\x01\x00\x05\x02", 6, &hello), -EBADMSG);
}

/* ---- HTTP ---- */

#define HOST "Host: api.example.com\r\n"

static void heads(void **state)
{
    (void)state; /* no fixture */
    static const struct {
        const char *text, *why; /* NULL: fine */
    } row[] = {
        {"GET / HTTP/1.1\r\n" HOST "\r\n", NULL},
        {"OPTIONS * HTTP/1.1\r\n" HOST "\r\n", NULL},
        {"CONNECT a.b:443 HTTP/1.1\r\n\r\n", NULL},
        {"GET http://api.example.com/x HTTP/1.0\r\nHost:api.example.com:80 \r\n\r\n", NULL},
        {"GET / HTTP/1.1\r\n\r\n", "without a Host"},
        {"GET / HTTP/1.1\r\n" HOST HOST "\r\n", "two Host"},
        {"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", "no host name"},
        {"GET / HTTP/1.1\r\nHost : a.b\r\n\r\n", "plain name"},
        {"GET / HTTP/1.1\r\n Host: a.b\r\n\r\n", "plain name"},
        {"GET / HTTP/1.1\r\n" HOST "X: 1\r\n 2\r\n\r\n", "plain name"},
        {"GET / HTTP/1.1\n" HOST "\r\n", "CR LF"},
        {"GET / HTTP/1.1\r\n" HOST "X: a\rb\r\n\r\n", "CR LF"},
        {"GET /\x01 HTTP/1.1\r\n" HOST "\r\n", "control"},
        {"GET  / HTTP/1.1\r\n" HOST "\r\n", "not an HTTP/1"},
        {"GET / HTTP/2.0\r\n" HOST "\r\n", "not an HTTP/1"},
        {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "not an HTTP/1"},
        {"GET /\r\n\r\n", "not an HTTP/1"},
        {"GET https://a.b/ HTTP/1.1\r\nHost: a.b\r\n\r\n", "neither a path"},
        {"GET http://a.b/ HTTP/1.1\r\n" HOST "\r\n", "differs"},
        {"GET http://api.example.com:81/ HTTP/1.1\r\n" HOST "\r\n", "differs"},
        {"GET http://u@api.example.com/ HTTP/1.1\r\n" HOST "\r\n", "plain host name"},
        {"CONNECT a.b HTTP/1.1\r\n\r\n", "HOST:PORT"},
        {"CONNECT 2130706433:80 HTTP/1.1\r\n\r\n", "HOST:PORT"},
        {"POST / HTTP/1.1\r\n" HOST "Content-Length: 1\r\nContent-Length: 1\r\n\r\n", "two Content-Length"},
        {"POST / HTTP/1.1\r\n" HOST "Content-Length: 1, 1\r\n\r\n", "not a number"},
        {"POST / HTTP/1.1\r\n" HOST "Content-Length: +1\r\n\r\n", "not a number"},
        {"POST / HTTP/1.1\r\n" HOST "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "both"},
        {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: xchunked\r\n\r\n", "other than chunked"},
        {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip, chunked\r\n\r\n", "other than chunked"},
        {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
         "other than chunked"},
        {"POST / HTTP/1.0\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n", "HTTP/1.0"},
        {"GET / HTTP/1.1\r\n" HOST "Upgrade: h2c\r\n\r\n", "Upgrade"},
    };
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
        struct egress_head head;
        const char *why = NULL;
        size_t length = strlen(row[i].text);
        int result = egress_http_head((const uint8_t *)row[i].text, length, &head, &why);
        if (row[i].why == NULL ? result != 0 || head.length != length
                               : result != -EBADMSG || strstr(why, row[i].why) == NULL)
            fail_msg("%s: %s", row[i].text, why != NULL ? why : "accepted");
    }
    struct egress_head head;
    const char *why = NULL;
    char *large = malloc(70000);
    memset(large, 'a', 70000);
    memcpy(large, "GET / HTTP/1.1\r\nX: ", 19);
    assert_int_equal(egress_http_head((uint8_t *)large, 65535, &head, &why), -EAGAIN);
    assert_int_equal(egress_http_head((uint8_t *)large, 70000, &head, &why), -EBADMSG);
    free(large);
}

static void chunks(void **state)
{
    (void)state; /* no fixture */
    static const struct {
        const char *text;
        int taken; /* -1: refused */
    } row[] = {
        {"3\r\nabc\r\n0\r\n\r\nGET", 13},
        {"0\r\n\r\n", 5},
        {"a\r\n0123456789\r\n", -2},
        {"3;x=y\r\nabc\r\n", -1},
        {"3\nabc\r\n", -1},
        {"3\r\nabcd\r\n", -1},
        {"\r\n", -1},
        {"0\r\nX: y\r\n\r\n", -1},
        {"fffffffffffffffff\r\n", -1},
        {" 3\r\n", -1},
        {"0x3\r\n", -1},
    };
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
        struct egress_chunks chunks_at = {0};
        size_t taken = 0;
        int done = 0;
        int result =
            egress_http_chunks(&chunks_at, (const uint8_t *)row[i].text, strlen(row[i].text), &taken, &done);
        if (row[i].taken == -1
                ? result != -EBADMSG
                : result != 0 || done != (row[i].taken > 0) || (done && taken != (size_t)row[i].taken))
            fail_msg("%s", row[i].text);
    }
}

/* ---- The check ---- */

/* Feeds the text byte by byte as they would come; returns how many were let through before it was refused, or all. */
static size_t feed(struct egress_check *check, const char *text, size_t length)
{
    size_t passed = 0;
    for (size_t there = 1; there <= length; there++) {
        long now = 1;
        while (now > 0 && passed < there) {
            now = egress_check_feed(check, (const uint8_t *)text + passed, there - passed);
            if (now < 0)
                return passed;
            passed += (size_t)now;
        }
    }
    return passed;
}

static void every_request_must_name_the_host(void **state)
{
    (void)state; /* no fixture */
    struct egress_check check;
#define GOOD    "GET /a HTTP/1.1\r\n" HOST "\r\n"
#define POST    "POST /a HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nGET /"
#define CHUNKED "POST /a HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n5\r\nGET /\r\n0\r\n\r\n"
#define BAD     "GET /b HTTP/1.1\r\nHost: evil.example.com\r\n\r\n"
    static const char *const good[] = {GOOD, POST, CHUNKED, GOOD POST GOOD CHUNKED POST};
    for (size_t i = 0; i < 4; i++) {
        char text[2048];
        egress_check_start(&check, "api.example.com", 80, 0);
        assert_int_equal(feed(&check, good[i], strlen(good[i])), strlen(good[i]));
        (void)snprintf(text, sizeof(text), "%s%s", good[i], BAD); /* fits */
        egress_check_start(&check, "api.example.com", 80, 0);
        assert_int_equal(feed(&check, text, strlen(text)), strlen(good[i]));
        assert_int_equal(check.refused, EGRESS_DENIAL_OTHER_HOST);
        assert_string_equal(check.said, "evil.example.com");
    }
    static const char port[] = "GET / HTTP/1.1\r\nHost: api.example.com:8080\r\n\r\n";
    egress_check_start(&check, "api.example.com", 80, 0);
    assert_int_equal(feed(&check, port, strlen(port)), 0);
    egress_check_start(&check, "api.example.com", 8080, 0);
    assert_int_equal(feed(&check, port, strlen(port)), strlen(port));
    egress_check_start(&check, "api.example.com", 80, 0);
    check.state = EGRESS_CHECK_HEAD;
    check.once = 1;
    assert_int_equal(feed(&check, POST, strlen(POST)), strlen(POST));
    assert_int_equal(check.state, EGRESS_CHECK_ENDED);
    assert_int_equal(feed(&check, GOOD, strlen(GOOD)), 0);
}

static void what_is_neither_is_refused_on_web_ports_only(void **state)
{
    (void)state; /* no fixture */
    static const char *const other[] = {"SSH-2.0-x\r\n", "\x00\x00\x00\x08", "*1\r\n$4\r\nPING\r\n",
                                        "GET foo\r\n", "\x80\x2e\x02"};
    struct egress_check check;
    for (size_t i = 0; i < 5; i++) {
        size_t length = i == 1 ? 4 : strlen(other[i]);
        egress_check_start(&check, "api.example.com", 443, 0);
        assert_int_equal(feed(&check, other[i], length), 0);
        egress_check_start(&check, "api.example.com", 9000, 0);
        assert_int_equal(feed(&check, other[i], length), length);
        assert_int_equal(check.state, EGRESS_CHECK_OPAQUE);
    }
    /* On any port: what a web server would read as a request is checked as one. */
    static const char *const tricks[] = {BAD, "\r\n" BAD, "\n\n" BAD,
                                         "FOO / http/1.1\r\nHost: evil.example.com\r\n\r\n",
                                         "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"};
    for (size_t i = 0; i < 5; i++) {
        egress_check_start(&check, "api.example.com", 9000, 0);
        assert_in_range(feed(&check, tricks[i], strlen(tricks[i])), 0, strcspn(tricks[i], " "));
        assert_int_not_equal(check.refused, 0);
    }
}

/* Servers of Go read the name behind a warning, and in a record of any version; OpenSSL reads the hello of SSL 2. */
static void tls_that_only_a_server_sees(void **state)
{
    (void)state; /* no fixture */
    static const struct {
        const char *bytes;
        size_t length;
        int is_tls;
    } row[] = {
        {"\x15\x03\x01\x00\x02\x01\x5a", 7, 1}, {"\x15\x02\x01\x00\x02\x01\x5a", 7, 1},
        {"\x16\x02\x01\x00\x30\x01\x00", 7, 1}, {"\x16\x00\x00\x00\x30\x01\x00", 7, 1},
        {"\x80\x2e\x01\x03\x01\x00\x05", 7, 1}, {"\x15\x01\x00\x00\x01\x00\x00", 7, 0},
        {"\x16\x01\x00\x00\x01\x00\x00", 7, 0}, {"\x16\x10\x00\x00\x30\x01\x00", 7, 0},
        {"\x15\x00\x00\x01\x85\xa6\x3f", 7, 0}, {"\xff\xfd\x01", 3, 0},
        {"\x80\x00\x00\x28\x00", 5, 0},
    };
    struct egress_check check;
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
        egress_check_start(&check, "api.example.com", 9000, 0);
        assert_int_equal(feed(&check, row[i].bytes, row[i].length), row[i].is_tls ? 0 : row[i].length);
        assert_int_equal(check.refused, row[i].is_tls ? EGRESS_DENIAL_NOT_WEB : 0);
        egress_check_start(&check, "api.example.com", 9000, 0);
        long all = egress_check_feed(&check, (const uint8_t *)row[i].bytes, row[i].length);
        assert_int_equal(all, row[i].is_tls ? -EACCES : (long)row[i].length);
    }
}

static void a_word_goes_before_it_is_clear_what_it_is(void **state)
{
    (void)state; /* no fixture */
    static const char *const next[] = {"", "\r\n", "\r\nmore words\r\n",
                                       " / HTTP/1.1\r\n" HOST "\r\n" GOOD GOOD};
    struct egress_check check;
    for (size_t i = 0; i < 4; i++) {
        size_t length = strlen(next[i]);
        egress_check_start(&check, "api.example.com", 9000, 0);
        assert_int_equal(egress_check_feed(&check, (const uint8_t *)"PING", 4), 4);
        assert_int_equal(check.state, EGRESS_CHECK_START);
        assert_int_equal(feed(&check, next[i], length), length);
        assert_int_equal(check.state, i == 0   ? EGRESS_CHECK_START
                                      : i == 3 ? EGRESS_CHECK_HEAD
                                               : EGRESS_CHECK_OPAQUE);
    }
    static const char bad[] = " / HTTP/1.1\r\nHost: evil.example.com\r\n\r\n";
    egress_check_start(&check, "api.example.com", 9000, 0);
    assert_int_equal(egress_check_feed(&check, (const uint8_t *)"GE", 2), 2);
    assert_int_equal(egress_check_feed(&check, (const uint8_t *)"T", 1), 1);
    assert_int_equal(egress_check_feed(&check, (const uint8_t *)bad, sizeof(bad) - 1), -EACCES);
    /* On a port of web servers there is nothing but requests. */
    egress_check_start(&check, "api.example.com", 80, 0);
    assert_int_equal(egress_check_feed(&check, (const uint8_t *)"GET", 3), 0);
}

static void behind_a_proxy_header_it_is_looked_at_too(void **state)
{
    (void)state; /* no fixture */
    static const char two[] = "\r\n\r\n\0\r\nQUIT\n\x21\x11\0\014abcdefghijkl",
                      none[] = "\r\n\r\n\0\r\nQUIT\n\x20\0\0";
    static const struct {
        const char *text;
        size_t length; /* of the header; 0: refused */
    } row[] = {
        {"PROXY TCP4 192.0.2.1 192.0.2.2 5 6\r\n", 36},
        {"PROXY TCP6 2001:db8::1 ::1 5 6\r\n", 32},
        {"PROXY UNKNOWN\r\n", 15},
        {two, sizeof(two) - 1},
        {none, sizeof(none)},
        {"PROXY UNKNOWN\nX\r\n", 0},
        {"PROXY UNKNOWN X\r\n", 0},
        {"PROXY TCP4 evil\r\n", 0},
        {"PROXY TCP5 1 2\r\n", 0},
        {"PROXY TCP4 1\r2\r\n", 0},
        {"PROXY UNKNOWN                                                                                      "
         "      1\r\n",
         0},
        {"PROXY / HTTP/1.1\r\nHost: evil.example.com\r\n\r\n", 0},
        {"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\015abcdefghijklm", 0},
        {"\r\n\r\n\0\r\nQUIT\n\x31\x11\0\014abcdefghijkl", 0},
    };
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
        static const char *const more[] = {GOOD, BAD, "PROXY UNKNOWN\r\n", "SSH-2.0-x\r\n"};
        for (size_t k = 0; k < 4; k++) {
            struct egress_check check;
            char text[512];
            size_t length = row[i].length > 0        ? row[i].length
                            : row[i].text[0] == '\r' ? 29
                                                     : strlen(row[i].text);
            memcpy(text, row[i].text, length);
            (void)snprintf(text + length, sizeof(text) - length, "%s", more[k]); /* fits */
            size_t whole = length + strlen(more[k]);
            egress_check_start(&check, "api.example.com", 9000, 0);
            size_t passed = feed(&check, text, whole);
            int refused = row[i].length == 0 || k == 1 || k == 2;
            size_t most = (row[i].length > 0 ? length : 0) + 5; /* a first word may have gone */
            if (refused ? passed > most || check.refused == 0 : passed != whole)
                fail_msg("%zu %zu: %zu of %zu", i, k, passed, whole);
            egress_check_start(&check, "api.example.com", 80, 0);
            assert_int_equal(feed(&check, text, whole), 0);
        }
    }
}

static void tls_must_name_the_host_each_time(void **state)
{
    (void)state; /* no fixture */
    static uint8_t bytes[8192];
    struct egress_check check;
    for (uint16_t port = 443; port < 445; port++) {
        size_t length = make_hello("api.example.com", NULL, NULL, 20, bytes);
        size_t first = length;
        memcpy(bytes + length, "\x14\x03\x03\x00\x01\x01", 6);
        length += 6;
        size_t again = length + make_hello("evil.example.com", NULL, NULL, 1000, bytes + length);
        egress_check_start(&check, "api.example.com", port, 0);
        assert_int_equal(feed(&check, (char *)bytes, again), length); /* after a HelloRetryRequest */
        assert_int_equal(check.refused, EGRESS_DENIAL_OTHER_NAME);
        memcpy(bytes + length, "\x17\x03\x03\x00\x01x", 6);
        egress_check_start(&check, "api.example.com", port, 0);
        assert_int_equal(feed(&check, (char *)bytes, again), again);
        assert_int_equal(check.state, EGRESS_CHECK_OPAQUE);
        egress_check_start(&check, "other.example.com", port, 0);
        assert_int_equal(feed(&check, (char *)bytes, first), 0);
        assert_int_equal(check.refused, EGRESS_DENIAL_OTHER_NAME);
        length = make_hello("api.example.com", NULL, ECH, 1000, bytes);
        egress_check_start(&check, "api.example.com", port, 0);
        assert_int_equal(feed(&check, (char *)bytes, length), 0);
        assert_int_equal(check.refused, EGRESS_DENIAL_HIDDEN);
        egress_check_start(&check, "api.example.com", port, 1);
        assert_int_equal(feed(&check, (char *)bytes, length), length);
        length = make_hello(NULL, NULL, NULL, 1000, bytes);
        egress_check_start(&check, "api.example.com", port, 0);
        assert_int_equal(feed(&check, (char *)bytes, length), 0);
        assert_int_equal(check.refused, EGRESS_DENIAL_NO_NAME);
        length = make_hello("api.example.com", NULL, EARLY_DATA, 1000, bytes);
        egress_check_start(&check, "api.example.com", port, 1);
        assert_int_equal(feed(&check, (char *)bytes, length), 0);
        assert_int_equal(check.refused, EGRESS_DENIAL_NOT_WEB);
        /* Its type would be read from the record behind it. */
        length = make_hello("api.example.com", NULL, NULL, 1000, bytes);
        memcpy(bytes + length, "\x16\x03\x03\x00\x00", 5);
        egress_check_start(&check, "api.example.com", port, 0);
        assert_int_equal(feed(&check, (char *)bytes, length + 5), length);
        assert_int_equal(check.refused, EGRESS_DENIAL_NOT_WEB);
    }
}

static void a_websocket_is_opaque_once_it_is_granted(void **state)
{
    (void)state; /* no fixture */
    static const char ask[] = "GET /a HTTP/1.1\r\n" HOST "Upgrade: websocket\r\n\r\n";
    struct egress_check check;
    for (int granted = 0; granted < 2; granted++) {
        const char *answer = granted ? "HTTP/1.1 101 Switching" : "HTTP/1.1 200 OK\r\n";
        egress_check_start(&check, "api.example.com", 80, 0);
        assert_int_equal(feed(&check, ask, strlen(ask)), strlen(ask));
        assert_int_equal(feed(&check, BAD, strlen(BAD)), 0);
        egress_check_answer(&check, (const uint8_t *)answer, strlen(answer));
        assert_int_equal(feed(&check, BAD, strlen(BAD)), granted ? strlen(BAD) : 0);
    }
    /* The body of an earlier answer may say "101" as well. */
    egress_check_start(&check, "api.example.com", 80, 0);
    assert_int_equal(feed(&check, GOOD, strlen(GOOD)), strlen(GOOD));
    assert_int_equal(feed(&check, ask, strlen(ask)), 0);
    assert_int_equal(check.refused, EGRESS_DENIAL_REQUEST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_question_is_answered),
        cmocka_unit_test(odd_names_are_spelled_out),
        cmocka_unit_test(bad_questions),
        cmocka_unit_test(aliases_are_followed),
        cmocka_unit_test(a_hello_names_its_host),
        cmocka_unit_test(hellos_that_are_none),
        cmocka_unit_test(heads),
        cmocka_unit_test(chunks),
        cmocka_unit_test(every_request_must_name_the_host),
        cmocka_unit_test(what_is_neither_is_refused_on_web_ports_only),
        cmocka_unit_test(tls_that_only_a_server_sees),
        cmocka_unit_test(a_word_goes_before_it_is_clear_what_it_is),
        cmocka_unit_test(behind_a_proxy_header_it_is_looked_at_too),
        cmocka_unit_test(tls_must_name_the_host_each_time),
        cmocka_unit_test(a_websocket_is_opaque_once_it_is_granted),
    };
    return cmocka_run_group_tests_name("egress_wire", tests, NULL, NULL);
}
