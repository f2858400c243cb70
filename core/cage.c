/* The filter of processes that read what strangers wrote: the workers of plugins, the client of registries, the unpackers of
 * layers. A denylist is enough for them: what they may do is bounded by their descriptors and their lack of capabilities; the
 * filter takes away the ways to other processes, to new programs and into the kernel. */
#include <kern/foundation.h>

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define OUR_ARCH AUDIT_ARCH_X86_64
#else
#define OUR_ARCH AUDIT_ARCH_AARCH64
#endif

#define X32_BIT 0x40000000 /* the same calls by other numbers */

static const unsigned always[] = {
    SYS_execve,
    SYS_execveat,
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_pidfd_getfd,
    SYS_kill,
    SYS_tkill,
    SYS_rt_sigqueueinfo,
    SYS_rt_tgsigqueueinfo,
    SYS_pidfd_send_signal,
    SYS_process_madvise,
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_open_tree,
    SYS_move_mount,
    SYS_fsopen,
    SYS_fsconfig,
    SYS_fsmount,
    SYS_fspick,
    SYS_mount_setattr,
    SYS_unshare,
    SYS_open_by_handle_at,
    SYS_bpf,
    SYS_perf_event_open,
    SYS_userfaultfd,
    SYS_keyctl,
    SYS_add_key,
    SYS_request_key,
    SYS_io_uring_setup,
    SYS_io_uring_enter,
    SYS_io_uring_register,
};

static const unsigned joining[] = {SYS_setns, SYS_pidfd_open};

static const unsigned forking[] = {
    SYS_clone,
    SYS_clone3,
#if defined(__x86_64__)
    SYS_fork,
    SYS_vfork,
#endif
};

/* What opens or changes a file by its name. */
static const unsigned naming[] = {
    SYS_openat,   SYS_openat2,   SYS_mkdirat,     SYS_mknodat,      SYS_unlinkat,
    SYS_renameat, SYS_renameat2, SYS_linkat,      SYS_symlinkat,    SYS_fchmodat,
    SYS_fchownat, SYS_utimensat, SYS_truncate,    SYS_chdir,        SYS_chroot,
    SYS_setxattr, SYS_lsetxattr, SYS_removexattr, SYS_lremovexattr, SYS_name_to_handle_at,
#if defined(__x86_64__)
    SYS_open,     SYS_creat,     SYS_mkdir,       SYS_mknod,        SYS_unlink,
    SYS_rmdir,    SYS_rename,    SYS_link,        SYS_symlink,      SYS_chmod,
    SYS_chown,    SYS_lchown,    SYS_utime,       SYS_utimes,       SYS_futimesat,
#endif
};

static const unsigned families[] = {AF_INET, AF_INET6,
                                    AF_NETLINK}; /* resolvers ask for the machine's addresses */

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

struct program {
    struct sock_filter
        code[2 * (COUNT(always) + COUNT(joining) + COUNT(forking) + COUNT(naming) + COUNT(families)) + 24];
    unsigned short length;
};

static void add(struct program *program, struct sock_filter instruction)
{
    program->code[program->length++] = instruction; /* sized for all of them */
}

static void load(struct program *program, size_t offset)
{
    add(program, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)offset));
}

static void end(struct program *program, unsigned verdict)
{
    add(program, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, verdict));
}

static void skip_unless(struct program *program, unsigned value, unsigned char instructions)
{
    add(program, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, instructions));
}

static void deny(struct program *program, const unsigned *calls, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        skip_unless(program, calls[i], 1);
        end(program, SECCOMP_RET_ERRNO | EPERM);
    }
}

static void begin(struct program *program)
{
    load(program, offsetof(struct seccomp_data, arch));
    add(program, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, OUR_ARCH, 1, 0));
    end(program, SECCOMP_RET_KILL_PROCESS);
    load(program, offsetof(struct seccomp_data, nr));
    add(program, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, X32_BIT, 0, 1));
    end(program, SECCOMP_RET_KILL_PROCESS);
}

/* abort() signals its own process, and nobody else is to be reached that way. */
static void judge_signals(struct program *program)
{
    skip_unless(program, SYS_tgkill, 4);
    load(program, offsetof(struct seccomp_data, args[0]));
    skip_unless(program, (unsigned)getpid(), 1);
    end(program, SECCOMP_RET_ALLOW);
    end(program, SECCOMP_RET_ERRNO | EPERM);
}

/* A local socket would lead to agents and daemons that trust the user. The last judgement: it leaves another word loaded. */
static void judge_sockets(struct program *program, uint32_t allow)
{
    size_t count = (allow & KERN_CALLS_NETWORK) != 0 ? COUNT(families) : 0;
    skip_unless(program, SYS_socket, (unsigned char)(2 * count + 2));
    load(program, offsetof(struct seccomp_data, args[0]));
    for (size_t i = 0; i < count; i++) {
        skip_unless(program, families[i], 1);
        end(program, SECCOMP_RET_ALLOW);
    }
    end(program, SECCOMP_RET_ERRNO | EAFNOSUPPORT);
}

int kern_confine_calls(uint32_t allow)
{
    struct program program = {.length = 0};
    begin(&program);
    deny(&program, always, COUNT(always));
    if ((allow & KERN_CALLS_JOIN) == 0)
        deny(&program, joining, COUNT(joining));
    if ((allow & KERN_CALLS_FORK) == 0)
        deny(&program, forking, COUNT(forking));
    if ((allow & KERN_CALLS_FILES) == 0)
        deny(&program, naming, COUNT(naming));
    judge_signals(&program);
    judge_sockets(&program, allow);
    end(&program, SECCOMP_RET_ALLOW);
    struct sock_fprog filter = {.len = program.length, .filter = program.code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
        return -errno;
    return 0;
}
