/* The filter of the network workers; see egress_confine.h. Runs in a worker. */
#include "egress_confine.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>

void egress_raise_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max < 65536 ? limit.rlim_max : 65536;
    (void)setrlimit(RLIMIT_NOFILE, &limit); /* fewer connections at one time then */
}

#if defined(__SANITIZE_ADDRESS__)

int egress_confine(void)
{
    return 0; /* the sanitizer has calls of its own */
}

#else

#define YES(call) \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (call), 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
/* The architecture was checked by the filter below this one, which every worker has. */
static const struct sock_filter filter_code[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    YES(SYS_epoll_pwait),
#if defined(SYS_epoll_wait)
    YES(SYS_epoll_wait),
#endif
    YES(SYS_recvfrom),
    YES(SYS_sendto),
    YES(SYS_splice),
    YES(SYS_accept4),
    YES(SYS_connect),
    YES(SYS_epoll_ctl),
    YES(SYS_close),
    YES(SYS_setsockopt),
    YES(SYS_getsockopt),
    YES(SYS_getpeername),
    YES(SYS_getsockname),
    YES(SYS_shutdown),
    YES(SYS_clock_gettime),
    YES(SYS_recvmsg),
    YES(SYS_sendmsg),
    YES(SYS_listen),
    YES(SYS_getrandom),
    YES(SYS_write),
    YES(SYS_read),
    YES(SYS_pipe2),
    YES(SYS_fcntl),
    YES(SYS_mmap),
    YES(SYS_munmap),
    YES(SYS_mremap),
    YES(SYS_brk),
    YES(SYS_madvise),
    YES(SYS_exit_group),
    YES(SYS_rt_sigreturn),
    YES(SYS_restart_syscall),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 4),
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_INET, 1, 0),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_INET6, 0, 1),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
};
#undef YES

int egress_confine(void)
{
    struct sock_filter copy[sizeof(filter_code) / sizeof(filter_code[0])];
    for (size_t i = 0; i < sizeof(copy) / sizeof(copy[0]); i++)
        copy[i] = filter_code[i];
    struct sock_fprog program = {.len = sizeof(copy) / sizeof(copy[0]), .filter = copy};
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0 ? -errno : 0;
}

#endif
