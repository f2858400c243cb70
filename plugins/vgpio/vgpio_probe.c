/* Looks at the devices of the machine, by /sys and libgpiod, and changes nothing; see vgpio_probe.h. */
#include "vgpio_probe.h"

#include "vgpio_gpiod.h"

#include "kern/cleanup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/i2c-dev.h>
#include <linux/i2c.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/statvfs.h>
#include <unistd.h>

struct report {
    vgpio_found_fn found;
    void *data;
};

static void tell(const struct report *report, const char *kind, const char *name, const char *detail,
                 const char *state, int64_t number)
{
    const struct vgpio_finding finding = {
        .kind = kind, .name = name, .detail = detail, .state = state, .number = number};
    report->found(report->data, &finding);
}

static void read_line(const char *path, char *ret_line, size_t size)
{
    ret_line[0] = '\0';
    auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read(fd, ret_line, size - 1);
    ret_line[length > 0 ? length : 0] = '\0';
    ret_line[strcspn(ret_line, "\n")] = '\0';
}

static const char *may_open(const char *node)
{
    return access(node, R_OK | W_OK) == 0 ? "" : strerror(errno);
}

/* ---- GPIO ---- */

struct chip {
    const struct report *report;
    const char *name;
};

static int tell_line(void *data, uint32_t offset, const struct vgpio_line_facts *line)
{
    const struct chip *chip = data;
    char name[80], state[64] = "";
    (void)snprintf(name, sizeof(name), "%s:%u", chip->name, offset); /* fits */
    if (line->used)
        (void)snprintf(state, sizeof(state), "used by %s",
                       line->consumer[0] != '\0' ? line->consumer : "the kernel");
    tell(chip->report, "pins", name, line->name, state, -1);
    return 0;
}

static void probe_chips(const struct report *report)
{
    struct vgpio_chip_facts chips[64];
    size_t count = vgpio_gpiod_chips(chips, sizeof(chips) / sizeof(chips[0]));
    for (size_t i = 0; i < count && i < sizeof(chips) / sizeof(chips[0]); i++) {
        struct chip chip = {.report = report, .name = chips[i].name};
        tell(report, "chip", chips[i].name, chips[i].label,
             chips[i].error != 0 ? strerror(chips[i].error) : "",
             chips[i].error != 0 ? -1 : (int64_t)chips[i].lines);
        if (chips[i].error == 0)
            (void)vgpio_gpiod_lines(chips[i].path, tell_line, &chip); /* a chip that went away has no lines */
    }
}

/* ---- Directories of /sys ---- */

struct folder {
    const char *kind, *path;
    const char *starts;  /* of the names that count, */
    const char *rest;    /* and the characters that may follow; NULL: any */
    const char *shown;   /* what stands for the start in a profile */
    const char *detail;  /* the file in it that describes it */
    const char *node;    /* printf of the node, for the right to open it; NULL: none */
    const char *present; /* a file that says by being there that it is real; NULL: all are */
};

#define DIGITS "0123456789"

static const struct folder folders[] = {
    {"spi", "/sys/class/spidev", "spidev", DIGITS ".", "", "device/modalias", "/dev/%s", NULL},
    {"uart", "/sys/class/tty", "tty", NULL, "tty", "device/modalias", "/dev/%s", "device/driver"},
    {"camera", "/sys/class/video4linux", "video", DIGITS, "video", "name", "/dev/%s", NULL},
    {"audio", "/sys/class/sound", "card", DIGITS, "", "id", NULL, NULL},
    {"midi", "/sys/class/sound", "midiC", DIGITS "D", "midiC", "", "/dev/snd/%s", NULL},
    {"input", "/sys/class/input", "event", DIGITS, "event", "device/name", "/dev/input/%s", NULL},
    {"display", "/sys/class/graphics", "fb", DIGITS, "fb", "name", "/dev/%s", NULL},
    {"display", "/sys/class/drm", "card", DIGITS, "dri/card", "", "/dev/dri/%s", NULL},
    {"usb", "/sys/bus/usb/devices", "", NULL, "", "product", NULL, "idVendor"},
    {"leds", "/sys/class/leds", "", NULL, "", "trigger", NULL, NULL},
    {"adc", "/sys/bus/iio/devices", "iio:device", DIGITS, "iio:device", "name", NULL, NULL},
    {"onewire", "/sys/bus/w1/devices", "", NULL, "", "name", NULL, NULL},
    {"bluetooth", "/sys/class/bluetooth", "hci", DIGITS, "hci", "", NULL, NULL},
};

static int is_real(const struct folder *folder, const char *name)
{
    char path[PATH_MAX];
    size_t start = strlen(folder->starts);
    if (name[0] == '.' || strncmp(name, folder->starts, start) != 0)
        return 0;
    if (folder->rest != NULL && name[start + strspn(name + start, folder->rest)] != '\0')
        return 0; /* card0-HDMI-A-1, fbcon */
    if (folder->present == NULL)
        return 1;
    (void)snprintf(path, sizeof(path), "%s/%s/%s", folder->path, name, folder->present); /* or is not there */
    if (access(path, F_OK) != 0)
        return 0;
    /* The 8250 driver keeps places for ports that are not there: their type is 0. */
    char type[16];
    (void)snprintf(path, sizeof(path), "%s/%s/type", folder->path, name); /* or is not there */
    read_line(path, type, sizeof(type));
    return strcmp(type, "0") != 0;
}

static void probe_entry(const struct report *report, const struct folder *folder, const char *name)
{
    char path[PATH_MAX], detail[128] = "", node[PATH_MAX] = "";
    if (folder->detail[0] != '\0') {
        (void)snprintf(path, sizeof(path), "%s/%s/%s", folder->path, name,
                       folder->detail); /* or is not there */
        read_line(path, detail, sizeof(detail));
    }
    if (strcmp(folder->kind, "leds") == 0) { /* the trigger in force stands in brackets */
        const char *open = strchr(detail, '['), *close = open != NULL ? strchr(open, ']') : NULL;
        if (close != NULL)
            memmove(detail, open + 1, (size_t)(close - open - 1)), detail[close - open - 1] = '\0';
    }
    if (folder->node != NULL)
        (void)snprintf(node, sizeof(node), "%.*s%s", (int)strlen(folder->node) - 2, folder->node,
                       name); /* or is not there */
    char shown[NAME_MAX + 16];
    (void)snprintf(shown, sizeof(shown), "%s%s", folder->shown, name + strlen(folder->starts)); /* fits */
    tell(report, folder->kind, shown, detail, node[0] != '\0' ? may_open(node) : "", -1);
}

static void probe_folder(const struct report *report, const struct folder *folder)
{
    struct dirent **entries = NULL;
    int count = scandir(folder->path, &entries, NULL, versionsort);
    for (int i = 0; i < count; i++) {
        if (is_real(folder, entries[i]->d_name))
            probe_entry(report, folder, entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
}

/* A channel is what a profile names; it need not be exported. */
static void probe_pwm(const struct report *report)
{
    struct dirent **entries = NULL;
    int count = scandir("/sys/class/pwm", &entries, NULL, versionsort);
    for (int i = 0; i < count; i++) {
        char path[PATH_MAX], channels[16], name[NAME_MAX + 16];
        (void)snprintf(path, sizeof(path), "/sys/class/pwm/%s/npwm", entries[i]->d_name); /* fits */
        read_line(path, channels, sizeof(channels));
        for (int k = 0; k < atoi(channels); k++) {
            (void)snprintf(name, sizeof(name), "%s:%d", entries[i]->d_name, k); /* fits */
            tell(report, "pwm", name, "", "", -1);
        }
        free(entries[i]);
    }
    free(entries);
}

/* ---- I2C ---- */

/* As i2cdetect does: a read of a byte where a quick write could change something, else a quick write. */
static int answers(int bus, unsigned address)
{
    union i2c_smbus_data data;
    int by_read = (address >= 0x30 && address <= 0x37) || (address >= 0x50 && address <= 0x5f);
    struct i2c_smbus_ioctl_data request = {.read_write = by_read ? I2C_SMBUS_READ : I2C_SMBUS_WRITE,
                                           .size = by_read ? I2C_SMBUS_BYTE : I2C_SMBUS_QUICK,
                                           .data = by_read ? &data : NULL};
    return ioctl(bus, I2C_SLAVE, (unsigned long)address) == 0 && ioctl(bus, I2C_SMBUS, &request) == 0;
}

static void scan_bus(const struct report *report, const char *node, const char *number)
{
    auto_fd bus = open(node, O_RDWR | O_CLOEXEC);
    for (unsigned address = 0x08; bus >= 0 && address <= 0x77; address++) {
        char name[64];
        (void)snprintf(name, sizeof(name), "{bus = %s, address = 0x%02x}", number, address); /* fits */
        if (answers(bus, address))
            tell(report, "i2c", name, "answers", "", -1);
    }
}

static void probe_buses(const struct report *report, int scan)
{
    struct dirent **entries = NULL;
    int count = scandir("/sys/class/i2c-dev", &entries, NULL, versionsort);
    for (int i = 0; i < count; i++) {
        const char *name = entries[i]->d_name;
        if (strncmp(name, "i2c-", 4) == 0 && strlen(name) < 16) {
            char path[64], node[32], detail[64];
            (void)snprintf(path, sizeof(path), "/sys/class/i2c-dev/%.15s/name", name); /* fits */
            (void)snprintf(node, sizeof(node), "/dev/%.15s", name);                    /* fits */
            read_line(path, detail, sizeof(detail));
            tell(report, "i2c", name + 4, detail, may_open(node), -1);
            if (scan)
                scan_bus(report, node, name + 4);
        }
        free(entries[i]);
    }
    free(entries);
}

/* ---- CPUs and disks ---- */

static void probe_cpus(const struct report *report)
{
    cpu_set_t set;
    int count = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 0;
    int64_t memory = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGE_SIZE);
    char detail[64];
    (void)snprintf(detail, sizeof(detail), "%lld MiB of memory", (long long)(memory >> 20)); /* fits */
    tell(report, "cpu", "host", detail, "", count);
}

static void probe_disks(const struct report *report)
{
    static const char *const places[] = {"/var/lib", "/home", "/mnt", "/srv"};
    unsigned long seen = 0;
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        struct statvfs fs;
        if (statvfs(places[i], &fs) != 0 || fs.f_fsid == seen)
            continue;
        seen = fs.f_fsid;
        tell(report, "disk", places[i], "free", access(places[i], W_OK) == 0 ? "" : strerror(errno),
             (int64_t)(fs.f_bavail * fs.f_frsize));
    }
}

void vgpio_probe(vgpio_found_fn found, void *data, int scan_i2c)
{
    const struct report report = {.found = found, .data = data};
    probe_chips(&report);
    probe_buses(&report, scan_i2c);
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++)
        probe_folder(&report, &folders[i]);
    probe_pwm(&report);
    probe_cpus(&report);
    probe_disks(&report);
}
