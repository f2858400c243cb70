/* Undoes what a box was given of /sys; see vgpio_sweep.h. */
#include "vgpio_sweep.h"

#include "kern/cleanup.h"
#include "kern/sys.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/* The file, if it is of /sys and belongs to the box still; or -1. */
static int open_given(unsigned base, const char *path)
{
    const struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_NO_SYMLINKS};
    auto_fd fd = (int)sys_call(SYS_openat2, AT_FDCWD, (long)path, (long)&how, sizeof(how), 0, 0);
    struct statfs fs;
    struct stat st;
    if (fd < 0 || fstatfs(fd, &fs) != 0 || fs.f_type != SYSFS_MAGIC || fstat(fd, &st) != 0 ||
        !S_ISREG(st.st_mode) || st.st_uid != base)
        return -1;
    return steal_fd(&fd);
}

static void give_back(unsigned base, unsigned uid, unsigned gid, const char *path)
{
    auto_fd fd = open_given(base, path);
    char link[40];
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd); /* fits: a number is short */
    if (fd >= 0 && chown(link, uid, gid) != 0)
        return; /* the device goes away at this moment, and the file with it */
}

static void unexport(unsigned chip, unsigned channel)
{
    char path[64], text[16];
    (void)snprintf(path, sizeof(path), "/sys/class/pwm/pwmchip%u/unexport", chip); /* fits */
    int length = snprintf(text, sizeof(text), "%u", channel);                      /* fits */
    auto_fd fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, text, (size_t)length) != length)
        return; /* a chip that went away took the channel along */
}

const char *vgpio_sweep_shows(const char *line)
{
    unsigned base, uid, gid;
    int path = 0;
    if (sscanf(line, "owner %u %u %u %n", &base, &uid, &gid, &path) != 3 || path == 0)
        return line;
    auto_fd fd = open_given(base, line + path);
    return fd >= 0 ? line + path : NULL;
}

void vgpio_sweep(const char *line)
{
    unsigned base, uid, gid;
    int path = 0;
    if (sscanf(line, "owner %u %u %u %n", &base, &uid, &gid, &path) == 3 && path > 0)
        give_back(base, uid, gid, line + path);
    else if (sscanf(line, "pwm %u %u", &base, &uid) == 2)
        unexport(base, uid);
}
