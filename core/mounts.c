/* Mounts that plugins and options ask for, as seen from the host: identity of the sources, and copies of them that carry
 * the box's ids where kern is real root; see mounts.h. Host side. */
#include "mounts.h"

#include "cleanup.h"
#include "clone.h"
#include "known.h"
#include "launch.h"
#include "registry.h"
#include "sys.h"

#include <limits.h>
#include <linux/mount.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define DEVICES (KERN_MOUNT_DEVICE | KERN_MOUNT_SHOWN)

int core_mount_source_path(int fd, char *ret_path, size_t size, struct kern_error *err)
{
    char link[40];
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd); /* fits: a number is short */
    ssize_t length = readlink(link, ret_path, size - 1);
    if (length <= 0)
        return kern_fail(err, errno, "cannot learn the path of a mount source");
    ret_path[length] = '\0';
    return 0;
}

int core_mount_source(struct core_mount *mount, int fd, struct kern_error *err)
{
    char path[PATH_MAX];
    int failed = core_mount_source_path(fd, path, sizeof(path), err);
    if (failed != 0)
        return failed;
    struct stat st;
    if (fstat(fd, &st) != 0)
        return kern_fail(err, errno, "cannot look at mount source \"%s\"", path);
    auto_fd own = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (own < 0)
        return kern_fail(err, errno, "cannot keep mount source \"%s\"", path);
    char *copy = strdup(path);
    if (copy == NULL)
        return kern_fail(err, ENOMEM, "cannot keep mount source \"%s\"", path);
    mount->fd = steal_fd(&own);
    mount->source = copy;
    mount->directory = S_ISDIR(st.st_mode);
    mount->dev = st.st_dev;
    mount->ino = st.st_ino;
    mount->rdev = st.st_rdev;
    return 0;
}

static void clear_mount(struct core_mount *mount)
{
    kern_close_fd(&mount->fd);
    free(mount->target);
    free(mount->source);
    free(mount->bytes);
}

void core_mounts_clear(kern_box *box)
{
    for (size_t i = 0; i < box->mount_count; i++)
        clear_mount(&box->mount[i]);
    free(box->mount);
    box->mount = NULL;
    box->mount_count = 0;
    if (box->root_source.source != NULL)
        clear_mount(&box->root_source);
    box->root_source.source = NULL;
}

static int is_path_in_box(const char *target, struct kern_error *err)
{
    size_t length = strlen(target);
    if (target[0] != '/' || length >= PATH_MAX)
        return kern_refuse(err, 0, "cannot mount onto \"%s\": a target is an absolute path", target);
    if (strstr(target, "/../") != NULL || (length >= 3 && strcmp(target + length - 3, "/..") == 0))
        return kern_refuse(err, 0, "cannot mount onto \"%s\": \"..\" is not allowed in a target", target);
    if (strspn(target, "/") == length)
        return kern_refuse(err, 0, "cannot mount onto \"%s\": that is the root itself", target);
    return 0;
}

/* Room for one more mount; nothing is counted before it is complete. */
static int new_mount(kern_box *box, const char *target, struct core_mount **ret_mount, struct kern_error *err)
{
    int failed = core_needs_box(box, "a mount", err);
    if (failed == 0)
        failed = is_path_in_box(target, err);
    if (failed != 0)
        return failed;
    if (box->mount_count == CORE_MAX_MOUNT)
        return kern_refuse(err, 0, "cannot mount onto \"%s\": %d mounts are the most", target,
                           CORE_MAX_MOUNT);
    struct core_mount *grown = realloc(box->mount, (box->mount_count + 1) * sizeof(*grown));
    if (grown == NULL)
        return kern_fail(err, ENOMEM, "cannot add a mount onto \"%s\"", target);
    box->mount = grown;
    struct core_mount *mount = &grown[box->mount_count];
    *mount = (struct core_mount){.fd = -1, .target = strdup(target)};
    if (mount->target == NULL)
        return kern_fail(err, ENOMEM, "cannot add a mount onto \"%s\"", target);
    *ret_mount = mount;
    return 0;
}

int kern_add_bind(kern_box *box, int32_t fd, const char *target, uint32_t flags, struct kern_error *err)
{
    struct core_mount *mount = NULL;
    int failed = core_known_mount(target, flags, err);
    if (failed == 0)
        failed = new_mount(box, target, &mount, err);
    if (failed != 0)
        return failed;
    mount->kind = CORE_BIND;
    mount->flags = flags;
    failed = core_mount_source(mount, fd, err);
    if (failed != 0)
        free(mount->target);
    else
        box->mount_count++;
    return failed;
}

int kern_add_tmpfs(kern_box *box, const char *target, uint64_t size, uint32_t mode, uint32_t flags,
                   struct kern_error *err)
{
    struct core_mount *mount = NULL;
    int failed = core_known_mount(target, flags, err);
    if (failed == 0)
        failed = new_mount(box, target, &mount, err);
    if (failed != 0)
        return failed;
    mount->kind = CORE_TMPFS;
    mount->flags = flags;
    mount->size = size;
    mount->mode = mode;
    box->mount_count++;
    return 0;
}

int kern_add_file(kern_box *box, const char *target, uint32_t mode, const void *bytes, size_t length,
                  struct kern_error *err)
{
    struct core_mount *mount = NULL;
    int failed = new_mount(box, target, &mount, err);
    if (failed != 0)
        return failed;
    mount->kind = CORE_FILE;
    mount->mode = mode;
    mount->length = length;
    mount->bytes = malloc(length + 1);
    if (mount->bytes == NULL) {
        free(mount->target);
        return kern_fail(err, ENOMEM, "cannot add file \"%s\"", target);
    }
    memcpy(mount->bytes, bytes, length);
    box->mount_count++;
    return 0;
}

int kern_add_tree(kern_box *box, int32_t tree, const char *target, uint32_t flags, struct kern_error *err)
{
    struct core_mount *mount = NULL;
    int failed = new_mount(box, target, &mount, err);
    if (failed != 0)
        return failed;
    *mount = (struct core_mount){.kind = CORE_BIND,
                                 .target = mount->target,
                                 .flags = flags,
                                 .directory = true,
                                 .is_tree = true,
                                 .source = strdup(target),
                                 .fd = fcntl(tree, F_DUPFD_CLOEXEC, 3)};
    box->mount_count++; /* from here on the box clears it up, whatever failed */
    return mount->fd < 0 || mount->source == NULL
               ? kern_fail(err, ENOMEM, "cannot keep the mount for \"%s\"", target)
               : 0;
}

int kern_add_link(kern_box *box, const char *target, const char *to, struct kern_error *err)
{
    struct core_mount *mount = NULL;
    int failed = new_mount(box, target, &mount, err);
    if (failed != 0)
        return failed;
    mount->kind = CORE_LINK;
    mount->source = strdup(to);
    if (mount->source == NULL) {
        free(mount->target);
        return kern_fail(err, ENOMEM, "cannot add link \"%s\"", target);
    }
    box->mount_count++;
    return 0;
}

int kern_root_source(kern_box *box, int32_t fd, struct kern_error *err)
{
    return core_mount_source(&box->root_source, fd, err);
}

/* ---- Ids of the box on file systems of the host ---- */

/* The process is only there to hold its user namespace. */
static int child_pause(void *parent)
{
    sys_end_with(*(pid_t *)parent);
    for (;;)
        (void)sys_call(SYS_ppoll, 0, 0, 0, 0, 0, 0);
    return 0;
}

static int write_map_of(pid_t pid, const char *name, const char *text)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name); /* fits by its parts */
    auto_fd fd = open(path, O_WRONLY | O_CLOEXEC);
    return fd < 0 || write(fd, text, strlen(text)) < 0 ? -errno : 0;
}

/* Named volumes are all of kern's own state that a box can have. Their ids are those that boxes see, from the first day, whomever a
 * box gave the top directory to. */
static bool is_named_volume(const kern_box *box, const struct core_mount *mount)
{
    for (size_t i = 0; i < CORE_OWN_PLACES; i++) {
        size_t length = box->own_state[i] != NULL && mount->source != NULL ? strlen(box->own_state[i]) : 0;
        if (length > 0 && strncmp(mount->source, box->own_state[i], length) == 0 &&
            mount->source[length] == '/')
            return true;
    }
    return false;
}

int32_t kern_guards_setuid(const kern_box *box)
{
    for (size_t i = 0; box->ids.shifted != 0 && i < box->mount_count; i++) {
        const struct core_mount *mount = &box->mount[i];
        struct stat st;
        if (mount->kind == CORE_BIND &&
            (mount->flags & (KERN_MOUNT_READ_ONLY | KERN_MOUNT_KERNEL | DEVICES)) == 0 &&
            (fstat(mount->fd, &st) != 0 || st.st_uid == 0 || st.st_gid == 0 || is_named_volume(box, mount)))
            return 1;
    }
    return 0;
}

/* A user namespace exists only with a process in it; the descriptor then keeps it. */
static int user_namespace_with(const char *uid_map, const char *gid_map, int *ret_fd)
{
    struct clone_args args = {.flags = CLONE_NEWUSER, .exit_signal = SIGCHLD};
    pid_t self = getpid(), pid = (pid_t)core_clone(&args, child_pause, &self);
    if (pid < 0)
        return pid;
    int failed = write_map_of(pid, "uid_map", uid_map);
    if (failed == 0)
        failed = write_map_of(pid, "gid_map", gid_map);
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid); /* fits by its parts */
    auto_fd fd = failed == 0 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (failed == 0 && fd < 0)
        failed = -errno;
    (void)kill(pid, SIGKILL); /* our child, just made */
    (void)waitpid(pid, NULL, 0);
    if (failed == 0)
        *ret_fd = steal_fd(&fd);
    return failed;
}

/* What the box's root writes belongs to the volume's owner; every other id of the box keeps its number, and id 0 of the
 * host stays out of reach unless the volume is root's own. */
static int volume_map(uint32_t owner, uint32_t base, uint32_t count, char *text, size_t size)
{
    int used = 0;
    if (owner == 0)
        used = snprintf(text, size, "0 %u %u\n", base, count);
    else if (owner >= count)
        used = snprintf(text, size, "1 %u %u\n%u %u 1\n", base + 1, count - 1, owner, base);
    else if (owner == 1)
        used = snprintf(text, size, "1 %u 1\n2 %u %u\n", base, base + 2, count - 2);
    else
        used = snprintf(text, size, "1 %u %u\n%u %u 1\n%u %u %u\n", base + 1, owner - 1, owner, base,
                        owner + 1, base + owner + 1, count - owner - 1);
    return used > 0 && (size_t)used < size ? 0 : -ERANGE;
}

static int own_namespace(const kern_box *box, int *ret_fd, struct kern_error *err)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)box->outer_pid); /* fits by its parts */
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return kern_fail(err, errno, "cannot open the box's user namespace \"%s\"", path);
    *ret_fd = fd;
    return 0;
}

/* A volume of root's has the same map as the box: its namespace is there already. Any other takes a process to make one, half
 * a millisecond of the box's start. */
static int volume_namespace(const kern_box *box, const struct core_mount *mount, int *ret_fd,
                            struct kern_error *err)
{
    struct stat st;
    if (fstat(mount->fd, &st) != 0)
        return kern_fail(err, errno, "cannot look at volume \"%s\"", mount->source);
    if (is_named_volume(box, mount))
        st.st_uid = st.st_gid = 0;
    char uid_map[128], gid_map[128];
    int failed = volume_map(st.st_uid, box->ids.base, box->ids.count, uid_map, sizeof(uid_map));
    if (failed == 0)
        failed = volume_map(st.st_gid, box->ids.gid_base, box->ids.count, gid_map, sizeof(gid_map));
    if (failed == 0 && strcmp(uid_map, box->ids.uid_map) == 0 && strcmp(gid_map, box->ids.gid_map) == 0)
        return own_namespace(box, ret_fd, err);
    if (failed == 0)
        failed = user_namespace_with(uid_map, gid_map, ret_fd);
    return failed == 0 ? 0
                       : kern_fail(err, -failed, "cannot make the id map of volume \"%s\"", mount->source);
}

static unsigned reach_of(const struct core_mount *mount)
{
    return (mount->flags & KERN_MOUNT_RECURSIVE) != 0 ? AT_RECURSIVE : 0;
}

static int detach_copy(const struct core_mount *mount, int32_t *ret_tree, struct kern_error *err)
{
    int tree =
        sys_open_tree(mount->fd, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | reach_of(mount));
    if (tree < 0)
        return kern_fail(err, -tree, "cannot copy the mount of \"%s\"", mount->source);
    *ret_tree = tree; /* the shared page's; closed with kern */
    return 0;
}

static int give_ids(const struct core_mount *mount, int tree, int userns, struct kern_error *err)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_IDMAP, .userns_fd = (uint64_t)userns};
    int failed = sys_mount_setattr(tree, "", AT_EMPTY_PATH | reach_of(mount), &attr, sizeof(attr));
    if (failed == 0)
        return 0;
    kern_fail(err, -failed,
              "cannot give the box's ids to \"%s\": its file system does not take idmapped mounts",
              mount->source);
    kern_hint(err,
              "use a directory on ext4, xfs or btrfs (from Linux 6.3 on tmpfs too), or --userns=keep (ids of "
              "the box are then ids of the host)");
    return failed;
}

void core_offer_trees(kern_box *box)
{
    for (size_t i = 0; i < box->mount_count; i++)
        if (box->mount[i].is_tree)
            box->shared->tree[i] = box->mount[i].fd; /* the mount's; closed with it */
}

static bool wants_ids(const struct core_mount *mount)
{
    return mount->kind == CORE_BIND && (mount->flags & (KERN_MOUNT_KERNEL | DEVICES)) == 0;
}

static void node_name(const kern_box *box, size_t index, char *ret_name, size_t size)
{
    (void)snprintf(ret_name, size, "%s.%zu.node", box->id, index); /* the callers' rooms fit */
}

/* A node of the box's own for the same device: root in the box is not the root that owns the host's node, and devtmpfs takes no
 * idmapped mounts. It lies in the run directory as long as the box lives: what has no name cannot be mounted. */
static int make_node(kern_box *box, size_t index, struct kern_error *err)
{
    const struct core_mount *mount = &box->mount[index];
    char name[CORE_NAME_MAX + 64];
    node_name(box, index, name, sizeof(name));
    int failed = core_registry_record(box, "node", name, err);
    if (failed != 0)
        return failed;
    struct mount_attr attr = {.attr_clr = MOUNT_ATTR_NODEV};
    if (mknodat(box->run_fd, name, S_IFCHR | 0600, mount->rdev) != 0 ||
        fchownat(box->run_fd, name, box->ids.base, box->ids.gid_base, AT_SYMLINK_NOFOLLOW) != 0)
        failed = -errno;
    auto_fd tree =
        failed == 0 ? sys_open_tree(box->run_fd, name, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC) : failed;
    if (failed == 0 && tree < 0)
        failed = tree;
    if (failed == 0)
        failed = sys_mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof(attr));
    if (failed != 0)
        return kern_fail(err, -failed, "cannot make a node for \"%s\"", mount->source);
    box->shared->tree[index] = steal_fd(&tree);
    return 0;
}

void core_mounts_remove_nodes(const kern_box *box)
{
    for (size_t i = 0; box->ids.shifted != 0 && i < box->mount_count; i++) {
        char name[CORE_NAME_MAX + 64];
        node_name(box, i, name, sizeof(name));
        if (box->mount[i].kind == CORE_BIND && (box->mount[i].flags & DEVICES) != 0)
            (void)unlinkat(box->run_fd, name, 0); /* it may not have come into being */
    }
}

int core_detach_sources(kern_box *box, struct kern_error *err)
{
    int failed =
        box->root_source.source != NULL ? detach_copy(&box->root_source, &box->shared->root_tree, err) : 0;
    for (size_t i = 0; failed == 0 && i < box->mount_count; i++) {
        const struct core_mount *mount = &box->mount[i];
        if (wants_ids(mount) && !mount->is_tree)
            failed = detach_copy(mount, &box->shared->tree[i], err);
        else if (mount->kind == CORE_BIND && (mount->flags & DEVICES) != 0)
            failed = make_node(box, i, err);
    }
    return failed;
}

int core_idmap_mounts(kern_box *box, struct kern_error *err)
{
    if (box->root_source.source != NULL) {
        auto_fd userns = -1;
        int failed = own_namespace(box, &userns, err);
        if (failed == 0)
            failed = give_ids(&box->root_source, box->shared->root_tree, userns, err);
        if (failed != 0)
            return failed;
    }
    for (size_t i = 0; i < box->mount_count; i++) {
        const struct core_mount *mount = &box->mount[i];
        if (!wants_ids(mount))
            continue;
        auto_fd userns = -1;
        int failed =
            mount->is_tree ? own_namespace(box, &userns, err) : volume_namespace(box, mount, &userns, err);
        if (failed == 0)
            failed = give_ids(mount, box->shared->tree[i], userns, err);
        if (failed != 0)
            return failed;
    }
    return 0;
}
