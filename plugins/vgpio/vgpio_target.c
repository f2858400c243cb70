/* A process of the box that waits for an answer; see vgpio_target.h. Runs in kern. */
#include "vgpio_target.h"

#include "kern/cleanup.h"
#include "kern/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/uio.h>

int vgpio_target_is_there(const struct vgpio_target *target)
{
    uint64_t cookie = target->call.cookie;
    return ioctl(target->call.listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &cookie) == 0;
}

/* A thread other than the first has no pidfd before Linux 6.9. */
static int group_of(int pid)
{
    char path[48], text[1024];
    (void)snprintf(path, sizeof(path), "/proc/%d/status", pid); /* fits: a number is short */
    auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (length <= 0)
        return -ESRCH;
    text[length] = '\0';
    const char *at = strstr(text, "\nTgid:");
    int group = at != NULL ? atoi(at + sizeof("\nTgid:") - 1) : 0;
    return group > 0 ? group : -ESRCH;
}

int vgpio_target_open(const struct kern_call *call, struct vgpio_target *ret_target)
{
    int group = group_of(call->pid);
    auto_fd pidfd = group > 0 ? (int)sys_call(SYS_pidfd_open, group, 0, 0, 0, 0, 0) : group;
    if (pidfd < 0)
        return -ESRCH;
    char path[48];
    (void)snprintf(path, sizeof(path), "/proc/%d/mem", call->pid); /* fits: a number is short */
    struct vgpio_target target = {.call = *call, .pidfd = pidfd};
    auto_fd memory =
        open(path, O_RDWR | O_CLOEXEC); /* EACCES where the box has a range of ids: then by number */
    if (!vgpio_target_is_there(&target))
        return -ESRCH;
    target.pidfd = steal_fd(&pidfd);
    target.memory = steal_fd(&memory);
    *ret_target = target;
    return 0;
}

void vgpio_target_close(struct vgpio_target *target)
{
    kern_close_fd(&target->pidfd);
    kern_close_fd(&target->memory);
}

int vgpio_target_read(const struct vgpio_target *target, uint64_t address, void *ret_bytes, size_t size)
{
    struct iovec here = {.iov_base = ret_bytes, .iov_len = size};
    struct iovec there = {.iov_base = (void *)(uintptr_t)address, .iov_len = size};
    ssize_t got = target->memory >= 0 ? pread(target->memory, ret_bytes, size, (off_t)address)
                                      : process_vm_readv(target->call.pid, &here, 1, &there, 1, 0);
    if (got < 0 && errno == EPERM)
        return -EPERM;
    if (!vgpio_target_is_there(target))
        return -ESRCH; /* what was read may be of somebody else */
    return got == (ssize_t)size ? 0 : -EFAULT;
}

int vgpio_target_write(const struct vgpio_target *target, uint64_t address, const void *bytes, size_t size)
{
    struct iovec here = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = size};
    struct iovec there = {.iov_base = (void *)(uintptr_t)address, .iov_len = size};
    if (!vgpio_target_is_there(target))
        return -ESRCH;
    ssize_t put = target->memory >= 0 ? pwrite(target->memory, bytes, size, (off_t)address)
                                      : process_vm_writev(target->call.pid, &here, 1, &there, 1, 0);
    return put == (ssize_t)size ? 0 : -EFAULT;
}

int vgpio_target_fd(const struct vgpio_target *target, uint64_t number, int *ret_fd)
{
    int fd = (int)sys_call(SYS_pidfd_getfd, target->pidfd, (long)(uint32_t)number, 0, 0, 0, 0);
    if (fd < 0)
        return fd;
    *ret_fd = fd;
    return 0;
}

int vgpio_target_give(const struct vgpio_target *target, int fd, int cloexec)
{
    struct seccomp_notif_addfd add = {
        .id = target->call.cookie, .srcfd = (uint32_t)fd, .newfd_flags = cloexec != 0 ? O_CLOEXEC : 0};
    int number = ioctl(target->call.listener, SECCOMP_IOCTL_NOTIF_ADDFD, &add);
    return number < 0 ? -errno : number;
}
