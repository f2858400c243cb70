/* What a frame of the worker does to a pull, and what each layer needs next; see registry_state.h. Runs in kern itself, which
 * takes nothing on trust: each document and each layer is stored under the digest that it has. */
#include "registry_state.h"

#include "image_hash.h"

#include "kern/cleanup.h"

#include <string.h>

static int mistrust(struct kern_error *err)
{
    return kern_fail(err, EPROTO, "cannot understand the registry worker");
}

/* ---- Documents ---------------------------------------------------------------------------------------- */

static int take_document(struct pull *pull, const struct wire_frame *frame, const void *payload,
                         struct kern_error *err)
{
    uint32_t which = frame->index;
    if (which > WIRE_CONFIG || pull->ready[which] || frame->length > IMAGE_DOCUMENT_MAX - pull->length[which])
        return mistrust(err);
    char *grown = realloc(pull->text[which], pull->length[which] + frame->length + 1);
    if (grown == NULL)
        return kern_fail(err, ENOMEM, "cannot keep the image's manifest");
    memcpy(grown + pull->length[which], payload, frame->length);
    pull->length[which] += frame->length;
    grown[pull->length[which]] = '\0';
    pull->text[which] = grown;
    return 0;
}

/* A mirror may have sent some before it failed; the next endpoint begins anew. */
static void drop_documents(struct pull *pull)
{
    for (uint32_t i = 0; i <= WIRE_CONFIG; i++) {
        free(pull->text[i]);
        pull->text[i] = NULL;
        pull->length[i] = 0;
        pull->ready[i] = false;
    }
}

static const char *text_of(const struct pull *pull, uint32_t which)
{
    return pull->text[which] != NULL ? pull->text[which] : "";
}

/* The manifest is one that the index lists, not only one whose digest stands somewhere in its text. */
static int check_index(const struct pull *pull, struct kern_error *err)
{
    cleanup(image_document_clear) struct image_document index = {0};
    int r = image_document_read(text_of(pull, WIRE_INDEX), pull->length[WIRE_INDEX], NULL, &index, err);
    if (r < 0)
        return r;
    for (uint32_t i = 0; i < index.entry_count; i++)
        if (strcmp(index.entry[i].blob.digest, pull->manifest) == 0)
            return 0;
    return mistrust(err);
}

/* By digest from the reference down to the manifest, whatever the worker says. */
static int check_chain(struct pull *pull, struct kern_error *err)
{
    const char *pinned = pull->job->ref.digest;
    char *outer = pull->request->digest;
    int r = image_store_add_blob(pull->store, NULL, text_of(pull, WIRE_MANIFEST), pull->length[WIRE_MANIFEST],
                                 pull->manifest, err);
    if (r < 0)
        return r;
    memcpy(outer, pull->manifest, IMAGE_DIGEST_SIZE);
    if (pull->ready[WIRE_INDEX]) {
        if (image_digest_of(text_of(pull, WIRE_INDEX), pull->length[WIRE_INDEX], outer) != 0)
            return kern_fail(err, ENOMEM, "cannot compute a digest");
        r = check_index(pull, err);
        if (r < 0)
            return r;
    }
    return pinned[0] == '\0' || strcmp(pinned, outer) == 0 ? 0 : mistrust(err);
}

static int read_parts(struct pull *pull, struct kern_error *err)
{
    char digest[IMAGE_DIGEST_SIZE];
    pull->parts = calloc(1, sizeof(*pull->parts));
    if (pull->parts == NULL)
        return kern_fail(err, ENOMEM, "cannot keep the image's manifest");
    int r = image_parse_manifest(text_of(pull, WIRE_MANIFEST), pull->length[WIRE_MANIFEST], pull->parts, err);
    r = r < 0 ? r
              : image_store_add_blob(pull->store, pull->parts->config, text_of(pull, WIRE_CONFIG),
                                     pull->length[WIRE_CONFIG], digest, err);
    r = r < 0 ? r
              : image_parse_diffs(text_of(pull, WIRE_CONFIG), pull->length[WIRE_CONFIG], pull->parts, err);
    /* What was not asked for by its platform may be for any: a start judges it. */
    return r < 0 || pull->request->platform == NULL
               ? r
               : image_check_platform(text_of(pull, WIRE_CONFIG), pull->length[WIRE_CONFIG],
                                      &pull->job->wanted, err);
}

/* ---- Layers ------------------------------------------------------------------------------------------- */

static int want(struct pull *pull, uint32_t index, struct kern_error *err)
{
    struct pull_layer *layer = &pull->layer[index];
    layer->stage = PULL_COMING;
    layer->got = image_ingest_have(layer->ingest);
    int r = wire_send(pull->socket, WIRE_WANT, index, layer->got, NULL, 0);
    return r < 0 ? kern_fail(err, -r, "the registry worker has ended") : 0;
}

/* All bytes are there. Those of another time or of another answer may be damaged: then once more, from the start. */
static int store_layer(struct pull *pull, uint32_t index, struct kern_error *err)
{
    struct pull_layer *layer = &pull->layer[index];
    struct kern_error failure = {0};
    struct image_ingest *ingest = steal_ptr(layer->ingest);
    int r = image_ingest_commit(ingest, &failure);
    if (r == 0) {
        layer->stage = PULL_PACKED;
        return 0;
    }
    if (!layer->resumed || layer->again) {
        *err = failure;
        return kern_wrap(err, "registry \"%s\"", pull->job->endpoint[pull->job->endpoint_count - 1].name);
    }
    layer->again = true;
    r = image_ingest_begin(pull->store, pull->parts->layer[index].blob, &layer->ingest, err);
    if (r == -EBUSY)
        layer->stage = PULL_BUSY;
    return r == 0 ? want(pull, index, err) : r == -EBUSY ? 0 : r;
}

static int begin_layer(struct pull *pull, uint32_t index, struct kern_error *err)
{
    struct pull_layer *layer = &pull->layer[index];
    const struct image_layer *part = &pull->parts->layer[index];
    for (uint32_t i = 0; i < index; i++)
        if (strcmp(pull->parts->layer[i].blob, part->blob) == 0) {
            layer->stage = PULL_SAME;
            return 0;
        }
    if (image_store_has_blob(pull->store, part->blob, NULL) == 1) {
        layer->was_here = layer->stage != PULL_BUSY;
        layer->stage = PULL_PACKED;
        return 0;
    }
    int r = image_ingest_begin(pull->store, part->blob, &layer->ingest, err);
    if (r == -EBUSY) {
        layer->stage = PULL_BUSY;
        return 0;
    }
    if (r < 0)
        return r;
    uint64_t have = image_ingest_have(layer->ingest);
    layer->resumed = have > 0;
    if (have > part->size)
        r = image_ingest_restart(layer->ingest, err);
    layer->got = have;
    if (r == 0 && have == part->size)
        return store_layer(pull, index, err);
    return r < 0 ? r : want(pull, index, err);
}

/* The worker's reading of the manifest and the store's have to be one. */
static int take_layers(struct pull *pull, const struct wire_frame *frame, const void *payload,
                       struct kern_error *err)
{
    if (pull->layer != NULL || !pull->ready[WIRE_MANIFEST] || !pull->ready[WIRE_CONFIG])
        return mistrust(err);
    int r = check_chain(pull, err);
    r = r < 0 ? r : read_parts(pull, err);
    if (r < 0)
        return r;
    uint32_t count = pull->parts->count;
    if (frame->value != count || frame->length != count * sizeof(struct image_blob))
        return mistrust(err);
    pull->layer = calloc(count, sizeof(*pull->layer));
    if (pull->layer == NULL)
        return kern_fail(err, ENOMEM, "cannot keep the list of layers");
    for (uint32_t i = 0; i < count; i++)
        pull->layer[i].unpack.socket = -1;
    for (uint32_t i = 0; r == 0 && i < count; i++) {
        struct image_blob blob;
        memcpy(&blob, (const char *)payload + i * sizeof(blob), sizeof(blob));
        if (strncmp(blob.digest, pull->parts->layer[i].blob, sizeof(blob.digest)) != 0 ||
            blob.size != pull->parts->layer[i].size)
            return mistrust(err);
        r = begin_layer(pull, i, err);
    }
    return r;
}

static int take_layer_frame(struct pull *pull, const struct wire_frame *frame, const void *payload,
                            struct kern_error *err)
{
    if (pull->layer == NULL || frame->index >= pull->parts->count ||
        pull->layer[frame->index].stage != PULL_COMING)
        return mistrust(err);
    struct pull_layer *layer = &pull->layer[frame->index];
    uint64_t size = pull->parts->layer[frame->index].size;
    switch (frame->type) {
    case WIRE_DATA:
        if (frame->length > size - layer->got)
            return mistrust(err);
        layer->got += frame->length;
        return image_ingest_write(layer->ingest, payload, frame->length, err);
    case WIRE_RESTART:
        layer->got = 0;
        return image_ingest_restart(layer->ingest, err);
    default:
        layer->resumed = layer->resumed || frame->value != 0;
        return layer->got == size ? store_layer(pull, frame->index, err) : mistrust(err);
    }
}

/* ---- From outside ------------------------------------------------------------------------------------- */

static int take_error(const void *payload, struct kern_error *err)
{
    struct kern_error told;
    memcpy(&told, payload, sizeof(told));
    told.message[sizeof(told.message) - 1] = told.hint[sizeof(told.hint) - 1] = '\0';
    told.plugin[0] = told.phase[0] = '\0';
    told.category = KERN_ERROR_REFUSED;
    *err = told;
    return -EIO;
}

int pull_take(struct pull *pull, const struct wire_frame *frame, const void *payload, struct kern_error *err)
{
    switch (frame->type) {
    case WIRE_NOTE:
        kern_progress_note(pull->progress, "%.*s", (int)frame->length, (const char *)payload);
        if (pull->layer == NULL)
            drop_documents(pull);
        return 0;
    case WIRE_PATIENCE:
        kern_progress_note(pull->progress, "registry %.*s; asking again in %llu s", (int)frame->length,
                           (const char *)payload, (unsigned long long)(frame->value + 999) / 1000);
        return 0;
    case WIRE_DOCUMENT:
        return take_document(pull, frame, payload, err);
    case WIRE_READY:
        if (frame->index > WIRE_CONFIG)
            return mistrust(err);
        pull->ready[frame->index] = true;
        return 0;
    case WIRE_LAYERS:
        return take_layers(pull, frame, payload, err);
    case WIRE_DATA:
    case WIRE_RESTART:
    case WIRE_ARRIVED:
        return take_layer_frame(pull, frame, payload, err);
    case WIRE_ERROR:
        return frame->length == sizeof(*err) ? take_error(payload, err) : mistrust(err);
    default:
        return mistrust(err);
    }
}

static int unpack_next(struct pull *pull, uint32_t index, struct kern_error *err)
{
    struct pull_layer *layer = &pull->layer[index];
    const struct image_layer *part = &pull->parts->layer[index];
    if (image_store_has_layer(pull->store, part->diff) == 1) {
        layer->stage = PULL_READY;
        return 0;
    }
    if (pull->unpacking >= pull->unpack_limit)
        return 0;
    int r = registry_unpack_start(&layer->unpack, pull->store, part, err);
    if (r < 0)
        return r;
    layer->stage = PULL_OPENING;
    pull->unpacking++;
    return 0;
}

int pull_go_on(struct pull *pull, uint32_t *ret_left, struct kern_error *err)
{
    uint32_t left = 0;
    for (uint32_t i = 0; pull->layer != NULL && i < pull->parts->count; i++) {
        struct pull_layer *layer = &pull->layer[i];
        int r = 0;
        if (layer->stage == PULL_BUSY)
            r = begin_layer(pull, i, err);
        if (r == 0 && layer->stage == PULL_PACKED)
            r = unpack_next(pull, i, err);
        if (r < 0)
            return r;
        left += layer->stage != PULL_READY && layer->stage != PULL_SAME;
    }
    *ret_left = pull->layer != NULL ? left : 1;
    return 0;
}

void pull_show(struct pull *pull, int now)
{
    for (uint32_t i = 0; pull->layer != NULL && i < pull->parts->count; i++) {
        const struct pull_layer *layer = &pull->layer[i];
        const struct image_layer *part = &pull->parts->layer[i];
        struct kern_progress_item item = {.name = part->blob + strlen("sha256:"), .total = part->size};
        switch (layer->stage) {
        case PULL_SAME:
            continue;
        case PULL_BUSY:
            item.state = "waiting for another pull";
            break;
        case PULL_COMING:
            item.state = layer->got > 0 ? "pulling" : "waiting";
            item.done = layer->got;
            break;
        case PULL_PACKED:
            item.state = "waiting to be unpacked";
            item.done = part->size;
            break;
        case PULL_OPENING:
            item.state = "unpacking";
            item.done = layer->unpack.done;
            item.total = layer->unpack.total > 0 ? layer->unpack.total : part->size;
            break;
        case PULL_READY:
            item.state = layer->was_here ? "here already" : "pulled";
            item.done = part->size;
            item.ended = 1;
            break;
        }
        kern_progress_set(pull->progress, i, &item);
    }
    kern_progress_draw(pull->progress, now);
}

void pull_clear(struct pull *pull)
{
    for (uint32_t i = 0; pull->layer != NULL && i < pull->parts->count; i++) {
        registry_unpack_stop(&pull->layer[i].unpack);
        image_ingest_close(pull->layer[i].ingest);
    }
    free(pull->layer);
    free(pull->parts);
    drop_documents(pull);
    wire_reader_clear(&pull->reader);
    image_store_close(pull->store);
    kern_close_fd(&pull->socket);
    kern_close_fd(&pull->signals);
}
