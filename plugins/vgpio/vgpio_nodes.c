/* Device nodes for the box: opened once, judged by what they are (type, number, the kernel's subsystem behind them), never by
 * their name. Runs in kern, in prepare. */
#include "vgpio_state.h"

#include "kern/cleanup.h"
#include "kern/foundation.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* A key that stands for nodes: how a short name becomes paths, and what may be behind them. */
struct kind {
    const char *key;
    const char *pattern;           /* %s: the name; may match several (a sound card) */
    const char *prefix;            /* of a name that is given as a number */
    const char *const *subsystems; /* NULL-terminated; NULL: what is not refused to anyone */
};

static const char *const spidev[] = {"spidev", NULL};
static const char *const tty[] = {"tty", NULL};
static const char *const video[] = {"video4linux", "media", NULL};
static const char *const sound[] = {"sound", NULL};
static const char *const input[] = {"input", NULL};
static const char *const screen[] = {"graphics", "drm", "backlight", NULL};
static const char *const usb[] = {"usb", "usbmisc", NULL};

static const struct kind kinds[] = {
    {"spi", "/dev/%s", "spidev", spidev},    {"uart", "/dev/%s", "ttyS", tty},
    {"camera", "/dev/%s", "video", video},   {"audio", "/dev/snd/*C%sD*|/dev/snd/controlC%s", "", sound},
    {"midi", "/dev/snd/%s", "midiC", sound}, {"input", "/dev/input/%s", "event", input},
    {"display", "/dev/%s", "fb", screen},    {"usb", "/dev/bus/usb/%s", "", usb},
    {"extra", "/dev/%s", "", NULL},
};

/* ---- What may not be given to a box under any key ---- */

struct refused {
    const char *subsystem, *why;
};

static const struct refused refused[] = {
    {"mem", "memory of the host, or a device that every box has"},
    {"block", "a disk"},
    {"vc", "a console of the host"},
    {"vtconsole", "a console of the host"},
    {"hidraw", "it can type on the host"},
    {"vfio", "it reaches the host's memory"},
    {"vfio-dev", "it reaches the host's memory"},
    {"iommufd", "it reaches the host's memory"},
    {"uio", "it reaches the host's memory"},
    {"dax", "memory of the host"},
    {"nvme", "a disk"},
    {"nvme-generic", "a disk"},
    {"scsi_generic", "a disk"},
    {"bsg", "a disk"},
    {"mtd", "flash memory of the host"},
    {"msr", "registers of the processor"},
    {"cpuid", "registers of the processor"},
    {"tpm", "the host's keys"},
    {"tpmrm", "the host's keys"},
    {"watchdog", "it restarts the host"},
    {"ppp", "a network device of the host"},
    {"gpio", "lines of a chip are given by pins"},
    {"i2c-dev", "buses are given by i2c"},
};

/* The subsystem "misc" has a bit of everything; these of it are harmless. */
static const char *const harmless[] = {"uleds", "hwrng", "hw_random", NULL};

static int is_in(const char *word, const char *const *list)
{
    for (size_t i = 0; list[i] != NULL; i++)
        if (strcmp(list[i], word) == 0)
            return 1;
    return 0;
}

/* The last part of where a link of sysfs leads. */
static int link_name(const char *path, char *ret_name, size_t size)
{
    char target[PATH_MAX];
    ssize_t length = readlink(path, target, sizeof(target) - 1);
    if (length <= 0)
        return -errno;
    target[length] = '\0';
    const char *slash = strrchr(target, '/');
    const char *name = slash != NULL ? slash + 1 : target;
    if (strlen(name) >= size)
        return -ENAMETOOLONG;
    memcpy(ret_name, name, strlen(name) + 1);
    return 0;
}

static int refuse_node(const char *key, const char *path, const char *why, struct kern_error *err)
{
    return kern_refuse(err, 0, "cannot give \"%s\" to a box (%s): %s", path, key, why);
}

static int judge_misc(const char *key, const char *path, const char *device, struct kern_error *err)
{
    char name[64] = "";
    if (link_name(device, name, sizeof(name)) == 0 && is_in(name, harmless))
        return 0;
    return refuse_node(key, path, "a control device of the host", err);
}

/* A tty that is no serial port: a virtual console, a terminal of somebody, the controlling terminal. */
static int is_serial(const struct stat *st)
{
    unsigned number = major(st->st_rdev);
    return !(number == 4 && minor(st->st_rdev) < 64) && number != 5 && number != 3 && number != 2 &&
           !(number >= 136 && number <= 143);
}

static int judge_node(const char *key, const char *path, int fd, const char *const *allowed,
                      struct kern_error *err)
{
    struct stat st;
    char device[64], link[80], subsystem[64] = "";
    if (fstat(fd, &st) != 0)
        return kern_refuse(err, errno, "cannot look at \"%s\"", path);
    if (!S_ISCHR(st.st_mode))
        return refuse_node(key, path,
                           S_ISBLK(st.st_mode)    ? "a disk"
                           : S_ISDIR(st.st_mode)  ? "a directory, not a device"
                           : S_ISFIFO(st.st_mode) ? "a FIFO, not a device"
                                                  : "not a character device",
                           err);
    (void)snprintf(device, sizeof(device), "/sys/dev/char/%u:%u", major(st.st_rdev),
                   minor(st.st_rdev));                          /* fit */
    (void)snprintf(link, sizeof(link), "%s/subsystem", device); /* both */
    if (link_name(link, subsystem, sizeof(subsystem)) != 0)
        return refuse_node(key, path, "the kernel's /sys does not say what it is", err);
    if (allowed != NULL && !is_in(subsystem, allowed)) {
        char why[128];
        (void)snprintf(why, sizeof(why), "it is of the subsystem \"%s\"", subsystem); /* fits */
        return refuse_node(key, path, why, err);
    }
    if (strcmp(subsystem, "tty") == 0 && !is_serial(&st))
        return refuse_node(key, path, "a console or terminal of the host", err);
    if (strcmp(subsystem, "misc") == 0)
        return judge_misc(key, path, device, err);
    for (size_t i = 0; allowed == NULL && i < sizeof(refused) / sizeof(refused[0]); i++)
        if (strcmp(refused[i].subsystem, subsystem) == 0)
            return refuse_node(key, path, refused[i].why, err);
    return 0;
}

/* ---- Opening ---- */

int vgpio_open_node(const char *key, const char *path, const char *const *allowed, int *ret_fd,
                    struct kern_error *err)
{
    if (strncmp(path, "/dev/", 5) != 0 || strstr(path, "/..") != NULL || strstr(path, "//") != NULL)
        return refuse_node(key, path, "a device is named by its path below /dev", err);
    auto_fd fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        return -ENOENT;
    if (fd < 0)
        return kern_refuse(err, errno, "cannot open \"%s\"", path);
    /* A link such as /dev/serial0 may lead on, but not out of /dev. */
    char link[40], real[PATH_MAX];
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd); /* fits: a number is short */
    ssize_t length = readlink(link, real, sizeof(real) - 1);
    if (length <= 0)
        return kern_refuse(err, errno, "cannot learn where \"%s\" leads", path);
    real[length] = '\0';
    if (strncmp(real, "/dev/", 5) != 0)
        return refuse_node(key, path, "it is a link that leads out of /dev", err);
    int failed = judge_node(key, path, fd, allowed, err);
    if (failed == 0)
        *ret_fd = steal_fd(&fd);
    return failed;
}

/* ---- Rights on the host: supplementary groups ---- */

static int is_member(gid_t gid)
{
    gid_t groups[1024];
    int count = getgroups(sizeof(groups) / sizeof(groups[0]), groups);
    for (int i = 0; i < count; i++)
        if (groups[i] == gid)
            return 1;
    return 0;
}

static void list_groups(char *ret_list, size_t size)
{
    gid_t groups[64];
    int count = getgroups(sizeof(groups) / sizeof(groups[0]), groups);
    size_t used = 0;
    ret_list[0] = '\0';
    for (int i = 0; i < count && used < size; i++)
        used += (size_t)snprintf(ret_list + used, size - used, "%s%u", i > 0 ? " " : "", groups[i]);
}

/* Without root the box opens the node with the rights of whoever runs kern. When these come from a supplementary group, the
 * box has that group, and all others too: the kernel lets a box with one id keep all or none. */
static int check_rights(kern_box *box, const char *path, const struct stat *st, struct kern_error *err)
{
    if (geteuid() == 0 || st->st_uid == geteuid() || (st->st_mode & 0006) == 0006)
        return 0;
    if ((st->st_mode & 0060) != 0060 || (st->st_gid != getegid() && !is_member(st->st_gid))) {
        int failed =
            kern_refuse(err, EACCES, "cannot give \"%s\" to a box: you may not open it yourself", path);
        kern_hint(err,
                  "ls -l %s shows whom it belongs to; join that group (sudo usermod -aG GROUP $USER) and log "
                  "in again",
                  path);
        return failed;
    }
    if (st->st_gid == getegid())
        return 0;
    const struct kern_ids *ids = kern_get_ids(box);
    if (ids->count > 1) {
        int failed =
            kern_refuse(err, 0,
                        "cannot give \"%s\" to a box with a range of ids: it would lose group %u, which may "
                        "open it",
                        path, st->st_gid);
        kern_hint(err, "leave out --uid-range, or add --no-uid-range");
        return failed;
    }
    if (kern_untrusted(box))
        return kern_refuse(
            err, 0,
            "cannot give \"%s\" to a box under --security-profile untrusted: it would keep all your "
            "supplementary groups",
            path);
    char list[256];
    list_groups(list, sizeof(list));
    kern_note(box, "the box keeps your supplementary groups, for %s needs one of them: %s", path, list);
    return 0;
}

int vgpio_put_node(kern_box *box, int fd, const char *path, struct kern_error *err)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return kern_fail(err, errno, "cannot look at \"%s\"", path);
    int failed = check_rights(box, path, &st, err);
    return failed == 0 ? kern_add_bind(box, fd, path, KERN_MOUNT_DEVICE, err) : failed;
}

int vgpio_absent(kern_box *box, const kern_values *profile, const char *key, const char *what,
                 struct kern_error *err)
{
    if (kern_get_int(profile, "required") != 0) {
        int failed = kern_refuse(err, 0, "%s: %s is not there", key, what);
        kern_hint(err, "see what this machine has: kern probe");
        return failed;
    }
    kern_warn(box, "%s: %s is not there, the box goes without", key, what);
    return 0;
}

/* ---- The keys ---- */

static int add_path(kern_box *box, const struct kind *kind, const char *path, struct kern_error *err)
{
    auto_fd fd = -1;
    int failed = vgpio_open_node(kind->key, path, kind->subsystems, &fd, err);
    return failed == 0 ? vgpio_put_node(box, fd, path, err) : failed;
}

/* The paths that one pattern stands for; the pattern has one %s. */
static int add_pattern(kern_box *box, const struct kind *kind, const char *pattern, size_t length,
                       const char *name, uint32_t *found, struct kern_error *err)
{
    char path[PATH_MAX];
    const char *mark = memmem(pattern, length, "%s", 2);
    int used = snprintf(path, sizeof(path), "%.*s%s%.*s", (int)(mark - pattern), pattern, name,
                        (int)(pattern + length - mark - 2), mark + 2);
    if (used <= 0 || (size_t)used >= sizeof(path))
        return refuse_node(kind->key, name, "its name is too long", err);
    glob_t matches;
    if (glob(path, GLOB_NOESCAPE, NULL, &matches) != 0)
        return 0; /* nothing matches */
    int failed = 0;
    for (size_t i = 0; failed == 0 && i < matches.gl_pathc; i++) {
        failed = add_path(box, kind, matches.gl_pathv[i], err);
        *found += failed == 0;
    }
    globfree(&matches);
    return failed;
}

/* What is plugged into a port: "1-1.2" is "001/004" now. "000/000", which there is not, when nothing is. */
static void port_device(const char *port, char *ret_name, size_t size)
{
    static const char *const parts[] = {"busnum", "devnum"};
    unsigned number[2] = {0, 0};
    for (size_t i = 0; i < 2; i++) {
        char path[128], text[16] = "";
        (void)snprintf(path, sizeof(path), "/sys/bus/usb/devices/%.64s/%s", port, parts[i]); /* fits */
        auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd >= 0 && read(fd, text, sizeof(text) - 1) > 0)
            number[i] = (unsigned)strtoul(text, NULL, 10);
    }
    (void)snprintf(ret_name, size, "%03u/%03u", number[0], number[1]); /* fits */
}

static int add_item(kern_box *box, const struct kind *kind, const kern_values *profile, const char *item,
                    struct kern_error *err)
{
    char name[256];
    uint32_t found = 0;
    int failed = 0;
    if (item[0] == '/') {
        failed = add_path(box, kind, item, err);
        return failed == -ENOENT ? vgpio_absent(box, profile, kind->key, item, err) : failed;
    }
    if (item[0] == '\0' || strpbrk(item, "*?[\\{") != NULL || strstr(item, "..") != NULL)
        return refuse_node(kind->key, item, "that is no name of a device", err);
    int is_number = item[strspn(item, "0123456789.")] == '\0';
    if (strcmp(kind->key, "usb") == 0 && strchr(item, '-') != NULL)
        port_device(item, name, sizeof(name));
    else
        (void)snprintf(name, sizeof(name), "%s%s", is_number ? kind->prefix : "",
                       item); /* a cut name is not found */
    for (const char *pattern = kind->pattern; failed == 0 && *pattern != '\0';) {
        size_t length = strcspn(pattern, "|");
        failed = add_pattern(box, kind, pattern, length, name, &found, err);
        pattern += length + (pattern[length] == '|');
    }
    return failed == 0 && found == 0 ? vgpio_absent(box, profile, kind->key, item, err) : failed;
}

int vgpio_add_nodes(kern_box *box, const kern_values *profile, struct kern_error *err)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        for (uint32_t k = 0; k < kern_get_count(profile, kinds[i].key); k++) {
            int failed = add_item(box, &kinds[i], profile, kern_get_item(profile, kinds[i].key, k), err);
            if (failed != 0)
                return failed;
        }
    }
    return 0;
}
