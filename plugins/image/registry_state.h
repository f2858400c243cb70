/* A pull as kern itself sees it: what has been told, what each layer is at. Shared by registry_pull.c (the loop) and
 * registry_state.c (what a frame does). */
#ifndef REGISTRY_STATE_H
#define REGISTRY_STATE_H

#include "image_document.h"
#include "kern/foundation.h"
#include "registry.h"
#include "registry_job.h"
#include "registry_unpack.h"

enum pull_stage {
    PULL_SAME,    /* as another layer of this image */
    PULL_BUSY,    /* another process fetches it */
    PULL_COMING,  /* asked for */
    PULL_PACKED,  /* its blob is in the store */
    PULL_OPENING, /* it is being unpacked */
    PULL_READY,
};

struct pull_layer {
    enum pull_stage stage;
    struct image_ingest *ingest;
    struct registry_unpack unpack;
    uint64_t got;
    bool resumed; /* put together from several answers, or with what was left of another time */
    bool again;   /* had to begin anew because of that */
    bool was_here;
};

struct pull {
    struct registry_request *request;
    const struct registry_job *job;
    struct image_store *store;
    struct kern_progress *progress;
    int socket, pid, signals;
    struct wire_reader reader;
    char *text[3]; /* WIRE_INDEX, WIRE_MANIFEST, WIRE_CONFIG */
    size_t length[3];
    bool ready[3];
    char manifest[IMAGE_DIGEST_SIZE];
    struct image_parts *parts;
    struct pull_layer *layer; /* NULL until the layers are known */
    uint32_t unpacking, unpack_limit;
};

/* One frame of the worker's. */
int pull_take(struct pull *pull, const struct wire_frame *frame, const void *payload, struct kern_error *err);
/* What can be begun now: layers that another process was at, layers to unpack. *ret_left is how many are not ready. */
int pull_go_on(struct pull *pull, uint32_t *ret_left, struct kern_error *err);
void pull_show(struct pull *pull, int now);
void pull_clear(struct pull *pull);

#endif
