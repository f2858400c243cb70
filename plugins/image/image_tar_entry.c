/* Entries of a layer as files; see image_tar_entry.h. Runs in the process that unpacks. The same archive may name a path twice,
 * and mean to trick whoever follows the first: what is there is replaced, never followed. */
#include "image_tar_entry.h"

#include "image_parents.h"
#include "image_vet.h"

#include "kern/cleanup.h"
#include "kern/sys.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#define BENEATH    (RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS)
#define TIMES_MOST ((size_t)32 << 20) /* bytes: an archive may name one deep directory a million times */

static int fail_entry(struct image_tar *t, int code)
{
    return kern_refuse(t->err, code, "cannot unpack \"%.200s\"", t->name);
}

static int refuse_entry(struct image_tar *t, const char *why)
{
    return kern_refuse(t->err, 0, "cannot unpack \"%.200s\": %s", t->name, why);
}

static int is_set(const struct kern_error *err)
{
    return err->category != KERN_ERROR_NONE;
}

static int is_whiteout(int parent, const char *base)
{
    struct stat st;
    return fstatat(parent, base, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISCHR(st.st_mode) && st.st_rdev == 0;
}

static int mark_opaque(int fd)
{
    return fsetxattr(fd, "user.overlay.opaque", "y", 1, 0) == 0 ? 0 : -errno;
}

/* ---- Directories ---- */

/* One missing part of a path, of which the archive may say nothing more: then lower layers know what it is like. A whiteout in its
 * place hid what they have there; the directory must go on hiding it. */
static int make_part(int parent, const char *part, int *ret_made)
{
    *ret_made = mkdirat(parent, part, 0755) == 0;
    if (*ret_made)
        return 0;
    if (errno != EEXIST)
        return -errno;
    if (!is_whiteout(parent, part))
        return 0; /* openat2 tells what it is */
    if (unlinkat(parent, part, 0) != 0 || mkdirat(parent, part, 0755) != 0)
        return -errno;
    auto_fd fd = openat(parent, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : mark_opaque(fd);
}

static int make_parts(struct image_tar *t, const char *path, int *ret_fd)
{
    auto_fd at = fcntl(t->root, F_DUPFD_CLOEXEC, 3);
    if (at < 0)
        return -errno;
    while (*path != '\0') {
        char part[NAME_MAX + 1];
        size_t length = strcspn(path, "/");
        memcpy(part, path, length); /* vetted: 255 at most */
        part[length] = '\0';
        int made = 0;
        int failed = make_part(at, part, &made);
        if (failed != 0)
            return failed;
        int next = sys_open_beneath(at, part, O_RDONLY | O_DIRECTORY, 0, BENEATH);
        if (next < 0)
            return next;
        image_parents_mark(at, IMAGE_PARENT_WAY);
        if (made)
            image_parents_mark(next, IMAGE_PARENT_MADE);
        kern_close_fd(&at);
        at = next;
        path += length + (path[length] == '/');
    }
    *ret_fd = steal_fd(&at);
    return 0;
}

int image_tar_parent(struct image_tar *t, const char *path)
{
    if (t->parent >= 0 && strcmp(path, t->parent_path) == 0)
        return 0;
    kern_close_fd(&t->parent);
    int fd = path[0] != '\0' ? sys_open_beneath(t->root, path, O_RDONLY | O_DIRECTORY, 0, BENEATH)
                             : fcntl(t->root, F_DUPFD_CLOEXEC, 3);
    int failed = fd < 0 ? fd : 0;
    if (fd == -ENOENT || fd == -ENOTDIR)
        failed = make_parts(t, path, &fd);
    if (failed == -ELOOP || failed == -ENOTDIR)
        return refuse_entry(t, "its path goes through a symlink or a file of the same layer");
    if (failed != 0)
        return fail_entry(t, -failed);
    t->parent = fd;
    memcpy(t->parent_path, path, strlen(path) + 1); /* vetted: shorter than PATH_MAX */
    return 0;
}

/* ---- What an entry says about its file ---- */

static struct timespec time_of(struct archive_entry *entry)
{
    struct timespec at = {.tv_nsec = UTIME_OMIT};
    if (archive_entry_mtime_is_set(entry))
        at = (struct timespec){.tv_sec = archive_entry_mtime(entry),
                               .tv_nsec = archive_entry_mtime_nsec(entry)};
    return at;
}

static uint32_t fold(int64_t id, uint32_t count)
{
    return id >= 0 && id < (int64_t)count ? (uint32_t)id : 0;
}

static int give_away(struct image_tar *t, struct archive_entry *entry, int fd, const char *path, int flags)
{
    uint32_t uid = fold(archive_entry_uid(entry), t->uids), gid = fold(archive_entry_gid(entry), t->gids);
    if (uid == 0 && gid == 0)
        return 0; /* as it was made */
    return fchownat(fd, path, uid, gid, flags) == 0 ? 0 : -errno;
}

/* ext4 says ENOSPC also of attributes that have no room beside their file: 4 KiB, on a disk of any size. */
static int is_full(int fd)
{
    struct statvfs fs;
    return fstatvfs(fd, &fs) != 0 || fs.f_bavail == 0;
}

/* Attributes that the file system does not take are of no use in a box either. */
static int set_xattrs(struct archive_entry *entry, int fd)
{
    const char *name = NULL;
    const void *value = NULL;
    size_t size = 0;
    if (archive_entry_xattr_reset(entry) == 0)
        return 0;
    while (archive_entry_xattr_next(entry, &name, &value, &size) == ARCHIVE_OK) {
        if (name == NULL || !image_vet_xattr(name) || fsetxattr(fd, name, value, size, 0) == 0)
            continue;
        int code = errno;
        if (code == EDQUOT || code == EIO || (code == ENOSPC && is_full(fd)))
            return -code;
    }
    return 0;
}

/* Owner before mode, which a change of owner takes bits from; time last. */
static int set_all(struct image_tar *t, struct archive_entry *entry, int fd)
{
    int failed = give_away(t, entry, fd, "", AT_EMPTY_PATH);
    if (failed == 0 && fchmod(fd, archive_entry_perm(entry) & 07777) != 0)
        failed = -errno;
    return failed == 0 ? set_xattrs(entry, fd) : failed;
}

static int set_time(int parent, const char *base, struct timespec at)
{
    const struct timespec times[2] = {at, at};
    return at.tv_nsec == UTIME_OMIT || utimensat(parent, base, times, AT_SYMLINK_NOFOLLOW) == 0 ? 0 : -errno;
}

/* ---- Kinds of entries ---- */

static int write_block(int fd, const char *bytes, size_t length, int64_t at)
{
    while (length > 0) {
        ssize_t put = pwrite(fd, bytes, length, at);
        if (put < 0 && errno != EINTR)
            return -errno;
        if (put > 0) {
            bytes += put;
            at += put;
            length -= (size_t)put;
        }
    }
    return 0;
}

static int write_data(struct image_tar *t, struct archive_entry *entry, int fd)
{
    const void *bytes = NULL;
    size_t length = 0;
    int64_t at = 0, size = archive_entry_size(entry), end = 0;
    for (;;) {
        int result = archive_read_data_block(t->tar, &bytes, &length, &at);
        if (result == ARCHIVE_EOF)
            break;
        if (result != ARCHIVE_OK && result != ARCHIVE_WARN)
            return kern_refuse(t->err, 0, "cannot unpack \"%.200s\": the archive is damaged (%s)", t->name,
                               archive_error_string(t->tar));
        if (at < 0 || at > size || (int64_t)length > size - at)
            return refuse_entry(t, "it has more bytes than it says");
        int failed = write_block(fd, bytes, length, at);
        if (failed != 0)
            return fail_entry(t, -failed);
        end = at + (int64_t)length;
    }
    if (end < size && ftruncate(fd, size) != 0) /* it ends in a hole */
        return fail_entry(t, errno);
    return 0;
}

static int make_file(struct image_tar *t, struct archive_entry *entry, const char *base)
{
    auto_fd fd = openat(t->parent, base, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    int failed = archive_entry_size(entry) > 0 ? write_data(t, entry, fd) : 0;
    if (failed != 0)
        return failed;
    failed = set_all(t, entry, fd);
    const struct timespec at = time_of(entry), times[2] = {at, at};
    if (failed == 0 && at.tv_nsec != UTIME_OMIT && futimens(fd, times) != 0)
        failed = -errno;
    return failed == 0 ? 0 : fail_entry(t, -failed);
}

static void forget_times(struct image_tar *t)
{
    for (size_t i = 0; i < t->time_count; i++)
        free(t->time[i].path);
    t->time_count = t->time_bytes = 0;
}

static int remember_time(struct image_tar *t, const char *base, struct timespec at)
{
    if (t->time_bytes > TIMES_MOST) {
        image_tar_times(t); /* one in which more is made later loses its time, no more */
        forget_times(t);
    }
    if (t->time_count == t->time_room) {
        size_t room = t->time_room > 0 ? t->time_room * 2 : 256;
        struct image_tar_time *grown = reallocarray(t->time, room, sizeof(*grown));
        if (grown == NULL)
            return -ENOMEM;
        t->time = grown;
        t->time_room = room;
    }
    struct image_tar_time *slot = &t->time[t->time_count];
    if (asprintf(&slot->path, "%s%s%s", t->parent_path, t->parent_path[0] != '\0' ? "/" : "", base) < 0)
        return -ENOMEM;
    slot->at = at;
    t->time_count++;
    t->time_bytes += strlen(slot->path) + sizeof(*slot) + 32; /* malloc takes some, too */
    return 0;
}

static int make_directory(struct image_tar *t, struct archive_entry *entry, const char *base)
{
    if (mkdirat(t->parent, base, 0700) != 0)
        return -errno;
    auto_fd fd = openat(t->parent, base, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int failed = fd < 0 ? -errno : set_all(t, entry, fd);
    if (failed == 0)
        failed = remember_time(t, base, time_of(entry));
    return failed == 0 ? 0 : fail_entry(t, -failed);
}

static int make_symlink(struct image_tar *t, struct archive_entry *entry, const char *base)
{
    const char *target = archive_entry_symlink(entry);
    if (target == NULL || target[0] == '\0' || strlen(target) >= PATH_MAX)
        return refuse_entry(t, "it is a symlink to nothing, or to more than 4095 bytes");
    if (symlinkat(target, t->parent, base) != 0)
        return -errno;
    int failed = give_away(t, entry, t->parent, base, AT_SYMLINK_NOFOLLOW);
    if (failed == 0)
        failed = set_time(t->parent, base, time_of(entry));
    return failed == 0 ? 0 : fail_entry(t, -failed);
}

/* A hard link shares what it names, so that must be a file which this layer has made already. */
static int make_link(struct image_tar *t, struct archive_entry *entry, const char *base)
{
    char path[PATH_MAX];
    const char *target = archive_entry_hardlink(entry);
    const char *why = image_vet_name(target, path);
    if (why != NULL || path[0] == '\0')
        return kern_refuse(t->err, 0, "cannot unpack \"%.150s\": it is a hard link to \"%.150s\", %s",
                           t->name, target,
                           why != NULL ? "and a target is a path below the root" : "the root itself");
    char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    if (slash != NULL)
        *slash = '\0';
    auto_fd folder = slash != NULL ? sys_open_beneath(t->root, path, O_PATH | O_DIRECTORY, 0, BENEATH)
                                   : fcntl(t->root, F_DUPFD_CLOEXEC, 3);
    struct stat st;
    if (folder < 0 || fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) != 0 || is_whiteout(folder, name))
        return kern_refuse(
            t->err, 0,
            "cannot unpack \"%.150s\": it is a hard link to \"%.150s\", which the layer does not have",
            t->name, target);
    if (S_ISDIR(st.st_mode))
        return refuse_entry(t, "it is a hard link to a directory");
    return linkat(folder, name, t->parent, base, 0) == 0 ? 0 : -errno;
}

static int make_fifo(struct image_tar *t, struct archive_entry *entry, const char *base)
{
    if (mknodat(t->parent, base, S_IFIFO | 0600, 0) != 0)
        return -errno;
    int failed = give_away(t, entry, t->parent, base, AT_SYMLINK_NOFOLLOW);
    if (failed == 0 && fchmodat(t->parent, base, archive_entry_perm(entry) & 0777, 0) != 0)
        failed = -errno; /* made here just now: no link */
    return failed == 0 ? 0 : fail_entry(t, -failed);
}

static int make_one(struct image_tar *t, struct archive_entry *entry, const char *base)
{
    if (archive_entry_hardlink(entry) != NULL)
        return make_link(t, entry, base);
    switch (archive_entry_filetype(entry)) {
    case AE_IFREG:
        return make_file(t, entry, base);
    case AE_IFDIR:
        return make_directory(t, entry, base);
    case AE_IFLNK:
        return make_symlink(t, entry, base);
    case AE_IFIFO:
        return make_fifo(t, entry, base);
    default: /* a box has its own devices; and one of number 0 would be a whiteout that the layer must not forge */
        t->result->devices++;
        return 0;
    }
}

/* ---- What was there before ---- */

static int refresh_directory(struct image_tar *t, struct archive_entry *entry, const char *base)
{
    auto_fd fd = openat(t->parent, base, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int failed = fd < 0 ? -errno : set_all(t, entry, fd);
    if (failed == 0)
        failed = remember_time(t, base, time_of(entry));
    if (failed == 0)
        image_parents_mark(fd, IMAGE_PARENT_KNOWN);
    return failed == 0 ? 0 : fail_entry(t, -failed);
}

/* The name is taken, by an earlier entry of the same archive. */
static int replace(struct image_tar *t, struct archive_entry *entry, const char *base)
{
    struct stat st;
    if (fstatat(t->parent, base, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return fail_entry(t, errno);
    int is_link = archive_entry_hardlink(entry) != NULL;
    int is_dir = !is_link && archive_entry_filetype(entry) == AE_IFDIR;
    if (S_ISDIR(st.st_mode) && is_dir)
        return refresh_directory(t, entry, base);
    int hid = S_ISCHR(st.st_mode) && st.st_rdev == 0;
    if (unlinkat(t->parent, base, S_ISDIR(st.st_mode) ? AT_REMOVEDIR : 0) != 0)
        return errno == ENOTEMPTY ? refuse_entry(t, "it would replace a directory that is not empty")
                                  : fail_entry(t, errno);
    int failed = make_one(t, entry, base);
    if (failed != 0)
        return is_set(t->err) ? failed : fail_entry(t, -failed);
    if (!hid || !is_dir)
        return 0;
    auto_fd fd = openat(t->parent, base, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    failed = fd < 0 ? -errno : mark_opaque(fd);
    return failed == 0 ? 0 : fail_entry(t, -failed);
}

int image_tar_make(struct image_tar *t, struct archive_entry *entry, const char *base)
{
    int failed = make_one(t, entry, base);
    if (failed == -EEXIST && !is_set(t->err))
        return replace(t, entry, base);
    if (failed != 0 && !is_set(t->err))
        return fail_entry(t, -failed);
    return failed;
}

/* ---- Whiteouts ---- */

/* Hides what lower layers have; what this layer has itself stays. */
int image_tar_hide(struct image_tar *t, const char *hidden)
{
    /* Since Linux 5.8 this one device, which opens nothing, may be made without any privilege. */
    if (mknodat(t->parent, hidden, S_IFCHR, makedev(0, 0)) == 0)
        return 0;
    if (errno != EEXIST)
        return fail_entry(t, errno);
    auto_fd fd = openat(t->parent, hidden, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int failed = fd >= 0 ? mark_opaque(fd) : 0; /* a file hides all of its name anyway */
    return failed == 0 ? 0 : fail_entry(t, -failed);
}

int image_tar_opaque(struct image_tar *t)
{
    int failed = mark_opaque(t->parent);
    if (failed == -EOPNOTSUPP) {
        kern_refuse(t->err, -failed, "cannot unpack \"%.200s\"", t->name);
        kern_hint(t->err,
                  "the file system of the image store has no user extended attributes: set XDG_DATA_HOME to "
                  "a directory on ext4, xfs or btrfs");
        return failed;
    }
    return failed == 0 ? 0 : fail_entry(t, -failed);
}

/* ---- The end ---- */

/* The deepest first, mostly: archives name a directory before what is in it. */
void image_tar_times(struct image_tar *t)
{
    for (size_t i = t->time_count; i-- > 0;) {
        char *slash = strrchr(t->time[i].path, '/');
        const char *base = slash != NULL ? slash + 1 : t->time[i].path;
        if (slash != NULL)
            *slash = '\0';
        auto_fd folder = slash != NULL
                             ? sys_open_beneath(t->root, t->time[i].path, O_PATH | O_DIRECTORY, 0, BENEATH)
                             : fcntl(t->root, F_DUPFD_CLOEXEC, 3);
        if (folder >= 0)
            (void)set_time(folder, base, t->time[i].at); /* replaced meanwhile: its time is lost, no more */
    }
}

void image_tar_clear(struct image_tar *t)
{
    kern_close_fd(&t->parent);
    forget_times(t);
    free(t->time);
}
