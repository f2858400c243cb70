/* The keys that stand for directories of /sys: only the named one stands in the box, writable only where its class is there to be
 * written. Runs in kern, in prepare and teardown. */
#include "vgpio_state.h"
#include "vgpio_sweep.h"

#include "kern/cleanup.h"
#include "kern/foundation.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

struct class
{
    const char *key, *folder, *prefix;
    int writable;
};

static const struct class classes[] = {
    {"leds", "/sys/class/leds", "", 1},        {"adc", "/sys/bus/iio/devices", "iio:device", 0},
    {"onewire", "/sys/bus/w1/devices", "", 0}, {"net", "/sys/class/net", "", 0},
    {"can", "/sys/class/net", "", 0},          {"bluetooth", "/sys/class/bluetooth", "", 0},
};

static int refuse_name(const char *key, const char *item, struct kern_error *err)
{
    int failed = kern_refuse(err, 0, "cannot use %s \"%s\": that is no name of a device", key, item);
    kern_hint(err, "see what this machine has: kern probe");
    return failed;
}

static int is_name(const char *item)
{
    return item[0] != '\0' && item[0] != '.' && strchr(item, '/') == NULL && item[0] != '{';
}

/* Written down before it is done: in the box's state file, for the run after one that is killed, and for teardown. */
static int change(kern_box *box, struct vgpio_state *state, const char *line, struct kern_error *err)
{
    char **grown = reallocarray(state->changed, state->changed_count + 1, sizeof(*grown));
    if (grown != NULL)
        state->changed = grown;
    char *copy = grown != NULL ? strdup(line) : NULL;
    if (copy == NULL)
        return kern_fail(err, ENOMEM, "cannot keep what was changed for the box");
    grown[state->changed_count++] = copy;
    return kern_box_record_device(box, line, err);
}

/* Root in a box of real root is not root: what it may write has to be its own while the box lives. (sysfs knows neither ACLs
 * nor idmapped mounts.) */
static int give_file(kern_box *box, struct vgpio_state *state, int dir, const char *name,
                     struct kern_error *err)
{
    const struct kern_ids *ids = kern_get_ids(box);
    struct stat st;
    auto_fd fd = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || (st.st_mode & 0200) == 0)
        return 0;
    char link[40], path[384], line[448];
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd); /* fits: a number is short */
    ssize_t length = readlink(link, path, sizeof(path) - 1);
    if (length <= 0 || length == (ssize_t)sizeof(path) - 1)
        return kern_fail(err, length < 0 ? errno : ENAMETOOLONG, "cannot give \"%s\" to the box", name);
    path[length] = '\0';
    (void)snprintf(line, sizeof(line), "owner %u %u %u %s", ids->base, st.st_uid, st.st_gid, path); /* fits */
    int failed = change(box, state, line, err);
    if (failed == 0 && chown(link, ids->base, ids->gid_base) != 0)
        failed = kern_fail(err, errno, "cannot give \"%s\" to the box", path);
    return failed;
}

/* A file has one owner, so one box at a time has it. The lock falls with kern, however it ends. Returns 1, or 0 when the box has
 * the folder already. */
static int lock_folder(struct vgpio_state *state, int folder, const char *path, struct kern_error *err)
{
    struct stat st, other;
    if (fstat(folder, &st) != 0)
        return kern_fail(err, errno, "cannot look at \"%s\"", path);
    for (size_t i = 0; i < state->folder_count; i++)
        if (fstat(state->folder[i], &other) == 0 && other.st_ino == st.st_ino)
            return 0;
    if (state->folder_count == VGPIO_FOLDERS)
        return kern_refuse(err, 0, "cannot give \"%s\" to a box: it has %u directories of /sys already", path,
                           VGPIO_FOLDERS);
    if (flock(folder, LOCK_EX | LOCK_NB) != 0) {
        int failed = kern_refuse(err, 0, "cannot give \"%s\" to a box: another box has it", path);
        kern_hint(err, "end that box first: kern ps");
        return failed;
    }
    int copy = fcntl(folder, F_DUPFD_CLOEXEC, 3);
    if (copy < 0)
        return kern_fail(err, errno, "cannot keep \"%s\" locked", path);
    state->folder[state->folder_count++] = copy;
    return 1;
}

static int give_files(kern_box *box, struct vgpio_state *state, int dir, const char *path,
                      struct kern_error *err)
{
    if (kern_get_ids(box)->shifted == 0)
        return 0;
    auto_fd copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (copy < 0)
        return kern_fail(err, errno, "cannot list \"%s\"", path);
    int locked = lock_folder(state, copy, path, err);
    if (locked <= 0)
        return locked;
    auto_dir list = fdopendir(copy);
    if (list == NULL)
        return kern_fail(err, errno, "cannot list \"%s\"", path);
    (void)steal_fd(&copy); /* the stream's now */
    int failed = 0;
    for (const struct dirent *entry; failed == 0 && (entry = readdir(list)) != NULL;)
        failed = entry->d_type == DT_REG ? give_file(box, state, dir, entry->d_name, err) : 0;
    return failed;
}

static int add_folder(kern_box *box, struct vgpio_state *state, const char *path, int writable,
                      struct kern_error *err)
{
    auto_fd fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -ENOENT;
    int failed = writable ? give_files(box, state, fd, path, err) : 0;
    return failed != 0
               ? failed
               : kern_add_bind(box, fd, path, KERN_MOUNT_KERNEL | (writable ? 0 : KERN_MOUNT_READ_ONLY), err);
}

static int add_item(kern_box *box, struct vgpio_state *state, const struct class *class,
                    const kern_values *profile, const char *item, struct kern_error *err)
{
    char path[256];
    if (!is_name(item))
        return refuse_name(class->key, item, err);
    int is_number = item[strspn(item, "0123456789")] == '\0';
    if (strcmp(class->key, "onewire") == 0 && is_number) /* the line of the bus: its master stands for it */
        (void)snprintf(path, sizeof(path), "%s/w1_bus_master1", class->folder); /* fits */
    else
        (void)snprintf(path, sizeof(path), "%s/%s%s", class->folder, is_number ? class->prefix : "",
                       item); /* or is absent */
    int failed = add_folder(box, state, path, class->writable, err);
    return failed == -ENOENT ? vgpio_absent(box, profile, class->key, path, err) : failed;
}

/* ---- PWM: one channel, which has to be exported to be there ---- */

static int write_number(const char *path, int number)
{
    char text[16];
    int length = snprintf(text, sizeof(text), "%d", number);
    auto_fd fd = open(path, O_WRONLY | O_CLOEXEC);
    return fd >= 0 && write(fd, text, (size_t)length) == length ? 0 : -errno;
}

static int read_channel(const char *item, int *ret_chip, int *ret_channel, struct kern_error *err)
{
    uint32_t chip = 0, channel = 0;
    char name[32] = "0";
    const char *colon = strchr(item, ':');
    if (colon != NULL && (size_t)(colon - item) < sizeof(name))
        (void)snprintf(name, sizeof(name), "%.*s", (int)(colon - item), item); /* fits */
    if (vgpio_read_number(name, "pwmchip", &chip) != 0 ||
        vgpio_read_number(colon != NULL ? colon + 1 : item, NULL, &channel) != 0) {
        int failed = refuse_name("pwm", item, err);
        return failed;
    }
    *ret_chip = (int)chip;
    *ret_channel = (int)channel;
    return 0;
}

static int add_channel(kern_box *box, struct vgpio_state *state, const kern_values *profile, const char *item,
                       struct kern_error *err)
{
    int chip = 0, channel = 0;
    char path[96], export[96];
    int failed = read_channel(item, &chip, &channel, err);
    if (failed != 0)
        return failed;
    (void)snprintf(path, sizeof(path), "/sys/class/pwm/pwmchip%d/pwm%d", chip, channel); /* fits */
    (void)snprintf(export, sizeof(export), "/sys/class/pwm/pwmchip%d/export", chip);     /* fits */
    if (access(path, F_OK) != 0 && access(export, F_OK) == 0) {
        char line[48];
        (void)snprintf(line, sizeof(line), "pwm %d %d", chip, channel); /* fits */
        failed = change(box, state, line, err);
        if (failed != 0)
            return failed;
        failed = write_number(export, channel);
        if (failed != 0)
            return kern_refuse(err, -failed, "cannot export channel %d of pwmchip%d", channel, chip);
    }
    failed = add_folder(box, state, path, 1, err);
    return failed == -ENOENT ? vgpio_absent(box, profile, "pwm", path, err) : failed;
}

int vgpio_add_sysfs(kern_box *box, struct vgpio_state *state, const kern_values *profile,
                    struct kern_error *err)
{
    for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++) {
        for (uint32_t k = 0; k < kern_get_count(profile, classes[i].key); k++) {
            int failed =
                add_item(box, state, &classes[i], profile, kern_get_item(profile, classes[i].key, k), err);
            if (failed != 0)
                return failed;
        }
    }
    int failed = 0;
    for (uint32_t k = 0; failed == 0 && k < kern_get_count(profile, "pwm"); k++)
        failed = add_channel(box, state, profile, kern_get_item(profile, "pwm", k), err);
    return failed;
}

void vgpio_sysfs_clear(struct vgpio_state *state)
{
    for (size_t i = 0; i < state->changed_count; i++) {
        vgpio_sweep(state->changed[i]);
        free(state->changed[i]);
    }
    free(state->changed);
    for (size_t i = 0; i < state->folder_count; i++)
        kern_close_fd(&state->folder[i]);
}
