/* The store's folders, its lock and its blobs; see image_store.h. Runs in the process of a verb, or in a child of kern that
 * fetches or repairs an image. */
#include "image_document.h"
#include "image_hash.h"
#include "image_store_impl.h"

#include "kern/cleanup.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>

/* ---- Files ---- */

const char *image_hex(const char *digest)
{
    return digest + 7;
}

void image_fresh_name(const char *prefix, char *ret_name, size_t size)
{
    uint64_t number = 0;
    if (getrandom(&number, sizeof(number), 0) != (ssize_t)sizeof(number)) {
        struct timespec now;
        (void)clock_gettime(CLOCK_REALTIME, &now); /* cannot fail with a valid clock */
        number = (uint64_t)now.tv_nsec ^ (uint64_t)getpid() << 32;
    }
    (void)snprintf(ret_name, size, "%s%016llx", prefix, (unsigned long long)number); /* prefixes are short */
}

int image_write_all(int fd, const void *bytes, size_t length)
{
    const char *at = bytes;
    while (length > 0) {
        ssize_t put = write(fd, at, length);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return -errno;
        at += put;
        length -= (size_t)put;
    }
    return 0;
}

int image_write_file(int folder, const char *name, const void *bytes, size_t length)
{
    char fresh[40];
    image_fresh_name(".new-", fresh, sizeof(fresh));
    auto_fd fd = openat(folder, fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -errno;
    int failed = image_write_all(fd, bytes, length);
    if (failed == 0 && fsync(fd) != 0)
        failed = -errno;
    if (failed == 0 && renameat(folder, fresh, folder, name) != 0)
        failed = -errno;
    if (failed != 0)
        (void)unlinkat(folder, fresh, 0); /* the failure is what counts */
    else if (fsync(folder) != 0)
        failed = -errno;
    return failed;
}

/* ---- Opening ---- */

static int make_path(const char *path)
{
    char part[PATH_MAX];
    (void)snprintf(part, sizeof(part), "%s", path); /* of the same size */
    for (char *slash = strchr(part + 1, '/');; slash = strchr(slash + 1, '/')) {
        if (slash != NULL)
            *slash = '\0';
        if (mkdir(part, 0700) != 0 && errno != EEXIST)
            return -errno;
        if (slash == NULL)
            return 0;
        *slash = '/';
    }
}

static int open_folder(int parent, const char *name, int *ret_fd)
{
    if (mkdirat(parent, name, 0700) != 0 && errno != EEXIST)
        return -errno;
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    *ret_fd = fd;
    return 0;
}

/* What others could write to would not be ours: an image of theirs would start as ours. */
static int check_owner(int fd, const char *path, struct kern_error *err)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return kern_refuse(err, errno, "cannot look at the image store \"%s\"", path);
    if (st.st_uid == geteuid() && (st.st_mode & 0077) == 0)
        return 0;
    kern_refuse(err, 0, "cannot use the image store \"%s\": %s", path,
                st.st_uid != geteuid() ? "it belongs to another user" : "others may look into it");
    kern_hint(err,
              st.st_uid != geteuid() ? "set XDG_DATA_HOME to a directory of your own" : "chmod go-rwx '%s'",
              path);
    return -EPERM;
}

static int open_folders(struct image_store *store)
{
    auto_fd layers = -1;
    struct {
        const char *name;
        int *fd;
    } const folders[] = {
        {"blobs", &store->blobs}, {"ingest", &store->ingest}, {"refs", &store->refs}, {"layers", &layers}};
    int failed = 0;
    for (size_t i = 0; failed == 0 && i < sizeof(folders) / sizeof(folders[0]); i++)
        failed = open_folder(store->top, folders[i].name, folders[i].fd);
    return failed == 0 ? open_folder(layers, store->ids.name, &store->layers) : failed;
}

static int open_all(struct image_store *store, struct kern_error *err)
{
    if (image_directory(store->path, sizeof(store->path)) != 0)
        return kern_refuse(err, ENAMETOOLONG, "cannot find the image store");
    int failed = make_path(store->path);
    if (failed == 0) {
        store->top = open(store->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        failed = store->top < 0 ? -errno : 0;
    }
    if (failed != 0)
        return kern_refuse(err, -failed, "cannot open the image store \"%s\"", store->path);
    failed = check_owner(store->top, store->path, err);
    if (failed != 0)
        return failed;
    store->lock = openat(store->top, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (store->lock < 0)
        return kern_refuse(err, errno, "cannot open \"%s/lock\"", store->path);
    while (flock(store->lock, LOCK_SH) != 0)
        if (errno != EINTR)
            return kern_refuse(err, errno, "cannot lock \"%s/lock\"", store->path);
    failed = open_folders(store);
    return failed == 0 ? 0 : kern_refuse(err, -failed, "cannot make the folders of \"%s\"", store->path);
}

int image_store_open_with(const struct image_ids *ids, struct image_store **ret_store, struct kern_error *err)
{
    struct image_store *store = calloc(1, sizeof(*store));
    if (store == NULL)
        return kern_refuse(err, ENOMEM, "cannot open the image store");
    store->top = store->lock = store->blobs = store->ingest = store->layers = store->refs = -1;
    store->limits = (struct image_limits){.bytes = UINT64_C(64) << 30,
                                          .ratio = 250,
                                          .entries = 1000000,
                                          .all_bytes = UINT64_C(128) << 30,
                                          .all_entries = 4000000};
    store->ids = *ids;
    store->total =
        mmap(NULL, sizeof(*store->total), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (store->total == MAP_FAILED)
        store->total = NULL;
    int failed =
        store->total != NULL ? open_all(store, err) : kern_refuse(err, ENOMEM, "cannot open the image store");
    if (failed != 0)
        image_store_close(store);
    else
        *ret_store = store;
    return failed;
}

int image_store_open(struct image_store **ret_store, struct kern_error *err)
{
    struct image_ids ids;
    image_find_ids(1, &ids);
    return image_store_open_with(&ids, ret_store, err);
}

void image_store_set_limits(struct image_store *store, const kern_values *values)
{
    const struct {
        const char *name;
        uint64_t *limit;
    } all[] = {{"max-size", &store->limits.bytes},
               {"max-ratio", &store->limits.ratio},
               {"max-entries", &store->limits.entries},
               {"max-image-size", &store->limits.all_bytes},
               {"max-image-entries", &store->limits.all_entries}};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        int64_t value = kern_get_int(values, all[i].name);
        if (value > 0)
            *all[i].limit = (uint64_t)value;
    }
}

void image_store_close(struct image_store *store)
{
    if (store == NULL)
        return;
    struct kern_error ignored = {0};
    if (store->pending_count > 0)
        (void)image_store_settle(store, &ignored); /* saves the work for the next time, or leaves it to gc */
    int *const fds[] = {&store->layers, &store->refs, &store->ingest,    &store->blobs,
                        &store->top,    &store->lock, &store->ids.userns};
    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
        kern_close_fd(fds[i]);
    if (store->total != NULL)
        (void)munmap(store->total, sizeof(*store->total));
    free(store);
}

/* ---- Blobs ---- */

int image_store_has_blob(const struct image_store *store, const char *digest, uint64_t *ret_size)
{
    struct stat st;
    if (!image_digest_is_valid(digest) ||
        fstatat(store->blobs, image_hex(digest), &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode))
        return 0;
    if (ret_size != NULL)
        *ret_size = (uint64_t)st.st_size;
    return 1;
}

int image_store_open_blob(const struct image_store *store, const char *digest, int *ret_fd,
                          struct kern_error *err)
{
    if (!image_digest_is_valid(digest))
        return kern_refuse(err, 0, "cannot use digest \"%.80s\": it is not sha256", digest);
    int fd = openat(store->blobs, image_hex(digest), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
        int code = errno;
        kern_refuse(err, code, "cannot open blob \"%s\" of the image store", digest);
        kern_hint(err, "pull or load the image again");
        return -code;
    }
    *ret_fd = fd;
    return 0;
}

int image_store_read_blob(const struct image_store *store, const char *digest, char **ret_text,
                          size_t *ret_length, struct kern_error *err)
{
    auto_fd fd = -1;
    int failed = image_store_open_blob(store, digest, &fd, err);
    if (failed != 0)
        return failed;
    struct stat st;
    if (fstat(fd, &st) != 0)
        return kern_refuse(err, errno, "cannot read blob \"%s\"", digest);
    if ((uint64_t)st.st_size > IMAGE_DOCUMENT_MAX)
        return kern_refuse(err, EFBIG, "cannot read blob \"%s\" as a manifest or a configuration", digest);
    auto_free char *text = malloc((size_t)st.st_size + 1);
    ssize_t length = text != NULL ? pread(fd, text, (size_t)st.st_size, 0) : -1;
    if (length < 0)
        return kern_refuse(err, text != NULL ? errno : ENOMEM, "cannot read blob \"%s\"", digest);
    text[length] = '\0';
    char found[IMAGE_DIGEST_SIZE];
    (void)image_digest_of(text, (size_t)length, found);
    if (strcmp(found, digest) != 0) {
        (void)unlinkat(store->blobs, image_hex(digest), 0); /* it is of no use to anybody */
        kern_refuse(err, 0, "cannot use blob \"%s\": its bytes are those of \"%s\"", digest, found);
        kern_hint(err, "the disk lost something; pull or load the image again");
        return -EBADMSG;
    }
    *ret_text = steal_ptr(text);
    *ret_length = (size_t)length;
    return 0;
}

int image_store_add_blob(struct image_store *store, const char *digest, const void *bytes, size_t length,
                         char ret_digest[static IMAGE_DIGEST_SIZE], struct kern_error *err)
{
    char found[IMAGE_DIGEST_SIZE];
    if (length > IMAGE_DOCUMENT_MAX)
        return kern_refuse(err, EFBIG,
                           "cannot use a manifest or configuration of %zu bytes: %zu are the most", length,
                           IMAGE_DOCUMENT_MAX);
    (void)image_digest_of(bytes, length, found);
    if (found[0] == '\0')
        return kern_refuse(err, ENOMEM, "cannot compute a digest");
    if (digest != NULL && strcmp(digest, found) != 0)
        return kern_refuse(err, 0, "cannot use \"%.80s\": its bytes have the digest \"%s\"", digest, found);
    int failed = 0;
    if (!image_store_has_blob(store, found, NULL))
        failed = image_write_file(store->blobs, image_hex(found), bytes, length);
    if (failed != 0)
        return kern_refuse(err, -failed, "cannot write blob \"%s\"", found);
    memcpy(ret_digest, found, IMAGE_DIGEST_SIZE);
    return 0;
}
