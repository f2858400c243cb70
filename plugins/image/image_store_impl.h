/* The inside of the store, for its own files. */
#ifndef IMAGE_STORE_IMPL_H
#define IMAGE_STORE_IMPL_H

#include "image_place.h"
#include "image_resolved.h"
#include "image_store.h"

#include <errno.h>

struct image_pending {
    char name[40]; /* below layers/IDS, until it is synced */
    char hex[IMAGE_DIGEST_SIZE];
    int fd; /* locked: somebody is at work here */
};

/* After the refusal of a layer that is beyond a limit: where it is raised. */
static inline int image_hint_limit(struct kern_error *err, const char *option)
{
    kern_hint(err, "if you trust its source: %s in [registry] of kern.toml, or --%s of kern load", option,
              option);
    return -EINVAL;
}

/* What was unpacked since the store was opened, in memory that all processes at it share. */
struct image_total {
    _Atomic uint64_t bytes, entries;
};

struct image_limits {
    uint64_t bytes;                  /* of one layer, unpacked */
    uint64_t ratio;                  /* unpacked to packed, past the first 64 MiB */
    uint64_t entries;                /* of one layer */
    uint64_t all_bytes, all_entries; /* of all layers that are unpacked while the store is open */
};

struct image_store {
    int top, lock, blobs, ingest, layers, refs; /* `layers` is layers/IDS */
    struct image_ids ids;
    struct image_limits limits;
    struct image_total *total;
    struct image_pending pending[IMAGE_LAYERS_MOST];
    uint32_t pending_count;
    char path[PATH_MAX];
};

/* O_TMPFILE and the like are not everywhere: a name of our own, unique in the folder. */
void image_fresh_name(const char *prefix, char *ret_name, size_t size);
/* Writes the whole file beside and renames it over `name`. 0 or -errno. */
int image_write_file(int folder, const char *name, const void *bytes, size_t length);
int image_write_all(int fd, const void *bytes, size_t length);
const char *image_hex(const char *digest); /* past "sha256:" */

/* As image_store_open(), for other ids than the caller's usual ones. */
int image_store_open_with(const struct image_ids *ids, struct image_store **ret_store,
                          struct kern_error *err);
/* Syncs what was unpacked and gives it its names. */
int image_store_settle(struct image_store *store, struct kern_error *err);
/* Removes a tree below `folder`, with the rights of the ids it belongs to. 0 or -errno. */
int image_remove_tree(const struct image_ids *ids, int folder, const char *name);
/* As image_remove_tree, for many at once: one process. */
int image_remove_trees(const struct image_ids *ids, int folder, char **names, size_t count);

/* Runs fn in a child as root over `ids`: in a user namespace, or as root itself. */
typedef int (*image_child_fn)(void *data);
int image_start_with_ids(const struct image_ids *ids, image_child_fn fn, void *data, int32_t *ret_pid,
                         struct kern_error *err);
/* Children that come later with these ids join one user namespace: newuidmap and newgidmap, which take longer than a small layer, run
 * once. The store closes it. */
int image_keep_ids(struct image_ids *ids, struct kern_error *err);

/* From the configuration's JSON to lines of a resolved image. */
int image_parse_config(const char *text, size_t length, struct image_text *out, struct kern_error *err);

/* Back from a resolved image to its parts. 0 or -EBADMSG. */
int image_resolved_parts(const struct image_resolved *image, struct image_parts *ret_parts);
/* A start needs `ref`: everything of it that is missing here, but the blobs, is made. */
int image_store_repair(struct image_store *store, const char *full, struct kern_error *err);
/* The folder of links for an image; see image_store.h. */
int image_store_link(struct image_store *store, const char *config, const struct image_parts *parts,
                     struct kern_error *err);
#endif
