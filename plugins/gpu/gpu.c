/* Graphics and accelerators for gpu:NAME: exactly the nodes that the profile names, by what sysfs says they are, so that a box gets the
 * device that was meant even when the numbers of the nodes change. Never a node that can set modes. Uses nothing but kern/plugin.h and
 * kern/cleanup.h, as any plugin could. */
#include "gpu_manifest.h"

#include "gpu_check.h"
#include "gpu_find.h"
#include "kern/cleanup.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

struct gpu_state {
    uint32_t nodes;
};

/* What one search needs. */
struct wish {
    kern_box *box;
    const kern_values *profile;
    struct gpu_state *state;
    struct kern_error *err;
};

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
    return kern_add_bind(wish->box, fd, path, KERN_MOUNT_DEVICE, wish->err);
}

static int add_devices(struct wish *wish, int classes)
{
    for (uint32_t i = 0; i < kern_get_count(wish->profile, "device"); i++) {
        const char *id = kern_get_item(wish->profile, "device", i);
        int found = gpu_find(classes, id, add_node, wish);
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
        struct wish wish = {.box = box, .profile = kern_profile(box, i), .state = data, .err = err};
        if (add_devices(&wish, classes) != 0)
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
