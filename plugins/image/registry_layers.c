/* The layers of a pull, several at a time; see registry_layers.h. Runs in the client's worker: one loop over libcurl's
 * transfers and the socket to kern, which gets each byte as it comes. */
#include "registry_layers.h"

#include "registry_wire.h"

#include "kern/cleanup.h"

#include <string.h>
#include <time.h>

enum state { IDLE, QUEUED, RUNNING, WAITING, ARRIVED };

struct layer {
    struct registry_transfer transfer;
    const struct image_blob *blob;
    struct fetch *fetch;
    uint32_t index, endpoint;
    enum state state;
    int64_t due;   /* WAITING: when to try again */
    bool fresh;    /* no byte of this exchange has come yet */
    bool too_long; /* more bytes than the manifest says */
    bool shifted;  /* a 206 that starts elsewhere */
    bool pieced;   /* put together from several answers */
    char what[64];
};

struct fetch {
    const struct registry_job *job;
    struct registry_session *session;
    CURLM *multi;
    struct layer *layer;
    uint32_t count, running;
    struct wire_reader reader;
};

static int64_t now_ms(void)
{
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail for this clock */
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static bool send_restart(struct layer *layer)
{
    layer->transfer.from = 0;
    return wire_send(layer->fetch->job->socket, WIRE_RESTART, layer->index, 0, NULL, 0) == 0;
}

/* The answer begins: does it begin where we stopped? */
static bool look_at_start(struct layer *layer)
{
    const struct http_answer *answer = &layer->transfer.exchange.answer;
    layer->fresh = false;
    if (layer->transfer.from == 0 && answer->status == 200)
        return true;
    if (answer->status == 200) /* it does not do ranges */
        return send_restart(layer);
    layer->shifted = answer->has_start == 0 || answer->start != layer->transfer.from;
    return !layer->shifted;
}

static bool take_bytes(void *data, const char *bytes, size_t length)
{
    struct layer *layer = data;
    if (layer->fresh && !look_at_start(layer))
        return false;
    if (length > layer->blob->size - layer->transfer.from) {
        layer->too_long = true;
        return false;
    }
    for (size_t at = 0; at < length;) {
        size_t piece = length - at < WIRE_PAYLOAD_MAX ? length - at : WIRE_PAYLOAD_MAX;
        if (wire_send(layer->fetch->job->socket, WIRE_DATA, layer->index, 0, bytes + at, piece) < 0)
            return false;
        at += piece;
        layer->transfer.from += piece;
    }
    return true;
}

static void use_endpoint(struct layer *layer, uint32_t endpoint)
{
    struct registry_transfer *transfer = &layer->transfer;
    const struct registry_job *job = layer->fetch->job;
    layer->endpoint = endpoint;
    transfer->session = &layer->fetch->session[endpoint];
    transfer->url[0] = '\0';
    transfer->attempt = 0;
    transfer->asked = 0;
    (void)snprintf(transfer->path, sizeof(transfer->path), "/v2/%s%s/blobs/%s",
                   job->endpoint[endpoint].prefix, job->ref.repository,
                   layer->blob->digest); /* fits by the sizes of its parts */
}

static int start(struct layer *layer, struct kern_error *err)
{
    struct fetch *fetch = layer->fetch;
    layer->fresh = true;
    layer->too_long = layer->shifted = false;
    layer->pieced = layer->transfer.from > 0;
    int r = registry_transfer_start(&layer->transfer, err);
    if (r < 0)
        return r;
    if (curl_multi_add_handle(fetch->multi, layer->transfer.exchange.easy) != CURLM_OK)
        return kern_fail(err, 0, "cannot start a transfer with libcurl");
    layer->state = RUNNING;
    fetch->running++;
    return 0;
}

static int start_what_may(struct fetch *fetch, struct kern_error *err)
{
    int64_t now = now_ms();
    for (uint32_t i = 0; i < fetch->count && fetch->running < fetch->job->parallel; i++) {
        struct layer *layer = &fetch->layer[i];
        if (layer->state != QUEUED && (layer->state != WAITING || layer->due > now))
            continue;
        int r = start(layer, err);
        if (r < 0)
            return r;
    }
    return 0;
}

/* The next endpoint goes on where this one failed. */
static int fall_back(struct layer *layer, const struct kern_error *failure, struct kern_error *err)
{
    const struct registry_job *job = layer->fetch->job;
    if (layer->endpoint + 1 >= job->endpoint_count) {
        *err = *failure;
        return -EIO;
    }
    (void)wire_send(job->socket, WIRE_NOTE, 0, 0, failure->message, strlen(failure->message)); /* as below */
    use_endpoint(layer, layer->endpoint + 1);
    layer->state = QUEUED;
    return 0;
}

static int arrived(struct layer *layer, struct kern_error *err)
{
    layer->state = ARRIVED;
    int r = wire_send(layer->fetch->job->socket, WIRE_ARRIVED, layer->index, layer->pieced, NULL, 0);
    return r < 0 ? kern_fail(err, -r, "kern does not listen any more") : 0;
}

/* What breaks an exchange off for a reason of ours. */
static int judge_own(struct layer *layer, struct kern_error *ret_failure)
{
    const char *name = layer->transfer.session->endpoint->name;
    if (layer->too_long)
        return kern_refuse(ret_failure, 0, "registry \"%s\" sends more than the %llu bytes that %s has", name,
                           (unsigned long long)layer->blob->size, layer->what);
    return kern_refuse(ret_failure, 0, "registry \"%s\" sends other bytes of %s than it was asked for", name,
                       layer->what);
}

static int finish(struct layer *layer, CURLcode result, struct kern_error *err)
{
    struct kern_error failure = {0};
    struct registry_transfer *transfer = &layer->transfer;
    layer->fetch->running--;
    if (layer->too_long || layer->shifted) {
        (void)judge_own(layer, &failure); /* it fails by nature */
        return fall_back(layer, &failure, err);
    }
    long status = 0;
    (void)curl_easy_getinfo(transfer->exchange.easy, CURLINFO_RESPONSE_CODE, &status); /* else 0 */
    if (status == 416 && transfer->from > 0 && send_restart(layer)) {
        layer->state = QUEUED;
        return 0;
    }
    /* An end that came too soon, however politely. */
    if (result == CURLE_OK && (status == 200 || status == 206) && transfer->from < layer->blob->size)
        result = CURLE_PARTIAL_FILE;
    int64_t wait = 0;
    int r = registry_transfer_judge(transfer, result, &wait, &failure);
    if (r == REGISTRY_DONE)
        return arrived(layer, err);
    if (r < 0)
        return fall_back(layer, &failure, err);
    layer->state = WAITING;
    layer->due = now_ms() + wait;
    return 0;
}

static int finish_all(struct fetch *fetch, struct kern_error *err)
{
    int left = 0;
    for (CURLMsg *message; (message = curl_multi_info_read(fetch->multi, &left)) != NULL;) {
        if (message->msg != CURLMSG_DONE)
            continue;
        CURL *easy = message->easy_handle;
        CURLcode result = message->data.result;
        (void)curl_multi_remove_handle(fetch->multi, easy); /* it is done with */
        struct layer *layer = NULL;
        for (uint32_t i = 0; i < fetch->count && layer == NULL; i++)
            if (fetch->layer[i].transfer.exchange.easy == easy)
                layer = &fetch->layer[i];
        int r = layer != NULL ? finish(layer, result, err) : 0;
        if (r < 0)
            return r;
    }
    return 0;
}

/* What kern wants. Returns 1 when it has closed its end. */
static int listen_to_kern(struct fetch *fetch, struct kern_error *err)
{
    struct wire_frame frame;
    const void *payload;
    int r = wire_reader_fill(&fetch->reader, fetch->job->socket);
    if (r < 0)
        return 1;
    while ((r = wire_reader_next(&fetch->reader, &frame, &payload)) == 1) {
        if (frame.type != WIRE_WANT || frame.index >= fetch->count ||
            frame.value > fetch->layer[frame.index].blob->size)
            return kern_fail(err, EPROTO, "cannot understand kern");
        struct layer *layer = &fetch->layer[frame.index];
        if (layer->state != IDLE && layer->state != ARRIVED)
            continue;
        layer->transfer.from = frame.value;
        use_endpoint(layer, layer->endpoint);
        layer->state = QUEUED;
    }
    return r < 0 ? r : fetch->reader.ended;
}

static int wait_time(const struct fetch *fetch)
{
    int64_t now = now_ms(), longest = 1000;
    for (uint32_t i = 0; i < fetch->count; i++)
        if (fetch->layer[i].state == WAITING && fetch->layer[i].due - now < longest)
            longest = fetch->layer[i].due > now ? fetch->layer[i].due - now : 0;
    return (int)longest;
}

static int serve(struct fetch *fetch, struct kern_error *err)
{
    for (;;) {
        int left = 0;
        int r = start_what_may(fetch, err);
        if (r == 0 && curl_multi_perform(fetch->multi, &left) != CURLM_OK)
            r = kern_fail(err, 0, "libcurl fails");
        r = r < 0 ? r : finish_all(fetch, err);
        r = r < 0 ? r : start_what_may(fetch, err);
        if (r < 0)
            return r;
        struct curl_waitfd kern = {.fd = fetch->job->socket, .events = CURL_WAIT_POLLIN};
        if (curl_multi_poll(fetch->multi, &kern, 1, wait_time(fetch), NULL) != CURLM_OK)
            return kern_fail(err, 0, "libcurl fails");
        r = kern.revents != 0 ? listen_to_kern(fetch, err) : 0;
        if (r != 0)
            return r < 0 ? r : 0;
    }
}

static void clear(struct fetch *fetch)
{
    for (uint32_t i = 0; fetch->layer != NULL && i < fetch->count; i++) {
        if (fetch->layer[i].transfer.exchange.easy != NULL && fetch->multi != NULL)
            (void)curl_multi_remove_handle(fetch->multi,
                                           fetch->layer[i].transfer.exchange.easy); /* or not in it */
        registry_transfer_clear(&fetch->layer[i].transfer);
    }
    free(fetch->layer);
    curl_multi_cleanup(fetch->multi);
    wire_reader_clear(&fetch->reader);
}

int registry_layers_serve(const struct registry_job *job, struct registry_session *session, uint32_t first,
                          const struct image_document *manifest, struct kern_error *err)
{
    cleanup(clear) struct fetch fetch = {.job = job, .session = session, .count = manifest->layer_count};
    fetch.multi = curl_multi_init();
    fetch.layer = calloc(manifest->layer_count, sizeof(*fetch.layer));
    if (fetch.multi == NULL || fetch.layer == NULL)
        return kern_fail(err, ENOMEM, "cannot keep the list of layers");
    for (uint32_t i = 0; i < fetch.count; i++) {
        struct layer *layer = &fetch.layer[i];
        layer->index = i;
        layer->blob = &manifest->layer[i];
        layer->fetch = &fetch;
        layer->endpoint = first;
        (void)snprintf(layer->what, sizeof(layer->what), "layer %.19s", layer->blob->digest); /* fits */
        layer->transfer.what = layer->what;
        layer->transfer.sink = take_bytes;
        layer->transfer.sink_data = layer;
    }
    return serve(&fetch, err);
}
