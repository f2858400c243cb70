/* Copies a tree of files; see image_fill.h. Runs in a child that is root over the ids of the files. Everything is done by
 * descriptor, and no link is followed. */
#include "image_describe.h"
#include "image_fill.h"

#include "kern/cleanup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <search.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

#define DEEPEST 600 /* more than layers may have: see image_vet.h */

/* A file with several names: where its first one was made, or "" where they are only counted. */
struct twin {
    dev_t device;
    ino_t inode;
    char path[]; /* below `to` */
};

struct copying {
    struct kern_error *err;
    int to, inert;
    void *twins; /* a tree of tsearch() */
    size_t used;
    char path[PATH_MAX]; /* of the entry at hand, below `to`; "" for one that has no room there */
    struct image_attributes attributes; /* its room is that of a link as well */
};

static int fail(const struct copying *c, const char *what)
{
    int code = errno;
    kern_refuse(c->err, code, "cannot %s \"%s\" for a volume", what, c->path);
    if (code == ENOSPC || code == EDQUOT)
        kern_hint(c->err, "free some space, or let the volume start empty: -v NAME:PATH:nocopy");
    return -(code != 0 ? code : EIO);
}

/* ---- What is said about a file ---- */

static mode_t mode_for(const struct copying *c, const struct stat *st)
{
    mode_t mode = st->st_mode & 07777;
    return c->inert != 0 && S_ISREG(st->st_mode) ? mode & ~(mode_t)(S_ISUID | S_ISGID) : mode;
}

static int describe(struct copying *c, int from, int to, const struct stat *st)
{
    int failed = image_describe(&c->attributes, from, to, st, mode_for(c, st), c->inert == 0);
    errno = -failed;
    return failed == 0 ? 0 : fail(c, "keep owner, mode and attributes of");
}

/* Of what cannot be opened. */
static int describe_name(struct copying *c, int folder, const char *name, const struct stat *st)
{
    const struct timespec times[2] = {st->st_atim, st->st_mtim};
    if (fchownat(folder, name, st->st_uid, st->st_gid, AT_SYMLINK_NOFOLLOW) != 0 ||
        (!S_ISLNK(st->st_mode) && fchmodat(folder, name, mode_for(c, st), 0) != 0) ||
        utimensat(folder, name, times, AT_SYMLINK_NOFOLLOW) != 0)
        return fail(c, "keep owner and mode of");
    return 0;
}

/* ---- Files ---- */

static int by_inode(const void *a, const void *b)
{
    const struct twin *one = a, *two = b;
    if (one->device != two->device)
        return one->device < two->device ? -1 : 1;
    return one->inode == two->inode ? 0 : one->inode < two->inode ? -1 : 1;
}

/* 1: it has become another name of a file that is there. 0: it is the first, and known from now on. */
static int link_twin(struct copying *c, int to, const char *name, const struct stat *st)
{
    if (st->st_nlink < 2 || c->path[0] == '\0')
        return 0;
    struct twin *twin = calloc(1, sizeof(*twin) + c->used + 1);
    if (twin == NULL)
        return -ENOMEM;
    twin->device = st->st_dev;
    twin->inode = st->st_ino;
    memcpy(twin->path, c->path, c->used + 1);
    struct twin **found = tsearch(twin, &c->twins, by_inode);
    if (found != NULL && *found == twin)
        return 0;
    free(twin);
    if (found == NULL)
        return -ENOMEM;
    return linkat(c->to, (*found)->path, to, name, 0) == 0 ? 1 : fail(c, "link");
}

/* ---- How much it takes ---- */

struct measuring {
    void *twins; /* a tree of tsearch() */
    uint64_t bytes;
};

/* 1: another name of a file that is counted. */
static int is_counted(struct measuring *m, const struct stat *st)
{
    if (st->st_nlink < 2 || S_ISDIR(st->st_mode))
        return 0;
    struct twin *twin = calloc(1, sizeof(*twin) + 1);
    if (twin == NULL)
        return -ENOMEM;
    twin->device = st->st_dev;
    twin->inode = st->st_ino;
    struct twin **found = tsearch(twin, &m->twins, by_inode);
    if (found != NULL && *found == twin)
        return 0;
    free(twin);
    return found == NULL ? -ENOMEM : 1;
}

static int measure_folder(struct measuring *m, int folder, int depth);

static int measure_entry(struct measuring *m, int folder, const char *name, int depth)
{
    struct stat st;
    if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return -errno;
    int known = is_counted(m, &st);
    if (known != 0)
        return known < 0 ? known : 0;
    m->bytes += (uint64_t)st.st_blocks * 512;
    if (!S_ISDIR(st.st_mode))
        return 0;
    auto_fd below = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return below < 0 ? -errno : measure_folder(m, below, depth + 1);
}

static int measure_folder(struct measuring *m, int folder, int depth)
{
    int again = depth < DEEPEST ? openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    auto_dir dir = again >= 0 ? fdopendir(again) : NULL;
    if (dir == NULL)
        return depth < DEEPEST ? -errno : -ELOOP;
    int failed = 0;
    for (struct dirent *entry = readdir(dir); failed == 0 && entry != NULL; entry = readdir(dir))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            failed = measure_entry(m, folder, entry->d_name, depth);
    return failed;
}

int image_measure_tree(int from, uint64_t *ret_bytes, struct kern_error *err)
{
    struct measuring m = {0};
    int failed = measure_folder(&m, from, 0);
    tdestroy(m.twins, free);
    *ret_bytes = m.bytes;
    return failed == 0 ? 0 : kern_refuse(err, -failed, "cannot measure what the image has for a volume");
}

/* ---- What the files hold ---- */

static int copy_range(int from, int to, off_t at, off_t end)
{
    if (lseek(to, at, SEEK_SET) < 0)
        return -1;
    while (at < end) {
        ssize_t put = sendfile(to, from, &at, (size_t)(end - at < 1 << 30 ? end - at : 1 << 30));
        if (put < 0 && errno != EINTR)
            return -1;
        if (put == 0)
            break;
    }
    return 0;
}

static int copy_bytes(struct copying *c, int from, int to, off_t size)
{
    for (off_t at = 0; at < size;) {
        off_t data = lseek(from, at, SEEK_DATA);
        if (data < 0 && errno == ENXIO) /* a hole up to the end */
            break;
        if (data < 0)
            return fail(c, "read");
        off_t end = lseek(from, data, SEEK_HOLE);
        if (end < 0 || copy_range(from, to, data, end) != 0)
            return fail(c, "copy");
        at = end;
    }
    return ftruncate(to, size) == 0 ? 0 : fail(c, "copy");
}

static int copy_file(struct copying *c, int from, int to, const char *name, const struct stat *st)
{
    int twin = link_twin(c, to, name, st);
    if (twin != 0)
        return twin < 0 ? twin : 0;
    auto_fd in = openat(from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (in < 0)
        return fail(c, "read");
    auto_fd out = openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (out < 0)
        return fail(c, "make");
    int failed = copy_bytes(c, in, out, st->st_size);
    return failed == 0 ? describe(c, in, out, st) : failed;
}

static int copy_link(struct copying *c, int from, int to, const char *name, const struct stat *st)
{
    ssize_t length = readlinkat(from, name, c->attributes.value, sizeof(c->attributes.value) - 1);
    if (length < 0)
        return fail(c, "read");
    c->attributes.value[length] = '\0';
    return symlinkat(c->attributes.value, to, name) == 0 ? describe_name(c, to, name, st) : fail(c, "make");
}

static int copy_pipe(struct copying *c, int to, const char *name, const struct stat *st)
{
    return mknodat(to, name, S_IFIFO | 0600, 0) == 0 ? describe_name(c, to, name, st) : fail(c, "make");
}

/* ---- Directories ---- */

static int copy_folder(struct copying *c, int from, int to, int depth);

static int copy_below(struct copying *c, int from, int to, const char *name, int depth)
{
    auto_fd in = openat(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (in < 0)
        return fail(c, "read");
    if (mkdirat(to, name, 0700) != 0)
        return fail(c, "make");
    auto_fd out = openat(to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return out < 0 ? fail(c, "make") : copy_folder(c, in, out, depth + 1);
}

static int copy_kind(struct copying *c, int from, int to, const char *name, int depth)
{
    struct stat st;
    if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return fail(c, "look at");
    switch (st.st_mode & S_IFMT) {
    case S_IFDIR:
        return copy_below(c, from, to, name, depth);
    case S_IFREG:
        return copy_file(c, from, to, name, &st);
    case S_IFLNK:
        return copy_link(c, from, to, name, &st);
    case S_IFIFO:
        return copy_pipe(c, to, name, &st);
    default:
        return 0;
    }
}

static int copy_entry(struct copying *c, int from, int to, const char *name, int depth)
{
    size_t before = c->used, length = strlen(name);
    bool fits = (before > 0 || depth == 0) && before + length + 2 < sizeof(c->path);
    char first = c->path[0];
    c->used = 0;
    if (fits)
        c->used = before + (size_t)snprintf(c->path + before, sizeof(c->path) - before, "%s%s",
                                            before > 0 ? "/" : "", name);
    else
        c->path[0] = '\0';
    int failed = copy_kind(c, from, to, name, depth);
    c->path[0] = first;
    c->path[before] = '\0';
    c->used = before;
    return failed;
}

static int copy_folder(struct copying *c, int from, int to, int depth)
{
    struct stat st;
    if (depth == DEEPEST) {
        errno = ELOOP;
        return fail(c, "copy");
    }
    int again = openat(from, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    auto_dir dir = again >= 0 ? fdopendir(again) : NULL;
    if (dir == NULL || fstat(from, &st) != 0)
        return fail(c, "read");
    int failed = 0;
    for (struct dirent *entry = readdir(dir); failed == 0 && entry != NULL; entry = readdir(dir))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            failed = copy_entry(c, from, to, entry->d_name, depth);
    return failed == 0 ? describe(c, from, to, &st) : failed;
}

int image_copy_tree(int from, int to, int inert, struct kern_error *err)
{
    struct copying *c = calloc(1, sizeof(*c));
    if (c == NULL)
        return kern_refuse(err, ENOMEM, "cannot copy what the image has for a volume");
    c->err = err;
    c->to = to;
    c->inert = inert;
    int failed = copy_folder(c, from, to, 0);
    if (failed == -ENOMEM)
        kern_refuse(err, ENOMEM, "cannot copy what the image has for a volume"); /* the first cause wins */
    tdestroy(c->twins, free);
    free(c);
    return failed;
}
