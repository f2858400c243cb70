/* Frames between kern and the processes of a pull; see registry_wire.h. On both sides. */
#include "registry_wire.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define ROOM (sizeof(struct wire_frame) + WIRE_PAYLOAD_MAX)

int wire_send(int fd, uint32_t type, uint32_t index, uint64_t value, const void *payload, size_t length)
{
    struct wire_frame frame = {.type = type, .index = index, .value = value, .length = (uint32_t)length};
    const unsigned char *at[2] = {(const unsigned char *)&frame, payload};
    size_t left[2] = {sizeof(frame), length};
    if (length > WIRE_PAYLOAD_MAX)
        return -EMSGSIZE;
    while (left[0] + left[1] > 0) {
        struct iovec part[2] = {{(void *)(uintptr_t)at[0], left[0]}, {(void *)(uintptr_t)at[1], left[1]}};
        struct msghdr message = {.msg_iov = part, .msg_iovlen = 2};
        ssize_t sent = sendmsg(fd, &message, MSG_NOSIGNAL);
        if (sent < 0 && errno == EAGAIN) {
            struct pollfd wait = {.fd = fd, .events = POLLOUT};
            (void)poll(&wait, 1, -1); /* whatever it says, the next attempt tells */
            continue;
        }
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0)
            return -errno;
        for (int i = 0; i < 2; i++) {
            size_t taken = (size_t)sent < left[i] ? (size_t)sent : left[i];
            at[i] += taken;
            left[i] -= taken;
            sent -= (ssize_t)taken;
        }
    }
    return 0;
}

int wire_reader_fill(struct wire_reader *reader, int fd)
{
    if (reader->bytes == NULL)
        reader->bytes = malloc(ROOM);
    if (reader->bytes == NULL)
        return -ENOMEM;
    if (reader->used > 0) {
        memmove(reader->bytes, reader->bytes + reader->used, reader->have - reader->used);
        reader->have -= reader->used;
        reader->used = 0;
    }
    if (reader->have == ROOM)
        return 0;
    ssize_t got = recv(fd, reader->bytes + reader->have, ROOM - reader->have, MSG_DONTWAIT);
    if (got < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -errno;
    reader->ended = got == 0;
    reader->have += (size_t)got;
    return 0;
}

int wire_reader_next(struct wire_reader *reader, struct wire_frame *ret_frame, const void **ret_payload)
{
    struct wire_frame frame;
    size_t left = reader->have - reader->used;
    if (left < sizeof(frame))
        return 0;
    memcpy(&frame, reader->bytes + reader->used, sizeof(frame));
    if (frame.length > WIRE_PAYLOAD_MAX)
        return -EPROTO;
    if (left < sizeof(frame) + frame.length)
        return 0;
    *ret_frame = frame;
    *ret_payload = reader->bytes + reader->used + sizeof(frame);
    reader->used += sizeof(frame) + frame.length;
    return 1;
}

void wire_reader_clear(struct wire_reader *reader)
{
    free(reader->bytes);
    *reader = (struct wire_reader){0};
}
