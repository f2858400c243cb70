/* Image manifests and indexes (lists of manifests by platform), OCI's and Docker's, read from JSON that nobody vouches for.
 * Pure. In the worker of the registry client, and in the store, which does not take the worker's word for it. */
#ifndef IMAGE_DOCUMENT_H
#define IMAGE_DOCUMENT_H

#include "image_platform.h"
#include "image_store.h"

#define IMAGE_DOCUMENT_MAX ((size_t)4 << 20) /* bytes of a manifest, an index or a config */
#define IMAGE_ENTRIES_MOST 2000u
#define IMAGE_BLOB_MAX     ((uint64_t)1 << 40)

struct image_blob {
    char digest[IMAGE_DIGEST_SIZE];
    uint64_t size;
};

struct image_entry {
    struct image_blob blob;
    struct image_platform platform;
    uint32_t has_platform;
};

struct image_document {
    uint32_t is_index;
    struct image_blob config; /* of a manifest */
    struct image_blob *layer;
    uint32_t layer_count;
    struct image_entry *entry; /* of an index */
    uint32_t entry_count;
};

/* What a registry may be asked for, as the value of an Accept header. */
#define REGISTRY_ACCEPT                                                                                    \
    "application/vnd.oci.image.index.v1+json, application/vnd.docker.distribution.manifest.list.v2+json, " \
    "application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json"

/* `media` is the Content-Type it came with, or NULL. A text that says two things at once is refused. */
int image_document_read(const char *text, size_t length, const char *media,
                        struct image_document *ret_document, struct kern_error *err);
void image_document_clear(struct image_document *document);
/* The entry of an index that serves the platform best. A refusal lists what there is. */
int image_document_choose(const struct image_document *document, const struct image_platform *wanted,
                          const struct image_entry **ret_entry, struct kern_error *err);

/* The configuration's own word: refuses an image that is made for another platform than the wanted one, and names both. */
int image_check_platform(const char *config, size_t length, const struct image_platform *wanted,
                         struct kern_error *err);

#endif
