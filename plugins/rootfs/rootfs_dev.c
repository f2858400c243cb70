/* /dev, /proc and /sys of a box; see rootfs_dev.h. Runs in enter, as root of the user namespace that owns the mounts, inside
 * the box's own pid namespace, perhaps on kern's memory. The directories are opened without following a link: an image
 * may hold anything there. Needs CAP_SYS_ADMIN in that user namespace. */
#include "rootfs_dev.h"

#include "kern/cleanup.h"
#include "kern/sys.h"

#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#define NO_LINKS (RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH)

/* Paths that name a descriptor: mount(2) takes no descriptors, and names may be exchanged. */
struct fd_path {
    char text[40];
};

static struct fd_path path_of(int fd)
{
    struct fd_path path;
    (void)snprintf(path.text, sizeof(path.text), "/proc/self/fd/%d", fd); /* fits: a number is short */
    return path;
}

/* Opens NAME of the root, which must be a real directory; made when missing (which fails on a read-only host directory). */
static int open_place(int root, const char *name, int *ret_fd, struct kern_error *err)
{
    int fd = sys_open_beneath(root, name, O_PATH | O_DIRECTORY, 0, NO_LINKS);
    if (fd == -ENOENT && sys_mkdirat(root, name, 0755) == 0)
        fd = sys_open_beneath(root, name, O_PATH | O_DIRECTORY, 0, NO_LINKS);
    if (fd == -ELOOP || fd == -ENOTDIR)
        return kern_fail(err, 0, "cannot use the root: \"/%s\" in it is not a directory", name);
    if (fd < 0)
        return kern_fail(err, -fd, "cannot open \"/%s\" in the root", name);
    *ret_fd = fd;
    return 0;
}

/* Mounts a file system on NAME of the directory and opens what is there then. mount(2) takes a name: it is used from inside the
 * directory, where it was just seen to be no link. Whoever exchanged it in between could only lead us to another place of
 * this mount namespace, and what stands at the name afterwards is looked at again. */
static int mount_place(int root, const char *name, const char *type, unsigned long magic, unsigned long flags,
                       const char *data, int *ret_fd, struct kern_error *err)
{
    auto_fd place = -1;
    int failed = open_place(root, name, &place, err);
    if (failed == 0 && sys_fchdir(root) != 0)
        failed = kern_fail(err, EACCES, "cannot enter the root");
    if (failed != 0)
        return failed;
    failed = sys_mount(type, name, type, flags, data);
    if (failed != 0)
        return kern_fail(err, -failed, "cannot mount %s on \"/%s\" in the box", type, name);
    auto_fd fd = sys_open_beneath(root, name, O_PATH | O_DIRECTORY, 0, NO_LINKS);
    if (fd < 0)
        return kern_fail(err, -fd, "cannot open \"/%s\" in the box", name);
    struct statfs fs;
    if (fstatfs(fd, &fs) != 0 || (unsigned long)fs.f_type != magic)
        return kern_fail(err, 0, "cannot use \"/%s\" in the box: it was exchanged while the box was built",
                         name);
    *ret_fd = steal_fd(&fd);
    return 0;
}

/* ---- /dev ---- */

struct node {
    const char *name;
    const char *host;
    unsigned major, minor;
};

static const struct node nodes[] = {
    {"null", "/dev/null", 1, 3},     {"zero", "/dev/zero", 1, 5},       {"full", "/dev/full", 1, 7},
    {"random", "/dev/random", 1, 8}, {"urandom", "/dev/urandom", 1, 9}, {"tty", "/dev/tty", 5, 0},
};

/* A user namespace cannot make device nodes, so the host's are bound, and looked at afterwards: what is bound must be the
 * device, whatever stood under that name. The working directory is the box's new and empty /dev. */
static int bind_node(int dev, const struct node *node, struct kern_error *err)
{
    auto_fd file = sys_open(dev, node->name, O_CREAT | O_EXCL | O_WRONLY, 0666);
    if (file < 0)
        return kern_fail(err, -file, "cannot make \"/dev/%s\" in the box", node->name);
    int failed = sys_mount(node->host, node->name, NULL, MS_BIND, NULL);
    if (failed != 0)
        return kern_fail(err, -failed, "cannot bind \"%s\"", node->host);
    struct stat st;
    if (fstatat(dev, node->name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISCHR(st.st_mode) ||
        st.st_rdev != makedev(node->major, node->minor))
        return kern_fail(err, 0, "cannot use \"%s\": it is not device %u:%u", node->host, node->major,
                         node->minor);
    return 0;
}

static int add_links(int dev, struct kern_error *err)
{
    static const char *const links[][2] = {{"/proc/self/fd", "fd"},
                                           {"/proc/self/fd/0", "stdin"},
                                           {"/proc/self/fd/1", "stdout"},
                                           {"/proc/self/fd/2", "stderr"},
                                           {"pts/ptmx", "ptmx"}};
    for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++) {
        int failed = sys_symlinkat(links[i][0], dev, links[i][1]);
        if (failed != 0)
            return kern_fail(err, -failed, "cannot make \"/dev/%s\" in the box", links[i][1]);
    }
    return 0;
}

int rootfs_mount_dev(kern_box *box, int root, struct kern_error *err)
{
    auto_fd dev = -1, pts = -1, shm = -1;
    int failed =
        mount_place(root, "dev", "tmpfs", TMPFS_MAGIC, MS_NOSUID | MS_NOEXEC, "mode=755,size=64k", &dev, err);
    size_t count = sizeof(nodes) / sizeof(nodes[0]) - (kern_own_terminal(box) ? 0 : 1); /* tty comes last */
    if (failed == 0 && sys_fchdir(dev) != 0)
        failed = kern_fail(err, EACCES, "cannot enter \"/dev\" of the box");
    for (size_t i = 0; failed == 0 && i < count; i++)
        failed = bind_node(dev, &nodes[i], err);
    if (failed == 0)
        failed = add_links(dev, err);
    if (failed == 0 && kern_mounts_below(box, "/dev/"))
        kern_child_tmpfs(box, dev);
    if (failed == 0)
        failed = mount_place(dev, "pts", "devpts", DEVPTS_SUPER_MAGIC, MS_NOSUID | MS_NOEXEC,
                             "newinstance,ptmxmode=0666,mode=0620", &pts, err);
    /* No size: what is written there counts against the memory cap, where there is one. */
    return failed != 0
               ? failed
               : mount_place(dev, "shm", "tmpfs", TMPFS_MAGIC, MS_NOSUID | MS_NODEV, "mode=1777", &shm, err);
}

/* ---- /proc ---- */

static int cover_read_only(const char *name, struct kern_error *err)
{
    int failed = sys_mount(name, name, NULL, MS_BIND | MS_REC, NULL);
    if (failed == -ENOENT)
        return 0;
    if (failed == 0)
        failed = sys_mount(NULL, name, NULL,
                           MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
    return failed == 0 ? 0 : kern_fail(err, -failed, "cannot make \"/proc/%s\" read-only", name);
}

static int cover_entirely(const char *name, struct kern_error *err)
{
    int failed = sys_mount("/dev/null", name, NULL, MS_BIND, NULL);
    if (failed == -ENOENT)
        return 0;
    if (failed == -ENOTDIR) /* a directory here */
        failed = sys_mount("tmpfs", name, "tmpfs", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC,
                           "mode=555,size=4k");
    return failed == 0 ? 0 : kern_fail(err, -failed, "cannot cover \"/proc/%s\"", name);
}

/* Names are relative to the working directory, which is the root of a procfs that was just checked to be one. */
static int cover_proc(struct kern_error *err)
{
    static const char *const read_only[] = {"sys", "sysrq-trigger", "irq", "bus", "fs", "asound"};
    static const char *const hidden[] = {"kcore",         "kallsyms",   "kmsg",        "keys",
                                         "latency_stats", "timer_list", "sched_debug", "scsi"};
    int failed = 0;
    for (size_t i = 0; failed == 0 && i < sizeof(read_only) / sizeof(read_only[0]); i++)
        failed = cover_read_only(read_only[i], err);
    for (size_t i = 0; failed == 0 && i < sizeof(hidden) / sizeof(hidden[0]); i++)
        failed = cover_entirely(hidden[i], err);
    return failed;
}

/* What the box itself needs of /proc is not covered, except for --sysctl: that takes a second mount of the same procfs, never
 * attached. It is closed at exec, which makes the kernel wait for all its readers (RCU): a fiftieth of a start, so only then.
 * Inside another sandbox it is not to be had. */
static int keep_uncovered(kern_box *box, int proc, struct kern_error *err)
{
    int second = kern_get_count(kern_options(box), "sysctl") > 0 && !kern_nested(box);
    int kept = second != 0 ? sys_open_tree(proc, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | O_CLOEXEC)
                           : sys_open(proc, ".", O_PATH | O_DIRECTORY, 0);
    if (kept < 0)
        return kern_fail(err, -kept, "cannot keep the box's procfs");
    kern_child_proc(box, kept);
    return 0;
}

int rootfs_mount_proc(kern_box *box, int root, struct kern_error *err)
{
    auto_fd proc = -1;
    int failed = mount_place(root, "proc", "proc", PROC_SUPER_MAGIC, MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL,
                             &proc, err);
    if (failed == -EPERM)
        kern_hint(err, "this host hides parts of its own /proc (a container?): run kern where /proc is "
                       "complete, or start the "
                       "outer container with its masked paths unmasked");
    if (failed != 0)
        return failed;
    failed = keep_uncovered(box, proc, err);
    if (failed != 0)
        return failed;
    if (kern_privileged(box))
        return 0; /* a covered /proc would keep the kernel from mounting another one in a box inside this */
    failed = sys_fchdir(proc);
    return failed != 0 ? kern_fail(err, -failed, "cannot enter \"/proc\" of the box") : cover_proc(err);
}

/* ---- /sys ---- */

static int show_group(int at, const char *path, const char *label, struct kern_error *err)
{
    struct fd_path target = path_of(at);
    int failed = sys_mount(path, target.text, NULL, MS_BIND, NULL);
    if (failed != 0)
        return kern_fail(err, -failed, "cannot show the box its control group \"%s\"", path);
    /* The descriptor still means the directory below the new mount; the label leads to the mount. */
    failed = sys_mount(NULL, label, NULL, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC,
                       NULL);
    return failed == 0 ? 0 : kern_fail(err, -failed, "cannot make the box's control group read-only");
}

static int show_groups(kern_box *box, int sys, struct kern_error *err)
{
    int failed = sys_mkdirat(sys, "fs", 0755);
    if (failed == 0)
        failed = sys_mkdirat(sys, "fs/cgroup", 0755);
    if (failed == 0)
        failed = sys_fchdir(sys);
    if (failed != 0)
        return kern_fail(err, -failed, "cannot make \"/sys/fs/cgroup\" in the box");
    const char *path = NULL, *controller = NULL;
    for (uint32_t i = 0; kern_group_view(box, i, &path, &controller) != 0; i++) {
        char label[64];
        (void)snprintf(label, sizeof(label), "fs/cgroup%s%s", controller != NULL ? "/" : "",
                       controller != NULL ? controller : ""); /* names of controllers are short */
        if (controller != NULL)
            failed = sys_mkdirat(sys, label, 0755);
        auto_fd at = failed == 0 ? sys_open(sys, label, O_PATH | O_DIRECTORY, 0) : failed;
        failed = at < 0 ? kern_fail(err, -at, "cannot make \"/sys/%s\" in the box", label)
                        : show_group(at, path, label, err);
        if (failed != 0)
            return failed;
    }
    return 0;
}

int rootfs_mount_sys(kern_box *box, int root, struct kern_error *err)
{
    const char *path = NULL, *controller = NULL;
    auto_fd sys = -1;
    int failed = mount_place(root, "sys", "tmpfs", TMPFS_MAGIC, MS_NOSUID | MS_NODEV | MS_NOEXEC,
                             "mode=755,size=4m", &sys, err);
    if (failed == 0 && kern_group_view(box, 0, &path, &controller) != 0)
        failed = show_groups(box, sys, err);
    if (failed == 0)
        kern_child_sys(box, steal_fd(&sys));
    return failed;
}
