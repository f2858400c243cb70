/* Image manifests and indexes (lists of manifests by platform), OCI's and Docker's, read from JSON that nobody vouches for.
 * Pure. Runs in the worker of the registry client. */
#ifndef REGISTRY_DOCUMENT_H
#define REGISTRY_DOCUMENT_H

#include "registry_digest.h"
#include "registry_platform.h"

#define REGISTRY_DOCUMENT_MAX ((size_t)4 << 20) /* bytes of a manifest, an index or a config */
#define REGISTRY_LAYERS_MAX   127u              /* as in the store */
#define REGISTRY_ENTRIES_MAX  2000u
#define REGISTRY_BLOB_MAX     ((uint64_t)1 << 40)

#define REGISTRY_PLAIN 1u /* how a layer is packed, as its media type says */
#define REGISTRY_GZIP  2u
#define REGISTRY_ZSTD  3u

struct registry_blob {
    char digest[REGISTRY_DIGEST_SIZE];
    uint64_t size;
    uint32_t packing; /* of a layer */
};

struct registry_entry {
    struct registry_blob blob;
    struct registry_platform platform;
    uint32_t has_platform;
};

struct registry_document {
    uint32_t is_index;
    struct registry_blob config; /* of a manifest */
    struct registry_blob *layer;
    uint32_t layer_count;
    struct registry_entry *entry; /* of an index */
    uint32_t entry_count;
};

/* What a registry may be asked for, as the value of an Accept header. */
#define REGISTRY_ACCEPT                                                                                    \
    "application/vnd.oci.image.index.v1+json, application/vnd.docker.distribution.manifest.list.v2+json, " \
    "application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json"

/* `media` is the Content-Type it came with, or NULL. A text that says two things at once is refused. */
int registry_document_read(const char *text, size_t length, const char *media,
                           struct registry_document *ret_document, struct kern_error *err);
void registry_document_clear(struct registry_document *document);
/* The entry of an index that serves the platform best. A refusal lists what there is. */
int registry_document_choose(const struct registry_document *document, const struct registry_platform *wanted,
                             const struct registry_entry **ret_entry, struct kern_error *err);

#endif
