/* Fuzz target of what is checked on a connection (ClientHello, HTTP heads and bodies): however the bytes are cut, the same are refused,
 * and a ClientHello or a head that is let through names the host. Runs in the fuzzer's process. */
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

static size_t feed(struct egress_check *check, const uint8_t *data, size_t size, size_t step,
                   int *ret_refused)
{
    size_t passed = 0, there = 0;
    *ret_refused = 0;
    while (there < size) {
        there = size - there < step ? size : there + step;
        long now = 1;
        while (now > 0 && passed < there) {
            now = egress_check_feed(check, data + passed, there - passed);
            require(now <= (long)(there - passed));
            if (now < 0) {
                *ret_refused = 1;
                return passed;
            }
            passed += (size_t)now;
        }
    }
    return passed;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    struct egress_check whole, pieces;
    int refused, refused_too;
    uint16_t port = data[0] % 2 ? 443 : 8080;
    size_t step = 1 + data[1] % 16;
    data += 2, size -= 2;
    egress_check_start(&whole, "api.example.com", port, 0);
    egress_check_start(&pieces, "api.example.com", port, 0);
    size_t passed = feed(&whole, data, size, size > 0 ? size : 1, &refused);
    size_t passed_too = feed(&pieces, data, size, step, &refused_too);
    /* In pieces, what stands before a bad chunk has gone already. */
    if (whole.state != EGRESS_CHECK_OPAQUE && pieces.state != EGRESS_CHECK_OPAQUE)
        require(refused == refused_too && passed <= passed_too);
    struct egress_hello hello;
    if (port == 443 && passed > 0 && data[0] == 22) {
        require(egress_tls_hello(data, size, &hello) == 0);
        require(strcmp(hello.name, "api.example.com") == 0 && !hello.hidden);
    }
    struct egress_head head;
    const char *why = NULL;
    if (port == 443 && passed > 0 && data[0] != 22) {
        require(egress_http_head(data, size, &head, &why) == 0);
        require(strcmp(head.host.name, "api.example.com") == 0);
    }
    return 0;
}
