/* The root of a box: the host root, a directory under an overlay, or the directory itself; then /dev, /proc and /sys. prepare
 * runs on the host and opens what is needed; enter runs in the box's first process, as root of the user namespace that owns
 * its mounts (CAP_SYS_ADMIN there), perhaps on kern's memory. Volumes are attached, and the root entered, by the core. */
#include "rootfs_dev.h"
#include "rootfs_manifest.h"
#include "rootfs_options.h"
#include "rootfs_state.h"

#include "kern/cleanup.h"
#include "kern/foundation.h"
#include "kern/sys.h"

#include <linux/mount.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#define RESOLVER_MOST 16384

/* ---- prepare ---- */

static int refuse_directory(const char *path, const char *why, const char *hint, struct kern_error *err)
{
    kern_refuse(err, 0, "cannot use root directory \"%s\": %s", path, why);
    if (hint != NULL)
        kern_hint(err, "%s", hint);
    return -EINVAL;
}

/* Without user xattrs on tmpfs (before Linux 6.6) an overlay cannot make directories opaque: removing one of the lower and making
 * it again would show the old files. */
static int tmpfs_has_xattrs(void)
{
    if (getenv("KERN_DEBUG") != NULL && strstr(getenv("KERN_DEBUG"), "disk-scratch") != NULL)
        return 0;
    auto_fd file = memfd_create("kern", MFD_CLOEXEC); /* on the kernel's own tmpfs */
    return file >= 0 && fsetxattr(file, "user.kern", "1", 1, 0) == 0;
}

static int prepare_directory(kern_box *box, struct rootfs_state *state, const char *path,
                             struct kern_error *err)
{
    auto_fd fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0) {
        kern_refuse(err, errno, "cannot use root directory \"%s\"", path);
        kern_hint(err, "leave out --rootfs to run on the host's own programs, or give a directory that holds "
                       "a root file system");
        return -ENOENT;
    }
    struct stat st, slash;
    if (fstat(fd, &st) != 0 || stat("/", &slash) != 0)
        return kern_refuse(err, errno, "cannot look at root directory \"%s\"", path);
    if (!S_ISDIR(st.st_mode))
        return refuse_directory(path, "it is a file",
                                "unpack it into a directory first: tar -x -C DIR -f FILE", err);
    if (st.st_dev == slash.st_dev && st.st_ino == slash.st_ino)
        return refuse_directory(
            path, "it is the host's own root, with all its secrets",
            "leave out --rootfs: the box then gets the host's programs, and nothing else of it", err);
    state->from =
        kern_get_int(kern_options(box), "bind-rootfs") != 0 ? ROOTFS_FROM_BIND : ROOTFS_FROM_OVERLAY;
    int failed = rootfs_guard_root(box, fd, path, err);
    if (failed != 0)
        return failed;
    if (state->from == ROOTFS_FROM_OVERLAY)
        kern_root_is_private(box);
    if (state->from == ROOTFS_FROM_OVERLAY && !tmpfs_has_xattrs())
        failed = kern_disk_scratch(box, err);
    return failed != 0 ? failed : kern_root_source(box, fd, err);
}

#define HOSTS_MOST 16

struct hosts {
    char text[HOSTS_MOST][320];
    const char *line[HOSTS_MOST];
    uint32_t count;
};

static int read_hosts(const kern_values *options, struct hosts *hosts, struct kern_error *err)
{
    hosts->count = kern_get_count(options, "add-host");
    if (hosts->count > HOSTS_MOST)
        return kern_refuse(err, E2BIG, "cannot add %u hosts: %d at most", hosts->count, HOSTS_MOST);
    for (uint32_t i = 0; i < hosts->count; i++) {
        int failed = rootfs_parse_host(kern_get_item(options, "add-host", i), hosts->text[i],
                                       sizeof(hosts->text[i]), err);
        if (failed != 0)
            return failed;
        hosts->line[i] = hosts->text[i];
    }
    return 0;
}

static int prepare_layers(kern_box *box, struct rootfs_state *state, struct kern_error *err)
{
    state->from = ROOTFS_FROM_OVERLAY;
    kern_root_is_private(box);
    return tmpfs_has_xattrs() ? 0 : kern_disk_scratch(box, err);
}

/* A directory keeps its own /etc/hosts and /etc/hostname unless the user says something about them; an image's are the ones of
 * the machine that made it. */
static int prepare_hosts(kern_box *box, struct rootfs_state *state, struct kern_error *err)
{
    const kern_values *options = kern_options(box);
    const char *hostname = kern_get_string(options, "hostname"), *folder = NULL;
    bool is_image = kern_get_root_layers(box, &folder) > 0;
    struct hosts hosts;
    int failed = read_hosts(options, &hosts, err);
    if (failed != 0 || (hosts.count == 0 && hostname == NULL && !is_image))
        return failed;
    if (state->from == ROOTFS_FROM_BIND && hosts.count > 0)
        return kern_refuse(
            err, 0,
            "cannot use --add-host with --bind-rootfs: kern writes nothing into directories of the host");
    if (state->from == ROOTFS_FROM_BIND)
        return 0;
    state->hostname = hostname != NULL ? hostname : kern_box_name(box);
    size_t size = 512 + hosts.count * sizeof(hosts.text[0]);
    state->hosts = calloc(1, size);
    if (state->hosts == NULL)
        return kern_fail(err, ENOMEM, "cannot write the box's /etc/hosts");
    int used =
        snprintf(state->hosts, size, "127.0.0.1 localhost\n::1 localhost\n127.0.1.1 %s\n", state->hostname);
    for (uint32_t i = 0; i < hosts.count; i++)
        used += snprintf(state->hosts + used, size - (size_t)used, "%s\n", hosts.line[i]);
    return 0;
}

/* With the host's network the box asks whom the host asks. */
static int read_resolver(const kern_values *options, char **ret_text, struct kern_error *err)
{
    const char *net = kern_get_string(options, "net");
    if (net == NULL || strcmp(net, "host") != 0)
        return 0;
    auto_fd fd = open("/etc/resolv.conf", O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    auto_free char *text = calloc(1, RESOLVER_MOST + 1);
    if (text == NULL)
        return kern_fail(err, ENOMEM, "cannot read \"/etc/resolv.conf\"");
    if (fd < 0 || read(fd, text, RESOLVER_MOST) < 0)
        return 0; /* the host has none either */
    *ret_text = steal_ptr(text);
    return 0;
}

static int prepare_host(kern_box *box, struct rootfs_state *state, struct kern_error *err)
{
    const kern_values *options = kern_options(box);
    struct hosts hosts;
    int failed = read_hosts(options, &hosts, err);
    if (failed != 0)
        return failed;
    const char *hostname = kern_get_string(options, "hostname");
    const char *net = kern_get_string(options, "net");
    struct rootfs_host_facts facts = {.hostname = hostname != NULL ? hostname : kern_box_name(box),
                                      .hosts_lines = hosts.line,
                                      .hosts_count = hosts.count,
                                      .share_network = net != NULL && strcmp(net, "host") == 0,
                                      .egress = kern_has_egress(box)};
    state->from = ROOTFS_FROM_HOST;
    kern_root_is_private(box);
    return rootfs_host_plan(&facts, &state->plan, err);
}

static int refuse_disk(const char *why, struct kern_error *err)
{
    int failed = kern_refuse(err, 0, "cannot use --scratch disk: %s", why);
    kern_hint(err, "leave it out, or use --scratch ram:SIZE, or a volume (-v) for what is large");
    return failed;
}

/* Where the changes of the root go, if the user said so. In memory a size is the tmpfs's own; on disk it is measured. */
static int prepare_scratch(kern_box *box, struct rootfs_state *state, const char *text, uint64_t *budget,
                           struct kern_error *err)
{
    struct rootfs_scratch scratch;
    int failed = rootfs_parse_scratch(text, &scratch, err);
    if (failed != 0)
        return failed;
    if (state->from == ROOTFS_FROM_BIND)
        return kern_refuse(err, 0,
                           "cannot use --scratch with --bind-rootfs: changes go into the directory itself");
    uint64_t cap = (uint64_t)kern_get_int(kern_options(box), "memory");
    if (!scratch.on_disk && scratch.size > cap) {
        failed = kern_refuse(
            err, 0, "cannot use --scratch \"%s\": it is charged to the box's memory, which is %llu MiB", text,
            (unsigned long long)(cap >> 20));
        kern_hint(err, "give more memory (-m), or keep the changes on disk: --scratch disk");
        return failed;
    }
    if (!scratch.on_disk) {
        *budget = scratch.size != 0 ? scratch.size : *budget;
        return 0;
    }
    if (state->from == ROOTFS_FROM_HOST)
        return refuse_disk("the host root has no changes but those in /root and /tmp", err);
    const struct kern_ids *ids = kern_get_ids(box);
    if (ids->count > 1 && ids->how == KERN_IDS_HELPER)
        return refuse_disk("with a range of ids, files would be left that only root can remove", err);
    if (kern_disk_scratch_fd(box) < 0)
        failed = kern_disk_scratch(box, err);
    return failed == 0 && scratch.size != 0
               ? rootfs_bound_volume(box, state, kern_disk_scratch_fd(box), "/", scratch.size, err)
               : failed;
}

static int prepare(kern_box *box, void *block, struct kern_error *err)
{
    struct rootfs_state *state = block;
    rootfs_bounds_init(&state->bounds);
    const kern_values *options = kern_options(box);
    const char *path = kern_get_string(options, "rootfs");
    /* A full root must say ENOSPC while the memory cap still has room for the programs. */
    uint64_t budget = (uint64_t)kern_get_int(options, "memory") / 2;
    const char *folder = NULL;
    bool layers = kern_get_root_layers(box, &folder) > 0;
    int failed = layers         ? prepare_layers(box, state, err)
                 : path != NULL ? prepare_directory(box, state, path, err)
                                : prepare_host(box, state, err);
    if (failed == 0 && (path != NULL || layers))
        failed = prepare_hosts(box, state, err);
    if (failed == 0 && layers)
        failed = read_resolver(options, &state->resolver, err);
    if (failed == 0)
        failed = rootfs_add_volumes(box, state, err);
    if (failed == 0)
        failed = rootfs_add_tmpfs(box, &budget, err);
    if (failed == 0 && kern_get_string(options, "scratch") != NULL)
        failed = prepare_scratch(box, state, kern_get_string(options, "scratch"), &budget, err);
    state->scratch_size = budget;
    return failed;
}

/* ---- enter ---- */

/* The root is put together on kern's own run directory, in this mount namespace only: nothing that is still needed is hidden
 * by it. The descriptor means what is below the mount, so the top is reached through the parent. */
static int open_top(const kern_box *box, int *ret_fd, struct kern_error *err)
{
    const char *name = NULL;
    int parent = -1;
    (void)kern_child_scratch(box, &parent, &name); /* the place itself is below the mount now */
    int fd = sys_open(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    if (fd < 0)
        return kern_fail(err, -fd, "cannot open the new root");
    *ret_fd = fd;
    return 0;
}

/* By descriptor: root of the box's own id range may not even look a name up there. */
static int mount_scratch(const kern_box *box, const struct rootfs_state *state, int *ret_fd,
                         struct kern_error *err)
{
    char options[64], place[40];
    const char *name = NULL;
    int parent = -1;
    (void)snprintf(options, sizeof(options), "mode=755,size=%llu",
                   (unsigned long long)state->scratch_size); /* fits */
    (void)snprintf(place, sizeof(place), "/proc/self/fd/%d",
                   kern_child_scratch(box, &parent, &name)); /* fits */
    int failed = sys_mount("tmpfs", place, "tmpfs", MS_NOSUID | MS_NODEV, options);
    return failed == 0 ? open_top(box, ret_fd, err)
                       : kern_fail(err, -failed, "cannot mount the scratch tmpfs");
}

/* The lower directory under a name that an overlay accepts: a descriptor's, or where an idmapped copy was attached (the kernel
 * refuses detached ones). */
static int open_lower(kern_box *box, int scratch, int *ret_fd, struct kern_error *err)
{
    int tree = kern_root_tree(box);
    if (tree < 0) {
        int fd = kern_child_reopen(box, err);
        if (fd >= 0)
            *ret_fd = fd;
        return fd < 0 ? fd : 0;
    }
    int failed = sys_mkdirat(scratch, "lower", 0755);
    if (failed == 0)
        failed = sys_move_mount(tree, "", scratch, "lower", MOVE_MOUNT_F_EMPTY_PATH);
    int fd = failed == 0 ? sys_open(scratch, "lower", O_PATH | O_DIRECTORY, 0) : failed;
    if (fd < 0)
        return kern_fail(err, -fd, "cannot attach the idmapped root");
    *ret_fd = fd;
    return 0;
}

/* `upper` is where changes go: the tmpfs, or a directory on disk. */
static int make_overlay_directories(int scratch, int upper, struct kern_error *err)
{
    static const char *const directories[] = {"upper", "work", "root"}; /* the last is the mount point */
    for (size_t i = 0; i < sizeof(directories) / sizeof(directories[0]); i++) {
        int failed = sys_mkdirat(i < 2 ? upper : scratch, directories[i], 0755);
        if (failed != 0)
            return kern_fail(err, -failed, "cannot make \"%s\" for the overlay", directories[i]);
    }
    return 0;
}

static int explain_overlay(int failed, struct kern_error *err)
{
    kern_fail(err, -failed, "cannot mount an overlay on the root directory");
    if (failed == -ENODEV)
        kern_hint(err,
                  "this kernel has no overlay file system (sudo modprobe overlay), or use --bind-rootfs");
    kern_hint(err, "its file system may not serve as a lower directory: copy it elsewhere, or use "
                   "--bind-rootfs (the box then "
                   "writes into the directory itself)");
    return failed;
}

/* The names are the scratch directory's own, which is the working directory; what stands elsewhere is named by descriptor. */
static int mount_overlay(int lower, int attached, int scratch, int disk, struct kern_error *err)
{
    char options[192], lower_name[40] = "lower", base[40] = "";
    if (!attached)
        (void)snprintf(lower_name, sizeof(lower_name), "/proc/self/fd/%d",
                       lower); /* fits: a number is short */
    if (disk >= 0)
        (void)snprintf(base, sizeof(base), "/proc/self/fd/%d/", disk); /* fits */
    (void)snprintf(options, sizeof(options), "lowerdir=%s,upperdir=%supper,workdir=%swork,userxattr",
                   lower_name, base, base);
    int failed = sys_fchdir(scratch);
    if (failed == 0)
        failed = sys_mount("overlay", "root", "overlay", MS_NOSUID | MS_NODEV, options);
    return failed == 0 ? 0 : explain_overlay(failed, err);
}

/* The layers of an image are "0", "1", ... in the working directory, links beside each other: the kernel takes a page of options
 * (and no longer ones one by one before 6.5), and these are short enough for all layers that an image may have. */
static int mount_layers(int links, uint32_t count, int scratch, int disk, struct kern_error *err)
{
    char options[1024] = "lowerdir=", place[40];
    size_t used = strlen(options);
    for (uint32_t i = 0; i < count; i++)
        used += (size_t)snprintf(options + used, sizeof(options) - used, "%s%u", i > 0 ? ":" : "",
                                 i); /* 127 of 4 bytes at most */
    int base = disk >= 0 ? disk : scratch;
    (void)snprintf(options + used, sizeof(options) - used,
                   ",upperdir=/proc/self/fd/%d/upper,workdir=/proc/self/fd/%d/work,userxattr", base,
                   base);                                                   /* fits */
    (void)snprintf(place, sizeof(place), "/proc/self/fd/%d/root", scratch); /* fits */
    int failed = sys_fchdir(links);
    if (failed == 0)
        failed = sys_mount("overlay", place, "overlay", MS_NOSUID | MS_NODEV, options);
    return failed == 0 ? 0 : explain_overlay(failed, err);
}

static int write_upper(int scratch, const char *path, const char *text)
{
    auto_fd fd = sys_open(scratch, path, O_CREAT | O_EXCL | O_WRONLY, 0644);
    long put = fd < 0 ? fd : sys_write(fd, text, strlen(text));
    return put < 0 ? (int)put : 0;
}

/* The directory that the upper one will cover; of layers, the topmost that has it counts. */
static int check_etc(int lower, uint32_t layers, struct stat *ret_etc)
{
    int etc = -ENOENT;
    *ret_etc = (struct stat){.st_mode = S_IFDIR | 0755};
    for (uint32_t i = 0; i < (layers > 0 ? layers : 1) && etc == -ENOENT; i++) {
        char path[24] = "etc";
        if (layers > 0)
            (void)snprintf(path, sizeof(path), "%u/etc", i); /* fits */
        /* Only the first part of a path in layers is a link, and that is kern's own. */
        etc = sys_open(lower, path, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0);
    }
    if (etc == -ENOENT)
        return 0;
    int failed = etc < 0 ? etc : fstat(etc, ret_etc) != 0 ? -errno : 0;
    if (etc >= 0)
        (void)sys_close(etc); /* only looked at */
    return failed;
}

/* Mode and owner of the root's own, which it hides. An owner that the box has no id for stays hidden. */
static int describe_etc(int scratch, const struct stat *etc)
{
    static const char path[] = "upper/etc";
    if (etc->st_uid != 0 || etc->st_gid != 0)
        (void)sys_call(SYS_fchownat, scratch, SYS_P(path), etc->st_uid, etc->st_gid, 0, 0);
    if ((etc->st_mode & 07777) == 0755)
        return 0;
    return (int)sys_call(SYS_fchmodat, scratch, SYS_P(path), (long)(etc->st_mode & 07777), 0, 0, 0);
}

/* Into the upper directory before the overlay joins it to the lower: no name of the root is followed. */
static int write_hosts(const struct rootfs_state *state, int lower, uint32_t layers, int scratch,
                       struct kern_error *err)
{
    if (state->hosts == NULL)
        return 0;
    struct stat etc;
    int failed = check_etc(lower, layers, &etc);
    if (failed != 0)
        return kern_fail(err, -failed,
                         "cannot write the box's /etc/hosts: \"/etc\" in the root is not a directory");
    char hostname[80];
    (void)snprintf(hostname, sizeof(hostname), "%s\n", state->hostname); /* 64 characters at most */
    failed = sys_mkdirat(scratch, "upper/etc", 0755);
    if (failed == 0)
        failed = write_upper(scratch, "upper/etc/hosts", state->hosts);
    if (failed == 0 && state->resolver != NULL)
        failed = write_upper(scratch, "upper/etc/resolv.conf", state->resolver);
    if (failed == 0)
        failed = write_upper(scratch, "upper/etc/hostname", hostname);
    if (failed == 0)
        failed = describe_etc(scratch, &etc);
    return failed == 0 ? 0 : kern_fail(err, -failed, "cannot write the box's /etc/hosts");
}

static int open_links(int lower, const char *folder, int *ret_fd, struct kern_error *err)
{
    int fd = sys_open_beneath(lower, folder, O_PATH | O_DIRECTORY, 0, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
    if (fd < 0)
        return kern_fail(err, -fd, "cannot open the layers of the image");
    *ret_fd = fd;
    return 0;
}

static int build_overlay(kern_box *box, const struct rootfs_state *state, int *ret_root,
                         struct kern_error *err)
{
    auto_fd lower = -1, scratch = -1, links = -1;
    const char *folder = NULL;
    uint32_t layers = kern_get_root_layers(box, &folder);
    int disk = kern_child_disk(box); /* the core's */
    int failed = mount_scratch(box, state, &scratch, err);
    if (failed == 0)
        failed = open_lower(box, scratch, &lower, err);
    if (failed == 0)
        failed = make_overlay_directories(scratch, disk >= 0 ? disk : scratch, err);
    if (failed == 0 && layers > 0)
        failed = open_links(lower, folder, &links, err);
    if (failed == 0)
        failed = write_hosts(state, layers > 0 ? links : lower, layers, disk >= 0 ? disk : scratch, err);
    if (failed == 0)
        failed = layers > 0 ? mount_layers(links, layers, scratch, disk, err)
                            : mount_overlay(lower, kern_root_tree(box) >= 0, scratch, disk, err);
    if (failed != 0)
        return failed;
    int root = sys_open(scratch, "root", O_PATH | O_DIRECTORY, 0);
    if (root < 0)
        return kern_fail(err, -root, "cannot open the new root");
    *ret_root = root;
    return 0;
}

static int build_bind(kern_box *box, int *ret_root, struct kern_error *err)
{
    auto_fd source = -1;
    const char *name = NULL;
    int parent = -1, tree = kern_root_tree(box);
    int place = kern_child_scratch(box, &parent, &name);
    if (tree < 0) {
        source = kern_child_reopen(box, err);
        if (source < 0)
            return source;
    }
    /* With all that is mounted below: the core seals the root itself only, and later. */
    bool read_only = kern_get_int(kern_options(box), "read-only") != 0;
    struct kern_bind bind = {.source = source,
                             .tree = tree,
                             .target = place,
                             .root = parent,
                             .path = name,
                             .flags = KERN_MOUNT_RECURSIVE | (read_only ? KERN_MOUNT_READ_ONLY : 0)};
    int failed = kern_child_bind(box, &bind);
    return failed == 0 ? open_top(box, ret_root, err)
                       : kern_fail(err, -failed, "cannot attach the root directory");
}

static int build_root(kern_box *box, const struct rootfs_state *state, int *ret_root, struct kern_error *err)
{
    if (state->from == ROOTFS_FROM_OVERLAY)
        return build_overlay(box, state, ret_root, err);
    if (state->from == ROOTFS_FROM_BIND)
        return build_bind(box, ret_root, err);
    auto_fd root = -1;
    int failed = mount_scratch(box, state, &root, err);
    if (failed == 0)
        failed = rootfs_build_host(box, state, root, err);
    if (failed == 0)
        *ret_root = steal_fd(&root);
    return failed;
}

static int enter(kern_box *box, void *block, struct kern_error *err)
{
    const struct rootfs_state *state = block;
    int root = -1;
    int failed = build_root(box, state, &root, err);
    if (failed == 0)
        failed = rootfs_mount_dev(box, root, err);
    if (failed == 0)
        failed = rootfs_mount_proc(box, root, err);
    if (failed == 0)
        failed = rootfs_mount_sys(box, root, err);
    if (failed == 0)
        kern_child_root(box, root); /* the core's from here; closed at exec like everything else */
    return failed;
}

static void teardown(kern_box *box, void *block, const struct kern_outcome *outcome)
{
    struct rootfs_state *state = block;
    (void)outcome; /* all mounts went with their namespace */
    rootfs_bounds_end(box, &state->bounds);
    rootfs_plan_clear(&state->plan);
    free(state->hosts);
    free(state->resolver);
}

KERN_PLUGIN(ROOTFS_MANIFEST, .state_size = sizeof(struct rootfs_state), .prepare = prepare, .enter = enter,
            .teardown = teardown);
