/* The honest lower bound of a container start: the seven namespaces, a root, /proc, exec, and nothing else.
 * A static program of its own that shares no code with kern; main runs on the host side and waits, every
 * enter_* function runs in the new namespaces, in the process that becomes the command.
 *
 *     floor ROOTFS CMD ARGS...
 *
 * There is no filter, no limit, no /dev, no overlay and no lifeline. Whatever a runtime takes beyond this is
 * the price of what it does beyond this. The clone is fork-style (the address space is copied), because
 * that is what the runtimes measured beside it do.
 *
 * Exit: the command's own code, or 128+n after a signal; 1 usage, 125 setup failed, 126 not executable,
 * 127 not found. */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kern/cleanup.h"

enum {
    EXIT_USAGE = 1,
    EXIT_SETUP = 125,
    EXIT_NOT_EXECUTABLE = 126,
    EXIT_NOT_FOUND = 127,
};

static int complain(const char *what, const char *object)
{
    int why = errno;
    (void)fprintf(stderr, "floor: cannot %s \"%s\": %s\n", what, object, strerror(why)); /* last words */
    return -why;
}

static int write_text(const char *path, const char *text)
{
    auto_fd fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return complain("open", path);
    /* The kernel takes an id map in one write or not at all, so a short write cannot happen. */
    if (write(fd, text, strlen(text)) < 0)
        return complain("write", path);
    return 0;
}

static int write_single_id_map(const char *path, unsigned id)
{
    char line[32];
    (void)snprintf(line, sizeof line, "0 %u 1\n", id); /* two numbers of ten digits at most: it fits */
    return write_text(path, line);
}

/* The new process may write its own map as long as it maps nothing but its creator's own id, which spares
 * a round trip with the parent. A gid map of one's own is taken only once setgroups is given up. */
static int enter_ids(unsigned uid, unsigned gid)
{
    int r = write_text("/proc/self/setgroups", "deny");
    if (r < 0)
        return r;
    r = write_single_id_map("/proc/self/uid_map", uid);
    if (r < 0)
        return r;
    return write_single_id_map("/proc/self/gid_map", gid);
}

static int enter_root(const char *rootfs)
{
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return complain("make private the mounts under", "/");
    /* pivot_root takes nothing but a mount point. */
    if (mount(rootfs, rootfs, NULL, MS_BIND, NULL) < 0)
        return complain("bind", rootfs);
    if (chdir(rootfs) < 0)
        return complain("enter", rootfs);
    /* Before the pivot: the kernel allows a new proc only while a fully visible one is in sight. */
    if (mount("proc", "proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
        return complain("mount proc in", rootfs);
    /* With "." twice the old root ends up stacked on the new one: no folder to make, none to remove. */
    if (syscall(SYS_pivot_root, ".", ".") < 0)
        return complain("pivot into", rootfs);
    if (umount2(".", MNT_DETACH) < 0)
        return complain("detach", "the old root");
    if (chdir("/") < 0)
        return complain("enter", "/");
    return 0;
}

static int enter_command(const char *rootfs, char *const *command, unsigned uid, unsigned gid)
{
    if (enter_ids(uid, gid) < 0 || enter_root(rootfs) < 0)
        return EXIT_SETUP;
    execv(command[0], command);
    return complain("execute", command[0]) == -ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
}

static pid_t clone_namespaces(void)
{
    struct clone_args args = {
        .flags = CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWCGROUP |
                 CLONE_NEWNET,
        .exit_signal = SIGCHLD,
    };
    return (pid_t)syscall(SYS_clone3, &args, sizeof args);
}

static int wait_exit_code(pid_t pid)
{
    int status;
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR) {
            (void)complain("wait for", "the command"); /* the exit code says the rest */
            return EXIT_SETUP;
        }
    }
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int main(int argc, char **argv)
{
    if (argc < 3 || argv[1][0] == '-') {
        (void)fprintf(stderr, "usage: floor ROOTFS CMD ARGS...\n"); /* nobody is left to tell */
        return EXIT_USAGE;
    }
    /* Read before the clone: inside, until the maps are written, every id reads as the overflow id. */
    unsigned uid = getuid();
    unsigned gid = getgid();
    pid_t pid = clone_namespaces();
    if (pid < 0) {
        int why = -complain("clone", "the seven namespaces");
        if (why == EPERM || why == ENOSPC || why == EUSERS)
            (void)fprintf(stderr, "hint: user namespaces may be off here: sysctl user.max_user_namespaces "
                                  "kernel.apparmor_restrict_unprivileged_userns\n"); /* only a hint */
        return EXIT_SETUP;
    }
    if (pid == 0)
        _exit(enter_command(argv[1], argv + 2, uid, gid));
    return wait_exit_code(pid);
}
