/* Making what `kern cp` sends; see copy.h. What comes may be anything, and somebody may change the place meanwhile: every step is
 * made by descriptor, below what was named no link is followed, and no mode gives more than reading, writing and executing. */
#include "copy.h"

#include "cleanup.h"
#include "sys.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct level {
    int fd;
    size_t path; /* length of the path before this level */
    bool made;   /* by us: its mode and time are set when it is left */
    struct core_copy_record record;
};

struct target {
    int parent; /* where the first thing is made; or, with `merge`, the directory itself */
    int file;   /* one that is there already, opened to be written; else -1 */
    bool merge;
    char name[NAME_MAX + 1];
};

struct making {
    struct core_copy_io *io;
    core_copy_left_fn left;
    void *context;
    struct kern_error *err;
    struct level level[CORE_COPY_DEEPEST];
    size_t depth;
    char path[2 * PATH_MAX]; /* for messages */
    char text[CORE_COPY_CHUNK];
};

static int cut_off(struct making *making, int failed)
{
    return kern_fail(making->err, failed == -EPIPE ? 0 : -failed, "the copy to \"%s\" was cut off",
                     making->path);
}

/* ---- Where it goes ---- */

static bool ends_with_slash(const char *path)
{
    size_t length = strlen(path);
    return length > 0 && path[length - 1] == '/';
}

/* On the host the last name is not followed: a box may share the directory, and put a link there. */
static int look(const struct core_copy_place *place, const char *path)
{
    return core_copy_place_open(place, path, O_PATH | (place->root < 0 ? O_NOFOLLOW : 0));
}

static int refuse_target(const char *path, const char *why, struct kern_error *err)
{
    return kern_refuse(err, 0, "cannot copy to \"%s\": %s", path, why);
}

static int take_existing(const struct core_copy_place *place, const char *path, bool folder,
                         struct target *target, struct kern_error *err)
{
    struct stat st;
    if (folder)
        return refuse_target(path, "it is not a directory", err);
    auto_fd fd = core_copy_place_open(place, path,
                                      O_WRONLY | O_NONBLOCK | O_NOCTTY | (place->root < 0 ? O_NOFOLLOW : 0));
    if (fd < 0)
        return kern_refuse(err, -fd, "cannot copy to \"%s\"", path);
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || core_copy_is_made_up(fd))
        return refuse_target(path, "it is not a file that is kept", err);
    if (ftruncate(fd, 0) != 0)
        return kern_refuse(err, errno, "cannot copy to \"%s\"", path);
    target->file = steal_fd(&fd);
    return 0;
}

static int take_found(const struct core_copy_place *place, const char *path, int found, bool folder,
                      struct target *target, struct kern_error *err)
{
    struct stat st;
    if (fstat(found, &st) != 0)
        return kern_refuse(err, errno, "cannot copy to \"%s\"", path);
    if (core_copy_is_made_up(found))
        return refuse_target(path, "the kernel makes it up, it keeps nothing", err);
    if (S_ISLNK(st.st_mode)) {
        refuse_target(path, "it is a symbolic link", err);
        kern_hint(err, "where it leads to a directory, '%s/' means that", path);
        return -ELOOP;
    }
    if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
        return refuse_target(path, "it is neither a file nor a directory", err);
    if (!S_ISDIR(st.st_mode))
        return take_existing(place, path, folder, target, err);
    target->merge = target->name[0] == '\0';
    target->parent = fcntl(found, F_DUPFD_CLOEXEC, 3);
    return target->parent >= 0 ? 0 : kern_refuse(err, errno, "cannot copy to \"%s\"", path);
}

static int take_new(const struct core_copy_place *place, const char *path, bool folder, struct target *target,
                    struct kern_error *err)
{
    char parent[PATH_MAX];
    if (ends_with_slash(path) && !folder)
        return refuse_target(path, "there is no such directory", err);
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/')
        length--;
    (void)snprintf(parent, sizeof(parent), "%.*s", (int)length, path); /* callers bound it */
    char *slash = strrchr(parent, '/');
    const char *name = slash != NULL ? slash + 1 : parent;
    if (name[0] == '\0' || strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strlen(name) > NAME_MAX)
        return refuse_target(path, "that cannot be the name of a copy", err);
    (void)strcpy(target->name, name); /* just measured */
    if (slash != NULL)
        slash[slash == parent] = '\0';
    const char *folder_path = slash != NULL ? parent : ".";
    int fd = core_copy_place_open(place, folder_path, O_PATH | O_DIRECTORY);
    if (fd < 0) {
        kern_refuse(err, -fd, "cannot copy to \"%s\": \"%s\" cannot be opened", path, folder_path);
        return fd;
    }
    if (core_copy_is_made_up(fd)) {
        (void)sys_close(fd); /* only a place */
        return refuse_target(path, "the kernel makes it up, it keeps nothing", err);
    }
    target->parent = fd;
    return 0;
}

static int find_target(const struct core_copy_place *place, const char *path, const char *base, bool folder,
                       struct target *ret_target, struct kern_error *err)
{
    *ret_target = (struct target){.parent = -1, .file = -1};
    (void)snprintf(ret_target->name, sizeof(ret_target->name), "%s", base); /* checked by the caller */
    auto_fd found = look(place, path);
    if (found == -ENOENT)
        return take_new(place, path, folder, ret_target, err);
    if (found < 0)
        return kern_refuse(err, -found, "cannot copy to \"%s\"", path);
    return take_found(place, path, found, folder, ret_target, err);
}

/* ---- Making ---- */

static int fail_here(struct making *making, int code)
{
    return kern_fail(making->err, code, "cannot write \"%s\"", making->path);
}

/* A file of that name is written anew, a link of it is replaced: it could lead anywhere. */
static int open_file(struct making *making, int parent, const char *name, bool *ret_made, int *ret_fd)
{
    const int flags = O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
    struct stat st;
    for (int attempt = 0; attempt < 8; attempt++) {
        auto_fd fd = openat(parent, name, flags | O_CREAT | O_EXCL, 0600);
        *ret_made = fd >= 0;
        if (fd >= 0)
            return *ret_fd = steal_fd(&fd), 0;
        if (errno != EEXIST)
            return fail_here(making, errno);
        if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        if (S_ISLNK(st.st_mode) && unlinkat(parent, name, 0) == 0)
            continue;
        if (!S_ISREG(st.st_mode))
            return fail_here(making, S_ISDIR(st.st_mode) ? EISDIR : EEXIST);
        fd = openat(parent, name, flags);
        if (fd < 0)
            return fail_here(making, errno);
        if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || core_copy_is_made_up(fd) || ftruncate(fd, 0) != 0)
            return fail_here(making, EEXIST);
        return *ret_fd = steal_fd(&fd), 0;
    }
    return fail_here(making, EAGAIN);
}

static int write_data(struct making *making, int fd, uint64_t size, int64_t at)
{
    while (size > 0) {
        size_t part = size < sizeof(making->text) ? size : sizeof(making->text);
        int failed = core_copy_read(making->io, making->text, part);
        if (failed != 0)
            return cut_off(making, failed);
        for (size_t done = 0; done < part;) {
            ssize_t put = pwrite(fd, making->text + done, part - done, at);
            if (put < 0 && errno != EINTR)
                return fail_here(making, errno);
            done += put > 0 ? (size_t)put : 0;
            at += put > 0 ? put : 0;
        }
        size -= part;
    }
    return 0;
}

static int fill(struct making *making, int fd)
{
    int64_t at = 0;
    for (;;) {
        struct core_copy_record record;
        int failed = core_copy_read(making->io, &record, sizeof(record));
        if (failed != 0)
            return cut_off(making, failed);
        if (record.kind == CORE_COPY_CLOSE)
            return ftruncate(fd, at) == 0 ? 0 : fail_here(making, errno);
        if (record.kind == CORE_COPY_ERROR) {
            char text[1024];
            failed = core_copy_read_text(making->io, &record, text, sizeof(text));
            return kern_fail(making->err, 0, "%s", failed == 0 ? text : "the copy was cut off");
        }
        if ((record.kind != CORE_COPY_DATA && record.kind != CORE_COPY_HOLE) || record.name != 0 ||
            record.size > (uint64_t)(INT64_MAX - at))
            return cut_off(making, -EPROTO);
        if (record.kind == CORE_COPY_DATA)
            failed = write_data(making, fd, record.size, at);
        if (failed != 0)
            return failed;
        at += (int64_t)record.size;
    }
}

static void set_time(int fd, const struct core_copy_record *record)
{
    const struct timespec times[2] = {{.tv_nsec = UTIME_NOW},
                                      {.tv_sec = record->seconds, .tv_nsec = record->nanoseconds}};
    (void)futimens(fd, times); /* a copy with another time is a copy */
}

/* No set-user-id and the like: what is harmless there could be a way to somebody else's rights here. */
static int make_file(struct making *making, int parent, const char *name, int there,
                     const struct core_copy_record *record)
{
    auto_fd fd = there;
    bool made = false;
    int failed = fd < 0 ? open_file(making, parent, name, &made, &fd) : 0;
    if (failed == 0)
        failed = fill(making, fd);
    if (failed == 0 && made && fchmod(fd, record->mode & 0777) != 0)
        failed = fail_here(making, errno);
    if (failed == 0)
        set_time(fd, record);
    return failed;
}

static int make_link(struct making *making, int parent, const char *name,
                     const struct core_copy_record *record)
{
    struct stat st;
    if (record->size == 0 || record->size >= PATH_MAX)
        return cut_off(making, -EPROTO);
    int failed = core_copy_read(making->io, making->text, record->size);
    if (failed != 0)
        return cut_off(making, failed);
    making->text[record->size] = '\0';
    for (int attempt = 0; attempt < 8; attempt++) {
        if (symlinkat(making->text, parent, name) == 0)
            return 0;
        if (errno != EEXIST || fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) != 0 || S_ISDIR(st.st_mode) ||
            unlinkat(parent, name, 0) != 0)
            return fail_here(making, errno);
    }
    return fail_here(making, EAGAIN);
}

/* `name` NULL: `parent` is the directory itself. */
static int enter_folder(struct making *making, int parent, const char *name,
                        const struct core_copy_record *record, size_t before)
{
    if (making->depth == CORE_COPY_DEEPEST)
        return fail_here(making, ELOOP);
    bool made = name != NULL && mkdirat(parent, name, 0700) == 0;
    if (name != NULL && !made && errno != EEXIST)
        return fail_here(making, errno);
    int fd = openat(parent, name != NULL ? name : ".", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return fail_here(making, errno);
    making->level[making->depth++] =
        (struct level){.fd = fd, .path = before, .made = made, .record = *record};
    return 0;
}

static int leave_folder(struct making *making)
{
    struct level *level = &making->level[--making->depth];
    int failed = 0;
    if (level->made && fchmod(level->fd, level->record.mode & 0777) != 0)
        failed = fail_here(making, errno);
    if (level->made)
        set_time(level->fd, &level->record);
    kern_close_fd(&level->fd);
    making->path[level->path] = '\0';
    return failed;
}

static int read_name(struct making *making, const struct core_copy_record *record, char *ret_name)
{
    if (record->name == 0 || record->name > NAME_MAX)
        return cut_off(making, -EPROTO);
    int failed = core_copy_read(making->io, ret_name, record->name);
    if (failed != 0)
        return cut_off(making, failed);
    ret_name[record->name] = '\0';
    bool bad = strlen(ret_name) != record->name || strchr(ret_name, '/') != NULL ||
               strcmp(ret_name, ".") == 0 || strcmp(ret_name, "..") == 0;
    return bad ? cut_off(making, -EPROTO) : 0;
}

static int make_entry(struct making *making, const struct core_copy_record *record)
{
    char name[NAME_MAX + 1];
    int failed = read_name(making, record, name);
    if (failed != 0)
        return failed;
    size_t before = strlen(making->path);
    if (before + record->name + 2 > sizeof(making->path))
        return cut_off(making, -ENAMETOOLONG);
    (void)snprintf(making->path + before, sizeof(making->path) - before, "/%s", name); /* fits */
    int parent = making->level[making->depth - 1].fd;
    if (record->kind == CORE_COPY_FOLDER)
        return enter_folder(making, parent, name, record, before); /* its LEAVE shortens the path */
    failed = record->kind == CORE_COPY_FILE   ? make_file(making, parent, name, -1, record)
             : record->kind == CORE_COPY_LINK ? make_link(making, parent, name, record)
                                              : cut_off(making, -EPROTO);
    if (failed == 0)
        making->path[before] = '\0';
    return failed;
}

/* What may come between two entries. Returns 1 at the end of all. */
static int make_next(struct making *making)
{
    struct core_copy_record record;
    char text[1024];
    int failed = core_copy_read(making->io, &record, sizeof(record));
    if (failed != 0)
        return cut_off(making, failed);
    if (record.kind == CORE_COPY_LEFT || record.kind == CORE_COPY_ERROR) {
        failed = core_copy_read_text(making->io, &record, text, sizeof(text));
        if (failed != 0)
            return cut_off(making, failed);
        if (record.kind == CORE_COPY_ERROR)
            return kern_fail(making->err, 0, "%s", text);
        making->left(making->context, text);
        return 0;
    }
    if (record.kind == CORE_COPY_DONE && making->depth == 0)
        return 1;
    if (making->depth == 0)
        return cut_off(making, -EPROTO);
    return record.kind == CORE_COPY_LEAVE ? leave_folder(making) : make_entry(making, &record);
}

static int tell_place(struct making *making)
{
    struct stat st;
    if (fstat(making->level[0].fd, &st) != 0)
        return fail_here(making, errno);
    const struct core_copy_record record = {.kind = CORE_COPY_PLACE, .size = st.st_ino, .device = st.st_dev};
    int failed = core_copy_record(making->io, &record, NULL);
    failed = failed == 0 ? core_copy_flush(making->io) : failed;
    return failed == 0 ? 0 : cut_off(making, failed);
}

static int make_first(struct making *making, const struct core_copy_place *place, const char *base)
{
    struct core_copy_record record;
    struct target target;
    char text[1024];
    int failed = core_copy_read(making->io, &record, sizeof(record));
    if (failed != 0)
        return cut_off(making, failed);
    if (record.kind == CORE_COPY_ERROR) {
        failed = core_copy_read_text(making->io, &record, text, sizeof(text));
        return kern_fail(making->err, 0, "%s", failed == 0 ? text : "the copy was cut off");
    }
    bool folder = record.kind == CORE_COPY_FOLDER;
    if ((!folder && record.kind != CORE_COPY_FILE) || record.name != 0)
        return cut_off(making, -EPROTO);
    failed = find_target(place, making->path, base, folder, &target, making->err);
    if (failed != 0)
        return failed;
    if (target.merge && !folder)
        failed = fail_here(making, EISDIR);
    else if (!folder)
        failed = make_file(making, target.parent, target.name, target.file, &record);
    else
        failed = enter_folder(making, target.parent, target.merge ? NULL : target.name, &record,
                              strlen(making->path));
    kern_close_fd(&target.parent);
    return failed == 0 && folder ? tell_place(making) : failed;
}

int core_copy_receive(const struct core_copy_place *place, const char *path, const char *base,
                      struct core_copy_io *io, core_copy_left_fn left, void *context, struct kern_error *err)
{
    auto_free struct making *making = calloc(1, sizeof(*making));
    if (making == NULL || strlen(path) >= PATH_MAX || strlen(base) > NAME_MAX)
        return kern_refuse(err, making == NULL ? ENOMEM : ENAMETOOLONG, "cannot copy to \"%.80s\"", path);
    making->io = io;
    making->left = left;
    making->context = context;
    making->err = err;
    (void)strcpy(making->path, path); /* there is room for it */
    int failed = make_first(making, place, base);
    while (failed == 0)
        failed = make_next(making);
    while (making->depth > 0)
        kern_close_fd(&making->level[--making->depth].fd);
    return failed == 1 ? 0 : failed;
}
