/* Disks of real root: the kernel's own ext4 on a loop device. In prepare, in kern, with root's capabilities. The device clears
 * itself when the last mount of it is gone (LO_FLAGS_AUTOCLEAR), and the mount is attached in the box's mount namespace only: so
 * nothing is left whoever is killed. */
#include "vdisk_state.h"

#include "kern/cleanup.h"
#include "kern/sys.h"

#include <linux/loop.h>
#include <linux/mount.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>

#define RACES 50

/* Between asking for a free device and taking it, somebody else may have been faster. */
static int take_device(int control, int image, char *path, size_t room)
{
    struct loop_config config = {
        .fd = (uint32_t)image,
        .block_size = 0,
        /* Past the page cache of the host: what a box writes is cached once, and counts against its own cap. */
        .info = {.lo_flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO}};
    for (int race = 0; race < RACES; race++) {
        int number = ioctl(control, LOOP_CTL_GET_FREE);
        if (number < 0)
            return -errno;
        (void)snprintf(path, room, "/dev/loop%d", number); /* fits: a number is short */
        int device = open(path, O_RDWR | O_CLOEXEC);
        if (device < 0)
            return -errno;
        if (ioctl(device, LOOP_CONFIGURE, &config) == 0)
            return device;
        int code = errno;
        (void)close(device); /* not ours */
        if (code != EBUSY && code != EAGAIN)
            return -code;
    }
    return -EBUSY;
}

static int set(int context, unsigned command, const char *key, const char *value)
{
    return (int)sys_call(SYS_fsconfig, context, command, SYS_P(key), SYS_P(value), 0, 0);
}

static int mount_device(const char *device, int *ret_tree)
{
    auto_fd context = (int)sys_call(SYS_fsopen, SYS_P("ext4"), FSOPEN_CLOEXEC, 0, 0, 0, 0);
    if (context < 0)
        return context;
    int failed = set(context, FSCONFIG_SET_STRING, "source", device);
    if (failed == 0) /* filling the tables in the background would only make the sparse file grow */
        failed = set(context, FSCONFIG_SET_FLAG, "noinit_itable", NULL);
    if (failed == 0)
        failed = set(context, FSCONFIG_CMD_CREATE, NULL, NULL);
    if (failed != 0)
        return failed;
    int tree =
        (int)sys_call(SYS_fsmount, context, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, 0, 0, 0);
    if (tree < 0)
        return tree;
    *ret_tree = tree;
    return 0;
}

/* Empty, and open to every user of the box, as a fresh tmpfs is. */
static int furnish(int tree, uint32_t is_new)
{
    auto_fd root = sys_open(tree, ".", O_RDONLY | O_DIRECTORY, 0);
    if (root < 0)
        return root;
    (void)unlinkat(root, "lost+found", AT_REMOVEDIR); /* e2fsck makes it again when it needs it */
    return is_new && fchmod(root, 01777) != 0 ? -errno : 0;
}

int vdisk_loop_mount(struct vdisk_disk *disk, int *ret_tree, const char **ret_why, struct kern_error *err)
{
    char path[32];
    struct stat st;
    auto_fd control = open("/dev/loop-control", O_RDWR | O_CLOEXEC), tree = -1;
    if (control < 0) {
        *ret_why = "no loop devices here";
        return -ENOTSUP;
    }
    auto_fd device = take_device(control, disk->image, path, sizeof(path));
    if (device < 0) {
        *ret_why = device == -EPERM || device == -EACCES ? "loop devices are not allowed here"
                                                         : "no loop device is free";
        return -ENOTSUP;
    }
    int failed = mount_device(path, &tree);
    if (failed == -ENODEV) {
        *ret_why = "this kernel has no ext4";
        return -ENOTSUP;
    }
    if (failed != 0)
        return kern_fail(err, -failed, "cannot mount disk \"%s\" on \"%s\"", disk->name, path);
    failed = disk->is_new || disk->has_grown ? furnish(tree, disk->is_new) : 0;
    if (failed != 0)
        return kern_fail(err, -failed, "cannot prepare disk \"%s\"", disk->name);
    disk->device = fstat(device, &st) == 0 ? st.st_rdev : 0;
    *ret_tree = steal_fd(&tree);
    return 0;
}
