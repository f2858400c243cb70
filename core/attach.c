/* Attaches what stands in a box besides its root, and pivots into it; see mounts.h. Runs in the box's first process, inside
 * the box's mount namespace and as root of the user namespace that owns it, perhaps on kern's memory: raw calls only.
 * Every path is resolved beneath the new root by descriptor: the root may be hostile. */
#include "mounts.h"

#include "cleanup.h"
#include "sys.h"

#include <limits.h>
#include <linux/magic.h>
#include <linux/mount.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#define IN_ROOT (RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS)

static int stat_fd(int fd, struct stat *ret_st)
{
    return fstat(fd, ret_st) == 0 ? 0 : -EBADF;
}

int core_mount_reopen(const struct core_mount *mount, int *ret_fd, struct kern_error *err)
{
    auto_fd fd = sys_open_beneath(AT_FDCWD, mount->source, O_PATH | O_NOFOLLOW, 0, RESOLVE_NO_SYMLINKS);
    if (fd < 0)
        return kern_fail(err, -fd, "cannot open mount source \"%s\" again", mount->source);
    struct stat st;
    int failed = stat_fd(fd, &st);
    if (failed != 0)
        return kern_fail(err, -failed, "cannot look at mount source \"%s\"", mount->source);
    if (st.st_dev != mount->dev || st.st_ino != mount->ino || st.st_rdev != mount->rdev)
        return kern_fail(err, ESTALE, "cannot mount \"%s\": it was exchanged while the box was built",
                         mount->source);
    *ret_fd = steal_fd(&fd);
    return 0;
}

int32_t kern_root_tree(const kern_box *box)
{
    return box->shared->root_tree;
}

int32_t kern_child_reopen(const kern_box *box, struct kern_error *err)
{
    int fd = -1;
    int failed = core_mount_reopen(&box->root_source, &fd, err);
    return failed != 0 ? failed : fd;
}

/* Mount points are made only in what belongs to the box: its private root or a tmpfs, never in a directory of the host. */
static bool may_create_in(const kern_box *box, int fd)
{
    struct stat here, root;
    if (stat_fd(fd, &here) != 0 || stat_fd(box->root_fd, &root) != 0)
        return false;
    if (here.st_dev == root.st_dev)
        return box->root_private;
    struct stat kernel;
    if (box->sys_fd >= 0 && stat_fd(box->sys_fd, &kernel) == 0 && here.st_dev == kernel.st_dev)
        return true;
    for (size_t i = 0; i < box->tmpfs_count; i++)
        if (here.st_dev == box->tmpfs_dev[i])
            return true;
    return false;
}

static int refuse_creating(const kern_box *box, const char *path, struct kern_error *err)
{
    kern_fail(err, ENOENT,
              "cannot mount onto \"%s\": it is missing, and kern makes nothing in directories of the host",
              path);
    kern_hint(err, box->root_private
                       ? "create it on the host, or choose a path that is the box's own, such as /mnt/x"
                       : "create it first, or leave out --bind-rootfs");
    return -ENOENT;
}

/* Splits off the next component of *rest into `part`. Returns false at the end. */
static bool next_part(const char **rest, char *part, size_t size)
{
    const char *start = *rest + strspn(*rest, "/");
    size_t length = strcspn(start, "/");
    if (length == 0 || length >= size)
        return false;
    memcpy(part, start, length);
    part[length] = '\0';
    *rest = start + length;
    return true;
}

/* The directory at the first `length` bytes of path, beneath the root, created where missing and allowed. */
static int open_directory(kern_box *box, const char *path, size_t length, int *ret_fd, struct kern_error *err)
{
    char prefix[PATH_MAX];
    if (length >= sizeof(prefix))
        return kern_fail(err, ENAMETOOLONG, "cannot use path \"%.128s...\" in the box", path);
    memcpy(prefix, path, length);
    prefix[length] = '\0';
    int fd = sys_open_beneath(box->root_fd, length > 0 ? prefix : "/", O_PATH | O_DIRECTORY, 0, IN_ROOT);
    if (fd >= 0) {
        *ret_fd = fd;
        return 0;
    }
    if (fd != -ENOENT)
        return kern_fail(err, -fd, "cannot open \"%s\" in the box", prefix);
    const char *rest = prefix;
    char part[NAME_MAX + 1], done[PATH_MAX];
    size_t used = 0;
    while (next_part(&rest, part, sizeof(part))) {
        size_t part_length = strlen(part);
        done[used] = '/';
        memcpy(done + used + 1, part, part_length + 1);
        int next = sys_open_beneath(box->root_fd, done, O_PATH | O_DIRECTORY, 0, IN_ROOT);
        if (next == -ENOENT) {
            done[used] = '\0';
            auto_fd parent =
                sys_open_beneath(box->root_fd, used > 0 ? done : "/", O_PATH | O_DIRECTORY, 0, IN_ROOT);
            if (parent < 0 || !may_create_in(box, parent))
                return refuse_creating(box, path, err);
            int made = sys_mkdirat(parent, part, 0755);
            done[used] = '/';
            next = made != 0 && made != -EEXIST
                       ? made
                       : sys_open_beneath(box->root_fd, done, O_PATH | O_DIRECTORY, 0, IN_ROOT);
        }
        if (next < 0)
            return kern_fail(err, -next, "cannot make directory \"%s\" in the box", done);
        (void)sys_close(next); /* an O_PATH descriptor has nothing to lose */
        used += part_length + 1;
    }
    fd = sys_open_beneath(box->root_fd, prefix, O_PATH | O_DIRECTORY, 0, IN_ROOT);
    if (fd < 0)
        return kern_fail(err, -fd, "cannot open \"%s\" in the box", prefix);
    *ret_fd = fd;
    return 0;
}

int core_root_mkdirs(kern_box *box, const char *path, int *ret_fd, struct kern_error *err)
{
    return open_directory(box, path, strlen(path), ret_fd, err);
}

/* What will be covered: opened, and made when missing (a directory for a directory, an empty file for a file). A target
 * that ends in a symlink is followed inside the root, as everywhere else. */
static int open_target(kern_box *box, const char *path, bool directory, int *ret_fd, struct kern_error *err)
{
    if (directory)
        return open_directory(box, path, strlen(path), ret_fd, err);
    int fd = sys_open_beneath(box->root_fd, path, O_PATH, 0, IN_ROOT);
    if (fd == -ENOENT) {
        const char *name = strrchr(path, '/') + 1;
        auto_fd parent = -1;
        int failed = open_directory(box, path, (size_t)(name - path - 1), &parent, err);
        if (failed != 0)
            return failed;
        if (!may_create_in(box, parent))
            return refuse_creating(box, path, err);
        int made = sys_open_beneath(parent, name, O_CREAT | O_WRONLY | O_NOFOLLOW, 0644, RESOLVE_BENEATH);
        if (made >= 0)
            (void)sys_close(made); /* empty: nothing to lose */
        fd = made < 0 ? made : sys_open_beneath(box->root_fd, path, O_PATH, 0, IN_ROOT);
    }
    if (fd < 0)
        return kern_fail(err, -fd, "cannot make mount point \"%s\" in the box", path);
    *ret_fd = fd;
    return 0;
}

/* Lexical check is not enough: a symlink of the root may lead a harmless target into /proc, whose files the kernel and the
 * programs in the box trust. */
static int refuse_kernel_target(int target, const char *path, struct kern_error *err)
{
    struct statfs fs;
    if (fstatfs(target, &fs) != 0)
        return kern_fail(err, EBADF, "cannot look at mount point \"%s\"", path);
    if (fs.f_type != PROC_SUPER_MAGIC && fs.f_type != SYSFS_MAGIC && fs.f_type != CGROUP_SUPER_MAGIC &&
        fs.f_type != CGROUP2_SUPER_MAGIC)
        return 0;
    return kern_fail(err, 0, "cannot mount onto \"%s\": it leads into a file system of the kernel", path);
}

static int find_place(kern_box *box, const struct core_mount *mount, bool directory, int *ret_fd,
                      struct kern_error *err)
{
    auto_fd target = -1;
    int failed = open_target(box, mount->target, directory, &target, err);
    if (failed == 0)
        failed = refuse_kernel_target(target, mount->target, err);
    if (failed == 0)
        *ret_fd = steal_fd(&target);
    return failed;
}

static int put(kern_box *box, const struct core_mount *mount, int source, int tree, uint32_t flags,
               struct kern_error *err)
{
    auto_fd target = -1;
    bool directory = mount->kind == CORE_BIND ? mount->directory : mount->kind == CORE_TMPFS;
    int failed = find_place(box, mount, directory, &target, err);
    if (failed != 0)
        return failed;
    struct kern_bind bind = {.source = source,
                             .tree = tree,
                             .target = target,
                             .root = box->root_fd,
                             .path = mount->target,
                             .flags = flags};
    failed = kern_child_bind(box, &bind);
    if (failed != 0)
        return kern_fail(err, -failed, "cannot mount onto \"%s\"%s", mount->target,
                         failed == -ENOTDIR || failed == -EINVAL
                             ? " (a file onto a directory, or the other way round)"
                             : "");
    return 0;
}

static int attach_bind(kern_box *box, const struct core_mount *mount, struct kern_error *err)
{
    auto_fd source = -1;
    int tree = box->shared->tree[mount - box->mount];
    if (tree < 0) {
        int failed = core_mount_reopen(mount, &source, err);
        if (failed != 0)
            return failed;
    }
    return put(box, mount, source, tree, mount->flags, err);
}

/* The older way, for kern inside another sandbox: mounted in place. */
static int mount_tmpfs_at(const kern_box *box, int target, const char *path, const char *size,
                          const char *mode, unsigned long flags, int *ret_fd)
{
    char options[64], name[40];
    (void)snprintf(options, sizeof(options), "mode=%s%s%s", mode, size != NULL ? ",size=" : "",
                   size != NULL ? size : "");
    (void)snprintf(name, sizeof(name), "/proc/self/fd/%d", target); /* fits, both */
    int failed = sys_mount("tmpfs", name, "tmpfs", flags, options);
    if (failed != 0)
        return failed;
    int fd = sys_open_beneath(box->root_fd, path, O_RDONLY | O_DIRECTORY, 0, IN_ROOT);
    if (fd >= 0)
        *ret_fd = fd;
    return fd < 0 ? fd : 0;
}

static int new_tmpfs(const char *options_size, const char *mode, unsigned attr, int *ret_tree)
{
    auto_fd context = (int)sys_call(SYS_fsopen, SYS_P("tmpfs"), FSOPEN_CLOEXEC, 0, 0, 0, 0);
    if (context < 0)
        return context;
    long failed = 0;
    if (options_size != NULL)
        failed =
            sys_call(SYS_fsconfig, context, FSCONFIG_SET_STRING, SYS_P("size"), SYS_P(options_size), 0, 0);
    if (failed == 0)
        failed = sys_call(SYS_fsconfig, context, FSCONFIG_SET_STRING, SYS_P("mode"), SYS_P(mode), 0, 0);
    if (failed == 0)
        failed = sys_call(SYS_fsconfig, context, FSCONFIG_CMD_CREATE, 0, 0, 0, 0);
    if (failed != 0)
        return (int)failed;
    int tree = (int)sys_call(SYS_fsmount, context, FSMOUNT_CLOEXEC, attr, 0, 0, 0);
    if (tree < 0)
        return tree;
    *ret_tree = tree;
    return 0;
}

static int attach_tmpfs(kern_box *box, const struct core_mount *mount, struct kern_error *err)
{
    char size[32], mode[16];
    (void)snprintf(size, sizeof(size), "%llu", (unsigned long long)mount->size); /* fits */
    (void)snprintf(mode, sizeof(mode), "%o", mount->mode);                       /* fits */
    bool read_only = (mount->flags & KERN_MOUNT_READ_ONLY) != 0, exec = (mount->flags & KERN_MOUNT_EXEC) != 0;
    const char *limit = mount->size != 0 ? size : NULL;
    auto_fd tree = -1, target = -1;
    int failed = find_place(box, mount, true, &target, err);
    if (failed != 0)
        return failed;
    if (box->nested)
        failed = mount_tmpfs_at(box, target, mount->target, limit, mode,
                                MS_NOSUID | MS_NODEV | (read_only ? MS_RDONLY : 0) | (exec ? 0 : MS_NOEXEC),
                                &tree);
    else
        failed = new_tmpfs(limit, mode,
                           MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | (read_only ? MOUNT_ATTR_RDONLY : 0) |
                               (exec ? 0 : MOUNT_ATTR_NOEXEC),
                           &tree);
    if (failed == 0 && !box->nested)
        failed = sys_move_mount(tree, "", target, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
    if (failed == 0)
        kern_child_tmpfs(box, tree);
    return failed == 0 ? 0 : kern_fail(err, -failed, "cannot mount a tmpfs onto \"%s\"", mount->target);
}

/* Before Linux 6.15 nothing can be copied out of a mount that is attached nowhere: it stands on the box's /dev meanwhile. */
static int copy_out(const kern_box *box, int store, const char *name)
{
    int tree = sys_open_tree(store, name, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (tree != -EINVAL)
        return tree;
    auto_fd place = sys_open_beneath(box->root_fd, "/dev", O_PATH | O_DIRECTORY, 0,
                                     RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS);
    if (place < 0)
        return place;
    int failed = sys_move_mount(store, "", place, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
    if (failed != 0)
        return failed;
    tree = sys_open_tree(store, name, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    char path[40];
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", store); /* fits: a number is short */
    failed = sys_umount(path, MNT_DETACH);
    if (failed != 0 && tree >= 0)
        (void)sys_close(tree); /* an O_PATH descriptor has nothing to lose */
    return failed != 0 ? failed : tree;
}

/* A generated file lives on a tmpfs of its own, so that it is read-only whatever it is put over. */
static int attach_file(kern_box *box, const struct core_mount *mount, struct kern_error *err)
{
    if (box->nested)
        return kern_fail(err, ENOSYS, "cannot put file \"%s\" into a box inside another sandbox",
                         mount->target);
    auto_fd store = -1;
    int failed = new_tmpfs(NULL, "755", MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, &store);
    if (failed != 0)
        return kern_fail(err, -failed, "cannot make room for file \"%s\"", mount->target);
    auto_fd file = sys_open(store, "file", O_CREAT | O_EXCL | O_WRONLY, mount->mode);
    if (file < 0 || sys_write(file, mount->bytes, mount->length) != (long)mount->length)
        return kern_fail(err, file < 0 ? -file : EIO, "cannot write file \"%s\"", mount->target);
    (void)fchmod(file, mount->mode); /* the umask may have taken bits; a stricter file still works */
    auto_fd tree = copy_out(box, store, "file");
    if (tree < 0)
        return kern_fail(err, -tree, "cannot bind file \"%s\"", mount->target);
    failed = put(box, mount, -1, tree, KERN_MOUNT_READ_ONLY, err);
    if (failed == 0 && mount->for_command)
        box->command_file[box->command_file_count++] = steal_fd(&file);
    return failed;
}

/* By the descriptors of the private store, where the files are not read-only. They are closed before the command, like all. */
int core_give_files(kern_box *box, uint32_t uid, uint32_t gid, struct kern_error *err)
{
    for (uint32_t i = 0; i < box->command_file_count; i++) {
        long failed = sys_call(SYS_fchown, box->command_file[i], uid, gid, 0, 0, 0);
        if (failed ==
            -EINVAL) /* an id that the box does not have: no command starts with it, and that error says why */
            return 0;
        if (failed != 0)
            return kern_fail(err, (int)-failed, "cannot give the secrets to user %u of the box", uid);
    }
    return 0;
}

static int attach_link(kern_box *box, const struct core_mount *mount, struct kern_error *err)
{
    const char *name = strrchr(mount->target, '/') + 1;
    auto_fd parent = -1;
    int failed = open_directory(box, mount->target, (size_t)(name - mount->target - 1), &parent, err);
    if (failed != 0)
        return failed;
    if (!may_create_in(box, parent))
        return refuse_creating(box, mount->target, err);
    failed = sys_symlinkat(mount->source, parent, name);
    return failed == 0 || failed == -EEXIST
               ? 0
               : kern_fail(err, -failed, "cannot make link \"%s\" in the box", mount->target);
}

static int attach(kern_box *box, const struct core_mount *mount, struct kern_error *err)
{
    switch (mount->kind) {
    case CORE_BIND:
        return attach_bind(box, mount, err);
    case CORE_TMPFS:
        return attach_tmpfs(box, mount, err);
    case CORE_LINK:
        return attach_link(box, mount, err);
    default:
        return attach_file(box, mount, err);
    }
}

static size_t depth(const char *path)
{
    size_t parts = 0;
    for (const char *c = path; *c != '\0'; c++)
        parts += c[0] == '/' && c[1] != '/' && c[1] != '\0';
    return parts;
}

int kern_child_seal_sys(kern_box *box, struct kern_error *err)
{
    if (box->sys_fd < 0 || box->sys_sealed)
        return 0;
    char path[40];
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", box->sys_fd); /* fits: a number is short */
    int failed = sys_mount(NULL, path, NULL,
                           MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
    box->sys_sealed = failed == 0;
    return failed == 0 ? 0 : kern_fail(err, -failed, "cannot make \"/sys\" in the box read-only");
}

int core_attach_mounts(kern_box *box, struct kern_error *err)
{
    size_t deepest = 0;
    box->command_file_count = 0; /* an earlier run of the box had descriptors of its own */
    for (size_t i = 0; i < box->mount_count; i++)
        deepest = depth(box->mount[i].target) > deepest ? depth(box->mount[i].target) : deepest;
    for (size_t level = 1; level <= deepest; level++) {
        for (size_t i = 0; i < box->mount_count; i++) {
            const struct core_mount *mount = &box->mount[i];
            if (depth(mount->target) != level)
                continue;
            int failed = attach(box, mount, err);
            if (failed != 0)
                return failed;
        }
    }
    return 0;
}
