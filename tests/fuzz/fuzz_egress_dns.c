/* Fuzz target of the DNS messages: any bytes are a question that can be answered, a reply, or refused. Runs in the fuzzer's
 * process. */
#include "egress_dns.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int holds)
{
    if (!holds)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t message[EGRESS_DNS_MOST], answer[EGRESS_DNS_MOST];
    struct egress_question question;
    struct egress_reply reply;
    if (size > sizeof(message))
        return 0;
    memcpy(message, data, size);
    if (egress_dns_read_question(message, size, &question) == 0) {
        require(strlen(question.name) < EGRESS_DNS_TEXT && question.end <= size);
        const struct egress_address address = {.v6 = size % 2, .bytes = {198, 18, 0, 1}};
        size_t length = egress_dns_write_answer(message, &question, 0, &address, 30, answer);
        require(length > size - question.end || length == question.end + (address.v6 ? 28 : 16));
    }
    if (size >= 2 && egress_dns_read_reply(message, size, (uint16_t)(message[0] << 8 | message[1]),
                                           "a.example.com", 1, &reply) == 0) {
        require(reply.count <= EGRESS_DNS_ADDRESSES);
        for (uint32_t i = 0; i < reply.count; i++)
            require(!reply.address[i].v6);
    }
    return 0;
}
