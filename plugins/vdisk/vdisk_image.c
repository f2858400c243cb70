/* The images of disks that stand in a pool's directory: NAME.img, a sparse file with an ext4 in it, mode 0600. One that is not
 * persistent has no name at all and is gone with the last descriptor. In prepare, in kern.
 *
 * The lock is on the open file that goes to the loop device or the server, so it lasts exactly as long as somebody may still
 * write to the image, also when kern itself is killed. An image gets its name when it is complete. */
#include "vdisk_ext4.h"
#include "vdisk_state.h"

#include "kern/cleanup.h"
#include "kern/sys.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>

#define GUESSES    6
#define BUSY_TRIES 20 /* times 10 ms: whoever had it may be on its way out */

struct place {
    const char *path; /* the pool's directory */
    int fd;
    char name[72];
};

/* ---- The pool ---- */

static int open_pool(const struct vdisk_disk *disk, const kern_values *pool, struct place *place,
                     struct kern_error *err)
{
    struct stat st;
    struct statvfs fs;
    place->path = kern_get_string(pool, "path");
    place->fd = open(place->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (place->fd < 0) {
        kern_refuse(err, errno, "cannot use disk pool \"%s\": \"%s\"", disk->pool, place->path);
        kern_hint(err, "mkdir -p -m 700 '%s'", place->path);
        return -ENOENT;
    }
    if (fstatvfs(place->fd, &fs) == 0 && (fs.f_flag & ST_RDONLY) != 0) /* no other change would mend it */
        return kern_refuse(err, EROFS, "cannot use disk pool \"%s\": \"%s\"", disk->pool, place->path);
    if (fstat(place->fd, &st) != 0 || (st.st_uid != geteuid() && st.st_uid != 0) || (st.st_mode & 022) != 0) {
        kern_refuse(err, 0, "cannot use disk pool \"%s\": others may write to \"%s\"", disk->pool,
                    place->path);
        kern_hint(err, "chown %u '%s' && chmod 700 '%s'", geteuid(), place->path, place->path);
        return -EPERM;
    }
    (void)snprintf(place->name, sizeof(place->name), "%s.img",
                   disk->name); /* names were checked when they were read */
    return 0;
}

static uint64_t taken_in_pool(const struct place *place)
{
    uint64_t sum = 0;
    int copy = openat(place->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    auto_dir list = copy < 0 ? NULL : fdopendir(copy);
    const struct dirent *entry;
    struct stat st;
    while (list != NULL && (entry = readdir(list)) != NULL) {
        size_t length = strlen(entry->d_name);
        if (length > 4 && strcmp(entry->d_name + length - 4, ".img") == 0 &&
            fstatat(place->fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
            sum += (uint64_t)st.st_size;
    }
    return sum;
}

static int check_room(const struct vdisk_disk *disk, const kern_values *pool, const struct place *place,
                      struct kern_error *err)
{
    struct statvfs fs;
    uint64_t image = vdisk_first_guess(disk->size);
    if (fstatvfs(place->fd, &fs) != 0)
        return kern_refuse(err, errno, "cannot look at disk pool \"%s\" (\"%s\")", disk->pool, place->path);
    uint64_t there = (uint64_t)fs.f_bavail * fs.f_frsize;
    if (image > there)
        return kern_refuse(err, ENOSPC,
                           "cannot make disk \"%s\" in \"%s\": it takes up to %" PRIu64 " MiB, and %" PRIu64
                           " are free",
                           disk->name, place->path, (image >> 20) + 1, there >> 20);
    if (kern_get_string(pool, "size") == NULL || !disk->persistent)
        return 0;
    uint64_t taken = taken_in_pool(place), all = (uint64_t)kern_get_int(pool, "size");
    if (taken > all || image - (image - disk->size) > all - taken)
        return kern_refuse(err, 0,
                           "cannot make disk \"%s\": pool \"%s\" of %s has images of %" PRIu64 " MiB already",
                           disk->name, disk->pool, kern_get_string(pool, "size"), taken >> 20);
    return 0;
}

/* ---- Making one ---- */

static int read_super(int fd, struct vdisk_super *ret_super)
{
    unsigned char bytes[VDISK_SUPER_BYTES];
    ssize_t got = pread(fd, bytes, sizeof(bytes), VDISK_SUPER_AT);
    return got == (ssize_t)sizeof(bytes) ? vdisk_read_super(bytes, ret_super) : -EINVAL;
}

static int refuse_mkfs(int code, const char *said, struct kern_error *err)
{
    if (code == -ENOENT) {
        kern_refuse(err, 0, "cannot make a disk: there is no mkfs.ext4 on this machine");
        kern_hint(err, "apt-get install e2fsprogs, or use backend = \"ram\"");
        return -ENOENT;
    }
    if (code < 0)
        return kern_fail(err, -code, "cannot run mkfs.ext4");
    return kern_fail(err, 0, "cannot make a disk: mkfs.ext4 ended with %d: %s", code, said);
}

/* An image carries the size that it was made for as its label: 64 TiB have fourteen digits. */
static void write_label(char label[24], uint64_t size)
{
    (void)snprintf(label, 24, "%" PRIu64, size); /* 20 digits at most */
}

static int run_mkfs(int fd, const struct vdisk_disk *disk, uint64_t blocks, uint32_t kernel,
                    struct kern_error *err)
{
    char path[40], said[200], features[80], label[24], reserved[32] = "0";
    int journal = kernel && disk->persistent;
    write_label(label, disk->size);
    if (!kernel) /* one block: where none is, fuse2fs takes a tenth */
        (void)snprintf(reserved, sizeof(reserved), "%.9f", 150.0 / (double)blocks); /* fits */
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd); /* fits: a number is short */
    (void)snprintf(features, sizeof(features), "^resize_inode,%shas_journal", journal ? "" : "^"); /* fits */
    const char *const words[] = {"mkfs.ext4",
                                 "-q",
                                 "-F",
                                 "-b",
                                 "4096",
                                 "-m",
                                 reserved,
                                 "-L",
                                 label,
                                 "-O",
                                 features,
                                 "-E",
                                 "root_owner=0:0,lazy_itable_init=1,lazy_journal_init=1,nodiscard",
                                 path,
                                 NULL};
    int code = vdisk_run(words, fd, said, sizeof(said));
    return code == 0 ? 0 : refuse_mkfs(code, said, err);
}

/* How much mkfs needs for itself is its own affair, so the image is made, looked at and made again until what is left for files is
 * what was asked for. It touches little of a sparse file: some ten milliseconds each time, and only at first use. */
static int make_fs(int fd, const struct vdisk_disk *disk, uint32_t kernel, struct kern_error *err)
{
    uint64_t bytes = vdisk_first_guess(disk->size);
    for (int guess = 0; guess < GUESSES; guess++) {
        struct vdisk_super super;
        if (ftruncate(fd, 0) != 0 || ftruncate(fd, (off_t)bytes) != 0)
            return kern_refuse(err, errno,
                               "cannot make disk \"%s\" of %" PRIu64 " bytes: its pool \"%s\" cannot hold it",
                               disk->name, disk->size, disk->pool);
        int failed = run_mkfs(fd, disk, bytes / VDISK_BLOCK, kernel, err);
        if (failed != 0)
            return failed;
        if (read_super(fd, &super) != 0)
            return kern_fail(err, 0, "cannot make disk \"%s\": mkfs.ext4 made something else", disk->name);
        uint64_t next = vdisk_next_guess(bytes, &super, vdisk_wanted_free(disk->size, &super, kernel));
        if (next == bytes)
            return 0;
        bytes = next;
    }
    return 0; /* a few blocks more or less */
}

/* Without a name, so that nothing is left of a half-made image; where the file system has no such thing, with one that goes at
 * once or, for one that shall stay, is made anew by whoever comes next. */
static int new_file(const struct vdisk_disk *disk, const struct place *place, uint32_t *ret_named,
                    struct kern_error *err)
{
    char name[80];
    (void)snprintf(name, sizeof(name), ".%s.new", place->name); /* fits */
    *ret_named = 0;
    int fd = openat(place->fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == ENOENT)) {
        fd = openat(place->fd, name, O_CREAT | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600);
        *ret_named = fd >= 0 && disk->persistent;
        if (fd >= 0 && !disk->persistent)
            (void)unlinkat(place->fd, name, 0); /* it was just made */
    }
    if (fd < 0)
        return kern_refuse(err, errno, "cannot make a disk in pool \"%s\" (\"%s\")", disk->pool, place->path);
    return fd;
}

static int give_name(int fd, const struct place *place, uint32_t named)
{
    char from[40], old[80];
    (void)snprintf(from, sizeof(from), "/proc/self/fd/%d", fd); /* fits: a number is short */
    (void)snprintf(old, sizeof(old), ".%s.new", place->name);   /* fits */
    int failed = named ? renameat2(place->fd, old, place->fd, place->name, RENAME_NOREPLACE)
                       : linkat(AT_FDCWD, from, place->fd, place->name, AT_SYMLINK_FOLLOW);
    return failed != 0 ? -errno : 0;
}

static int make_image(struct vdisk_disk *disk, const kern_values *pool, const struct place *place,
                      uint32_t kernel, struct kern_error *err)
{
    uint32_t named = 0;
    int failed = check_room(disk, pool, place, err);
    auto_fd fd = failed == 0 ? new_file(disk, place, &named, err) : -1;
    if (fd < 0)
        return failed != 0 ? failed : -EIO;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0)
        return -EBUSY;
    failed = make_fs(fd, disk, kernel, err);
    if (failed == 0 && disk->persistent)
        failed = give_name(fd, place, named);
    if (failed == -EEXIST)
        return -EBUSY; /* somebody else was faster, and uses it */
    if (failed != 0)
        return kern_fail(err, -failed, "cannot name the image \"%s/%s\"", place->path, place->name);
    disk->is_new = 1;
    disk->image = steal_fd(&fd);
    return 0;
}

/* ---- Using one ---- */

static int lock_image(int fd)
{
    static const struct timespec moment = {.tv_nsec = 10000000};
    for (int i = 0; i < BUSY_TRIES; i++) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0)
            return 0;
        if (errno != EWOULDBLOCK)
            return -errno;
        (void)nanosleep(&moment, NULL); /* a shorter sleep only asks sooner */
    }
    return -EBUSY;
}

/* What kern mounts as root must be nobody else's work. */
static int check_file(const struct vdisk_disk *disk, const struct place *place, int fd,
                      struct vdisk_super *super, struct kern_error *err)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return kern_refuse(err, errno, "cannot look at \"%s/%s\"", place->path, place->name);
    if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 022) != 0)
        return kern_refuse(
            err, 0, "cannot use \"%s/%s\": it is not a file that only its owner, the caller, can write",
            place->path, place->name);
    if (read_super(fd, super) != 0)
        return kern_refuse(err, 0, "cannot use \"%s/%s\": it is not an ext4 image of kern's", place->path,
                           place->name);
    if (super->size != 0 && super->size <= disk->size)
        return 0;
    kern_refuse(err, 0, "disk \"%s\" has %" PRIu64 " bytes already, and an image does not become smaller",
                disk->name, super->size != 0 ? super->size : super->blocks * VDISK_BLOCK);
    kern_hint(err, "give it the size that it had, or remove it with all that is in it: rm '%s/%s'",
              place->path, place->name);
    return -EINVAL;
}

static int run_check(const struct vdisk_disk *disk, const struct place *place, int fd, const char *how,
                     struct kern_error *err)
{
    char path[40], said[200];
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd); /* fits: a number is short */
    const char *const words[] = {"e2fsck", how, path, NULL};
    int code = vdisk_run(words, fd, said, sizeof(said));
    if (code >= 0 && (code & ~3) == 0)
        return 0; /* clean, or mended */
    if (code == -ENOENT) {
        kern_refuse(err, 0, "disk \"%s\" was torn by a crash, and there is no e2fsck on this machine",
                    disk->name);
        kern_hint(err, "apt-get install e2fsprogs");
        return -ENOENT;
    }
    kern_refuse(err, code < 0 ? -code : 0, "disk \"%s\" is damaged, and e2fsck -p does not mend it: %s",
                disk->name, code < 0 ? "" : said);
    kern_hint(err, "e2fsck -f '%s/%s'", place->path, place->name);
    return -EIO;
}

/* ---- Growing one: the profile says more than it did when the image was made ---- */

static int run_tool(const struct vdisk_disk *disk, const char *const *words, int fd, struct kern_error *err)
{
    char said[200];
    int code = vdisk_run(words, fd, said, sizeof(said));
    if (code == 0)
        return 0;
    if (code != -ENOENT)
        return kern_fail(err, code < 0 ? -code : 0, "cannot make disk \"%s\" larger: %s: %s", disk->name,
                         words[0], code < 0 ? "it did not run" : said);
    kern_refuse(err, 0, "cannot make disk \"%s\" larger: there is no %s on this machine", disk->name,
                words[0]);
    kern_hint(err, "apt-get install e2fsprogs");
    return -ENOENT;
}

static int resize(const struct vdisk_disk *disk, int fd, uint64_t bytes, struct kern_error *err)
{
    char path[40], blocks[24];
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);              /* fits: a number is short */
    (void)snprintf(blocks, sizeof(blocks), "%" PRIu64, bytes / VDISK_BLOCK); /* as above */
    const char *const words[] = {"resize2fs", "-f", path, blocks, NULL};
    struct stat st;
    if (fstat(fd, &st) != 0 || ((uint64_t)st.st_size < bytes && ftruncate(fd, (off_t)bytes) != 0))
        return kern_refuse(err, errno, "cannot make disk \"%s\" larger", disk->name);
    int failed = run_tool(disk, words, fd, err);
    return failed == 0 && ftruncate(fd, (off_t)bytes) != 0
               ? kern_fail(err, errno, "cannot cut the image of disk \"%s\"", disk->name)
               : failed;
}

/* As in make_fs(), until what a box can use has grown by what the size has. */
static int resize_exactly(const struct vdisk_disk *disk, int fd, const struct vdisk_super *before,
                          uint32_t kernel, struct kern_error *err)
{
    uint64_t more = before->grows ? 0 : vdisk_first_guess(disk->size) - vdisk_first_guess(before->size);
    uint64_t bytes = before->blocks * VDISK_BLOCK + more;
    for (int guess = 0; guess < GUESSES; guess++) {
        struct vdisk_super super;
        int failed = resize(disk, fd, bytes, err);
        if (failed != 0)
            return failed;
        if (read_super(fd, &super) != 0)
            return kern_fail(err, 0, "cannot make disk \"%s\" larger: resize2fs made something else",
                             disk->name);
        uint64_t next = vdisk_next_guess(super.blocks * VDISK_BLOCK, &super,
                                         vdisk_wanted_free(disk->size, &super, kernel) - before->used);
        if (next == super.blocks * VDISK_BLOCK)
            return 0;
        bytes = next;
    }
    return 0; /* a few blocks more or less */
}

/* Once it has grown, what files take cannot be told from what has been added: it is written down before, so that the next box
 * can go on where a killed kern stopped. */
static int begin_to_grow(const struct vdisk_disk *disk, int fd, const char *path, struct vdisk_super *before,
                         uint32_t kernel, struct kern_error *err)
{
    char note[48];
    if (before->grows)
        return 0;
    before->used = vdisk_wanted_free(before->size, before, kernel) -
                   before->free_blocks; /* may wrap: it is added again */
    (void)snprintf(note, sizeof(note), VDISK_GROWS "%" PRIu64, before->used); /* 20 digits at most */
    const char *const words[] = {"tune2fs", "-M", note, path, NULL};
    return run_tool(disk, words, fd, err);
}

static int grow(struct vdisk_disk *disk, const kern_values *pool, const struct place *place, int fd,
                uint32_t kernel, struct kern_error *err)
{
    char path[40], label[24];
    struct vdisk_super before;
    struct vdisk_disk more = *disk;
    int failed = run_check(disk, place, fd, "-fp", err);
    if (failed == 0 && read_super(fd, &before) != 0)
        failed = kern_fail(err, 0, "cannot read the image of disk \"%s\"", disk->name);
    if (failed != 0)
        return failed;
    more.size = disk->size - before.size;
    failed = before.grows ? 0 : check_room(&more, pool, place, err); /* else it has that room already */
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);      /* fits: a number is short */
    if (failed == 0)
        failed = begin_to_grow(disk, fd, path, &before, kernel, err);
    if (failed == 0)
        failed = resize_exactly(disk, fd, &before, kernel, err);
    write_label(label, disk->size);
    const char *const words[] = {"tune2fs", "-L", label, "-M", "", path, NULL};
    disk->has_grown = failed == 0;
    return failed != 0 ? failed : run_tool(disk, words, fd, err);
}

static int use_image(struct vdisk_disk *disk, const kern_values *pool, const struct place *place,
                     uint32_t kernel, struct kern_error *err)
{
    struct vdisk_super super;
    auto_fd fd = openat(place->fd, place->name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT)
        return -ENOENT;
    if (fd < 0)
        return kern_refuse(err, errno, "cannot open \"%s/%s\"", place->path, place->name);
    int failed = lock_image(fd);
    if (failed != 0)
        return failed;
    failed = check_file(disk, place, fd, &super, err);
    if (failed == 0 && !super.clean)
        failed = run_check(disk, place, fd, "-p", err);
    if (failed == 0 && (super.size < disk->size || super.grows))
        failed = grow(disk, pool, place, fd, kernel, err);
    if (failed == 0)
        disk->image = steal_fd(&fd);
    return failed;
}

int vdisk_image_open(struct vdisk_disk *disk, const kern_values *pool, uint32_t kernel,
                     struct kern_error *err)
{
    struct place place = {.fd = -1};
    int failed = open_pool(disk, pool, &place, err);
    auto_fd folder = place.fd; /* closes it, whatever comes */
    if (failed != 0)
        return failed;
    failed = disk->persistent ? use_image(disk, pool, &place, kernel, err) : -ENOENT;
    if (failed == -ENOENT && err->category == KERN_ERROR_NONE)
        failed = make_image(disk, pool, &place, kernel, err);
    if (failed == 0)
        disk->folder = steal_fd(&folder);
    return failed;
}
