/* A layer from its blob to its directory; see image_store.h. Two processes read what came from elsewhere: one decompresses and
 * hashes, the other makes the files; the one that called waits for both and judges. They share a page each with it, and
 * a pipe with one another. */
#include "image_child.h"
#include "image_hash.h"
#include "image_tar.h"

#include "kern/cleanup.h"
#include "kern/sys.h"

#include <archive.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define BLOCK       ((size_t)1 << 18)
#define RATIO_FROM  ((uint64_t)64 << 20)
#define CAP(number) (UINT32_C(1) << (number))

struct decoder_result {
    struct kern_error error;
    uint64_t read, written; /* read by the parent while the other writes: a figure for a progress bar */
    char digest[IMAGE_DIGEST_SIZE];
    uint32_t done;
};

struct unpacking {
    struct image_store *store;
    const char *blob;
    int in, out[2], root;
    uint64_t total;
    struct decoder_result *decoder;
    struct image_tar_result *tar;
};

/* ---- The process that decompresses ---- */

static struct archive *open_stream(int in, struct kern_error *err)
{
    struct archive *stream = archive_read_new();
    if (stream == NULL || archive_read_support_filter_gzip(stream) != ARCHIVE_OK ||
        archive_read_support_filter_zstd(stream) != ARCHIVE_OK ||
        archive_read_support_format_raw(stream) != ARCHIVE_OK ||
        archive_read_support_format_empty(stream) != ARCHIVE_OK ||
        archive_read_open_fd(stream, in, BLOCK) != ARCHIVE_OK) {
        kern_refuse(err, 0, "cannot read a layer: %s",
                    stream != NULL ? archive_error_string(stream) : "no memory");
        (void)archive_read_free(stream); /* takes NULL; nothing else can be said */
        return NULL;
    }
    return stream;
}

static int judge_size(const struct unpacking *u, struct kern_error *err)
{
    const struct image_limits *limits = &u->store->limits;
    /* Files may not be larger than the cap, and what stands around them is small. */
    if (u->decoder->written > limits->bytes + limits->bytes / 4) {
        kern_refuse(err, 0, "cannot unpack a layer: it is larger than %llu bytes",
                    (unsigned long long)limits->bytes);
        return image_hint_limit(err, "max-size");
    }
    if (u->decoder->written > RATIO_FROM && u->decoder->written / limits->ratio > u->decoder->read) {
        kern_refuse(err, 0, "cannot unpack a layer: it grows to more than %llu times its size",
                    (unsigned long long)limits->ratio);
        return image_hint_limit(err, "max-ratio");
    }
    return 0;
}

static int decode_all(struct unpacking *u, struct archive *stream, struct image_hash *hash)
{
    struct kern_error *err = &u->decoder->error;
    struct archive_entry *entry = NULL;
    int result = archive_read_next_header(stream, &entry);
    while (result == ARCHIVE_OK) {
        const void *bytes = NULL;
        size_t length = 0;
        int64_t at = 0;
        result = archive_read_data_block(stream, &bytes, &length, &at);
        if (result != ARCHIVE_OK)
            break;
        u->decoder->written += length;
        u->decoder->read = (uint64_t)archive_filter_bytes(stream, -1);
        int failed = judge_size(u, err);
        if (failed != 0)
            return failed;
        image_hash_add(hash, bytes, length);
        failed = image_write_all(IMAGE_KEPT(1), bytes, length);
        if (failed != 0)
            return kern_refuse(err, -failed, "cannot go on unpacking a layer");
    }
    if (result == ARCHIVE_EOF)
        return 0;
    return kern_refuse(err, 0, "cannot unpack a layer: the archive is damaged (%s)",
                       archive_error_string(stream));
}

_Noreturn static void decode(pid_t parent, struct unpacking *u)
{
    struct kern_error *err = &u->decoder->error;
    const int keep[2] = {u->in, u->out[1]};
    sys_end_with(parent);
    (void)munmap(u->tar, sizeof(*u->tar));                   /* the other's word is none of ours */
    (void)munmap(u->store->total, sizeof(*u->store->total)); /* nor are the figures */
    int failed = image_confine(-1, keep, 2, 0);
    if (failed != 0)
        kern_refuse(err, -failed, "cannot give up rights before a layer is read");
    auto_hash hash = image_hash_new();
    struct archive *stream = failed == 0 && hash != NULL ? open_stream(IMAGE_KEPT(0), err) : NULL;
    if (stream != NULL && decode_all(u, stream, hash) == 0) {
        image_hash_end(hash, u->decoder->digest);
        u->decoder->done = 1;
    }
    _exit(u->decoder->done == 1 ? 0 : 1);
}

/* ---- The process that makes files ---- */

static int make_files(void *data)
{
    struct unpacking *u = data;
    const struct image_ids *ids = &u->store->ids;
    const int keep[2] = {u->out[0], u->root};
    struct image_tar_job job = {.in = IMAGE_KEPT(0),
                                .root = IMAGE_KEPT(1),
                                .limits = u->store->limits,
                                .total = u->store->total,
                                .result = u->tar};
    if (ids->kind == IMAGE_IDS_PLAIN)
        job.uids = job.gids = UINT32_MAX;
    else if (ids->kind == IMAGE_IDS_RANGE)
        job.uids = ids->uid_count + 1, job.gids = ids->gid_count + 1;
    (void)munmap(u->decoder, sizeof(*u->decoder)); /* the other's word is none of ours */
    int failed = image_confine(u->root, keep, 2,
                               CAP(CAP_CHOWN) | CAP(CAP_DAC_OVERRIDE) | CAP(CAP_FOWNER) | CAP(CAP_FSETID) |
                                   CAP(CAP_SETFCAP));
    if (failed != 0)
        return kern_refuse(&u->tar->error, -failed, "cannot give up rights before a layer is unpacked");
    (void)umask(0); /* modes are the layer's own */
    return image_tar_unpack(&job);
}

/* ---- The one that waits ---- */

static int await_decoder(struct unpacking *u, int pid, image_progress_fn progress, void *data)
{
    auto_fd pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    struct pollfd end = {.fd = pidfd, .events = POLLIN};
    while (pidfd >= 0 && poll(&end, 1, 100) <= 0)
        if (progress != NULL)
            progress(data, u->decoder->read, u->total);
    int code = image_wait_child(pid);
    if (progress != NULL && code == 0)
        progress(data, u->total, u->total);
    return code;
}

/* Memory that a process which read hostile bytes has written: texts end where they must. */
static void take_error(struct kern_error *from, struct kern_error *err)
{
    if (from->category == KERN_ERROR_NONE || err->category != KERN_ERROR_NONE)
        return;
    *err = *from;
    err->category = KERN_ERROR_REFUSED;
    err->message[sizeof(err->message) - 1] = err->hint[sizeof(err->hint) - 1] = '\0';
    err->plugin[0] = err->phase[0] = '\0';
}

static int judge(struct unpacking *u, int decoder, int files, const char *diff_id, struct kern_error *err)
{
    /* Who stopped first knows why; the other then only saw the pipe break, or the archive end. */
    if (decoder != 0 && u->decoder->error.code != EPIPE)
        take_error(&u->decoder->error, err);
    if (files != 0)
        take_error(&u->tar->error, err);
    if (decoder != 0)
        take_error(&u->decoder->error, err);
    if (files > 128 || decoder > 128)
        kern_refuse(err, 0, "cannot unpack layer \"%s\": the process that reads it was ended by signal %d",
                    u->blob, (files > 128 ? files : decoder) - 128);
    if (files == 0 && decoder == 0 && u->tar->done == 1 && u->decoder->done == 1) {
        u->decoder->digest[IMAGE_DIGEST_SIZE - 1] = '\0';
        if (diff_id == NULL || strcmp(u->decoder->digest, diff_id) == 0)
            return 0;
        return kern_refuse(err, 0,
                           "cannot use layer \"%s\": unpacked it is \"%.71s\", not the image's \"%s\"",
                           u->blob, u->decoder->digest, diff_id);
    }
    kern_refuse(err, 0, "cannot unpack layer \"%s\"", u->blob); /* where neither said why */
    return -EIO;
}

static int run_both(struct unpacking *u, const char *diff_id, image_progress_fn progress, void *data,
                    struct kern_error *err)
{
    if (pipe2(u->out, O_CLOEXEC) != 0)
        return kern_refuse(err, errno, "cannot make a pipe");
    (void)fcntl(u->out[1], F_SETPIPE_SZ, 1 << 20); /* a smaller one is only slower */
    int32_t files = 0;
    int failed = image_keep_ids(&u->store->ids, err);
    if (failed == 0)
        failed = image_start_with_ids(&u->store->ids, make_files, u, &files, err);
    pid_t self = getpid(), decoder = -1;
    if (failed == 0) {
        decoder = fork();
        if (decoder == 0)
            decode(self, u);
        if (decoder < 0)
            failed = kern_refuse(err, errno, "cannot start a process to read a layer");
    }
    kern_close_fd(&u->out[0]);
    kern_close_fd(&u->out[1]);
    int decoded = decoder > 0 ? await_decoder(u, decoder, progress, data) : -1;
    int made = files > 0 ? image_wait_child(files) : -1;
    return failed != 0 ? failed : judge(u, decoded, made, diff_id, err);
}

static void *share(size_t size)
{
    void *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return page == MAP_FAILED ? NULL : page;
}

static int unpack_into(struct image_store *store, const char *blob, const char *diff_id, int root,
                       image_progress_fn progress, void *data, char *ret_diff, struct kern_error *err)
{
    struct unpacking u = {.store = store,
                          .blob = blob,
                          .in = -1,
                          .out = {-1, -1},
                          .root = root,
                          .decoder = share(sizeof(struct decoder_result)),
                          .tar = share(sizeof(struct image_tar_result))};
    int failed = u.decoder == NULL || u.tar == NULL ? kern_refuse(err, ENOMEM, "cannot unpack a layer")
                                                    : image_store_open_blob(store, blob, &u.in, err);
    struct stat st;
    if (failed == 0 && fstat(u.in, &st) == 0)
        u.total = (uint64_t)st.st_size;
    if (failed == 0)
        failed = run_both(&u, diff_id, progress, data, err);
    if (failed == 0)
        memcpy(ret_diff, u.decoder->digest, IMAGE_DIGEST_SIZE);
    kern_close_fd(&u.in);
    if (u.decoder != NULL)
        (void)munmap(u.decoder, sizeof(*u.decoder));
    if (u.tar != NULL)
        (void)munmap(u.tar, sizeof(*u.tar));
    return failed;
}

/* ---- Layers ---- */

static int is_pending(const struct image_store *store, const char *diff_id)
{
    for (uint32_t i = 0; i < store->pending_count; i++)
        if (strcmp(store->pending[i].hex, image_hex(diff_id)) == 0)
            return 1;
    return 0;
}

int image_store_has_layer(const struct image_store *store, const char *diff_id)
{
    struct stat st;
    if (!image_digest_is_valid(diff_id))
        return 0;
    return is_pending(store, diff_id) ||
           (fstatat(store->layers, image_hex(diff_id), &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode));
}

static int make_fresh(struct image_store *store, struct image_pending *pending, struct kern_error *err)
{
    image_fresh_name(".new-", pending->name, sizeof(pending->name));
    if (mkdirat(store->layers, pending->name, 0755) != 0)
        return kern_refuse(err, errno, "cannot make a directory for a layer in \"%s/layers/%s\"", store->path,
                           store->ids.name);
    pending->fd = openat(store->layers, pending->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (pending->fd < 0 || fchmod(pending->fd, 0755) != 0 || flock(pending->fd, LOCK_EX | LOCK_NB) != 0)
        return kern_refuse(err, errno, "cannot open a directory for a layer");
    return 0;
}

int image_store_unpack_as(struct image_store *store, const char *blob_digest, const char *diff_id,
                          image_progress_fn progress, void *data, char ret_diff[static IMAGE_DIGEST_SIZE],
                          struct kern_error *err)
{
    if (diff_id != NULL && !image_digest_is_valid(diff_id))
        return kern_refuse(err, 0, "cannot use digest \"%.80s\": it is not sha256", diff_id);
    if (diff_id != NULL && image_store_has_layer(store, diff_id)) {
        memcpy(ret_diff, diff_id, IMAGE_DIGEST_SIZE);
        return 0;
    }
    if (store->pending_count == IMAGE_LAYERS_MOST) {
        int full = image_store_settle(store, err);
        if (full != 0)
            return full;
    }
    struct image_pending *pending = &store->pending[store->pending_count];
    *pending = (struct image_pending){.fd = -1};
    char diff[IMAGE_DIGEST_SIZE] = "";
    int failed = make_fresh(store, pending, err);
    if (failed == 0)
        failed = unpack_into(store, blob_digest, diff_id, pending->fd, progress, data, diff, err);
    if (failed != 0 || image_store_has_layer(store, diff)) {
        (void)image_remove_tree(&store->ids, store->layers, pending->name); /* gc removes what it could not */
        kern_close_fd(&pending->fd);
        if (failed != 0)
            return failed;
    } else {
        memcpy(pending->hex, image_hex(diff), IMAGE_DIGEST_SIZE - 7);
        store->pending_count++;
    }
    memcpy(ret_diff, diff, IMAGE_DIGEST_SIZE);
    return 0;
}

int image_store_unpack(struct image_store *store, const char *blob_digest, const char *diff_id,
                       image_progress_fn progress, void *data, struct kern_error *err)
{
    char diff[IMAGE_DIGEST_SIZE];
    return image_store_unpack_as(store, blob_digest, diff_id, progress, data, diff, err);
}

/* One sync for all of them: a layer that has its name is whole also after the power went. */
int image_store_settle(struct image_store *store, struct kern_error *err)
{
    if (store->pending_count == 0)
        return 0;
    if (syncfs(store->layers) != 0)
        return kern_refuse(err, errno, "cannot sync \"%s\"", store->path);
    int failed = 0;
    for (uint32_t i = 0; i < store->pending_count; i++) {
        struct image_pending *pending = &store->pending[i];
        /* Another process may have been first with the same layer. */
        long result = failed == 0 ? syscall(SYS_renameat2, store->layers, pending->name, store->layers,
                                            pending->hex, 1U /* RENAME_NOREPLACE */)
                                  : -1;
        if (failed == 0 && result != 0 && errno != EEXIST)
            failed = kern_refuse(err, errno, "cannot put a layer in its place in \"%s/layers\"", store->path);
        if (result != 0)
            (void)image_remove_tree(&store->ids, store->layers,
                                    pending->name); /* gc removes what it could not */
        kern_close_fd(&pending->fd);
    }
    store->pending_count = 0;
    if (failed == 0 && fsync(store->layers) != 0)
        failed = kern_refuse(err, errno, "cannot sync \"%s/layers\"", store->path);
    return failed;
}
