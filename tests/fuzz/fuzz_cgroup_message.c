/* libFuzzer target for what a service manager answers: a D-Bus message, of which kern believes a few strings. */
#include "plugins/cgroup/cgroup_message.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cgroup_reply reply;
    size_t length = 0;
    if (size < CGROUP_MESSAGE_HEAD)
        return 0;
    if (cgroup_reply_length(data, &length) == 0 && length < CGROUP_MESSAGE_HEAD)
        abort();
    /* A block of its own, so that reading past it is seen. */
    uint8_t *copy = malloc(size);
    memcpy(copy, data, size);
    if (cgroup_reply_parse(copy, size, &reply) == 0 &&
        (memchr(reply.text, '\0', sizeof(reply.text)) == NULL ||
         memchr(reply.error, '\0', sizeof(reply.error)) == NULL))
        abort();
    free(copy);
    return 0;
}
