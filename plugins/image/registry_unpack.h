/* Unpacking a layer in a process of its own, so that others can still come in meanwhile. Started by kern itself; the process
 * is a copy of it that only waits for the store's unpacker. */
#ifndef REGISTRY_UNPACK_H
#define REGISTRY_UNPACK_H

#include "image_store_impl.h"
#include "registry_wire.h"

struct registry_unpack {
    int pid;    /* 0: none */
    int socket; /* -1: none */
    struct wire_reader reader;
    uint64_t done, total;
    bool reported; /* an end was told */
};

int registry_unpack_start(struct registry_unpack *unpack, struct image_store *store,
                          const struct image_layer *layer, struct kern_error *err);
/* Its socket is readable. 1: the layer is there, and belongs to `store` like those that it unpacked itself: one sync for all
 * of them comes with image_store_commit(). 0: not yet. */
int registry_unpack_read(struct registry_unpack *unpack, struct image_store *store, struct kern_error *err);
/* Ends it, whatever it does. */
void registry_unpack_stop(struct registry_unpack *unpack);

#endif
