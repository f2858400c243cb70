/* Manifests and indexes from JSON; see image_document.h. Pure. */
#include "image_document.h"

#include "kern/cleanup.h"

#include <jansson.h>
#include <stdbool.h>
#include <string.h>

#define OCI    "application/vnd.oci.image."
#define DOCKER "application/vnd.docker."

enum kind { KIND_UNSAID, KIND_INDEX, KIND_MANIFEST, KIND_OLD, KIND_OTHER };

static const struct {
    const char *media;
    enum kind kind;
} kinds[] = {
    {OCI "index.v1+json", KIND_INDEX},
    {DOCKER "distribution.manifest.list.v2+json", KIND_INDEX},
    {OCI "manifest.v1+json", KIND_MANIFEST},
    {DOCKER "distribution.manifest.v2+json", KIND_MANIFEST},
    {DOCKER "distribution.manifest.v1+json", KIND_OLD},
    {DOCKER "distribution.manifest.v1+prettyjws", KIND_OLD},
    /* What a registry says that knows no better. */
    {"application/json", KIND_UNSAID},
    {"application/octet-stream", KIND_UNSAID},
    {"text/plain", KIND_UNSAID},
};

/* How a layer is packed is seen by its first bytes; these say that it is one. */
static const char *const layer_types[] = {
    OCI "layer.v1.tar",
    OCI "layer.v1.tar+gzip",
    OCI "layer.v1.tar+zstd",
    OCI "layer.nondistributable.v1.tar",
    OCI "layer.nondistributable.v1.tar+gzip",
    OCI "layer.nondistributable.v1.tar+zstd",
    DOCKER "image.rootfs.diff.tar",
    DOCKER "image.rootfs.diff.tar.gzip",
    DOCKER "image.rootfs.diff.tar.zstd",
    DOCKER "image.rootfs.foreign.diff.tar.gzip",
};

/* Media types may carry parameters: "application/json; charset=utf-8". */
static bool media_is(const char *media, const char *known)
{
    size_t length = strcspn(media, "; \t");
    return length == strlen(known) && strncasecmp(media, known, length) == 0;
}

static enum kind kind_of(const char *media)
{
    if (media == NULL || media[0] == '\0')
        return KIND_UNSAID;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (media_is(media, kinds[i].media))
            return kinds[i].kind;
    return KIND_OTHER;
}

void image_document_clear(struct image_document *document)
{
    if (document == NULL)
        return;
    free(document->layer);
    free(document->entry);
    *document = (struct image_document){0};
}

static int read_blob(const json_t *node, const char *what, struct image_blob *ret_blob,
                     struct kern_error *err)
{
    const json_t *digest = json_object_get(node, "digest"), *size = json_object_get(node, "size");
    if (!json_is_string(digest) || !json_is_integer(size))
        return kern_refuse(err, 0, "the manifest gives no digest or no size for %s", what);
    const char *text = json_string_value(digest);
    if (!image_digest_is_valid(text))
        return kern_refuse(err, 0, "the manifest names %s by \"%.80s\", which is not a sha256 digest", what,
                           text);
    json_int_t bytes = json_integer_value(size);
    if (bytes < 0 || (uint64_t)bytes > IMAGE_BLOB_MAX)
        return kern_refuse(err, 0, "the manifest gives %s a size of %lld bytes", what, (long long)bytes);
    memcpy(ret_blob->digest, text, IMAGE_DIGEST_SIZE);
    ret_blob->size = (uint64_t)bytes;
    return 0;
}

static const char *media_of(const json_t *node)
{
    const char *media = json_string_value(json_object_get(node, "mediaType"));
    return media != NULL ? media : "";
}

/* `urls` of a layer are never followed: content comes from the registry that was asked, or not at all. */
static int read_layer(const json_t *node, size_t index, struct image_blob *ret_layer, struct kern_error *err)
{
    char what[32];
    (void)snprintf(what, sizeof(what), "layer %zu", index + 1); /* fits */
    int r = read_blob(node, what, ret_layer, err);
    if (r < 0)
        return r;
    const char *media = media_of(node);
    for (size_t i = 0; i < sizeof(layer_types) / sizeof(layer_types[0]); i++)
        if (media_is(media, layer_types[i]))
            return 0;
    return kern_refuse(err, 0, "%s is a \"%.100s\", which is not a layer of a file system", what, media);
}

static int read_layers(const json_t *root, struct image_document *document, struct kern_error *err)
{
    const json_t *layers = json_object_get(root, "layers");
    size_t count = json_array_size(layers);
    if (!json_is_array(layers) || count == 0 || count > IMAGE_LAYERS_MOST) {
        kern_refuse(err, 0, "the manifest has %zu layers; 1 to %u make an image", count, IMAGE_LAYERS_MOST);
        return image_hint_layers(err);
    }
    document->layer = calloc(count, sizeof(*document->layer));
    if (document->layer == NULL)
        return kern_fail(err, ENOMEM, "cannot keep the list of layers");
    for (size_t i = 0; i < count; i++) {
        int r = read_layer(json_array_get(layers, i), i, &document->layer[i], err);
        if (r < 0)
            return r;
    }
    document->layer_count = (uint32_t)count;
    return 0;
}

static int read_manifest(const json_t *root, struct image_document *document, struct kern_error *err)
{
    const json_t *config = json_object_get(root, "config");
    int r = read_blob(config, "the image's configuration", &document->config, err);
    if (r < 0)
        return r;
    if (document->config.size > IMAGE_DOCUMENT_MAX)
        return kern_refuse(err, 0, "the image's configuration is %llu bytes long; more than %zu are refused",
                           (unsigned long long)document->config.size, IMAGE_DOCUMENT_MAX);
    const char *media = media_of(config);
    if (media[0] != '\0' && !media_is(media, OCI "config.v1+json") &&
        !media_is(media, DOCKER "container.image.v1+json"))
        return kern_refuse(err, 0, "this is not an image: its configuration is a \"%.100s\"", media);
    return read_layers(root, document, err);
}

static void copy_word(const json_t *node, const char *key, char *ret_text, size_t size)
{
    const char *text = json_string_value(json_object_get(node, key));
    if (text != NULL && strlen(text) < size)
        memcpy(ret_text, text, strlen(text) + 1);
}

static int read_entry(const json_t *node, struct image_entry *ret_entry, struct kern_error *err)
{
    int r = read_blob(node, "an entry of the index", &ret_entry->blob, err);
    const json_t *platform = json_object_get(node, "platform");
    if (r < 0 || !json_is_object(platform))
        return r;
    ret_entry->has_platform = 1;
    copy_word(platform, "os", ret_entry->platform.os, sizeof(ret_entry->platform.os));
    copy_word(platform, "architecture", ret_entry->platform.architecture,
              sizeof(ret_entry->platform.architecture));
    copy_word(platform, "variant", ret_entry->platform.variant, sizeof(ret_entry->platform.variant));
    return 0;
}

static int read_index(const json_t *root, struct image_document *document, struct kern_error *err)
{
    const json_t *entries = json_object_get(root, "manifests");
    size_t count = json_array_size(entries);
    if (!json_is_array(entries) || count == 0 || count > IMAGE_ENTRIES_MOST)
        return kern_refuse(err, 0, "the index lists %zu images; 1 to %u are accepted", count,
                           IMAGE_ENTRIES_MOST);
    document->is_index = 1;
    document->entry = calloc(count, sizeof(*document->entry));
    if (document->entry == NULL)
        return kern_fail(err, ENOMEM, "cannot keep the list of platforms");
    for (size_t i = 0; i < count; i++) {
        int r = read_entry(json_array_get(entries, i), &document->entry[i], err);
        if (r < 0)
            return r;
        document->entry_count++;
    }
    return 0;
}

/* One text must not be an index to one reader and a manifest to another (CVE-2021-41190). */
static int settle_kind(const json_t *root, const char *media, enum kind *ret_kind, struct kern_error *err)
{
    bool lists = json_object_get(root, "manifests") != NULL;
    bool holds = json_object_get(root, "layers") != NULL || json_object_get(root, "config") != NULL;
    enum kind outer = kind_of(media), inner = kind_of(media_of(root));
    bool old = outer == KIND_OLD || inner == KIND_OLD || json_object_get(root, "fsLayers") != NULL;
    if (old)
        return kern_refuse(err, 0,
                           "the manifest has Docker's old form (schema 1), which names no layers by digest");
    if (lists && holds)
        return kern_refuse(err, 0, "the manifest is ambiguous: it has both layers and a list of manifests");
    if (outer == KIND_OTHER || inner == KIND_OTHER)
        return kern_refuse(err, 0, "the registry sent a \"%.100s\" instead of a manifest",
                           outer == KIND_OTHER ? media : media_of(root));
    enum kind kind = lists ? KIND_INDEX : KIND_MANIFEST;
    if (!lists && !holds)
        return kern_refuse(err, 0, "the manifest has neither layers nor a list of manifests");
    if ((outer != KIND_UNSAID && outer != kind) || (inner != KIND_UNSAID && inner != kind))
        return kern_refuse(err, 0, "the manifest is ambiguous: its media type says otherwise than it does");
    *ret_kind = kind;
    return 0;
}

static void drop_json(json_t **node)
{
    json_decref(*node);
}

int image_document_read(const char *text, size_t length, const char *media,
                        struct image_document *ret_document, struct kern_error *err)
{
    if (length > IMAGE_DOCUMENT_MAX)
        return kern_refuse(err, 0, "the manifest is longer than %zu bytes", IMAGE_DOCUMENT_MAX);
    json_error_t mistake;
    cleanup(drop_json) json_t *root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &mistake);
    if (root == NULL)
        return kern_refuse(err, 0, "the manifest is not JSON: line %d: %.100s", mistake.line, mistake.text);
    if (!json_is_object(root))
        return kern_refuse(err, 0, "the manifest is not a JSON object");
    const json_t *schema = json_object_get(root, "schemaVersion");
    enum kind kind = KIND_OTHER;
    int r = settle_kind(root, media, &kind, err);
    if (r == 0 && (!json_is_integer(schema) || json_integer_value(schema) != 2))
        r = kern_refuse(err, 0, "the manifest is not of schema version 2");
    if (r < 0)
        return r;
    cleanup(image_document_clear) struct image_document document = {0};
    r = kind == KIND_INDEX ? read_index(root, &document, err) : read_manifest(root, &document, err);
    if (r < 0)
        return r;
    *ret_document = document;
    document = (struct image_document){0};
    return 0;
}

static int refuse_platform(const struct image_document *document, const struct image_platform *wanted,
                           struct kern_error *err)
{
    char asked[64], list[200] = "", first[64] = "";
    size_t used = 0;
    image_platform_print(wanted, asked, sizeof(asked));
    for (uint32_t i = 0; i < document->entry_count && used < sizeof(list); i++) {
        const struct image_platform *offered = &document->entry[i].platform;
        char one[64];
        /* Attestations stand in the same list, for the platform "unknown". */
        if (document->entry[i].has_platform == 0 || strcmp(offered->os, "unknown") == 0)
            continue;
        image_platform_print(offered, one, sizeof(one));
        if (used == 0)
            memcpy(first, one, sizeof(first));
        int n = snprintf(list + used, sizeof(list) - used, "%s%s", used > 0 ? ", " : "", one);
        used += n > 0 ? (size_t)n : 0; /* past the end: the list is cut, and the loop ends */
    }
    int r = kern_refuse(err, 0, "the image is not made for %s; there is: %s", asked,
                        used > 0 ? list : "no platform named");
    struct image_platform plain; /* what the index calls so goes into a command only when it is one */
    struct kern_error unused = {0};
    if (first[0] != '\0' && image_platform_parse(first, &plain, &unused) == 0)
        kern_hint(err, "--platform %s", first);
    return r;
}

int image_document_choose(const struct image_document *document, const struct image_platform *wanted,
                          const struct image_entry **ret_entry, struct kern_error *err)
{
    const struct image_entry *best = NULL;
    unsigned best_rank = 0;
    for (uint32_t i = 0; i < document->entry_count; i++) {
        const struct image_entry *entry = &document->entry[i];
        unsigned rank = entry->has_platform != 0 ? image_platform_rank(wanted, &entry->platform) : 0;
        if (rank > best_rank) {
            best = entry;
            best_rank = rank;
        }
    }
    /* An index of one image that says nothing of platforms: its configuration will. */
    if (best == NULL && document->entry_count == 1 && document->entry[0].has_platform == 0)
        best = &document->entry[0];
    if (best == NULL)
        return refuse_platform(document, wanted, err);
    *ret_entry = best;
    return 0;
}
