/* What kern and the processes that it makes for a pull say to each other: frames on a stream socket. kern believes none of
 * them: lengths are checked here, contents by their digests. Pure but for the socket. */
#ifndef REGISTRY_WIRE_H
#define REGISTRY_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WIRE_PAYLOAD_MAX ((size_t)128 << 10)

/* From a worker. `index` is the layer's where there is one. */
#define WIRE_NOTE     1u /* a line for the user */
#define WIRE_DOCUMENT 2u /* a piece of a document; index: WIRE_INDEX ... */
#define WIRE_READY    3u /* that document is complete */
#define WIRE_LAYERS   4u /* struct image_blob, one for each layer; value: how many */
#define WIRE_DATA     5u /* bytes of a layer */
#define WIRE_RESTART  6u /* they begin anew */
#define WIRE_ARRIVED  7u /* the layer is complete; value 1: put together from several answers */
#define WIRE_PROGRESS 8u /* value of `spare` bytes are unpacked */
#define WIRE_ERROR    9u /* struct kern_error: it is over */
#define WIRE_END      10u
#define WIRE_PATIENCE \
    11u /* the worker waits for value milliseconds; payload: the registry that wants it so */
/* To the worker. */
#define WIRE_WANT 12u /* a layer, from byte `value` on */

#define WIRE_INDEX    0u
#define WIRE_MANIFEST 1u
#define WIRE_CONFIG   2u

struct wire_frame {
    uint32_t type, index;
    uint64_t value;
    uint32_t length, spare;
};

/* Sends one frame, waiting as long as it takes. 0 or -errno; the other side may be gone. */
int wire_send(int fd, uint32_t type, uint32_t index, uint64_t value, const void *payload, size_t length);

struct wire_reader {
    unsigned char *bytes;
    size_t have, used;
    bool ended; /* nothing more will come */
};

/* Takes what is there without waiting; 0 or -errno. */
int wire_reader_fill(struct wire_reader *reader, int fd);
/* 1 with a whole frame, whose payload stays until the next call; 0: not yet; -EPROTO: that is no frame. */
int wire_reader_next(struct wire_reader *reader, struct wire_frame *ret_frame, const void **ret_payload);
void wire_reader_clear(struct wire_reader *reader);

#endif
