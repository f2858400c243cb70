/* Graphics and accelerators for gpu:NAME: exactly the nodes that the profile names, by what sysfs says they are, so that a box gets the
 * device that was meant even when the numbers of the nodes change. Never a node that can set modes. Uses nothing but kern/plugin.h and
 * kern/cleanup.h, as any plugin could. */
#include "gpu_manifest.h"

#include "gpu_check.h"
#include "gpu_find.h"
#include "kern/cleanup.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#define DEVICES 16

struct gpu_state {
    uint32_t nodes;
    /* Whose directories stand in the box: a device may have several nodes, and several profiles may name it. */
    uint32_t device_count;
    ino_t device[DEVICES];
};

/* What one search needs. */
struct wish {
    kern_box *box;
    int classes; /* /sys/class */
    const kern_values *profile;
    struct gpu_state *state;
    struct kern_error *err;
};

/* The path of a directory that is open, when the kernel's device tree has it: not what somebody put into its place. */
static int path_in_sysfs(int fd, char *ret_path, size_t size)
{
    char link[40];
    struct statfs fs;
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd); /* fits: a number is short */
    ssize_t length = fd < 0 ? -1 : readlink(link, ret_path, size - 1);
    ret_path[length > 0 ? length : 0] = '\0';
    return strncmp(ret_path, "/sys/devices/", 13) == 0 && fstatfs(fd, &fs) == 0 && fs.f_type == SYSFS_MAGIC;
}

static int add_directory(const struct wish *wish, int fd, const char *path)
{
    struct gpu_state *state = wish->state;
    struct stat st;
    if (fstat(fd, &st) != 0)
        return kern_refuse(wish->err, errno, "cannot look at \"%s\"", path);
    for (uint32_t i = 0; i < state->device_count; i++)
        if (state->device[i] == st.st_ino)
            return 0;
    if (state->device_count == DEVICES)
        return kern_refuse(wish->err, 0, "a box gets at most %d devices", DEVICES);
    state->device[state->device_count++] = st.st_ino;
    return kern_add_bind(wish->box, fd, path, KERN_MOUNT_KERNEL | KERN_MOUNT_READ_ONLY, wish->err);
}

/* What libdrm and its like ask sysfs for: the device's directory, and the two links that lead to it from the node. Where the box's root
 * is the host's, files that only root may read (the memory of a PCI device) would be open to it: there it has the node alone. */
static int add_sysfs(const struct wish *wish, const struct gpu_node *node)
{
    char path[96], device[PATH_MAX], self[PATH_MAX], link[128];
    const char *ids = kern_get_string(kern_options(wish->box), "userns");
    if (ids != NULL && strcmp(ids, "host") == 0)
        return 0;
    (void)snprintf(path, sizeof(path), "%s/%s", node->class, node->name); /* fits, as all of them */
    auto_fd here = openat(wish->classes, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    auto_fd above = here < 0 ? -1 : openat(here, "device", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (!path_in_sysfs(here, self, sizeof(self)) || !path_in_sysfs(above, device, sizeof(device)))
        return 0; /* a node without a device behind it has no more to show */
    int failed = add_directory(wish, above, device);
    (void)snprintf(link, sizeof(link), "/sys/class/%s", path);
    if (failed == 0)
        failed = kern_add_link(wish->box, link, self, wish->err);
    (void)snprintf(link, sizeof(link), "/sys/dev/char/%u:%u", node->major, node->minor);
    return failed == 0 ? kern_add_link(wish->box, link, self, wish->err) : failed;
}

/* The node must be the device that sysfs speaks of: its numbers are compared, and kern compares again in the box. */
static int add_node(void *data, const struct gpu_node *node)
{
    const struct wish *wish = data;
    char path[80];
    struct stat st;
    const char *vendor = kern_get_string(wish->profile, "vendor");
    if (vendor != NULL && strcmp(vendor, node->vendor) != 0)
        return kern_refuse(wish->err, 0, "%s is of vendor \"%s\", not \"%s\"", node->name, node->vendor,
                           vendor);
    (void)snprintf(path, sizeof(path), "/dev/%s", node->path); /* fits */
    auto_fd fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0)
        return kern_refuse(wish->err, errno, "cannot open \"%s\"", path);
    if (!S_ISCHR(st.st_mode) || st.st_rdev != makedev(node->major, node->minor))
        return kern_refuse(wish->err, 0, "\"%s\" is not the device %u:%u that the kernel calls %s", path,
                           node->major, node->minor, node->name);
    wish->state->nodes++;
    int failed = kern_add_bind(wish->box, fd, path, KERN_MOUNT_DEVICE, wish->err);
    return failed == 0 ? add_sysfs(wish, node) : failed;
}

static int add_devices(struct wish *wish)
{
    for (uint32_t i = 0; i < kern_get_count(wish->profile, "device"); i++) {
        const char *id = kern_get_item(wish->profile, "device", i);
        int found = gpu_find(wish->classes, id, add_node, wish);
        if (found < 0)
            return kern_fail(wish->err, -found, "cannot look for \"%s\" in \"/sys/class\"",
                             id); /* the first cause stays */
        if (found == 0) {
            kern_refuse(wish->err, 0, "this machine has no render or accelerator node for \"%s\"", id);
            kern_hint(wish->err, "ls -l /sys/class/drm /sys/class/accel");
            return -ENODEV;
        }
    }
    return 0;
}

/* prepare, on the host. */
static int gpu_prepare(kern_box *box, void *data, struct kern_error *err)
{
    auto_fd classes = open("/sys/class", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (classes < 0)
        return kern_refuse(err, errno, "cannot look for devices in \"/sys/class\"");
    for (uint32_t i = 0; i < kern_profile_count(box); i++) {
        struct wish wish = {
            .box = box, .classes = classes, .profile = kern_profile(box, i), .state = data, .err = err};
        if (add_devices(&wish) != 0)
            return kern_wrap(err, "gpu:%s", kern_profile_name(box, i));
    }
    return 0;
}

static void gpu_teardown(kern_box *box, void *data, const struct kern_outcome *outcome)
{
    const struct gpu_state *state = data;
    (void)outcome; /* the same however it ended */
    kern_report_int(box, "nodes", state->nodes);
}

KERN_PLUGIN(GPU_MANIFEST, .state_size = sizeof(struct gpu_state), .prepare = gpu_prepare,
            .teardown = gpu_teardown, .check = gpu_check);
