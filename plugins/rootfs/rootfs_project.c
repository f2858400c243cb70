/* Project quotas; see rootfs_project.h.
 *
 * A box cannot leave its project: the kernel lets ids of projects be changed only from the user namespace that the machine began
 * with, and a box is never there when this is used. What it makes inherits the project of its directory. */
#include "rootfs_project.h"

#include "kern/cleanup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/dqblk_xfs.h>
#include <linux/fs.h>
#include <linux/quota.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define DEPTH_MOST   100    /* each level holds a descriptor */
#define PATIENT_MOST 300    /* each holds two, and a part of the stack: the box chose how many there are */
#define FILES_MOST   100000 /* a start is not to take seconds */
#define PIDS_MOST    4194304u
#define QUOTA_UNIT   1024u /* of the limits in struct if_dqblk */

uint32_t rootfs_project_id(pid_t pid, uint32_t index)
{
    return ROOTFS_PROJECT_FIRST + (uint32_t)pid % PIDS_MOST * ROOTFS_PROJECTS_PER_BOX + index;
}

static int quota(int fd, unsigned command, uint32_t id, void *data)
{
    /* Linux 5.14; before, a quota is reached by the name of its device only. */
    long result = syscall(SYS_quotactl_fd, fd, QCMD(command, PRJQUOTA), id, data);
    return result < 0 ? -errno : 0;
}

static int open_readable(int dir)
{
    int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static int read_attributes(int fd, struct fsxattr *ret_attributes)
{
    return ioctl(fd, FS_IOC_FSGETXATTR, ret_attributes) < 0 ? -errno : 0;
}

int rootfs_project_probe(int dir, uint32_t id)
{
    struct fs_quota_stat state = {0};
    struct fsxattr attributes;
    struct if_dqblk block;
    auto_fd fd = open_readable(dir);
    if (fd < 0)
        return fd;
    if (quota(fd, Q_XGETQSTAT, 0, &state) != 0 || (state.qs_flags & FS_QUOTA_PDQ_ENFD) == 0 ||
        read_attributes(fd, &attributes) != 0)
        return -ENOTSUP;
    if (attributes.fsx_projid != 0)
        return -EBUSY;
    int failed = quota(fd, Q_GETQUOTA, id, &block);
    if (failed == -ENOENT) /* xfs: nobody has heard of it yet */
        return 0;
    return failed != 0 ? failed : block.dqb_curspace != 0 || block.dqb_bhardlimit != 0 ? -EBUSY : 0;
}

/* ---- The files ---- */

struct walk {
    uint32_t from, to; /* projects */
    dev_t device;
    uint32_t seen;
    int patient; /* goes on where something cannot be changed */
};

static int move(int fd, const struct walk *walk, int is_directory)
{
    struct fsxattr attributes;
    int failed = read_attributes(fd, &attributes);
    if (failed != 0)
        return failed;
    if (attributes.fsx_projid != walk->from) /* a name met twice has moved already */
        return attributes.fsx_projid == walk->to || walk->patient ? 0 : -EBUSY;
    attributes.fsx_projid = walk->to;
    if (is_directory)
        attributes.fsx_xflags = walk->to != 0 ? attributes.fsx_xflags | FS_XFLAG_PROJINHERIT
                                              : attributes.fsx_xflags & ~(uint32_t)FS_XFLAG_PROJINHERIT;
    return ioctl(fd, FS_IOC_FSSETXATTR, &attributes) < 0 ? -errno : 0;
}

static int move_below(int fd, struct walk *walk, int depth);

/* Links, devices and the like have no content, and cannot be opened without consequences: they stay whose they are. */
static int move_entry(int dir, const char *name, struct walk *walk, int depth)
{
    struct stat st;
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? 0 : -errno; /* gone meanwhile */
    if (st.st_dev != walk->device || !(S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)))
        return 0;
    if (++walk->seen > FILES_MOST && !walk->patient)
        return -E2BIG;
    int directory = S_ISDIR(st.st_mode) ? O_DIRECTORY : 0;
    auto_fd fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | directory);
    if (fd < 0)
        return errno == ENOENT || errno == ELOOP || errno == ENOTDIR ? 0 : -errno; /* exchanged meanwhile */
    if (fstat(fd, &st) != 0 || st.st_dev != walk->device || !(S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)))
        return 0;
    /* The directory first: what is made in it meanwhile inherits. */
    int failed = move(fd, walk, directory != 0);
    return failed == 0 && directory ? move_below(fd, walk, depth + 1) : failed;
}

static int move_below(int fd, struct walk *walk, int depth)
{
    if (depth > (walk->patient ? PATIENT_MOST : DEPTH_MOST))
        return -ELOOP;
    int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    auto_dir list = copy >= 0 ? fdopendir(copy) : NULL;
    const struct dirent *entry;
    int failed = list != NULL ? 0 : -errno;
    while (failed == 0 && (entry = readdir(list)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        failed = move_entry(copy, entry->d_name, walk, depth);
        if (walk->patient)
            failed = 0;
    }
    return failed;
}

static int move_tree(int fd, uint32_t from, uint32_t to, int patient)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return -errno;
    struct walk walk = {.from = from, .to = to, .device = st.st_dev, .patient = patient};
    int failed = move(fd, &walk, 1);
    return failed == 0 || patient ? move_below(fd, &walk, 0) : failed;
}

/* ---- The limit ---- */

static int set_limit(int fd, uint32_t id, uint64_t most)
{
    struct if_dqblk block = {.dqb_bhardlimit = most / QUOTA_UNIT, .dqb_valid = QIF_BLIMITS};
    return quota(fd, Q_SETQUOTA, id, &block);
}

/* 0 when the limit stands and what is there fits. */
static int check_limit(int fd, uint32_t id, uint64_t most)
{
    struct if_dqblk block;
    int failed = quota(fd, Q_GETQUOTA, id, &block);
    if (failed != 0)
        return failed;
    return block.dqb_bhardlimit != most / QUOTA_UNIT ? -EINVAL : block.dqb_curspace > most ? -E2BIG : 0;
}

int rootfs_project_hold(int dir, uint32_t id, uint64_t most)
{
    auto_fd fd = open_readable(dir);
    if (fd < 0)
        return fd;
    if (most < QUOTA_UNIT)
        return -EINVAL; /* no limit at all would be what that rounds to */
    int failed = move_tree(fd, 0, id, 0);
    if (failed == 0)
        failed = set_limit(fd, id, most);
    if (failed == 0)
        failed = check_limit(fd, id, most);
    if (failed != 0)
        rootfs_project_release(fd, id);
    return failed;
}

void rootfs_project_release(int dir, uint32_t id)
{
    auto_fd fd = open_readable(dir);
    if (fd < 0)
        return;
    (void)move_tree(fd, id, 0, 1); /* what cannot be changed has been removed, or is another's by now */
    (void)set_limit(fd, id, 0);
}

void rootfs_project_sweep(const char *record, pid_t pid)
{
    char *path = NULL;
    unsigned long id = strtoul(record, &path, 10);
    uint32_t first = rootfs_project_id(pid, 0);
    if (path[0] != ' ' || path[1] != '/' || id < first || id - first >= ROOTFS_PROJECTS_PER_BOX)
        return;
    auto_fd dir = open(path + 1, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir >= 0)
        rootfs_project_release(dir, (uint32_t)id);
}
