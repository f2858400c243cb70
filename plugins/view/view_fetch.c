/* Fetches what the supervisor needs of a box that lives for more than a second: the writable side of its /sys and its procfs.
 * Both can only be opened in the box's mount namespace, so a copy of kern goes there, opens them, hands them over and ends.
 * That costs less than to take them along at each start, where a box that ends at once would wait for their removal.
 *
 * The helper stands in the box's user and mount namespaces, never in its pid namespace or groups: the box cannot see it. */
#include "view_state.h"

#include "kern/cleanup.h"
#include "kern/foundation.h"
#include "kern/sys.h"

#include <linux/magic.h>
#include <linux/mount.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define FETCHED 2

/* A writable mount of the box's /sys, attached nowhere. */
static int open_store(int sys, int *ret_store, struct kern_error *err)
{
    struct mount_attr attr = {.attr_clr = MOUNT_ATTR_RDONLY};
    auto_fd store = sys_open_tree(sys, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    int failed = store < 0 ? store : sys_mount_setattr(store, "", AT_EMPTY_PATH, &attr, sizeof(attr));
    if (failed != 0)
        return kern_fail(err, -failed, "cannot write into \"/sys\" of the box");
    *ret_store = steal_fd(&store);
    return 0;
}

static void send_both(int channel, const int *fds)
{
    char byte = 0;
    (void)sys_send_fds(channel, &byte, 1, fds, FETCHED, 0); /* kern sees the end of the channel otherwise */
}

_Noreturn static void run_helper(pid_t parent, int outer, int channel, int has_userns)
{
    struct kern_error ignored = {0};
    int fds[FETCHED] = {-1, -1}, sys = -1, keep[] = {outer, channel};
    sys_close_all_but(keep, sizeof(keep) / sizeof(keep[0]));
    sys_end_with(parent);
    if (sys_setns(outer, CLONE_NEWNS | (has_userns ? CLONE_NEWUSER : 0)) != 0)
        sys_exit(1);
    int root = sys_open(AT_FDCWD, "/", O_PATH | O_DIRECTORY, 0);
    if (root < 0 || view_open_place(root, "sys", TMPFS_MAGIC, &sys, &ignored) != 0 ||
        open_store(sys, &fds[0], &ignored) != 0 ||
        view_open_place(root, "proc", PROC_SUPER_MAGIC, &fds[1], &ignored) != 0)
        sys_exit(1);
    send_both(channel, fds);
    sys_exit(0); /* descriptors close with the process */
}

static void take_both(struct view_state *state, int channel)
{
    char byte;
    size_t count = 0;
    int fds[FETCHED] = {-1, -1};
    long got = sys_receive_fds(channel, &byte, 1, fds, FETCHED, &count, MSG_DONTWAIT);
    if (got < 0 || count != FETCHED) {
        kern_close_fd(&fds[0]);
        kern_close_fd(&fds[1]);
        return;
    }
    state->store = fds[0];
    state->proc = fds[1];
}

static void on_channel(kern_box *box, void *block, int32_t fd, uint32_t events)
{
    struct view_state *state = block;
    (void)events; /* a message or the end */
    take_both(state, fd);
    view_fetch_end(box, state);
    if (state->store < 0)
        return; /* the files stay as they began; the calls are answered all the same */
    view_rewrite_cpuinfo(state);
    view_refresh(state);
}

void view_fetch(kern_box *box, struct view_state *state)
{
    int pair[2], outer = kern_outer_pidfd(box);
    struct kern_error ignored = {0};
    if (outer < 0 || state->has_files == 0 ||
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
        return;
    auto_fd theirs = pair[1];
    pid_t self = getpid(), pid = fork();
    if (pid == 0)
        run_helper(self, outer, theirs, kern_get_ids(box)->how != KERN_IDS_NONE);
    state->helper = pid > 0 ? pid : 0;
    state->helper_channel = pair[0];
    if (pid < 0 || kern_watch(box, pair[0], EPOLLIN, on_channel, &ignored) != 0)
        view_fetch_end(box, state);
}

void view_fetch_end(kern_box *box, struct view_state *state)
{
    if (state->helper_channel >= 0)
        kern_unwatch(box, state->helper_channel);
    kern_close_fd(&state->helper_channel);
    if (state->helper == 0)
        return;
    (void)kill(state->helper, SIGKILL); /* not reaped yet, so the number is still its own */
    (void)waitpid(state->helper, NULL, 0);
    state->helper = 0;
}
