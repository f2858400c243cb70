/* Disks without root: fuse2fs (of e2fsprogs) serves the image; see vdisk_server.c for the processes. This file: prepare, enter and
 * teardown, and what the supervisor hears of the server. */
#include "vdisk_server.h"

#include "kern/cleanup.h"
#include "kern/foundation.h"
#include "kern/sys.h"

#include <linux/mount.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define TAG_START     0x7d15c00u
#define FLUSH_WAIT_MS 20000
#define TERM_WAIT_MS  5000

const char *vdisk_fuse_why(const kern_box *box)
{
    char path[64];
    if (kern_nested(box) != 0)
        return "kern runs inside another box";
    if (access("/dev/fuse", R_OK | W_OK) != 0)
        return "without root it takes /dev/fuse, which is not to be had here";
    if (!vdisk_has("fuse2fs", path, sizeof(path)))
        return "without root it takes fuse2fs (apt-get install fuse2fs)";
    return NULL;
}

/* ---- The supervisor ---- */

static struct vdisk_disk *disk_with(struct vdisk_state *state, int fd)
{
    for (uint32_t i = 0; i < state->count; i++)
        if (state->disk[i].server_pidfd == fd)
            return &state->disk[i];
    return NULL;
}

static void forget_server(kern_box *box, struct vdisk_disk *disk)
{
    if (disk->server_pidfd >= 0)
        kern_unwatch(box, disk->server_pidfd);
    kern_close_fd(&disk->server_pidfd);
    disk->server = 0;
}

static void refuse_mount(const struct vdisk_disk *disk)
{
    (void)send(disk->hand_out, "x", 1, MSG_DONTWAIT | MSG_NOSIGNAL); /* enter has gone otherwise */
}

/* It should outlive the box. While the box is built, enter is told; later, the box gets ENOTCONN from its disk. */
static void on_server_end(kern_box *box, void *block, int32_t fd, uint32_t events)
{
    struct vdisk_disk *disk = disk_with(block, fd);
    char said[160];
    (void)events; /* it can only have ended */
    if (disk == NULL)
        return;
    (void)waitpid(disk->server, NULL, 0);
    forget_server(box, disk);
    ssize_t length = disk->said >= 0 ? read(disk->said, said, sizeof(said) - 1) : -1;
    said[length > 0 ? length : 0] = '\0';
    said[strcspn(said, "\n")] = '\0';
    kern_warn(box, "the server of disk %s has ended%s%s", disk->name, said[0] != '\0' ? ": " : "", said);
    refuse_mount(disk);
}

/* The first process has come so far that its user namespace has its ids. */
static void on_start(kern_box *box, void *block, uint32_t tag, int32_t fd)
{
    struct vdisk_state *state = block;
    struct vdisk_disk *disk = &state->disk[tag - TAG_START];
    struct kern_error ignored = {0};
    auto_fd token = fd; /* means nothing but its coming */
    int outer = kern_outer_pidfd(box), pair[2];
    if (token < 0 || outer < 0 || disk->server != 0 || pipe2(pair, O_CLOEXEC | O_NONBLOCK) != 0) {
        refuse_mount(disk);
        return;
    }
    auto_fd said = pair[1];
    disk->said = pair[0];
    pid_t pid = fork();
    if (pid == 0)
        vdisk_server_run(disk, outer, said);
    kern_close_fd(&disk->image); /* the server has it, and the lock with it */
    if (pid < 0) {
        refuse_mount(disk);
        return;
    }
    disk->server = pid;
    disk->server_pidfd = (int)sys_call(SYS_pidfd_open, pid, 0, 0, 0, 0, 0);
    if (disk->server_pidfd < 0 || kern_watch(box, disk->server_pidfd, EPOLLIN, on_server_end, &ignored) != 0)
        refuse_mount(disk);
}

int vdisk_fuse_prepare(kern_box *box, struct vdisk_disk *disk, uint32_t index, struct kern_error *err)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
        return kern_fail(err, errno, "cannot make a socket for disk \"%s\"", disk->name);
    disk->hand_out = pair[0];
    disk->hand_in = pair[1];
    disk->kind = VDISK_FUSE;
    int failed = kern_receive_fd(box, TAG_START + index, on_start, err);
    /* A place for it, which the core makes. */
    return failed != 0 ? failed : kern_add_tmpfs(box, disk->target, 4096, 0700, KERN_MOUNT_READ_ONLY, err);
}

/* ---- enter ---- */

static int receive_mount(int socket)
{
    char byte;
    size_t count = 0;
    int fd = -1;
    long got = sys_receive_fds(socket, &byte, 1, &fd, 1, &count, 0);
    return got == 1 ? fd : -1;
}

static int furnish(const struct vdisk_disk *disk, int tree)
{
    auto_fd top = sys_open(tree, ".", O_RDONLY | O_DIRECTORY, 0);
    if (top < 0 || (!disk->is_new && !disk->has_grown))
        return top < 0 ? top : 0;
    (void)unlinkat(top, "lost+found", AT_REMOVEDIR); /* e2fsck makes it again when it needs it */
    return !disk->is_new || fchmod(top, 01777) == 0 ? 0 : -errno;
}

int vdisk_fuse_enter(kern_box *box, const struct vdisk_disk *disk, uint32_t index, struct kern_error *err)
{
    auto_fd place =
        sys_open_beneath(kern_box_root(box), disk->target + 1, O_PATH | O_DIRECTORY, 0, RESOLVE_NO_SYMLINKS);
    if (place < 0)
        return kern_fail(err, -place, "cannot open \"%s\" in the box", disk->target);
    int failed = kern_send_fd(box, TAG_START + index, disk->hand_in, err);
    if (failed != 0)
        return failed;
    auto_fd tree = receive_mount(disk->hand_in);
    if (tree < 0)
        return kern_fail(err, 0, "cannot mount disk \"%s\": its server does not come up", disk->name);
    failed = furnish(disk, tree);
    if (failed == 0)
        failed = sys_move_mount(tree, "", place, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
    return failed == 0 ? 0 : kern_fail(err, -failed, "cannot mount disk \"%s\"", disk->name);
}

/* ---- teardown ---- */

static int await_end(int pidfd, int ms)
{
    struct pollfd end = {.fd = pidfd, .events = POLLIN};
    return poll(&end, 1, ms) > 0;
}

void vdisk_fuse_end(kern_box *box, struct vdisk_disk *disk)
{
    int *const fds[] = {&disk->said, &disk->folder, &disk->hand_out, &disk->hand_in};
    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
        kern_close_fd(fds[i]); /* with a mount that nobody took */
    if (disk->server != 0 && disk->server_pidfd >= 0) {
        int ended = await_end(disk->server_pidfd, FLUSH_WAIT_MS);
        if (!ended) {
            (void)kill(disk->server, SIGTERM); /* not reaped, so the number is its own */
            ended = await_end(disk->server_pidfd, TERM_WAIT_MS);
        }
        if (!ended) {
            kern_warn(box, "the server of disk %s did not end and was killed: the disk will be checked",
                      disk->name);
            (void)kill(disk->server, SIGKILL);
        }
        (void)waitpid(disk->server, NULL, 0);
    }
    forget_server(box, disk);
}
