/* The stream of `kern cp`, the names it begins with, and the process in the box; see copy.h. */
#include "copy.h"

#include "cleanup.h"
#include "sys.h"

#include <errno.h>
#include <limits.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#ifndef CGROUP2_SUPER_MAGIC
#define CGROUP2_SUPER_MAGIC 0x63677270
#endif
#define TEXT_MOST  1024
#define MOST_LINKS 40

/* ---- The stream ---- */

int core_copy_open(struct core_copy_io *io, int fd)
{
    *io = (struct core_copy_io){.fd = fd, .out = malloc(CORE_COPY_CHUNK), .in = malloc(CORE_COPY_CHUNK)};
    return io->out != NULL && io->in != NULL ? 0 : -ENOMEM;
}

void core_copy_close(struct core_copy_io *io)
{
    free(io->out);
    free(io->in);
    kern_close_fd(&io->fd);
    io->out = io->in = NULL;
}

int core_copy_flush(struct core_copy_io *io)
{
    for (size_t sent = 0; sent < io->out_used;) {
        ssize_t some = send(io->fd, io->out + sent, io->out_used - sent, MSG_NOSIGNAL);
        if (some < 0 && errno != EINTR)
            return errno == ECONNRESET ? -EPIPE : -errno;
        sent += some > 0 ? (size_t)some : 0;
    }
    io->out_used = 0;
    return 0;
}

int core_copy_write(struct core_copy_io *io, const void *bytes, size_t size)
{
    const char *at = bytes;
    int failed = 0;
    while (failed == 0 && size > 0) {
        size_t room = CORE_COPY_CHUNK - io->out_used, part = size < room ? size : room;
        memcpy(io->out + io->out_used, at, part);
        io->out_used += part;
        at += part;
        size -= part;
        if (io->out_used == CORE_COPY_CHUNK)
            failed = core_copy_flush(io);
    }
    return failed;
}

int core_copy_read(struct core_copy_io *io, void *ret_bytes, size_t size)
{
    char *to = ret_bytes;
    while (size > 0) {
        if (io->in_at == io->in_end) {
            ssize_t got = recv(io->fd, io->in, CORE_COPY_CHUNK, 0);
            if (got < 0 && errno == EINTR)
                continue;
            if (got <= 0)
                return got == 0 || errno == ECONNRESET ? -EPIPE : -errno;
            io->in_at = 0;
            io->in_end = (size_t)got;
        }
        size_t there = io->in_end - io->in_at, part = size < there ? size : there;
        memcpy(to, io->in + io->in_at, part);
        io->in_at += part;
        to += part;
        size -= part;
    }
    return 0;
}

int core_copy_record(struct core_copy_io *io, const struct core_copy_record *record, const char *name)
{
    struct core_copy_record sent = *record;
    sent.name = name != NULL ? (uint32_t)strlen(name) : 0;
    int failed = core_copy_write(io, &sent, sizeof(sent));
    return failed == 0 ? core_copy_write(io, name, sent.name) : failed;
}

int core_copy_text(struct core_copy_io *io, enum core_copy_kind kind, const char *text)
{
    const struct core_copy_record record = {.kind = kind, .size = strlen(text)};
    int failed = core_copy_record(io, &record, NULL);
    failed = failed == 0 ? core_copy_write(io, text, record.size) : failed;
    return failed == 0 ? core_copy_flush(io) : failed;
}

int core_copy_read_text(struct core_copy_io *io, const struct core_copy_record *record, char *ret_text,
                        size_t size)
{
    if (record->size > TEXT_MOST)
        return -EPROTO;
    char text[TEXT_MOST + 1];
    int failed = core_copy_read(io, text, record->size);
    size_t length = record->size < size ? record->size : size - 1;
    memcpy(ret_text, text, failed == 0 ? length : 0);
    ret_text[failed == 0 ? length : 0] = '\0';
    return failed;
}

/* ---- Names ---- */

/* A box may put a link to /proc/self/mem where a file was: reading or writing there would be this process's own affair. */
bool core_copy_is_made_up(int fd)
{
    struct statfs where;
    return fstatfs(fd, &where) != 0 || where.f_type == PROC_SUPER_MAGIC || where.f_type == SYSFS_MAGIC ||
           where.f_type == CGROUP2_SUPER_MAGIC || where.f_type == CGROUP_SUPER_MAGIC;
}

/* Where the filter of the box keeps openat2 back. This process has the box's root as its own, so that neither ".." nor a plain link
 * leads out of it; those of /proc could, and are not followed. */
struct parts {
    int root, at; /* `at` is owned where it is not the root */
    int links;
    char rest[PATH_MAX];
};

static void step(struct parts *parts, int fd)
{
    if (parts->at != parts->root)
        kern_close_fd(&parts->at);
    parts->at = fd;
}

static int follow(struct parts *parts, int link)
{
    char target[PATH_MAX];
    ssize_t length = readlinkat(link, "", target, sizeof(target));
    size_t rest = strlen(parts->rest) + 1;
    if (length <= 0 || ++parts->links > MOST_LINKS || core_copy_is_made_up(link))
        return -ELOOP;
    if ((size_t)length + rest > sizeof(parts->rest))
        return -ENAMETOOLONG;
    memmove(parts->rest + length, parts->rest, rest); /* nothing, or it begins with a / */
    memcpy(parts->rest, target, (size_t)length);
    if (target[0] == '/')
        step(parts, parts->root);
    return 0;
}

/* One name further. Returns 1 with `ret_fd` at the end of the path. */
static int walk_part(struct parts *parts, int flags, int *ret_fd)
{
    char name[NAME_MAX + 1] = ".";
    size_t skipped = strspn(parts->rest, "/"), length = strcspn(parts->rest + skipped, "/");
    if (length > NAME_MAX)
        return -ENAMETOOLONG;
    memcpy(name, parts->rest + skipped, length);
    name[length > 0 ? length : 1] = '\0'; /* none: the root, or a / at the end */
    const char *after = parts->rest + skipped + length;
    bool last = after[strspn(after, "/")] == '\0';
    int wanted = flags | O_NOFOLLOW | (after[0] == '/' ? O_DIRECTORY : 0);
    memmove(parts->rest, after, strlen(after) + 1);
    struct stat st;
    auto_fd fd = sys_open(parts->at, name, O_PATH | O_NOFOLLOW, 0);
    if (fd < 0 || fstat(fd, &st) != 0)
        return fd < 0 ? fd : -EIO;
    if (S_ISLNK(st.st_mode))
        return follow(parts, fd);
    if (!last) {
        step(parts, steal_fd(&fd));
        return 0;
    }
    *ret_fd = sys_open(parts->at, name, wanted, 0); /* what became a link meanwhile is not opened */
    return *ret_fd < 0 ? *ret_fd : 1;
}

static int open_by_parts(int root, const char *path, int flags)
{
    struct parts parts = {.root = root, .at = root};
    size_t length = strlen(path);
    int fd = -1, done = length < sizeof(parts.rest) ? 0 : -ENAMETOOLONG;
    memcpy(parts.rest, path, done == 0 ? length : 0); /* zeroed behind it */
    while (done == 0)
        done = walk_part(&parts, flags, &fd);
    step(&parts, root);
    return done < 0 ? done : fd;
}

int core_copy_place_open(const struct core_copy_place *place, const char *path, int flags)
{
    if (place->root < 0)
        return sys_open(AT_FDCWD, path, flags, 0);
    int fd = sys_open_beneath(place->root, path, flags, 0, RESOLVE_IN_ROOT);
    return fd == -ENOSYS || fd == -EPERM ? open_by_parts(place->root, path, flags) : fd;
}

/* ---- In the box ---- */

static void tell_left(void *context, const char *text)
{
    (void)core_copy_text(context, CORE_COPY_LEFT, text); /* the next write fails, too */
}

static int serve(struct core_copy_io *io, int root, char **words)
{
    const struct core_copy_place place = {.root = root};
    struct kern_error err = {0};
    int failed = -EINVAL;
    if (strcmp(words[0], "get") == 0 && words[1] != NULL)
        failed = core_copy_send(&place, words[1], io, tell_left, io, &err);
    else if (strcmp(words[0], "put") == 0 && words[1] != NULL && words[2] != NULL) {
        failed = core_copy_receive(&place, words[1], words[2], io, tell_left, io, &err);
        if (failed == 0)
            failed = core_copy_record(io, &(struct core_copy_record){.kind = CORE_COPY_DONE}, NULL);
    }
    if (err.category != KERN_ERROR_NONE)
        (void)core_copy_text(io, CORE_COPY_ERROR, err.message); /* nobody may be there to read it */
    return failed == 0 ? core_copy_flush(io) : failed;
}

int core_copy_serve(int root, char **words)
{
    struct core_copy_io io;
    int failed = core_copy_open(&io, STDIN_FILENO);
    if (failed == 0)
        failed = serve(&io, root, words);
    return failed == 0 ? 0 : 1;
}
