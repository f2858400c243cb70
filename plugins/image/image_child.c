/* Children with the ids of a layer's files: root of a user namespace over the caller's range, or root itself. They unpack
 * and remove what the caller may not touch, or should not with all its rights. Started from a verb or from kern's helper
 * for images, never from a process that supervises a box. */
#include "image_child.h"

#include "kern/cleanup.h"
#include "kern/foundation.h"
#include "kern/sys.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* ---- Ids ---- */

static int write_map(const char *path, const char *text)
{
    auto_fd fd = open(path, O_WRONLY | O_CLOEXEC);
    return fd < 0 || write(fd, text, strlen(text)) < 0 ? -errno : 0;
}

/* Where no user namespace is to be had, the caller's own rights do as well: nothing is done by name. */
static void become_folded(const struct image_ids *ids)
{
    char map[48];
    if (unshare(CLONE_NEWUSER) != 0)
        return;
    (void)write_map("/proc/self/setgroups", "deny");        /* without it the next write fails */
    (void)snprintf(map, sizeof(map), "0 %u 1\n", ids->uid); /* fits */
    (void)write_map("/proc/self/uid_map", map);             /* without a map: fewer rights, same files */
    (void)snprintf(map, sizeof(map), "0 %u 1\n", ids->gid); /* fits */
    (void)write_map("/proc/self/gid_map", map);             /* as above */
}

static int become_range(int ready, int go)
{
    char byte = 0;
    if (unshare(CLONE_NEWUSER) != 0 || write(ready, "x", 1) != 1 || read(go, &byte, 1) != 1)
        return -1;
    return setgroups(0, NULL) == 0 && setresgid(0, 0, 0) == 0 && setresuid(0, 0, 0) == 0 ? 0 : -1;
}

static int join_range(int userns)
{
    if (setns(userns, CLONE_NEWUSER) != 0)
        return -1;
    return setgroups(0, NULL) == 0 && setresgid(0, 0, 0) == 0 && setresuid(0, 0, 0) == 0 ? 0 : -1;
}

static int start_helper(const char *program, pid_t target, uint32_t own, uint32_t start, uint32_t count,
                        pid_t *ret_pid)
{
    char words[6][16];
    const uint32_t number[6] = {0, own, 1, 1, start, count};
    char pid[16];
    (void)snprintf(pid, sizeof(pid), "%d", (int)target); /* fits */
    char *argv[9] = {(char *)(uintptr_t)program, pid};
    for (int i = 0; i < 6; i++) {
        (void)snprintf(words[i], sizeof(words[i]), "%u", number[i]); /* fits */
        argv[2 + i] = words[i];
    }
    char *none[] = {NULL};
    posix_spawn_file_actions_t quiet;
    if (posix_spawn_file_actions_init(&quiet) != 0)
        return -ENOMEM;
    /* kern says what failed; and a pull that is stopped takes the target away from them. */
    int failed = posix_spawn_file_actions_addopen(&quiet, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    if (failed == 0)
        failed = posix_spawnp(ret_pid, program, &quiet, NULL, argv, none);
    (void)posix_spawn_file_actions_destroy(&quiet); /* frees memory only */
    return -failed;
}

/* Side by side: each takes some milliseconds. */
static int map_range(const struct image_ids *ids, pid_t pid, struct kern_error *err)
{
    pid_t helper[2] = {0, 0};
    int failed = start_helper("newuidmap", pid, ids->uid, ids->uid_start, ids->uid_count, &helper[0]);
    if (failed == 0)
        failed = start_helper("newgidmap", pid, ids->gid, ids->gid_start, ids->gid_count, &helper[1]);
    for (int i = 0; i < 2; i++)
        if (helper[i] > 0 && image_wait_child(helper[i]) != 0 && failed == 0)
            failed = -EPERM;
    if (failed == 0)
        return 0;
    kern_refuse(err, -failed, "cannot map the subordinate ids for a layer's files");
    kern_hint(err, "compare /etc/subuid and /etc/subgid with what 'id' says; 'kern doctor' looks, too");
    return failed;
}

struct pipes {
    int ready[2], go[2];
};

_Noreturn static void run_child(pid_t parent, const struct image_ids *ids, image_child_fn fn, void *data,
                                const struct pipes *pipes)
{
    sys_end_with(parent);
    if (ids->kind == IMAGE_IDS_FOLDED)
        become_folded(ids);
    if (ids->kind == IMAGE_IDS_RANGE) {
        (void)close(pipes->go[1]); /* so that the other side's end is seen */
        int failed = ids->userns >= 0 ? join_range(ids->userns) : become_range(pipes->ready[1], pipes->go[0]);
        if (failed != 0)
            _exit(IMAGE_CHILD_NO_IDS);
        sys_end_with(parent); /* a change of ids took it back */
    }
    _exit(fn(data) == 0 ? 0 : 1);
}

int image_start_with_ids(const struct image_ids *ids, image_child_fn fn, void *data, int32_t *ret_pid,
                         struct kern_error *err)
{
    struct pipes pipes = {{-1, -1}, {-1, -1}};
    int failed = pipe2(pipes.ready, O_CLOEXEC) != 0 || pipe2(pipes.go, O_CLOEXEC) != 0 ? errno : 0;
    auto_fd ready = pipes.ready[0], ready_child = pipes.ready[1], go = pipes.go[1], go_child = pipes.go[0];
    if (failed != 0)
        return kern_refuse(err, failed, "cannot make a pipe");
    (void)fflush(NULL); /* or the child would print it, too */
    pid_t self = getpid(), pid = fork();
    if (pid == 0)
        run_child(self, ids, fn, data, &pipes);
    if (pid < 0)
        return kern_refuse(err, errno, "cannot start a process for a layer's files");
    kern_close_fd(&ready_child);
    kern_close_fd(&go_child);
    if (ids->kind == IMAGE_IDS_RANGE && ids->userns < 0) {
        char byte = 0;
        failed = read(ready, &byte, 1) == 1 ? map_range(ids, pid, err)
                                            : kern_refuse(err, 0, "cannot make a user namespace");
        if (failed == 0 && write(go, "x", 1) != 1)
            failed = kern_refuse(err, errno, "cannot start a process for a layer's files");
        if (failed != 0) {
            (void)kill(pid, SIGKILL); /* our child, not yet waited for */
            (void)image_wait_child(pid);
            kern_hint(err, "'kern doctor' says what this machine lacks");
            return failed;
        }
    }
    *ret_pid = pid;
    return 0;
}

static int wait_for_end(void *unused)
{
    (void)unused; /* the process is only there to hold its user namespace */
    for (;;)
        (void)pause();
    return 0;
}

int image_keep_ids(struct image_ids *ids, struct kern_error *err)
{
    char path[40];
    int32_t pid = 0;
    if (ids->kind != IMAGE_IDS_RANGE || ids->userns >= 0)
        return 0;
    int failed = image_start_with_ids(ids, wait_for_end, NULL, &pid, err);
    if (failed != 0)
        return failed;
    (void)snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid); /* fits */
    ids->userns = open(path, O_RDONLY | O_CLOEXEC); /* without it each child gets one of its own */
    (void)kill(pid, SIGKILL);                       /* our child, not yet waited for */
    (void)image_wait_child(pid);
    return 0;
}

int image_wait_child(int32_t pid)
{
    int status = 0;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* ---- Fewer rights ---- */

static int keep_caps(uint32_t wanted)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct caps[2] = {{0}, {0}};
    if (syscall(SYS_capget, &header, caps) != 0)
        return -errno;
    uint32_t kept = caps[0].permitted & wanted; /* what is not there need not be dropped */
    caps[0] = (struct __user_cap_data_struct){.effective = kept, .permitted = kept};
    caps[1] = (struct __user_cap_data_struct){0};
    return syscall(SYS_capset, &header, caps) == 0 ? 0 : -errno;
}

/* Landlock: nothing by name but below `root`. Where the kernel has no right yet that hard links need (before 5.19), what
 * chroot and the ids leave is all there is. */
static void hide_files(int root)
{
    long version = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    uint64_t all = (LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1;
    if (version >= 2)
        all |= LANDLOCK_ACCESS_FS_REFER;
    if (version < 1 || (version < 2 && root >= 0))
        return;
    struct landlock_ruleset_attr attr = {.handled_access_fs = all};
    auto_fd rules = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr), 0);
    struct landlock_path_beneath_attr below = {.allowed_access = all, .parent_fd = root};
    if (rules < 0)
        return;
    if (root >= 0 && syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &below, 0) != 0)
        return;
    (void)syscall(SYS_landlock_restrict_self, rules, 0); /* as before 5.13 */
}

int image_confine(int root, const int *keep, size_t count, uint32_t caps)
{
    int moved[8], highest = 2;
    if (count > sizeof(moved) / sizeof(moved[0]))
        return -E2BIG;
    /* Out of the way first: one of them may have a number that another is to get. */
    int folder = root >= 0 ? fcntl(root, F_DUPFD_CLOEXEC, 200) : -1;
    for (size_t i = 0; i < count; i++) {
        moved[i] = fcntl(keep[i], F_DUPFD_CLOEXEC, 200);
        if (moved[i] < 0 || (root >= 0 && folder < 0))
            return -errno;
    }
    for (size_t i = 0; i < count; i++) {
        if (dup2(moved[i], IMAGE_KEPT((int)i)) < 0)
            return -errno;
        highest = IMAGE_KEPT((int)i);
    }
    if (folder >= 0)
        folder = dup2(folder, 99);
    /* Standard streams stay for the last words of a library that gives up. */
    if (syscall(SYS_close_range, 3, folder >= 0 ? 98 : 99, 0) != 0 ||
        syscall(SYS_close_range, highest + 1, ~0U, 0) != 0)
        return -errno;
    if (folder >= 0 && (fchdir(folder) != 0 || (chroot(".") != 0 && errno != EPERM)))
        return -errno;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return -errno;
    hide_files(folder >= 0 ? 99 : -1);
    int failed = keep_caps(caps);
    return failed == 0 ? kern_confine_calls(folder >= 0 ? KERN_CALLS_FILES : 0) : failed;
}

/* ---- Removing ---- */

struct removal {
    int folder;
    char **names;
    size_t count;
};

static int remove_all(void *data)
{
    const struct removal *removal = data;
    int failed = 0;
    for (size_t i = 0; i < removal->count; i++) {
        int result = kern_remove_tree(removal->folder, removal->names[i]);
        failed = failed != 0 ? failed : result;
    }
    return failed;
}

int image_remove_trees(const struct image_ids *ids, int folder, char **names, size_t count)
{
    struct removal removal = {.folder = folder, .names = names, .count = count};
    struct kern_error ignored = {0};
    int32_t pid = 0;
    if (count == 0)
        return 0;
    if (ids->kind == IMAGE_IDS_PLAIN)
        return remove_all(&removal);
    int failed = image_start_with_ids(ids, remove_all, &removal, &pid, &ignored);
    if (failed != 0)
        return failed;
    return image_wait_child(pid) == 0 ? 0 : -EIO;
}

int image_remove_tree(const struct image_ids *ids, int folder, const char *name)
{
    char *one = (char *)(uintptr_t)name; /* only read */
    return image_remove_trees(ids, folder, &one, 1);
}
