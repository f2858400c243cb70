/* Open files of an I2C bus for a box that has single addresses of it. They are opened through a mount of the node's own that is
 * attached nowhere and closed to devices afterwards, so that the box cannot open what it got anew by /proc/self/fd: that
 * would be a file which nobody has parked. Made by kern itself where it may mount (root), else by the box's first process,
 * which sends them. prepare and the rest run in kern; vgpio_pool_enter() runs in the box's first process, raw calls only. */
#include "vgpio_state.h"

#include "kern/cleanup.h"
#include "kern/foundation.h"
#include "kern/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define TAG_FILE 0x12c0u /* and up: one for each bus */

/* Opens all files of the pool through a mount of their own. `node`: an O_PATH descriptor of this mount namespace. */
static int open_files(int node, int *ret_files, uint32_t count)
{
    int tree = sys_open_tree(node, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (tree < 0)
        return tree;
    char path[40];
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", tree); /* fits: a number is short */
    uint32_t opened = 0;
    int failed = 0;
    for (; failed == 0 && opened < count; opened += failed == 0) {
        int file = sys_open(AT_FDCWD, path, O_RDWR | O_CLOEXEC, 0);
        if (file < 0)
            failed = file;
        else
            ret_files[opened] = file;
    }
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_NODEV};
    if (failed == 0)
        failed = sys_mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof(attr));
    for (uint32_t i = 0; failed != 0 && i < opened; i++) {
        (void)sys_close(ret_files[i]); /* nothing was done with it */
        ret_files[i] = -1;
    }
    (void)sys_close(tree); /* the files keep the mount */
    return failed;
}

/* ---- In kern ---- */

static void on_file(kern_box *box, void *block, uint32_t tag, int32_t fd)
{
    struct vgpio_state *state = block;
    struct vgpio_node_bus *bus = &state->bus[(tag - TAG_FILE) % VGPIO_BUSES];
    (void)box; /* nothing to tell it */
    for (size_t i = 0; i < VGPIO_POOL; i++) {
        if (bus->pool[i] < 0) {
            bus->pool[i] = fd;
            return;
        }
    }
    (void)close(fd); /* more than was agreed */
}

int vgpio_pool_prepare(kern_box *box, struct vgpio_state *state, struct kern_error *err)
{
    int failed = 0;
    for (size_t i = 0; failed == 0 && i < state->bus_count; i++) {
        struct vgpio_node_bus *bus = &state->bus[i];
        if (bus->bus.whole)
            continue;
        if (geteuid() != 0) {
            failed = kern_receive_fd(box, TAG_FILE + (uint32_t)i, on_file, err);
            continue;
        }
        failed = open_files(bus->fd, bus->pool, VGPIO_POOL);
        if (failed != 0)
            failed = kern_fail(err, -failed, "cannot open \"%s\" for the box", bus->path);
    }
    return failed;
}

/* The one that was handed out longest ago: after 32 more, two programs of the box may have the same open file, and with it the
 * same of the addresses that were granted. */
int vgpio_pool_take(struct vgpio_node_bus *bus)
{
    int fd = bus->pool[bus->next++ % VGPIO_POOL];
    if (fd < 0)
        return -EBADF;
    return ioctl(fd, I2C_SLAVE, (unsigned long)VGPIO_PARKED) == 0 && ioctl(fd, I2C_PEC, 0UL) == 0 ? fd
                                                                                                  : -errno;
}

void vgpio_pool_clear(struct vgpio_node_bus *bus)
{
    for (size_t i = 0; i < VGPIO_POOL; i++)
        kern_close_fd(&bus->pool[i]);
}

/* ---- In the box's first process ---- */

static int send_files(kern_box *box, const struct vgpio_node_bus *bus, uint32_t tag, struct kern_error *err)
{
    auto_fd node = sys_open(AT_FDCWD, bus->path, O_PATH | O_NOFOLLOW | O_CLOEXEC, 0);
    struct stat st;
    if (node < 0 || fstat(node, &st) != 0 || !S_ISCHR(st.st_mode) || st.st_rdev != bus->rdev)
        return kern_fail(err, node < 0 ? -node : ESTALE, "cannot open \"%s\" again", bus->path);
    int files[VGPIO_POOL];
    int failed = open_files(node, files, VGPIO_POOL);
    if (failed != 0)
        return kern_fail(err, -failed, "cannot open \"%s\" for the box", bus->path);
    for (size_t i = 0; i < VGPIO_POOL; i++) {
        if (failed == 0)
            failed = kern_send_fd(box, tag, files[i], err);
        (void)sys_close(files[i]); /* kern has it now */
    }
    return failed;
}

int vgpio_pool_enter(kern_box *box, const struct vgpio_state *state, struct kern_error *err)
{
    int failed = 0;
    for (size_t i = 0; failed == 0 && i < state->bus_count; i++)
        if (!state->bus[i].bus.whole && state->bus[i].pool[0] < 0)
            failed = send_files(box, &state->bus[i], TAG_FILE + (uint32_t)i, err);
    return failed;
}
