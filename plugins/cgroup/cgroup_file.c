/* The files of a group; see cgroup_file.h. Runs in kern. */
#include "cgroup_file.h"

#include "kern/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/vfs.h>

int cgroup_open_group(const char *path, int *ret_fd)
{
    auto_fd fd = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    struct statfs fs;
    if (fstatfs(fd, &fs) < 0)
        return -errno;
    if ((unsigned long)fs.f_type != CGROUP_SUPER_MAGIC && (unsigned long)fs.f_type != CGROUP2_SUPER_MAGIC)
        return -ENOTSUP;
    *ret_fd = steal_fd(&fd);
    return 0;
}

static int write_whole(int fd, const char *text)
{
    /* The kernel takes a value in one write or not at all. */
    return pwrite(fd, text, strlen(text), 0) < 0 ? -errno : 0;
}

static int read_start(int fd, char *text, size_t room)
{
    ssize_t got = pread(fd, text, room - 1, 0);
    if (got < 0)
        return -errno;
    text[got] = '\0';
    return 0;
}

int cgroup_write(int dir, const char *file, const char *text)
{
    auto_fd fd = openat(dir, file, O_WRONLY | O_CLOEXEC);
    return fd < 0 ? -errno : write_whole(fd, text);
}

int cgroup_read(int dir, const char *file, char *text, size_t room)
{
    auto_fd fd = openat(dir, file, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -errno : read_start(fd, text, room);
}

int cgroup_write_back(int dir, const char *file, const char *value, char *text, size_t room)
{
    text[0] = '\0';
    auto_fd fd = openat(dir, file, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    int result = write_whole(fd, value);
    if (result == 0)
        (void)read_start(fd, text, room); /* the empty text says it */
    return result;
}
