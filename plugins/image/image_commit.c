/* A reference becomes an image: its layers unpacked and linked together, its resolved form written; see image_store.h. Runs
 * where the store is open. */
#include "image_child.h"
#include "image_parents.h"
#include "image_store_impl.h"

#include "kern/cleanup.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <time.h>

/* ---- The folder of links ---- */

static int layer_hides_all(const struct image_store *store, const char *diff)
{
    char value[2];
    auto_fd fd = openat(store->layers, image_hex(diff), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd >= 0 && fgetxattr(fd, "user.overlay.opaque", value, sizeof(value)) == 1 && value[0] == 'y';
}

/* Whether a layer above it is the same: that one has all that it has, and overlayfs takes no directory twice. */
static int is_there_again(const struct image_parts *parts, uint32_t index)
{
    for (uint32_t above = index + 1; above < parts->count; above++)
        if (strcmp(parts->layer[above].diff, parts->layer[index].diff) == 0)
            return 1;
    return 0;
}

/* The topmost is `first`. A layer whose own root is opaque hides all below it. */
static int make_links(const struct image_store *store, int folder, const struct image_parts *parts,
                      uint32_t first)
{
    uint32_t linked = first;
    for (uint32_t index = parts->count; index-- > 0;) {
        if (is_there_again(parts, index))
            continue;
        const char *diff = parts->layer[index].diff;
        char name[16], target[IMAGE_DIGEST_SIZE + 4];
        (void)snprintf(name, sizeof(name), "%u", linked++);               /* fits */
        (void)snprintf(target, sizeof(target), "../%s", image_hex(diff)); /* fits */
        if (symlinkat(target, folder, name) != 0)
            return -errno;
        if (layer_hides_all(store, diff))
            break;
    }
    return 0;
}

struct restoring {
    int layer[IMAGE_LAYERS_MOST], folder;
    uint32_t count;
};

/* The directory stays only where it is needed. */
static int restore_parents(void *data)
{
    const struct restoring *r = data;
    int made = 0;
    auto_fd out = mkdirat(r->folder, "0", 0755) == 0
                      ? openat(r->folder, "0", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
                      : -1;
    int failed = out < 0 ? -errno : image_parents_restore(r->layer, r->count, out, &made);
    return failed == 0 && !made && unlinkat(r->folder, "0", AT_REMOVEDIR) != 0 ? -errno : failed;
}

static int run_restore(const struct image_store *store, struct restoring *r, uint32_t *ret_first)
{
    struct kern_error ignored = {0};
    int32_t pid = 0;
    int failed = image_start_with_ids(&store->ids, restore_parents, r, &pid, &ignored);
    if (failed == 0 && image_wait_child(pid) != 0)
        failed = -EIO;
    *ret_first = faccessat(r->folder, "0", F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    return failed == 0 && *ret_first != 0 && syncfs(r->folder) != 0 ? -errno : failed;
}

/* What of its layers' directories is to be seen, where they do not say it themselves: in a directory that becomes the topmost. */
static int add_parents(const struct image_store *store, int folder, const struct image_parts *parts,
                       uint32_t *ret_first)
{
    struct restoring r = {.folder = folder};
    int is_due = 0, failed = 0;
    for (uint32_t index = parts->count; failed == 0 && index-- > 0;) {
        const char *diff = parts->layer[index].diff;
        if (is_there_again(parts, index))
            continue;
        int fd = openat(store->layers, image_hex(diff), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0) {
            failed = -errno;
            break;
        }
        r.layer[r.count++] = fd;
        is_due |= index > 0 && image_parents_are_in(fd);
        if (layer_hides_all(store, diff))
            break;
    }
    if (failed == 0 && is_due && r.count > 1)
        failed = run_restore(store, &r, ret_first);
    for (uint32_t i = 0; i < r.count; i++)
        kern_close_fd(&r.layer[i]);
    return failed;
}

static int links_are_there(const struct image_store *store, const char *name)
{
    struct stat st;
    return fstatat(store->layers, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

int image_store_link(struct image_store *store, const char *config, const struct image_parts *parts,
                     struct kern_error *err)
{
    char name[IMAGE_DIGEST_SIZE], fresh[40];
    uint32_t first = 0;
    (void)snprintf(name, sizeof(name), "s-%s", image_hex(config)); /* fits */
    if (links_are_there(store, name))
        return 0;
    image_fresh_name(".new-", fresh, sizeof(fresh));
    if (mkdirat(store->layers, fresh, 0755) != 0)
        return kern_refuse(err, errno, "cannot make a directory in \"%s/layers\"", store->path);
    auto_fd folder = openat(store->layers, fresh, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int failed = folder < 0 ? -errno : 0;
    if (failed == 0 && (fchmod(folder, 0755) != 0 || flock(folder, LOCK_EX | LOCK_NB) != 0))
        failed = -errno;
    if (failed == 0)
        failed = add_parents(store, folder, parts, &first);
    if (failed == 0)
        failed = make_links(store, folder, parts, first);
    if (failed == 0 && fsync(folder) != 0)
        failed = -errno;
    if (failed == 0 && renameat(store->layers, fresh, store->layers, name) != 0)
        failed = links_are_there(store, name) ? 0 : -errno; /* another process was first */
    if (failed == 0 && fsync(store->layers) != 0)
        failed = -errno;
    struct image_ids own = {.kind = IMAGE_IDS_PLAIN}; /* links and their folder belong to the caller */
    (void)image_remove_tree(first != 0 ? &store->ids : &own, store->layers,
                            fresh); /* is gone when all went well */
    return failed == 0 ? 0 : kern_refuse(err, -failed, "cannot link the layers of an image together");
}

static int unpack_all(struct image_store *store, const struct image_parts *parts, image_progress_fn progress,
                      void *data, struct kern_error *err)
{
    for (uint32_t i = 0; i < parts->count; i++) {
        int failed =
            image_store_unpack(store, parts->layer[i].blob, parts->layer[i].diff, progress, data, err);
        if (failed != 0)
            return failed;
    }
    return image_store_settle(store, err);
}

/* ---- The resolved file ---- */

/* What the reference meant before gets its digest as its name, so that it can still be started, and gc finds it. */
static int keep_former(const struct image_store *store, const struct image_ref *ref, const char *full,
                       const char *config, struct kern_error *err)
{
    struct image_resolved former = {0};
    if (ref->digest[0] != '\0' || image_resolved_read(store->refs, full, &former) != 0)
        return 0;
    int same = strcmp(former.config, config) == 0;
    char from[IMAGE_REF_SIZE], name[2 * IMAGE_REF_SIZE], pinned[2 * IMAGE_REF_SIZE];
    (void)snprintf(pinned, sizeof(pinned), "%s/%s@%s", ref->host, ref->repository,
                   former.manifest); /* fits */
    image_resolved_clear(&former);
    if (same || strlen(pinned) >= IMAGE_REF_SIZE)
        return 0;
    image_ref_file(full, from);
    (void)snprintf(name, sizeof(name), "%s", pinned); /* the same size */
    image_ref_file(pinned, name);
    if (linkat(store->refs, from, store->refs, name, 0) == 0 || errno == EEXIST)
        return 0;
    return kern_refuse(err, errno, "cannot keep the former image of \"%s\"", full);
}

static int add_layers(struct image_text *out, const struct image_parts *parts)
{
    int failed = 0;
    for (uint32_t i = 0; failed == 0 && i < parts->count; i++) {
        char line[2 * IMAGE_DIGEST_SIZE + 32];
        (void)snprintf(line, sizeof(line), "%s %s %llu", parts->layer[i].blob, parts->layer[i].diff,
                       (unsigned long long)parts->layer[i].size); /* fits */
        failed = image_text_line(out, "layer", line);
    }
    return failed;
}

static int write_resolved(const struct image_store *store, const char *full, const char *manifest,
                          const char *digest, const struct image_parts *parts, const char *config,
                          size_t config_length, struct kern_error *err)
{
    struct image_text out = {0};
    char now[32], name[IMAGE_REF_SIZE];
    (void)snprintf(now, sizeof(now), "%lld", (long long)time(NULL)); /* fits */
    int failed = image_text_line(&out, "kern-image", "1");
    const char *const lines[][2] = {{"ref", full},
                                    {"digest", digest},
                                    {"manifest", manifest},
                                    {"config", parts->config},
                                    {"pulled", now}};
    for (size_t i = 0; failed == 0 && i < sizeof(lines) / sizeof(lines[0]); i++)
        failed = image_text_line(&out, lines[i][0], lines[i][1]);
    if (failed == 0)
        failed = add_layers(&out, parts);
    if (failed != 0)
        kern_refuse(err, -failed, "cannot resolve image \"%s\"", full);
    else
        failed = image_parse_config(config, config_length, &out, err);
    if (failed == 0)
        failed = image_text_line(&out, "end", NULL);
    if (failed == 0 && out.length > IMAGE_RESOLVED_MOST)
        failed = kern_refuse(err, 0,
                             "cannot use image \"%s\": what its configuration says is longer than %zu bytes",
                             full, IMAGE_RESOLVED_MOST);
    image_ref_file(full, name);
    if (failed == 0) {
        failed = image_write_file(store->refs, name, out.text, out.length);
        if (failed != 0)
            kern_refuse(err, -failed, "cannot write \"%s/refs/%s\"", store->path, name);
    }
    free(out.text);
    return failed;
}

static int read_parts(const struct image_store *store, const char *manifest, struct image_parts *parts,
                      char **ret_config, size_t *ret_length, struct kern_error *err)
{
    auto_free char *text = NULL;
    size_t length = 0;
    int failed = image_store_read_blob(store, manifest, &text, &length, err);
    if (failed == 0)
        failed = image_parse_manifest(text, length, parts, err);
    if (failed == 0)
        failed = image_store_read_blob(store, parts->config, ret_config, ret_length, err);
    return failed == 0 ? image_parse_diffs(*ret_config, *ret_length, parts, err) : failed;
}

int image_store_commit(struct image_store *store, const struct image_ref *ref, const char *manifest_digest,
                       const char *digest, image_progress_fn progress, void *data, struct kern_error *err)
{
    char full[IMAGE_REF_SIZE];
    auto_free char *config = NULL;
    size_t length = 0;
    auto_free struct image_parts *parts = calloc(1, sizeof(*parts));
    if (parts == NULL)
        return kern_refuse(err, ENOMEM, "cannot make an image");
    image_ref_full(ref, full);
    int failed = read_parts(store, manifest_digest, parts, &config, &length, err);
    if (failed == 0)
        failed = unpack_all(store, parts, progress, data, err);
    if (failed == 0)
        failed = image_store_link(store, parts->config, parts, err);
    if (failed == 0)
        failed = keep_former(store, ref, full, parts->config, err);
    if (failed == 0)
        failed = write_resolved(store, full, manifest_digest, digest != NULL ? digest : manifest_digest,
                                parts, config, length, err);
    return failed;
}

/* ---- Repair ---- */

int image_resolved_parts(const struct image_resolved *image, struct image_parts *ret_parts)
{
    if (image->layer.count > IMAGE_LAYERS_MOST || !image_digest_is_valid(image->config) ||
        !image_digest_is_valid(image->manifest))
        return -EBADMSG;
    memcpy(ret_parts->config, image->config, IMAGE_DIGEST_SIZE);
    ret_parts->count = image->layer.count;
    for (uint32_t i = 0; i < image->layer.count; i++) {
        struct image_layer *layer = &ret_parts->layer[i];
        unsigned long long size = 0;
        if (sscanf(image->layer.item[i], "%71s %71s %llu", layer->blob, layer->diff, &size) != 3 ||
            !image_digest_is_valid(layer->blob) || !image_digest_is_valid(layer->diff))
            return -EBADMSG;
        layer->size = size;
    }
    return 0;
}

int image_store_repair(struct image_store *store, const char *full, struct kern_error *err)
{
    struct image_resolved image = {0};
    auto_free struct image_parts *parts = calloc(1, sizeof(*parts));
    if (parts == NULL)
        return kern_refuse(err, ENOMEM, "cannot unpack image \"%s\"", full);
    int failed = image_resolved_read(store->refs, full, &image);
    if (failed == 0)
        failed = image_resolved_parts(&image, parts);
    image_resolved_clear(&image);
    if (failed != 0)
        return kern_refuse(err, -failed, "cannot read image \"%s\" of the store", full);
    failed = unpack_all(store, parts, NULL, NULL, err);
    return failed == 0 ? image_store_link(store, parts->config, parts, err) : failed;
}
