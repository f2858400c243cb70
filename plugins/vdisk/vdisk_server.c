/* Becomes the server of a disk. Runs in copies of kern, while the box's first process waits.
 *
 * A FUSE file system has to be mounted in the user namespace that it is used from, so the server enters the box's; but a server in
 * the box's mount namespace would keep it, and so its own mount, alive for ever. It has one of its own instead, where it mounts over
 * the pool's directory. A second process waits for that, takes the mount out, sends it to the box, and ends. From then on the mount
 * is in the box only: when the box ends, however it does, the server is told so, writes what it has, and ends. It is not ended with
 * kern, and the lock on the image is its.
 *
 * The box can neither see nor signal the server, which is in no pid namespace and no group of its. Of capabilities it has one, in
 * the box's user namespace, which is the caller's own. */
#include "vdisk_server.h"

#include "kern/cleanup.h"
#include "kern/sys.h"

#include <limits.h>
#include <linux/capability.h>
#include <linux/mount.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/vfs.h>
#include <sys/wait.h>

#define MOUNT_WAIT_MS 20000
#define LOOK_MS       2

#ifndef FUSE_SUPER_MAGIC
#define FUSE_SUPER_MAGIC 0x65735546
#endif

/* ---- The process that takes the mount out ---- */

static void send_mount(int socket, int tree)
{
    char byte = 0;
    (void)sys_send_fds(socket, &byte, 1, &tree, 1,
                       0); /* nobody there: then the mount goes with the descriptor */
}

/* Looking waits for a server that has mounted and not begun; one that ends makes it fail. */
static int is_mounted(const char *path)
{
    struct statfs fs;
    return statfs(path, &fs) == 0 && fs.f_type == FUSE_SUPER_MAGIC;
}

static int take_out(const char *path, int server)
{
    for (int waited = 0; waited < MOUNT_WAIT_MS; waited += LOOK_MS) {
        struct pollfd end = {.fd = server, .events = POLLIN};
        if (is_mounted(path)) {
            int tree = sys_open_tree(AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
            return sys_umount(path, MNT_DETACH) == 0 ? tree : -EBUSY;
        }
        if (poll(&end, 1, LOOK_MS) > 0)
            return -ESRCH;
    }
    return -ETIMEDOUT;
}

_Noreturn static void run_taker(const struct vdisk_disk *disk, const char *path, int server)
{
    int tree = take_out(path, server);
    if (tree >= 0) {
        send_mount(disk->hand_out, tree);
    } else {
        (void)sys_call(SYS_pidfd_send_signal, server, SIGTERM, 0, 0, 0,
                       0); /* kern sees its end, and tells the box */
    }
    sys_exit(0);
}

/* Nobody's child, so that nobody has to wait for it: the server itself does not know of it. */
static int start_taker(const struct vdisk_disk *disk, const char *path)
{
    auto_fd self = (int)sys_call(SYS_pidfd_open, getpid(), 0, 0, 0, 0, 0);
    pid_t pid = self < 0 ? -1 : fork();
    if (pid == 0) {
        pid_t taker = fork();
        if (taker == 0)
            run_taker(disk, path, self);
        sys_exit(taker < 0);
    }
    int status = 1;
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0 ? 0 : -EAGAIN;
}

/* ---- The server ---- */

/* What is left through exec, whatever the id in the namespace is: one capability. */
static int keep_one_capability(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{0}, {0}};
    const uint32_t bit = UINT32_C(1) << CAP_SYS_ADMIN;
    for (int cap = 0; cap <= CAP_LAST_CAP; cap++)
        if (cap != CAP_SYS_ADMIN)
            (void)prctl(PR_CAPBSET_DROP, cap, 0, 0, 0); /* EINVAL: a number that this kernel does not have */
    data[0].effective = data[0].permitted = data[0].inheritable = bit;
    if (sys_call(SYS_capset, SYS_P(&header), SYS_P(data), 0, 0, 0, 0) != 0)
        return -EPERM;
    return prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_SYS_ADMIN, 0, 0);
}

static int change_descriptors(const struct vdisk_disk *disk, int said)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    return null < 0 || dup2(null, 0) < 0 || dup2(said, 1) < 0 || dup2(said, 2) < 0 ||
                   fcntl(disk->image, F_SETFD, 0) != 0
               ? -1
               : 0;
}

/* An empty directory to mount on, over the pool's, in a mount namespace of a lesser owner than the host's, which tells nothing back. */
static int make_place(int folder, char ret_path[PATH_MAX])
{
    if (sys_fchdir(folder) != 0 || getcwd(ret_path, PATH_MAX) == NULL || sys_unshare(CLONE_NEWNS) != 0 ||
        sys_mount("tmpfs", ret_path, "tmpfs", MS_NOSUID | MS_NODEV, "mode=700,size=4k") != 0)
        return -1;
    return sys_chdir(ret_path);
}

_Noreturn void vdisk_server_run(const struct vdisk_disk *disk, int outer, int said)
{
    static const char options[] = "no_default_opts,allow_other,default_permissions,nosuid,nodev";
    char image[40], program[64], folder[PATH_MAX], path_is[] = "PATH=/usr/sbin:/sbin:/usr/bin:/bin",
                                                   locale_is[] = "LC_ALL=C";
    char *const environment[] = {path_is, locale_is, NULL};
    const char *const words[] = {"fuse2fs", image, ".", "-f", "-o", options, NULL};
    const struct rlimit none = {0, 0};
    sigset_t signals;
    (void)sigemptyset(&signals);
    (void)sigprocmask(SIG_SETMASK, &signals, NULL);
    (void)setsid();                      /* the terminal's signals are not for it */
    (void)setrlimit(RLIMIT_CORE, &none); /* lowering is always allowed */
    (void)snprintf(image, sizeof(image), "/proc/self/fd/%d", disk->image); /* fits: a number is short */
    if (!vdisk_has(words[0], program, sizeof(program)) || change_descriptors(disk, said) != 0)
        sys_exit(126);
    if (sys_setns(outer, CLONE_NEWUSER) != 0 || make_place(disk->folder, folder) != 0 ||
        start_taker(disk, folder) != 0)
        sys_exit(126);
    if (keep_one_capability() != 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        sys_exit(126);
    (void)execve(program, (char *const *)(uintptr_t)words, environment);
    sys_exit(126);
}
