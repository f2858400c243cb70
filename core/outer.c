/* The outer init: PID 1 of the outer pid namespace and first owner of the box's mounts. It starts the box's first process,
 * makes the slow namespaces beside it on the other CPU, waits, and dies with kern: that is the lifeline. It stays outside
 * the box's limits and sight. It may run on kern's memory: raw calls, no errno, its own stack. */
#include "launch.h"

#include "clone.h"
#include "sys.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

static void give_up(kern_box *box)
{
    atomic_store(&box->shared->outer_failed, 1);
    sys_exit(1);
}

static void write_or_give_up(kern_box *box, const char *path, const char *text)
{
    int fd = sys_open(box->host_proc_fd, path, O_WRONLY, 0);
    long written = fd < 0 ? fd : sys_write(fd, text, strlen(text));
    if (written < 0) {
        kern_fail(&box->shared->error, (int)-written, "cannot write the id map \"/proc/%s\"", path);
        give_up(box);
    }
    (void)sys_close(fd); /* procfs took the text at the write */
}

static void take_ids(kern_box *box)
{
    const struct kern_ids *ids = &box->ids;
    if (ids->how == KERN_IDS_SELF) {
        write_or_give_up(box, "self/setgroups",
                         "deny"); /* the kernel wants it before an unprivileged gid_map */
        write_or_give_up(box, "self/uid_map", ids->uid_map);
        write_or_give_up(box, "self/gid_map", ids->gid_map);
    }
}

/* Wished for before anything is waited for. kern may have died before. */
static void die_with_kern(const kern_box *box)
{
    (void)sys_prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0); /* cannot fail with a valid signal */
    struct pollfd kern = {.fd = box->kern_pidfd, .events = POLLIN};
    struct timespec now = {0};
    long ended;
    do {
        ended = sys_call(SYS_ppoll, SYS_P(&kern), 1, SYS_P(&now), 0, 0, 0);
    } while (ended == -EINTR);
    if (ended != 0)
        sys_exit(1);
}

static pid_t start_inner(kern_box *box)
{
    struct clone_args args = {.flags = CLONE_NEWPID | CLONE_PIDFD,
                              .exit_signal = SIGCHLD,
                              .pidfd = (uint64_t)(uintptr_t)&box->shared->inner_pidfd};
    if (!box->fork_style) {
        args.flags |= CLONE_VM;
        args.stack = (uint64_t)(uintptr_t)box->inner_stack;
        args.stack_size = box->stack_size;
    }
    if (box->cgroup_fd >= 0) {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = (uint64_t)box->cgroup_fd;
    }
    long pid = core_clone(&args, core_inner_main, box);
    if (pid < 0) {
        kern_fail(&box->shared->error, (int)-pid, "cannot start the box's first process");
        give_up(box);
    }
    return (pid_t)pid;
}

/* A network namespace is the slowest of all to make, half a millisecond: so it is made here, while the first process builds the
 * root on another CPU, and joined when that is done. */
static void make_spaces(kern_box *box)
{
    uint64_t flags = CLONE_NEWIPC | CLONE_NEWUTS;
    if (!box->share_network)
        flags |= CLONE_NEWNET;
    int failed = sys_unshare(flags);
    core_signal_word(&box->shared->spaces_ready, (uint32_t)(1 - failed));
}

static void write_sysctl(const kern_box *box, const char *path, const char *text)
{
    int fd = sys_open(box->host_proc_fd, path, O_WRONLY, 0);
    if (fd < 0)
        return;
    (void)sys_write(fd, text, strlen(text)); /* a comfort: see open_loopback() */
    (void)sys_close(fd);
}

/* Root in the box does not own its network namespace, so what root expects of its own loopback is opened instead: low ports,
 * and ping. */
static void open_loopback(const kern_box *box)
{
    if (box->share_network)
        return;
    write_sysctl(box, "sys/net/ipv4/ip_unprivileged_port_start", "0");
    write_sysctl(box, "sys/net/ipv4/ping_group_range", box->ids.count > 65535 ? "0 65535" : "0 0");
}

/* The first process in the numbers of the host's /proc, which is the one that can be seen from here. */
static int pid_on_host(const kern_box *box, char *ret_text, size_t size)
{
    char path[48], text[512];
    (void)snprintf(path, sizeof(path), "self/fdinfo/%d",
                   box->shared->inner_pidfd); /* fits: a number is short */
    int fd = sys_open(box->host_proc_fd, path, O_RDONLY, 0);
    long length = fd < 0 ? fd : sys_read(fd, text, sizeof(text) - 1);
    if (fd >= 0)
        (void)sys_close(fd); /* only read */
    if (length < 0)
        return (int)length;
    text[length] = '\0';
    const char *pid = strstr(text, "Pid:\t");
    size_t digits = pid != NULL ? strspn(pid + 5, "0123456789") : 0;
    if (digits == 0 || digits >= size)
        return -ESRCH;
    memcpy(ret_text, pid + 5, digits);
    ret_text[digits] = '\0';
    return 0;
}

static int write_inner_map(const kern_box *box, const char *pid, const char *name, const char *map)
{
    char path[48];
    (void)snprintf(path, sizeof(path), "%s/%s", pid, name); /* fits: a number is short */
    int fd = sys_open(box->host_proc_fd, path, O_WRONLY, 0);
    long written = fd < 0 ? fd : sys_write(fd, map, strlen(map));
    if (fd >= 0)
        (void)sys_close(fd); /* procfs took the text at the write */
    return written < 0 ? (int)written : 0;
}

/* Waits for the first process to give up its privileges, and writes the maps that take them; or for its end. */
static void serve_inner_maps(kern_box *box)
{
    if (box->ids.how == KERN_IDS_SELF || box->ids.inner_uid_map[0] == '\0')
        return;
    char pid[16];
    int failed = pid_on_host(box, pid, sizeof(pid));
    struct pollfd wait[2] = {{.fd = box->maps_fd, .events = POLLIN},
                             {.fd = box->shared->inner_pidfd, .events = POLLIN}};
    while (sys_call(SYS_ppoll, SYS_P(wait), 2, 0, 0, 0, 0) == -EINTR)
        continue;
    if (wait[0].revents == 0)
        return;
    if (failed == 0)
        failed = write_inner_map(box, pid, "uid_map", box->ids.inner_uid_map);
    if (failed == 0)
        failed = write_inner_map(box, pid, "gid_map", box->ids.inner_gid_map);
    core_signal_word(&box->shared->inner_written, (uint32_t)(1 - failed));
}

static void wait_for_inner(kern_box *box, pid_t inner)
{
    for (;;) {
        int status = 0;
        struct rusage usage = {0};
        long pid = sys_call(SYS_wait4, -1, SYS_P(&status), __WALL, SYS_P(&usage), 0, 0);
        if (pid == inner) {
            box->shared->status = status;
            box->shared->cpu_usec = (int64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 +
                                    usage.ru_utime.tv_usec + usage.ru_stime.tv_usec;
            atomic_store(&box->shared->ended, 1);
            /* kern clears up while this process takes the last mounts with it, which takes the kernel a moment. */
            static const uint64_t one = 1;
            (void)sys_write(box->ended_fd, &one, sizeof(one)); /* otherwise kern notices our own end */
            return;
        }
        if (pid < 0 && pid != -EINTR)
            return;
    }
}

int core_outer_main(void *arg)
{
    kern_box *box = arg;
    (void)sys_call(SYS_setsid, 0, 0, 0, 0, 0,
                   0); /* the terminal's signals are for kern, which forwards them */
    die_with_kern(box);
    take_ids(box);
    pid_t inner = start_inner(box);
    /* Only the first process may hold this end from now on: its closing tells kern that the command runs. */
    (void)sys_close(box->child_channel_fd);
    /* This process keeps the caller's ids, without any capability outside the box's namespaces: starting the first process in
     * a control group of the caller's takes them, and a change of ids would hide /proc/self from the first process for a
     * moment, because it touches the memory that both share. */
    make_spaces(box);
    core_await_word(&box->shared->go);
    open_loopback(box);
    serve_inner_maps(box);
    wait_for_inner(box, inner);
    return 0;
}
