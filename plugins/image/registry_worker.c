/* The client's worker: asks the endpoints for manifest and configuration, checks their digests, and hands on what kern wants
 * to store. Runs confined, in a process of its own. */
#include "registry_worker.h"

#include "image_hash.h"
#include "registry_confine.h"
#include "registry_layers.h"
#include "registry_wire.h"

#include "kern/cleanup.h"

#include <string.h>

struct worker {
    const struct registry_job *job;
    struct registry_session session[REGISTRY_ENDPOINTS_MAX];
    uint32_t at; /* the endpoint that has the image */
    char what[400];
};

static int tell(const struct worker *worker, uint32_t type, uint32_t index, uint64_t value,
                const void *payload, size_t length, struct kern_error *err)
{
    int r = wire_send(worker->job->socket, type, index, value, payload, length);
    return r < 0 ? kern_fail(err, -r, "kern does not listen any more") : 0;
}

static int send_document(const struct worker *worker, uint32_t which, const struct http_answer *answer,
                         struct kern_error *err)
{
    int r = 0;
    for (size_t at = 0; r == 0 && at < answer->length;) {
        size_t piece = answer->length - at < WIRE_PAYLOAD_MAX ? answer->length - at : WIRE_PAYLOAD_MAX;
        r = tell(worker, WIRE_DOCUMENT, which, 0, answer->body + at, piece, err);
        at += piece;
    }
    return r < 0 ? r : tell(worker, WIRE_READY, which, 0, NULL, 0, err);
}

/* Whoever asked by digest gets that or nothing. */
static int check_digest(const struct worker *worker, const struct http_answer *answer, const char *digest,
                        struct kern_error *err)
{
    char found[IMAGE_DIGEST_SIZE];
    if (digest == NULL)
        return 0;
    if (image_digest_of(answer->body != NULL ? answer->body : "", answer->length, found) != 0)
        return kern_fail(err, ENOMEM, "cannot compute a digest");
    if (strcmp(found, digest) == 0)
        return 0;
    return kern_refuse(err, 0, "registry \"%s\" sends %s with the wrong content: its digest is %s",
                       worker->session[worker->at].endpoint->name, worker->what, found);
}

/* One small thing of the repository into `transfer`, whole and verified. */
static int get(struct worker *worker, const char *kind, const char *name, const char *digest,
               struct registry_transfer *transfer, struct kern_error *err)
{
    const struct registry_endpoint *endpoint = &worker->job->endpoint[worker->at];
    transfer->session = &worker->session[worker->at];
    transfer->what = worker->what;
    transfer->limit = IMAGE_DOCUMENT_MAX;
    (void)snprintf(transfer->path, sizeof(transfer->path), "/v2/%s%s/%s/%s", endpoint->prefix,
                   worker->job->ref.repository, kind, name); /* fits by the sizes of its parts */
    int r = registry_transfer_run(transfer, err);
    return r < 0 ? r : check_digest(worker, &transfer->exchange.answer, digest, err);
}

static int read_document(struct worker *worker, const struct registry_transfer *transfer,
                         struct image_document *ret_document, struct kern_error *err)
{
    const struct http_answer *answer = &transfer->exchange.answer;
    int r = image_document_read(answer->body != NULL ? answer->body : "", answer->length, answer->media,
                                ret_document, err);
    return r < 0 ? kern_wrap(err, "registry \"%s\"", worker->session[worker->at].endpoint->name) : 0;
}

static int get_manifest_of(struct worker *worker, const struct image_entry *entry,
                           struct image_document *ret_manifest, struct kern_error *err)
{
    cleanup(registry_transfer_clear) struct registry_transfer transfer = {.accept = REGISTRY_ACCEPT};
    cleanup(image_document_clear) struct image_document document = {0};
    (void)snprintf(worker->what, sizeof(worker->what), "manifest %s", entry->blob.digest); /* fits */
    int r = get(worker, "manifests", entry->blob.digest, entry->blob.digest, &transfer, err);
    r = r < 0 ? r : read_document(worker, &transfer, &document, err);
    if (r == 0 && document.is_index != 0)
        r = kern_refuse(err, 0, "the index of the image lists another index instead of a manifest");
    r = r < 0 ? r : send_document(worker, WIRE_MANIFEST, &transfer.exchange.answer, err);
    if (r < 0)
        return r;
    *ret_manifest = document;
    document = (struct image_document){0};
    return 0;
}

/* What the reference means at this endpoint: a manifest, or an index that lists one for our platform. */
static int resolve(struct worker *worker, struct image_document *ret_manifest, struct kern_error *err)
{
    const struct image_ref *ref = &worker->job->ref;
    const char *digest = ref->digest[0] != '\0' ? ref->digest : NULL;
    cleanup(registry_transfer_clear) struct registry_transfer transfer = {.accept = REGISTRY_ACCEPT};
    cleanup(image_document_clear) struct image_document document = {0};
    (void)snprintf(worker->what, sizeof(worker->what), "\"%s%s%s\"", ref->repository,
                   digest != NULL ? "@" : ":", digest != NULL ? digest : ref->tag); /* fits */
    int r = get(worker, "manifests", digest != NULL ? digest : ref->tag, digest, &transfer, err);
    r = r < 0 ? r : read_document(worker, &transfer, &document, err);
    if (r < 0)
        return r;
    if (document.is_index == 0) {
        r = send_document(worker, WIRE_MANIFEST, &transfer.exchange.answer, err);
        if (r < 0)
            return r;
        *ret_manifest = document;
        document = (struct image_document){0};
        return 0;
    }
    const struct image_entry *entry;
    r = image_document_choose(&document, &worker->job->wanted, &entry, err);
    r = r < 0 ? r : send_document(worker, WIRE_INDEX, &transfer.exchange.answer, err);
    return r < 0 ? r : get_manifest_of(worker, entry, ret_manifest, err);
}

static int get_config(struct worker *worker, const struct image_document *manifest, struct kern_error *err)
{
    cleanup(registry_transfer_clear) struct registry_transfer transfer = {0};
    const char *digest = manifest->config.digest;
    (void)snprintf(worker->what, sizeof(worker->what), "configuration %s", digest); /* fits */
    int r = get(worker, "blobs", digest, digest, &transfer, err);
    return r < 0 ? r : send_document(worker, WIRE_CONFIG, &transfer.exchange.answer, err);
}

/* The endpoints one after the other, until one has it. */
static int find(struct worker *worker, struct image_document *ret_manifest, struct kern_error *err)
{
    for (worker->at = 0;; worker->at++) {
        struct kern_error failure = {0};
        int r = resolve(worker, ret_manifest, &failure);
        if (r == 0) {
            r = get_config(worker, ret_manifest, &failure);
            if (r < 0)
                image_document_clear(ret_manifest);
        }
        if (r == 0)
            return 0;
        if (worker->at + 1 == worker->job->endpoint_count) {
            *err = failure;
            return r;
        }
        r = tell(worker, WIRE_NOTE, 0, 0, failure.message, strlen(failure.message), err);
        if (r < 0)
            return r;
    }
}

static int pull(struct worker *worker, struct kern_error *err)
{
    cleanup(image_document_clear) struct image_document manifest = {0};
    int r = find(worker, &manifest, err);
    r = r < 0 ? r
              : tell(worker, WIRE_LAYERS, 0, manifest.layer_count, manifest.layer,
                     manifest.layer_count * sizeof(*manifest.layer), err);
    return r < 0 ? r : registry_layers_serve(worker->job, worker->session, worker->at, &manifest, err);
}

static int login(struct worker *worker, struct kern_error *err)
{
    cleanup(registry_transfer_clear) struct registry_transfer transfer = {
        .session = &worker->session[0], .what = "its API", .path = "/v2/", .limit = IMAGE_DOCUMENT_MAX};
    int r = registry_transfer_run(&transfer, err);
    if (r == 0 && transfer.asked == 0) /* nothing was proved */
        return tell(worker, WIRE_NOTE, 0, 0, "open", 4, err);
    return r;
}

_Noreturn static void run(const struct registry_job *job,
                          int (*fn)(struct worker *worker, struct kern_error *err))
{
    struct kern_error err = {0};
    struct worker worker = {.job = job};
    for (uint32_t i = 0; i < job->endpoint_count; i++)
        worker.session[i] = (struct registry_session){.job = job, .endpoint = &job->endpoint[i]};
    /* Go's programs read the upper-case name too; libcurl does not, because it might run in a web server. */
    const char *proxy = getenv("HTTP_PROXY");
    if (proxy != NULL)
        (void)setenv("http_proxy", proxy, 0); /* without memory: no proxy, and no connection */
    int r = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK ? fn(&worker, &err)
                                                              : kern_fail(&err, 0, "cannot start libcurl");
    if (r < 0)
        (void)wire_send(job->socket, WIRE_ERROR, 0, 0, &err, sizeof(err)); /* without kern nobody misses it */
    else
        (void)wire_send(job->socket, WIRE_END, 0, 0, NULL, 0); /* as above */
    for (uint32_t i = 0; i < job->endpoint_count; i++)
        registry_session_clear(&worker.session[i]);
    _exit(r < 0 ? 1 : 0);
}

_Noreturn void registry_worker_pull(const struct registry_job *job)
{
    run(job, pull);
}

_Noreturn void registry_worker_login(const struct registry_job *job)
{
    run(job, login);
}
