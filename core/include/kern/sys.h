/* kern/sys.h: raw system calls that return -errno, for enter. Code that runs in a process sharing its memory with the supervisor (the outer
 * init, the box's first process before exec, and the supervisor while they live) must not touch errno, which is one
 * variable for all three; nor libc's set*id wrappers, which signal threads that do not exist. Nothing but inline functions
 * for C: a plugin may use it and is bound to nothing by that. Include it in .c files only, for its names are short. */
#ifndef KERN_SYS_H
#define KERN_SYS_H

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>

#if defined(__x86_64__)

static inline long sys_call(long nr, long a, long b, long c, long d, long e, long f)
{
    long ret;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(ret)
                     : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return ret;
}

#elif defined(__aarch64__)

static inline long sys_call(long nr, long a, long b, long c, long d, long e, long f)
{
    register long x8 __asm__("x8") = nr;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
    return x0;
}

#else
#error "kern knows x86_64 and aarch64"
#endif

#define SYS_P(pointer) ((long)(uintptr_t)(pointer))

static inline int sys_open(int dir, const char *path, int flags, unsigned mode)
{
    return (int)sys_call(SYS_openat, dir, SYS_P(path), flags | O_CLOEXEC, (long)mode, 0, 0);
}

static inline int sys_open_beneath(int dir, const char *path, int flags, unsigned mode, uint64_t resolve)
{
    struct open_how how = {.flags = (uint64_t)(unsigned)(flags | O_CLOEXEC),
                           .mode = mode,
                           .resolve = resolve | RESOLVE_NO_MAGICLINKS};
    /* A rename or a mount anywhere makes the kernel give up on "..": with many boxes starting at once that is likely, and
     * only asking again helps. */
    int fd = -EAGAIN;
    for (int attempt = 0; attempt < 1000 && fd == -EAGAIN; attempt++)
        fd = (int)sys_call(SYS_openat2, dir, SYS_P(path), SYS_P(&how), (long)sizeof(how), 0, 0);
    return fd;
}

static inline int sys_close(int fd)
{
    return (int)sys_call(SYS_close, fd, 0, 0, 0, 0, 0);
}

static inline long sys_read(int fd, void *buffer, size_t size)
{
    return sys_call(SYS_read, fd, SYS_P(buffer), (long)size, 0, 0, 0);
}

static inline long sys_write(int fd, const void *bytes, size_t size)
{
    return sys_call(SYS_write, fd, SYS_P(bytes), (long)size, 0, 0, 0);
}

static inline int sys_mount(const char *source, const char *target, const char *type, unsigned long flags,
                            const char *data)
{
    return (int)sys_call(SYS_mount, SYS_P(source), SYS_P(target), SYS_P(type), (long)flags, SYS_P(data), 0);
}

static inline int sys_umount(const char *target, int flags)
{
    return (int)sys_call(SYS_umount2, SYS_P(target), flags, 0, 0, 0, 0);
}

static inline int sys_mkdirat(int dir, const char *path, unsigned mode)
{
    return (int)sys_call(SYS_mkdirat, dir, SYS_P(path), (long)mode, 0, 0, 0);
}

static inline int sys_symlinkat(const char *target, int dir, const char *path)
{
    return (int)sys_call(SYS_symlinkat, SYS_P(target), dir, SYS_P(path), 0, 0, 0);
}

static inline int sys_open_tree(int dir, const char *path, unsigned flags)
{
    return (int)sys_call(SYS_open_tree, dir, SYS_P(path), (long)flags, 0, 0, 0);
}

static inline int sys_move_mount(int from, const char *from_path, int to, const char *to_path, unsigned flags)
{
    return (int)sys_call(SYS_move_mount, from, SYS_P(from_path), to, SYS_P(to_path), (long)flags, 0);
}

static inline int sys_mount_setattr(int dir, const char *path, unsigned flags, const void *attr, size_t size)
{
    return (int)sys_call(SYS_mount_setattr, dir, SYS_P(path), (long)flags, SYS_P(attr), (long)size, 0);
}

static inline int sys_chdir(const char *path)
{
    return (int)sys_call(SYS_chdir, SYS_P(path), 0, 0, 0, 0, 0);
}

static inline int sys_fchdir(int fd)
{
    return (int)sys_call(SYS_fchdir, fd, 0, 0, 0, 0, 0);
}

static inline int sys_unshare(uint64_t flags)
{
    return (int)sys_call(SYS_unshare, (long)flags, 0, 0, 0, 0, 0);
}

static inline int sys_setns(int fd, uint64_t flags)
{
    return (int)sys_call(SYS_setns, fd, (long)flags, 0, 0, 0, 0);
}

static inline int sys_prctl(int op, unsigned long a, unsigned long b, unsigned long c, unsigned long d)
{
    return (int)sys_call(SYS_prctl, op, (long)a, (long)b, (long)c, (long)d, 0);
}

static inline int sys_setresuid(uint32_t id)
{
    return (int)sys_call(SYS_setresuid, (long)id, (long)id, (long)id, 0, 0, 0);
}

static inline int sys_setresgid(uint32_t id)
{
    return (int)sys_call(SYS_setresgid, (long)id, (long)id, (long)id, 0, 0, 0);
}

static inline int sys_setgroups(size_t count, const uint32_t *groups)
{
    return (int)sys_call(SYS_setgroups, (long)count, SYS_P(groups), 0, 0, 0, 0);
}

/* Closes every descriptor from 3 on that is not in the list, which it sorts. For a copy of kern that stays for a while: whoever else
 * holds the ends of kern's channels keeps kern from seeing that they were closed. */
static inline void sys_close_all_but(int *fds, size_t count)
{
    unsigned from = 3;
    for (size_t i = 1; i < count; i++)
        for (size_t k = i; k > 0 && fds[k - 1] > fds[k]; k--) {
            int other = fds[k];
            fds[k] = fds[k - 1];
            fds[k - 1] = other;
        }
    for (size_t i = 0; i < count; i++) {
        if (fds[i] < 0 || (unsigned)fds[i] < from)
            continue;
        if ((unsigned)fds[i] > from)
            (void)sys_call(SYS_close_range, (long)from, (long)fds[i] - 1, 0, 0, 0,
                           0); /* valid by its making */
        from = (unsigned)fds[i] + 1;
    }
    (void)sys_call(SYS_close_range, (long)from, (long)~0U, 0, 0, 0, 0); /* as above */
}

/* ---- Descriptors over a unix socket: unix(7), SCM_RIGHTS ---- */

#define SYS_FDS_MOST 253 /* in one message: the kernel's SCM_MAX_FD */

/* Sends `length` bytes and `count` descriptors, at most SYS_FDS_MOST, as one message; the caller keeps its own copies. `flags` are
 * those of sendmsg(2), MSG_NOSIGNAL is always set. Returns how many bytes went, or -errno. */
static inline long sys_send_fds(int socket, const void *bytes, size_t length, const int *fds, size_t count,
                                int flags)
{
    union {
        char bytes[CMSG_SPACE(SYS_FDS_MOST * sizeof(int))];
        struct cmsghdr header;
    } control;
    struct iovec data = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = length};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1};
    if (count > SYS_FDS_MOST)
        return -EINVAL;
    if (count > 0) {
        memset(control.bytes, 0, CMSG_SPACE(count * sizeof(int)));
        control.header = (struct cmsghdr){
            .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(count * sizeof(int))};
        memcpy(CMSG_DATA(&control.header), fds, count * sizeof(int));
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(count * sizeof(int));
    }
    return sys_call(SYS_sendmsg, socket, SYS_P(&message), flags | MSG_NOSIGNAL, 0, 0, 0);
}

/* Receives one message: up to `length` bytes, and up to `most` descriptors into `ret_fds`, how many in `ret_count`. They are the
 * caller's to close, and closed at exec. A message with more descriptors than that, or than this process may open, gives
 * -EMFILE, and none is kept: half of them would be none. `flags` are those of recvmsg(2). Returns how many bytes came, 0 at the end, or -errno. */
static inline long sys_receive_fds(int socket, void *bytes, size_t length, int *ret_fds, size_t most,
                                   size_t *ret_count, int flags)
{
    union {
        char bytes[CMSG_SPACE(SYS_FDS_MOST * sizeof(int))];
        struct cmsghdr header;
    } control;
    struct iovec data = {.iov_base = bytes, .iov_len = length};
    struct msghdr message = {.msg_iov = &data,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
    *ret_count = 0;
    long got = sys_call(SYS_recvmsg, socket, SYS_P(&message), flags | MSG_CMSG_CLOEXEC, 0, 0, 0);
    const struct cmsghdr *header = got >= 0 ? CMSG_FIRSTHDR(&message) : NULL;
    int cut = got >= 0 && (message.msg_flags & MSG_CTRUNC) != 0;
    if (header == NULL && cut) /* there was room for none */
        return -EMFILE;
    if (header == NULL || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
        return got;
    const unsigned char *at = CMSG_DATA(header);
    size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    if (count <= most && !cut) {
        memcpy(ret_fds, at, count * sizeof(int));
        *ret_count = count;
        return got;
    }
    for (size_t i = 0; i < count; i++) {
        int fd = -1;
        memcpy(&fd, at + i * sizeof(int), sizeof(int));
        (void)sys_close(fd); /* it came with the message */
    }
    return -EMFILE;
}

_Noreturn static inline void sys_exit(int code)
{
    for (;;)
        (void)sys_call(SYS_exit_group, code, 0, 0, 0, 0, 0); /* does not return */
}

/* For a child of the same pid namespace that is nothing without its parent: SIGKILL ends it together with the thread that made it, or
 * it ends here when that thread's process was gone before the wish (prctl(2), PR_SET_PDEATHSIG). `parent`: its getpid() before
 * the child was made. To be said again after a change of ids, which takes the wish back. */
static inline void sys_end_with(pid_t parent)
{
    (void)sys_prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0); /* cannot fail with a valid signal */
    if (sys_call(SYS_getppid, 0, 0, 0, 0, 0, 0) != parent)
        sys_exit(1);
}

#endif
