/* The walk of `kern cp`: a file or a tree becomes a stream; see copy.h. Somebody may change the tree meanwhile: each name is looked at
 * by descriptor, nothing but regular files is read, and of these no more than they had when they were opened. */
#include "copy.h"

#include "cleanup.h"
#include "sys.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct level {
    DIR *dir;
    size_t path; /* length of the path before this level */
};

struct walk {
    struct core_copy_io *io;
    core_copy_left_fn left;
    void *context;
    struct kern_error *err;
    struct level level[CORE_COPY_DEEPEST];
    size_t depth;
    dev_t own_device; /* what the other side makes */
    ino_t own_inode;
    char path[2 * PATH_MAX]; /* for messages */
    char text[CORE_COPY_CHUNK];
};

static const char *kind_of(mode_t mode)
{
    return S_ISCHR(mode) || S_ISBLK(mode) ? "a device"
           : S_ISFIFO(mode)               ? "a pipe"
           : S_ISSOCK(mode)               ? "a socket"
                                          : "neither a file nor a directory";
}

static void leave_out(struct walk *walk, const char *why)
{
    char text[1024];
    (void)snprintf(text, sizeof(text), "\"%.700s\" was left out: %s", walk->path,
                   why); /* a long path is cut */
    walk->left(walk->context, text);
}

static int cut_off(struct walk *walk, int failed)
{
    return kern_fail(walk->err, failed == -EPIPE ? 0 : -failed, "the copy of \"%s\" was cut off", walk->path);
}

/* ---- Files ---- */

static int send_data(struct walk *walk, int fd, off_t at, off_t end)
{
    while (at < end) {
        size_t part = end - at < (off_t)sizeof(walk->text) ? (size_t)(end - at) : sizeof(walk->text);
        ssize_t got = pread(fd, walk->text, part, at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return kern_refuse(walk->err, errno, "cannot read \"%s\"", walk->path);
        if (got == 0)
            return 0; /* it has become shorter */
        const struct core_copy_record record = {.kind = CORE_COPY_DATA, .size = (uint64_t)got};
        int failed = core_copy_record(walk->io, &record, NULL);
        failed = failed == 0 ? core_copy_write(walk->io, walk->text, (size_t)got) : failed;
        if (failed != 0)
            return cut_off(walk, failed);
        at += got;
    }
    return 0;
}

/* Holes are sent as such: a file of a few bytes may claim to be as large as a disk. */
static int send_content(struct walk *walk, int fd, off_t size)
{
    off_t at = 0;
    while (at < size) {
        off_t data = lseek(fd, at, SEEK_DATA);
        if (data < 0)
            data = errno == ENXIO ? size : at; /* a hole to the end, or a file system that knows none */
        data = data < size ? data : size;
        off_t end = data < size ? lseek(fd, data, SEEK_HOLE) : size;
        end = end > data && end < size ? end : size;
        const struct core_copy_record hole = {.kind = CORE_COPY_HOLE, .size = (uint64_t)(data - at)};
        int failed = data > at ? core_copy_record(walk->io, &hole, NULL) : 0;
        if (failed != 0)
            return cut_off(walk, failed);
        failed = send_data(walk, fd, data, end);
        if (failed != 0)
            return failed;
        at = end;
    }
    return 0;
}

static int send_file(struct walk *walk, int fd, const struct stat *st, const char *name)
{
    const struct core_copy_record record = {.kind = CORE_COPY_FILE,
                                            .mode = st->st_mode,
                                            .size = (uint64_t)st->st_size,
                                            .seconds = st->st_mtim.tv_sec,
                                            .nanoseconds = (uint32_t)st->st_mtim.tv_nsec};
    int failed = core_copy_record(walk->io, &record, name);
    if (failed != 0)
        return cut_off(walk, failed);
    failed = send_content(walk, fd, st->st_size);
    if (failed != 0)
        return failed;
    failed = core_copy_record(walk->io, &(struct core_copy_record){.kind = CORE_COPY_CLOSE}, NULL);
    return failed == 0 ? 0 : cut_off(walk, failed);
}

static int send_link(struct walk *walk, int parent, const char *name)
{
    char target[PATH_MAX];
    ssize_t length = readlinkat(parent, name, target, sizeof(target));
    if (length <= 0 || length == (ssize_t)sizeof(target)) {
        leave_out(walk, length < 0 ? strerrordesc_np(errno) : "the link is too long");
        return 0;
    }
    const struct core_copy_record record = {.kind = CORE_COPY_LINK, .size = (uint64_t)length};
    int failed = core_copy_record(walk->io, &record, name);
    failed = failed == 0 ? core_copy_write(walk->io, target, (size_t)length) : failed;
    return failed == 0 ? 0 : cut_off(walk, failed);
}

/* ---- Directories ---- */

/* Takes the descriptor. */
static int begin_folder(struct walk *walk, int taken, const struct stat *st, const char *name, size_t before)
{
    auto_fd fd = taken;
    const struct core_copy_record record = {.kind = CORE_COPY_FOLDER,
                                            .mode = st->st_mode,
                                            .seconds = st->st_mtim.tv_sec,
                                            .nanoseconds = (uint32_t)st->st_mtim.tv_nsec};
    bool enters = !core_copy_is_made_up(fd);
    if (enters && walk->depth == CORE_COPY_DEEPEST) {
        leave_out(walk, "its path has too many parts");
        return 0;
    }
    int failed = core_copy_record(walk->io, &record, name);
    if (failed == 0 && !enters) /* a mount point of /proc or /sys stays empty */
        failed = core_copy_record(walk->io, &(struct core_copy_record){.kind = CORE_COPY_LEAVE}, NULL);
    if (failed != 0)
        return cut_off(walk, failed);
    if (!enters)
        return 0;
    DIR *dir = fdopendir(fd);
    if (dir == NULL)
        return kern_refuse(walk->err, errno, "cannot read directory \"%s\"", walk->path);
    (void)steal_fd(&fd); /* the stream has it */
    walk->level[walk->depth++] = (struct level){.dir = dir, .path = before};
    return 0;
}

static int end_folder(struct walk *walk)
{
    struct level *level = &walk->level[--walk->depth];
    kern_close_dir(&level->dir);
    walk->path[level->path] = '\0';
    int failed = core_copy_record(walk->io, &(struct core_copy_record){.kind = CORE_COPY_LEAVE}, NULL);
    return failed == 0 ? 0 : cut_off(walk, failed);
}

static int send_entry(struct walk *walk, int parent, const char *name, size_t before)
{
    struct stat st;
    if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return leave_out(walk, strerrordesc_np(errno)), 0;
    if (S_ISLNK(st.st_mode))
        return send_link(walk, parent, name);
    if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
        return leave_out(walk, kind_of(st.st_mode)), 0;
    int kind = S_ISDIR(st.st_mode) ? O_DIRECTORY : 0;
    auto_fd fd = openat(parent, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | kind);
    if (fd < 0 || fstat(fd, &st) != 0)
        return leave_out(walk, strerrordesc_np(errno)), 0;
    if (S_ISDIR(st.st_mode) && st.st_dev == walk->own_device && st.st_ino == walk->own_inode)
        return leave_out(walk, "it is what is being made"), 0;
    if (S_ISDIR(st.st_mode))
        return begin_folder(walk, steal_fd(&fd), &st, name, before);
    if (!S_ISREG(st.st_mode) || core_copy_is_made_up(fd))
        return leave_out(walk, kind_of(st.st_mode)), 0;
    return send_file(walk, fd, &st, name);
}

static int send_next(struct walk *walk)
{
    const struct level *level = &walk->level[walk->depth - 1];
    errno = 0;
    const struct dirent *entry = readdir(level->dir);
    if (entry == NULL && errno != 0)
        leave_out(walk, strerrordesc_np(errno));
    if (entry == NULL)
        return end_folder(walk);
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
        return 0;
    size_t before = strlen(walk->path), depth = walk->depth;
    if (before + strlen(entry->d_name) + 2 > sizeof(walk->path))
        return leave_out(walk, "a path in it is too long"), 0;
    (void)snprintf(walk->path + before, sizeof(walk->path) - before, "/%s", entry->d_name); /* fits */
    int failed = send_entry(walk, dirfd(level->dir), entry->d_name, before);
    if (failed == 0 && walk->depth == depth)
        walk->path[before] = '\0';
    return failed;
}

/* Who receives says what it made before anything in the tree is looked at: it may stand in the tree. */
static int await_place(struct walk *walk)
{
    struct core_copy_record record = {0};
    int failed = core_copy_flush(walk->io);
    if (failed == 0)
        failed = core_copy_read(walk->io, &record, sizeof(record));
    if (failed == 0 && record.kind == CORE_COPY_ERROR) {
        char text[1024];
        failed = core_copy_read_text(walk->io, &record, text, sizeof(text));
        return kern_refuse(walk->err, 0, "%s", failed == 0 ? text : "the copy was cut off");
    }
    if (failed == 0 && record.kind != CORE_COPY_PLACE)
        failed = -EPROTO;
    walk->own_device = record.device;
    walk->own_inode = record.size;
    return failed == 0 ? 0 : cut_off(walk, failed);
}

/* ---- What was named ---- */

static int open_top(const struct core_copy_place *place, const char *path, struct stat *ret_st, int *ret_fd,
                    struct kern_error *err)
{
    struct stat st;
    auto_fd look = core_copy_place_open(place, path, O_PATH);
    if (look < 0)
        return kern_refuse(err, -look, "cannot copy \"%s\"", path);
    if (fstat(look, &st) != 0)
        return kern_refuse(err, errno, "cannot copy \"%s\"", path);
    if (core_copy_is_made_up(look))
        return kern_refuse(err, 0, "cannot copy \"%s\": the kernel makes it up, it is kept nowhere", path);
    if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
        return kern_refuse(err, 0, "cannot copy \"%s\": it is %s", path, kind_of(st.st_mode));
    int kind = S_ISDIR(st.st_mode) ? O_DIRECTORY : 0;
    auto_fd fd = core_copy_place_open(place, path, O_RDONLY | O_NONBLOCK | O_NOCTTY | kind);
    if (fd < 0)
        return kern_refuse(err, -fd, "cannot copy \"%s\"", path);
    if (fstat(fd, ret_st) != 0 || (ret_st->st_mode & S_IFMT) != (st.st_mode & S_IFMT) ||
        core_copy_is_made_up(fd))
        return kern_refuse(err, 0, "cannot copy \"%s\": it was replaced meanwhile", path);
    *ret_fd = steal_fd(&fd);
    return 0;
}

static int send_top(struct walk *walk, const struct core_copy_place *place)
{
    struct stat st;
    auto_fd fd = -1;
    int failed = open_top(place, walk->path, &st, &fd, walk->err);
    if (failed != 0)
        return failed;
    if (S_ISREG(st.st_mode)) {
        failed = send_file(walk, fd, &st, NULL);
    } else {
        failed = begin_folder(walk, steal_fd(&fd), &st, NULL, strlen(walk->path));
        if (failed == 0)
            failed = await_place(walk);
    }
    while (failed == 0 && walk->depth > 0)
        failed = send_next(walk);
    if (failed != 0)
        return failed;
    failed = core_copy_record(walk->io, &(struct core_copy_record){.kind = CORE_COPY_DONE}, NULL);
    failed = failed == 0 ? core_copy_flush(walk->io) : failed;
    return failed == 0 ? 0 : cut_off(walk, failed);
}

int core_copy_send(const struct core_copy_place *place, const char *path, struct core_copy_io *io,
                   core_copy_left_fn left, void *context, struct kern_error *err)
{
    auto_free struct walk *walk = calloc(1, sizeof(*walk));
    if (walk == NULL || strlen(path) >= PATH_MAX)
        return kern_refuse(err, walk == NULL ? ENOMEM : ENAMETOOLONG, "cannot copy \"%.80s\"", path);
    walk->io = io;
    walk->left = left;
    walk->context = context;
    walk->err = err;
    (void)strcpy(walk->path, path); /* there is room for it */
    int failed = send_top(walk, place);
    while (walk->depth > 0)
        kern_close_dir(&walk->level[--walk->depth].dir);
    return failed;
}
