/* The store of images: blobs, unpacked layers, references. Used by the verbs, by the registry client and, for what is
 * missing at a start, by a child of kern; never by a warm start, which reads one small file (image_resolved.h) instead.
 *
 *     $XDG_DATA_HOME/kern/images/            0700, mountable into no box
 *         lock                               shared: whoever adds; alone: whoever frees
 *         ingest/HEX                         blobs that are still coming, named by digest: what is there is resumed
 *         blobs/HEX                          whole and verified: manifests, configurations, layers as they were moved
 *         layers/IDS/HEX/                    a layer, unpacked, by the digest of its plain tar (diff id)
 *         layers/IDS/s-HEX/0, 1, 2, ...      an image's layers as links, the topmost first; locked by living boxes. Where it is
 *                                            needed, 0 is a directory of the image's own: see image_parents.h
 *         refs/NAME                          a resolved image, by its full reference, "/" written "+"
 *
 * IDS says whose ids the files on disk have: "plain" (root: as in the image), "folded" (all the caller's), or the
 * caller's subordinate range. Everything appears by rename, after it was written and synced; a process may be killed at
 * any moment. Any number of processes may add at one time, also the same things. */
#ifndef IMAGE_STORE_H
#define IMAGE_STORE_H

#include "image_ref.h"

#include <errno.h>

struct image_store;

/* Opens it for adding (shared lock, held until closed), and makes it where it is missing. The lock is only waited for
 * while something is being freed. */
int image_store_open(struct image_store **ret_store, struct kern_error *err);
void image_store_close(struct image_store *store); /* NULL is fine */
/* What one layer may be at most: bytes unpacked, bytes for each byte packed (past the first 64 MiB), entries. From the options
 * max-size, max-ratio and max-entries, as far as they were given; else what held before stays. */
void image_store_set_limits(struct image_store *store, const kern_values *values);

/* ---- Blobs ---- */

/* 1 when the blob is there, whole; *ret_size (if not NULL) is its size. */
int image_store_has_blob(const struct image_store *store, const char *digest, uint64_t *ret_size);
/* O_RDONLY of it; a missing one is a refusal. */
int image_store_open_blob(const struct image_store *store, const char *digest, int *ret_fd,
                          struct kern_error *err);
/* The whole of a small one (manifest, configuration; at most 4 MiB), NUL-terminated, free() it; its digest is checked. */
int image_store_read_blob(const struct image_store *store, const char *digest, char **ret_text,
                          size_t *ret_length, struct kern_error *err);
/* A small one from memory (manifest, configuration): verified against `digest` if that is not NULL, else named by what
 * it is. */
int image_store_add_blob(struct image_store *store, const char *digest, const void *bytes, size_t length,
                         char ret_digest[static IMAGE_DIGEST_SIZE], struct kern_error *err);

/* A large one, as it comes. What a broken transfer left behind is read again when it begins, so that `have` tells from
 * where to go on. One process at a time writes one blob: begin returns -EBUSY (without an error text) while another
 * does; try again later, and look whether the blob is there by then. */
struct image_ingest;
/* `digest` NULL: it is not known before all has come; image_ingest_commit_as() then tells it. */
int image_ingest_begin(struct image_store *store, const char *digest, struct image_ingest **ret_ingest,
                       struct kern_error *err);
uint64_t image_ingest_have(const struct image_ingest *ingest);
int image_ingest_write(struct image_ingest *ingest, const void *bytes, size_t length, struct kern_error *err);
/* The other side cannot go on from where it stopped: from the start again. */
int image_ingest_restart(struct image_ingest *ingest, struct kern_error *err);
/* Verifies and puts it in place. Bytes with another digest are thrown away, and that is a refusal. Frees `ingest` in
 * any case. */
int image_ingest_commit(struct image_ingest *ingest, struct kern_error *err);
int image_ingest_commit_as(struct image_ingest *ingest, char ret_digest[static IMAGE_DIGEST_SIZE],
                           struct kern_error *err);
/* Leaves what has come for the next time. NULL is fine. */
void image_ingest_close(struct image_ingest *ingest);

/* ---- Layers and images ---- */

/* Called while a layer is unpacked: so many bytes of the blob are done. May be called often. */
typedef void (*image_progress_fn)(void *data, uint64_t done, uint64_t total);

/* 1 when the layer is unpacked already, for the ids of this caller. */
int image_store_has_layer(const struct image_store *store, const char *diff_id);

/* Unpacks a blob that is there: plain, gzip or zstd by what it is, whatever its media type says. `diff_id` is what the
 * image's configuration says; bytes with another digest are refused, and nothing stays of them. Hostile bytes are read
 * by two processes made for it, with few rights; this one only waits and calls `progress` (may be NULL). Does nothing
 * when the layer is there. Layers of one image may be unpacked in any order. */
int image_store_unpack(struct image_store *store, const char *blob_digest, const char *diff_id,
                       image_progress_fn progress, void *data, struct kern_error *err);

/* The same where no configuration names the diff id yet (`diff_id` NULL): it is told. */
int image_store_unpack_as(struct image_store *store, const char *blob_digest, const char *diff_id,
                          image_progress_fn progress, void *data, char ret_diff[static IMAGE_DIGEST_SIZE],
                          struct kern_error *err);

/* The parts of an image that are named by its manifest and its configuration, both read and vetted. */
#define IMAGE_LAYERS_MOST 127

static inline int image_hint_layers(struct kern_error *err)
{
    kern_hint(err, "its root file system in one layer: docker export CONTAINER | kern import - REF");
    return -EINVAL;
}

struct image_layer {
    char blob[IMAGE_DIGEST_SIZE]; /* of the layer as it is moved */
    char diff[IMAGE_DIGEST_SIZE]; /* of its plain tar: from the configuration */
    uint64_t size;                /* of the blob; 0: the manifest does not say */
};

struct image_parts {
    char config[IMAGE_DIGEST_SIZE];
    uint64_t config_size;
    struct image_layer layer[IMAGE_LAYERS_MOST]; /* the lowest first */
    uint32_t count;
};

/* Pure. The manifest of one image (not a list): OCI or Docker version 2. Fills all but the diff ids. */
int image_parse_manifest(const char *text, size_t length, struct image_parts *ret_parts,
                         struct kern_error *err);
/* Pure. The configuration: fills the diff ids of `parts`, whose count must agree. */
int image_parse_diffs(const char *text, size_t length, struct image_parts *parts, struct kern_error *err);
/* Pure. A list of manifests (OCI index, Docker manifest list): the digest for this machine. *ret_is_list is 0 (and the digest
 * untouched) when the text is a manifest of one image. */
int image_choose_own(const char *text, size_t length, char ret_digest[static IMAGE_DIGEST_SIZE],
                     int *ret_is_list, struct kern_error *err);
/* "linux/amd64" and so on: this machine's. */
const char *image_own_platform(void);

/* Makes `ref` an image: its manifest, configuration and layer blobs are in the store. Unpacks what is not unpacked,
 * syncs, and writes the file that a start reads. What the reference meant before stays as a dangling image until
 * `kern gc`. For a reference by tag, `digest` is what the registry said the tag means (a list's digest, perhaps);
 * NULL: the manifest's own. */
int image_store_commit(struct image_store *store, const struct image_ref *ref, const char *manifest_digest,
                       const char *digest, image_progress_fn progress, void *data, struct kern_error *err);

#endif
