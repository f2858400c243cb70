/* Blobs that are still coming; see image_store.h. Runs where the store is open. A blob is hashed as it is written, and gets its
 * place by rename: what stands below blobs/ was whole once. */
#include "image_hash.h"
#include "image_store_impl.h"

#include "kern/cleanup.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

struct image_ingest {
    struct image_store *store;
    struct image_hash *hash;
    int fd;
    uint64_t have;
    char name[IMAGE_DIGEST_SIZE];   /* below ingest/ */
    char digest[IMAGE_DIGEST_SIZE]; /* "" while it is not known */
};

static int fail_write(const struct image_ingest *ingest, int code, struct kern_error *err)
{
    kern_refuse(err, code, "cannot write \"%s/ingest/%s\"", ingest->store->path, ingest->name);
    if (code == ENOSPC || code == EDQUOT)
        kern_hint(err, "free some space: kern gc; df -h '%s'", ingest->store->path);
    return -code;
}

/* Two may open one file before one of them gets the lock, and the first may be done with it by then. */
static int lock_current(struct image_ingest *ingest)
{
    for (;;) {
        auto_fd fd =
            openat(ingest->store->ingest, ingest->name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0)
            return -errno;
        if (flock(fd, LOCK_EX | LOCK_NB) != 0)
            return errno == EWOULDBLOCK ? -EBUSY : -errno;
        struct stat ours, there;
        if (fstat(fd, &ours) != 0)
            return -errno;
        if (fstatat(ingest->store->ingest, ingest->name, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
            ours.st_ino == there.st_ino && S_ISREG(ours.st_mode)) {
            ingest->fd = steal_fd(&fd);
            return 0;
        }
    }
}

static int hash_again(struct image_ingest *ingest, struct kern_error *err)
{
    auto_free char *buffer = malloc(1 << 17);
    if (buffer == NULL)
        return fail_write(ingest, ENOMEM, err);
    for (;;) {
        ssize_t got = read(ingest->fd, buffer, 1 << 17);
        if (got < 0 && errno != EINTR)
            return fail_write(ingest, errno, err);
        if (got == 0)
            return 0;
        if (got > 0) {
            image_hash_add(ingest->hash, buffer, (size_t)got);
            ingest->have += (uint64_t)got;
        }
    }
}

int image_ingest_begin(struct image_store *store, const char *digest, struct image_ingest **ret_ingest,
                       struct kern_error *err)
{
    if (digest != NULL && !image_digest_is_valid(digest))
        return kern_refuse(err, 0, "cannot use digest \"%.80s\": it is not sha256", digest);
    struct image_ingest *ingest = calloc(1, sizeof(*ingest));
    if (ingest == NULL)
        return kern_refuse(err, ENOMEM, "cannot take a blob into the image store");
    ingest->store = store;
    ingest->fd = -1;
    ingest->hash = image_hash_new();
    if (digest != NULL) {
        memcpy(ingest->digest, digest, IMAGE_DIGEST_SIZE);
        memcpy(ingest->name, image_hex(digest), IMAGE_DIGEST_SIZE - 7);
    } else {
        image_fresh_name("new-", ingest->name, sizeof(ingest->name));
    }
    int failed = ingest->hash == NULL ? -ENOMEM : lock_current(ingest);
    if (failed == -EBUSY) {
        image_ingest_close(ingest);
        return failed;
    }
    failed = failed != 0 ? fail_write(ingest, -failed, err) : hash_again(ingest, err);
    if (failed != 0)
        image_ingest_close(ingest);
    else
        *ret_ingest = ingest;
    return failed;
}

uint64_t image_ingest_have(const struct image_ingest *ingest)
{
    return ingest->have;
}

int image_ingest_write(struct image_ingest *ingest, const void *bytes, size_t length, struct kern_error *err)
{
    int failed = image_write_all(ingest->fd, bytes, length);
    if (failed != 0)
        return fail_write(ingest, -failed, err);
    image_hash_add(ingest->hash, bytes, length);
    ingest->have += length;
    return 0;
}

int image_ingest_restart(struct image_ingest *ingest, struct kern_error *err)
{
    char ignored[IMAGE_DIGEST_SIZE];
    if (ftruncate(ingest->fd, 0) != 0 || lseek(ingest->fd, 0, SEEK_SET) != 0)
        return fail_write(ingest, errno, err);
    image_hash_end(ingest->hash, ignored);
    ingest->have = 0;
    return 0;
}

static int commit(struct image_ingest *ingest, char ret_digest[static IMAGE_DIGEST_SIZE],
                  struct kern_error *err)
{
    struct image_store *store = ingest->store;
    char found[IMAGE_DIGEST_SIZE];
    image_hash_end(ingest->hash, found);
    if (ingest->digest[0] != '\0' && strcmp(found, ingest->digest) != 0) {
        (void)unlinkat(store->ingest, ingest->name, 0); /* nothing to go on from */
        return kern_refuse(err, 0, "cannot use blob \"%s\": the bytes that came have the digest \"%s\"",
                           ingest->digest, found);
    }
    if (fdatasync(ingest->fd) != 0 ||
        renameat(store->ingest, ingest->name, store->blobs, image_hex(found)) != 0)
        return fail_write(ingest, errno, err);
    memcpy(ret_digest, found, IMAGE_DIGEST_SIZE);
    return 0;
}

int image_ingest_commit(struct image_ingest *ingest, struct kern_error *err)
{
    char digest[IMAGE_DIGEST_SIZE];
    return image_ingest_commit_as(ingest, digest, err);
}

int image_ingest_commit_as(struct image_ingest *ingest, char ret_digest[static IMAGE_DIGEST_SIZE],
                           struct kern_error *err)
{
    int failed = commit(ingest, ret_digest, err);
    image_ingest_close(ingest);
    return failed;
}

void image_ingest_close(struct image_ingest *ingest)
{
    if (ingest == NULL)
        return;
    /* Nobody could find what has no digest yet. After a commit the name is gone, and this harmless. */
    if (ingest->digest[0] == '\0' && ingest->fd >= 0)
        (void)unlinkat(ingest->store->ingest, ingest->name, 0);
    kern_close_fd(&ingest->fd);
    image_hash_free(ingest->hash);
    free(ingest);
}
