/* Putting a mount where it belongs, with the attributes it shall have: by the descriptor-based calls, or by mount(2) where
 * another sandbox forbids those (kern inside a kern box). Runs in the box's first process; raw calls only. */
#include "box.h"

#include "cleanup.h"
#include "sys.h"

#include <linux/mount.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/statvfs.h>

static uint64_t attributes_of(uint32_t flags)
{
    uint64_t set = MOUNT_ATTR_NOSUID;
    if ((flags & KERN_MOUNT_READ_ONLY) != 0)
        set |= MOUNT_ATTR_RDONLY;
    if ((flags & KERN_MOUNT_DEVICE) == 0)
        set |= MOUNT_ATTR_NODEV;
    return set;
}

static int copy_tree(int source, unsigned *recursive)
{
    int tree = sys_open_tree(source, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | *recursive);
    if (tree != -EINVAL || *recursive != 0)
        return tree;
    /* A single mount cannot be copied out of a tree whose parts the user namespace locked together. */
    *recursive = AT_RECURSIVE;
    return sys_open_tree(source, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | *recursive);
}

static int bind_by_descriptor(const struct kern_bind *bind)
{
    unsigned recursive = (bind->flags & KERN_MOUNT_RECURSIVE) != 0 ? AT_RECURSIVE : 0;
    auto_fd copied = -1;
    int tree = bind->tree;
    if (tree < 0)
        tree = copied = copy_tree(bind->source, &recursive);
    if (tree < 0)
        return tree;
    struct mount_attr attr = {.attr_set = attributes_of(bind->flags)};
    int failed = sys_mount_setattr(tree, "", AT_EMPTY_PATH | recursive, &attr, sizeof(attr));
    if (failed != 0)
        return failed;
    return sys_move_mount(tree, "", bind->target, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
}

/* What a mount has already must be asked for again, or the kernel takes it for an attempt to loosen it. */
static unsigned long flags_to_keep(int mounted)
{
    struct statvfs fs;
    if (fstatvfs(mounted, &fs) != 0)
        return 0;
    return ((fs.f_flag & ST_NOEXEC) != 0 ? MS_NOEXEC : 0) | ((fs.f_flag & ST_RDONLY) != 0 ? MS_RDONLY : 0) |
           ((fs.f_flag & ST_NODEV) != 0 ? MS_NODEV : 0) | ((fs.f_flag & ST_NOATIME) != 0 ? MS_NOATIME : 0) |
           ((fs.f_flag & ST_RELATIME) != 0 ? MS_RELATIME : 0);
}

/* Mounts below the source would come along with the attributes they have, which this call cannot reach: so what is to be
 * read-only comes without them. */
static int bind_by_name(const struct kern_bind *bind)
{
    char source[40], target[40];
    (void)snprintf(source, sizeof(source), "/proc/self/fd/%d", bind->source); /* fits: numbers are short */
    (void)snprintf(target, sizeof(target), "/proc/self/fd/%d", bind->target);
    bool recursive = (bind->flags & KERN_MOUNT_RECURSIVE) != 0 && (bind->flags & KERN_MOUNT_READ_ONLY) == 0;
    int failed = sys_mount(source, target, NULL, MS_BIND | (recursive ? MS_REC : 0), NULL);
    if (failed != 0)
        return failed;
    auto_fd top = sys_open_beneath(bind->root, bind->path, O_PATH, 0, RESOLVE_IN_ROOT);
    if (top < 0)
        return top;
    unsigned long flags = MS_BIND | MS_REMOUNT | MS_NOSUID | flags_to_keep(top);
    if ((bind->flags & KERN_MOUNT_READ_ONLY) != 0)
        flags |= MS_RDONLY;
    if ((bind->flags & KERN_MOUNT_DEVICE) == 0)
        flags |= MS_NODEV;
    (void)snprintf(target, sizeof(target), "/proc/self/fd/%d", top); /* fits: a number is short */
    return sys_mount(NULL, target, NULL, flags, NULL);
}

int kern_child_bind(const kern_box *box, const struct kern_bind *bind)
{
    return box->nested ? bind_by_name(bind) : bind_by_descriptor(bind);
}

int32_t kern_nested(const kern_box *box)
{
    return box->nested;
}
