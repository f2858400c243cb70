/* See gpu_find.h. In kern. */
#include "gpu_find.h"

#include "gpu_check.h"

#include "kern/cleanup.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>

/* The one line of a file of sysfs; "" when there is none. */
static void read_line(int folder, const char *name, char *ret_text, size_t size)
{
    auto_fd fd = openat(folder, name, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? 0 : read(fd, ret_text, size - 1);
    ret_text[got > 0 ? got : 0] = '\0';
    ret_text[strcspn(ret_text, "\n")] = '\0';
}

static int read_node(int classes, const char *class, const char *name, struct gpu_node *ret_node)
{
    char path[96], dev[32], link[PATH_MAX];
    struct gpu_node node = {0};
    (void)snprintf(path, sizeof(path), "%s/%s", class, name); /* names were judged: they fit */
    auto_fd folder = openat(classes, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return -errno;
    read_line(folder, "dev", dev, sizeof(dev));
    if (sscanf(dev, "%u:%u", &node.major, &node.minor) != 2)
        return -ENODEV;
    read_line(folder, "device/vendor", node.vendor, sizeof(node.vendor));
    ssize_t length = readlinkat(folder, "device", link, sizeof(link) - 1);
    link[length > 0 ? length : 0] = '\0';
    const char *last = strrchr(link, '/');
    (void)snprintf(node.address, sizeof(node.address), "%.63s",
                   last != NULL ? last + 1 : link);              /* cut: matches nothing */
    (void)snprintf(node.name, sizeof(node.name), "%s", name);    /* fits, as above */
    (void)snprintf(node.class, sizeof(node.class), "%s", class); /* fits: drm or accel */
    (void)snprintf(node.path, sizeof(node.path), "%s/%s", strcmp(class, "drm") == 0 ? "dri" : class,
                   name); /* the same */
    *ret_node = node;
    return 0;
}

static int look_in(int classes, const char *class, const char *id, gpu_node_fn fn, void *data)
{
    auto_fd fd = openat(classes, class, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    auto_dir dir = fd < 0 ? NULL : fdopendir(fd);
    int found = 0;
    if (dir == NULL)
        return errno == ENOENT ? 0 : -errno;
    (void)steal_fd(&fd); /* the stream's now */
    for (const struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        struct gpu_node node;
        if (!gpu_is_node(entry->d_name) || read_node(classes, class, entry->d_name, &node) != 0)
            continue;
        if (strcmp(node.name, id) != 0 && strcmp(node.address, id) != 0)
            continue;
        int failed = fn(data, &node);
        if (failed < 0)
            return failed;
        found++;
    }
    return found;
}

int gpu_find(int classes, const char *id, gpu_node_fn fn, void *data)
{
    int render = look_in(classes, "drm", id, fn, data);
    int accel = render < 0 ? 0 : look_in(classes, "accel", id, fn, data);
    return render < 0 ? render : accel < 0 ? accel : render + accel;
}
