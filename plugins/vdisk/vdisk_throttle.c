/* iops and bandwidth of a disk: io.max of version 2, blkio.throttle of version 1, on the loop device, in the box's own control
 * group, read back. In prepare, in kern. */
#include "vdisk_state.h"

#include "kern/cleanup.h"
#include "kern/foundation.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>

/* Writes a line and looks for it among what the file says then. */
static int write_line(int group, const char *file, const char *line)
{
    char text[4096];
    auto_fd fd = openat(group, file, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    if (write(fd, line, strlen(line)) < 0)
        return -errno;
    ssize_t got = pread(fd, text, sizeof(text) - 1, 0);
    text[got > 0 ? got : 0] = '\0';
    return strstr(text, line) != NULL ? 0 : -EINVAL;
}

static int throttle_unified(const struct vdisk_disk *disk, int group)
{
    char line[160], number[2][24] = {"max", "max"};
    if (disk->bandwidth != 0)
        (void)snprintf(number[0], sizeof(number[0]), "%" PRIu64, disk->bandwidth); /* fits */
    if (disk->iops != 0)
        (void)snprintf(number[1], sizeof(number[1]), "%u", disk->iops); /* fits */
    (void)snprintf(line, sizeof(line), "%u:%u rbps=%s wbps=%s riops=%s wiops=%s", major(disk->device),
                   minor(disk->device), number[0], number[0], number[1], number[1]); /* fits by its parts */
    return write_line(group, "io.max", line);
}

static int throttle_legacy(const struct vdisk_disk *disk, int group)
{
    const struct {
        const char *file;
        uint64_t value;
    } rows[] = {{"blkio.throttle.read_bps_device", disk->bandwidth},
                {"blkio.throttle.write_bps_device", disk->bandwidth},
                {"blkio.throttle.read_iops_device", disk->iops},
                {"blkio.throttle.write_iops_device", disk->iops}};
    int failed = 0;
    for (size_t i = 0; failed == 0 && i < sizeof(rows) / sizeof(rows[0]); i++) {
        char line[64];
        (void)snprintf(line, sizeof(line), "%u:%u %" PRIu64, major(disk->device), minor(disk->device),
                       rows[i].value);
        failed = rows[i].value != 0 ? write_line(group, rows[i].file, line) : 0;
    }
    return failed;
}

/* 0 and the kind of the group in *ret_by. */
static int try_groups(kern_box *box, const struct vdisk_disk *disk, const char **ret_by)
{
    const char *path = NULL, *controller = NULL;
    int result = -ENOENT;
    for (uint32_t i = 0; result != 0 && kern_group_view(box, i, &path, &controller) != 0; i++) {
        if (controller != NULL && strcmp(controller, "blkio") != 0)
            continue;
        auto_fd group = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (group >= 0)
            result = controller == NULL ? throttle_unified(disk, group) : throttle_legacy(disk, group);
        *ret_by = controller == NULL ? "cgroup2" : "cgroup1";
    }
    return result;
}

/* One row for all disks: it binds when each of them does. */
static void report(kern_box *box, const struct vdisk_disk *disk, bool binds, const char *by)
{
    struct kern_limit limit = {.name = "io-max", .enforced = binds && kern_limit_binds(box, "io-max") != 0};
    char key[96];
    (void)snprintf(limit.asked, sizeof(limit.asked), "%u iops, %" PRIu64 " bytes/s", disk->iops,
                   disk->bandwidth); /* a large one is cut: kern.toml has it */
    (void)snprintf(limit.by, sizeof(limit.by), "%s", limit.enforced ? by : "none"); /* short words */
    kern_limit_set(box, &limit);
    (void)snprintf(key, sizeof(key), "%s.throttled", disk->name); /* names are short */
    kern_report_int(box, key, binds);
}

int vdisk_throttle(kern_box *box, const struct vdisk_disk *disk, struct kern_error *err)
{
    char why[400] = "only root's disks are devices of their own";
    const char *by = "none";
    if (disk->iops == 0 && disk->bandwidth == 0)
        return 0;
    int there = disk->kind == VDISK_LOOP ? kern_need_io_group(box, why, sizeof(why), err) : 0;
    if (there < 0)
        return there;
    int failed = there ? try_groups(box, disk, &by) : -ENOTSUP;
    if (there && failed != 0)
        (void)snprintf(why, sizeof(why), "the kernel does not take them: %s", strerror(-failed)); /* fits */
    report(box, disk, failed == 0, by);
    if (failed != 0)
        kern_warn(box, "iops and bandwidth of disk %s are not enforced: %s", disk->name, why);
    return 0;
}
