/* kern doctor's probes of the file systems under a box: an overlay in memory, mounts with shifted ids. They run in
 * children of kern, in mount namespaces of their own; see doctor.h. */
#include "doctor.h"

#include "cleanup.h"
#include "sys.h"

#include <linux/mount.h>
#include <sched.h>
#include <stddef.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#ifndef OPEN_TREE_CLONE
#define OPEN_TREE_CLONE 1
#endif

/* ---- Overlay ---- */

enum { OVERLAY_TMPFS = 10, OVERLAY_XATTR, OVERLAY_MOUNT, OVERLAY_USE };

static int make_layers(void)
{
    static const char *const directories[] = {"lower", "lower/old", "upper", "work", "merged"};
    for (size_t i = 0; i < sizeof(directories) / sizeof(directories[0]); i++)
        if (mkdir(directories[i], 0755) != 0)
            return -errno;
    return 0;
}

/* Over /proc, because that directory is always there; what it hides is not needed any more. */
static int probe_overlay(struct core_doctor_trial *trial)
{
    int result = core_doctor_enter_userns(trial, CLONE_NEWNS);
    if (result < 0)
        return result;
    trial->step = OVERLAY_TMPFS;
    (void)sys_mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL); /* what matters is the next one */
    result = sys_mount("tmpfs", "/proc", "tmpfs", MS_NOSUID | MS_NODEV, "size=1m,mode=755");
    if (result == 0)
        result = sys_chdir("/proc");
    if (result == 0)
        result = make_layers();
    if (result < 0)
        return result;
    trial->step = OVERLAY_XATTR;
    if (setxattr("upper", "user.kern", "1", 1, 0) != 0)
        return -errno;
    trial->step = OVERLAY_MOUNT;
    result = sys_mount("overlay", "merged", "overlay", MS_NOSUID | MS_NODEV,
                       "lowerdir=lower,upperdir=upper,workdir=work,userxattr");
    if (result < 0)
        return result;
    /* A directory that is removed and made again must hide the old one: that is what the xattr is for. */
    trial->step = OVERLAY_USE;
    return rmdir("merged/old") == 0 && mkdir("merged/old", 0755) == 0 ? 0 : -errno;
}

static void report_overlay(struct core_doctor_check *check, const struct core_doctor_facts *facts)
{
    static const char without[] = "use --bind-rootfs, or the host root, which needs no overlay";
    struct core_doctor_trial trial;
    int result = core_doctor_try(probe_overlay, facts, &trial);
    if (result == 0) {
        core_doctor_say(check, CORE_DOCTOR_OK, "in memory, in a user namespace, with user xattrs");
    } else if (trial.step < OVERLAY_TMPFS) {
        core_doctor_say(check, CORE_DOCTOR_WARN, "cannot be tried without a user namespace");
    } else if (trial.step == OVERLAY_XATTR) {
        core_doctor_say(
            check, CORE_DOCTOR_WARN,
            "a tmpfs takes no user xattrs (Linux older than 6.6): a directory that is removed and "
            "made again would show its old files, so --rootfs in memory is refused");
        core_doctor_fix(check, "boot Linux 6.6 or newer, or %s", without);
    } else if (trial.step == OVERLAY_MOUNT && result == -ENODEV) {
        core_doctor_say(check, CORE_DOCTOR_WARN, "this kernel has no overlay file system at hand");
        core_doctor_fix(check, "sudo modprobe overlay");
    } else if (trial.step == OVERLAY_MOUNT && (result == -EPERM || result == -EINVAL)) {
        core_doctor_say(check, CORE_DOCTOR_WARN, "not in a user namespace (Linux older than 5.11): %s",
                        strerrordesc_np(-result));
        core_doctor_fix(check, "%s", without);
    } else {
        const char *why = strerrordesc_np(-result);
        core_doctor_say(check, CORE_DOCTOR_WARN, "does not work here: %s",
                        why != NULL ? why : "unknown error");
        core_doctor_fix(check, "%s", without);
    }
}

/* ---- Shifted ids ---- */

/* A user namespace whose ids are others outside; it lives as long as the descriptor. */
static int open_shifted_userns(int *ret_fd)
{
    char path[64];
    pid_t pid = core_doctor_hold_userns();
    if (pid < 0)
        return pid;
    int result = 0;
    static const char *const maps[] = {"uid_map", "gid_map"};
    for (size_t i = 0; result == 0 && i < 2; i++) {
        (void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, maps[i]); /* fits */
        result = core_doctor_write(path, "0 100000 65536\n");
    }
    (void)snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid); /* fits */
    int fd = result == 0 ? sys_open(AT_FDCWD, path, O_RDONLY, 0) : result;
    core_doctor_end(pid);
    if (fd < 0)
        return fd;
    *ret_fd = fd;
    return 0;
}

static int shift(int userns, const char *path)
{
    auto_fd tree = sys_open_tree(AT_FDCWD, path, OPEN_TREE_CLONE | O_CLOEXEC);
    if (tree < 0)
        return tree;
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_IDMAP, .userns_fd = (uint64_t)userns};
    return sys_mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof(attr));
}

/* `number`: bit 0 is set where the root file system, bit 1 where a tmpfs can be shifted. */
static int probe_shift(struct core_doctor_trial *trial)
{
    auto_fd userns = -1;
    int result = open_shifted_userns(&userns);
    if (result == 0)
        result = sys_unshare(CLONE_NEWNS);
    if (result < 0)
        return result;
    (void)sys_mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL); /* what matters comes next */
    result = shift(userns, "/");
    trial->number = result == 0 ? 1 : 0;
    if (sys_mount("tmpfs", "/proc", "tmpfs", 0, "size=1m") == 0 && shift(userns, "/proc") == 0)
        trial->number |= 2;
    return result;
}

static void report_shift(struct core_doctor_check *check, const struct core_doctor_facts *facts)
{
    struct core_doctor_trial trial;
    int result = core_doctor_try(probe_shift, facts, &trial);
    bool memory = (trial.number & 2) != 0;
    if (result == 0) {
        core_doctor_say(check, CORE_DOCTOR_OK, "the root file system takes them%s",
                        memory ? ", and so does a tmpfs" : "; a tmpfs does not (Linux older than 6.3)");
        return;
    }
    core_doctor_say(check, CORE_DOCTOR_WARN,
                    "%s; --rootfs and volumes of root are refused where the file system cannot",
                    memory              ? "a tmpfs takes them, the root file system does not"
                    : result == -ENOSYS ? "this kernel has none (it needs Linux 5.12)"
                                        : "neither the root file system nor a tmpfs takes them");
    core_doctor_fix(check,
                    "keep root directories and volumes on ext4, xfs or btrfs, or run kern as another user");
}

void core_doctor_mounts(struct core_doctor *doctor, const struct core_doctor_facts *facts)
{
    report_overlay(core_doctor_add(doctor, "overlay"), facts);
    /* Only real root needs them, and only it may make them. */
    if (facts->privileged)
        report_shift(core_doctor_add(doctor, "idmapped-mounts"), facts);
}
