/* Carries out the plan of a host root on the tmpfs that becomes it. Runs in enter, as root of the user namespace that owns
 * the mounts; nothing in this root is hostile, but whoever could exchange a source meanwhile is noticed. */
#include "rootfs_state.h"

#include "kern/cleanup.h"
#include "kern/foundation.h"
#include "kern/sys.h"

#include <stddef.h>
#include <sys/stat.h>

static int make_dir(int root, const struct rootfs_entry *entry)
{
    int failed = sys_mkdirat(root, entry->path + 1, entry->mode & 07777);
    if (failed == 0 && (entry->mode & 022) != 0) /* the umask took these */
        failed =
            (int)sys_call(SYS_fchmodat, root, SYS_P(entry->path + 1), (long)(entry->mode & 07777), 0, 0, 0);
    return failed;
}

static int make_file(int root, const struct rootfs_entry *entry)
{
    auto_fd file =
        sys_open(root, entry->path + 1, O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW, entry->mode & 07777);
    if (file < 0)
        return file;
    long put = sys_write(file, entry->bytes, entry->length);
    return put == (long)entry->length ? 0 : put < 0 ? (int)put : -ENOSPC;
}

static int open_same(const struct rootfs_entry *entry, int *ret_fd)
{
    struct stat before, now;
    auto_fd fd = sys_open_beneath(AT_FDCWD, entry->source, O_PATH | O_NOFOLLOW, 0, RESOLVE_NO_SYMLINKS);
    if (fd < 0)
        return fd;
    if (fstat(entry->fd, &before) != 0 || fstat(fd, &now) != 0)
        return -EBADF;
    if (before.st_dev != now.st_dev || before.st_ino != now.st_ino)
        return -ESTALE;
    *ret_fd = steal_fd(&fd);
    return 0;
}

/* The mount point first, then a read-only copy of all that is mounted at the source. */
static int make_bind(const kern_box *box, int root, const struct rootfs_entry *entry)
{
    auto_fd source = -1;
    int failed = open_same(entry, &source);
    if (failed != 0)
        return failed;
    if (S_ISDIR(entry->mode)) {
        failed = sys_mkdirat(root, entry->path + 1, 0755);
    } else {
        int file = sys_open(root, entry->path + 1, O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW, 0644);
        failed = file < 0 ? file : sys_close(file);
    }
    if (failed != 0)
        return failed;
    auto_fd target = sys_open(root, entry->path + 1, O_PATH | O_NOFOLLOW, 0);
    struct kern_bind bind = {.source = source,
                             .tree = -1,
                             .target = target,
                             .root = root,
                             .path = entry->path,
                             .flags = KERN_MOUNT_READ_ONLY | KERN_MOUNT_RECURSIVE};
    return target < 0 ? target : kern_child_bind(box, &bind);
}

static int make_entry(const kern_box *box, int root, const struct rootfs_entry *entry)
{
    switch (entry->kind) {
    case ROOTFS_DIR:
        return make_dir(root, entry);
    case ROOTFS_SYMLINK:
        return sys_symlinkat(entry->source, root, entry->path + 1);
    case ROOTFS_FILE:
        return make_file(root, entry);
    default:
        return make_bind(box, root, entry);
    }
}

int rootfs_build_host(const kern_box *box, const struct rootfs_state *state, int root, struct kern_error *err)
{
    for (size_t i = 0; i < state->plan.count; i++) {
        const struct rootfs_entry *entry = &state->plan.entry[i];
        int failed = make_entry(box, root, entry);
        if (failed != 0)
            return kern_fail(err, -failed, "cannot put \"%s\" into the box%s%s", entry->path,
                             entry->kind == ROOTFS_BIND ? " from " : "",
                             entry->kind == ROOTFS_BIND ? entry->source : "");
    }
    return 0;
}
