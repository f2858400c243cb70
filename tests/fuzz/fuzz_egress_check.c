/* Fuzz target of what is checked on a connection (ClientHello, HTTP heads and bodies): however the bytes are cut and the server
 * answers, the same are refused, and a ClientHello or a head that is let through names the host. Runs in the fuzzer's process. */
#include "egress_check.h"
#include "egress_tls.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int holds)
{
    if (!holds)
        abort();
}

/* What the server said when a WebSocket was asked for. */
static void answer(struct egress_check *check, int yes)
{
    static const char *const text[] = {"HTTP/1.1 200 OK\r\n", "HTTP/1.1 101 Switching Protocols\r\n"};
    enum egress_check_state before = check->state;
    int asked = before == EGRESS_CHECK_UPGRADE;
    if (asked)
        require(egress_check_feed(check, (const uint8_t *)"GET", 3) == 0);
    egress_check_answer(check, (const uint8_t *)text[yes], strlen(text[yes]));
    require(check->state == (!asked        ? before
                             : yes         ? EGRESS_CHECK_OPAQUE
                             : check->once ? EGRESS_CHECK_ENDED
                                           : EGRESS_CHECK_HEAD));
}

/* The server answers as soon as it may. */
static size_t feed(struct egress_check *check, const uint8_t *data, size_t size, size_t step, int yes,
                   int *ret_refused)
{
    size_t passed = 0, there = 0;
    *ret_refused = 0;
    while (there < size) {
        there = size - there < step ? size : there + step;
        long now = 1;
        while (now > 0 && passed < there) {
            int ended = check->state == EGRESS_CHECK_ENDED;
            now = egress_check_feed(check, data + passed, there - passed);
            require(now <= (long)(there - passed) && (!ended || now == 0));
            if (now < 0) {
                *ret_refused = 1;
                return passed;
            }
            passed += (size_t)now;
            answer(check, yes);
        }
    }
    return passed;
}

/* At the start of a connection, or where the proxy begins: at a head, perhaps the only one. What the server says unasked changes
 * nothing. */
static void begin(struct egress_check *check, uint8_t how, const uint8_t *data, size_t size)
{
    egress_check_start(check, "api.example.com", how & 1 ? 443 : 8080, how >> 1 & 1);
    if (how & 4) {
        check->state = EGRESS_CHECK_HEAD;
        check->once = how >> 3 & 1;
    }
    enum egress_check_state before = check->state;
    egress_check_answer(check, data, size);
    require(check->state == before);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    struct egress_check whole, pieces;
    int refused, refused_too;
    uint8_t how = data[0];
    int yes = how >> 4 & 1, is_web = how & 1, at_head = how >> 2 & 1;
    size_t step = 1 + data[1] % 16;
    data += 2, size -= 2;
    begin(&whole, how, data, size);
    begin(&pieces, how, data, size);
    size_t passed = feed(&whole, data, size, size > 0 ? size : 1, yes, &refused);
    size_t passed_too = feed(&pieces, data, size, step, yes, &refused_too);
    /* In pieces, what stands before a bad chunk has gone already. */
    if (whole.state != EGRESS_CHECK_OPAQUE && pieces.state != EGRESS_CHECK_OPAQUE)
        require(refused == refused_too && passed <= passed_too);
    struct egress_hello hello;
    if (is_web && !at_head && passed > 0 && data[0] == 22) {
        require(egress_tls_hello(data, size, &hello) == 0);
        require(strcmp(hello.name, "api.example.com") == 0 && (!hello.hidden || whole.ech));
    }
    struct egress_head head;
    const char *why = NULL;
    if (passed > 0 && (at_head || (is_web && data[0] != 22))) {
        require(egress_http_head(data, size, &head, &why) == 0);
        require(strcmp(head.host.name, "api.example.com") == 0);
        require(!whole.once || whole.state != EGRESS_CHECK_HEAD);
    }
    return 0;
}
