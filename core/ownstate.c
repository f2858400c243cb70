/* kern's own directories, which no box may have as a volume or a root: they are known by what they are (device and inode), so
 * that neither a link nor a bind mount of them stands for something else, and a bind mount of their parts by where it comes from.
 * Runs in prepare, on the host. */
#include "box.h"

#include "cleanup.h"
#include "registry.h"
#include "resources.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Canonical even where the last part does not exist yet. */
static char *canonical_place(const char *path)
{
    char folder[PATH_MAX], resolved[PATH_MAX];
    if (realpath(path, resolved) != NULL)
        return strdup(resolved);
    (void)snprintf(folder, sizeof(folder), "%s", path); /* callers' buffers are no longer */
    char *slash = strrchr(folder, '/');
    if (slash == NULL)
        return NULL;
    *slash = '\0';
    if (realpath(folder[0] != '\0' ? folder : "/", resolved) == NULL)
        return NULL;
    char *place = NULL;
    return asprintf(&place, "%s/%s", strcmp(resolved, "/") == 0 ? "" : resolved, slash + 1) > 0 ? place
                                                                                                : NULL;
}

static void add_place(kern_box *box, size_t *used, const char *path)
{
    char *place = *used < CORE_OWN_PLACES ? canonical_place(path) : NULL;
    for (size_t i = 0; place != NULL && i < *used; i++)
        if (strcmp(place, box->own_state[i]) == 0) {
            free(place);
            return;
        }
    if (place != NULL)
        box->own_state[(*used)++] = place;
}

/* Also the data directory of a kern that was started without XDG_DATA_HOME, where there is one. */
static void add_usual_data(kern_box *box, size_t *used)
{
    char path[PATH_MAX];
    const char *home = getenv("HOME");
    int length =
        home != NULL && home[0] == '/' ? snprintf(path, sizeof(path), "%s/.local/share/kern", home) : -1;
    if (length > 0 && (size_t)length < sizeof(path) && access(path, F_OK) == 0)
        add_place(box, used, path);
    if (access("/var/lib/kern", F_OK) == 0)
        add_place(box, used, "/var/lib/kern");
}

bool core_has_host_directories(const kern_box *box)
{
    const kern_values *options = &box->options;
    return kern_get_count(options, "volume") + kern_get_count(options, "mount") > 0 ||
           kern_get_string(options, "rootfs") != NULL;
}

void core_find_own_state(kern_box *box)
{
    char path[PATH_MAX];
    size_t used = 0;
    int place = 0;
    if (core_data_directory(path, sizeof(path)) == 0)
        add_place(box, &used, path);
    for (unsigned choice = 0; place >= 0; choice++) {
        place = core_registry_place(choice, path, sizeof(path));
        if (place > 0)
            add_place(box, &used, path);
    }
    add_usual_data(box, &used);
}

struct own_place {
    const char *path;
    struct statx stat;
};

/* An empty path: the descriptor itself. */
static bool look_at(int fd, const char *path, struct statx *ret_stat)
{
    return statx(fd, path, AT_EMPTY_PATH | AT_NO_AUTOMOUNT, STATX_TYPE | STATX_INO | STATX_MNT_ID,
                 ret_stat) == 0;
}

static bool is_same_device(const struct statx *a, const struct statx *b)
{
    return a->stx_dev_major == b->stx_dev_major && a->stx_dev_minor == b->stx_dev_minor;
}

static bool is_same(const struct statx *a, const struct statx *b)
{
    return is_same_device(a, b) && a->stx_ino == b->stx_ino;
}

static bool find_path(int fd, char *ret_path, size_t size)
{
    char link[40];
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd); /* fits: a number is short */
    ssize_t length = readlink(link, ret_path, size - 1);
    if (length <= 0 || ret_path[0] != '/')
        return false;
    ret_path[length] = '\0';
    return true;
}

/* ---- Where a mount comes from ---- */

/* A path as the file system has it, whatever part of it is mounted where. */
struct origin {
    char device[32];
    char path[2 * PATH_MAX]; /* "": the top */
};

static bool is_octal(const char *digits)
{
    return digits[0] >= '0' && digits[0] <= '3' && digits[1] >= '0' && digits[1] <= '7' && digits[2] >= '0' &&
           digits[2] <= '7';
}

/* mountinfo writes spaces and the like as three octal digits. */
static void unescape(char *text)
{
    char *to = text;
    for (const char *from = text; *from != '\0'; to++) {
        bool is_escape = from[0] == '\\' && is_octal(from + 1);
        *to = is_escape ? (char)((from[1] - '0') * 64 + (from[2] - '0') * 8 + from[3] - '0') : *from;
        from += is_escape ? 4 : 1;
    }
    *to = '\0';
}

/* Where `path` is that lies in this mount. False for a mount that the table does not have, as in a chroot, where those are left
 * out that stand above the root. */
static bool find_origin(const char *table, uint64_t mount, const char *path, struct origin *ret_origin)
{
    char root[PATH_MAX], point[PATH_MAX];
    const char *line = table;
    while (line != NULL && strtoull(line, NULL, 10) != mount) {
        line = strchr(line, '\n');
        line = line != NULL && line[1] != '\0' ? line + 1 : NULL;
    }
    if (line == NULL || sscanf(line, "%*u %*u %31s %4095s %4095s", ret_origin->device, root, point) != 3)
        return false;
    unescape(root);
    unescape(point);
    size_t above = strcmp(point, "/") == 0 ? 0 : strlen(point);
    if (strncmp(path, point, above) != 0 || (path[above] != '/' && path[above] != '\0'))
        return false;
    const char *rest = strcmp(path, "/") == 0 ? "" : path + above;
    (void)snprintf(ret_origin->path, sizeof(ret_origin->path), "%s%s", strcmp(root, "/") == 0 ? "" : root,
                   rest); /* sized for it */
    return true;
}

static bool lies_in(const struct origin *part, const struct origin *whole)
{
    size_t length = strlen(whole->path);
    return strcmp(part->device, whole->device) == 0 && strncmp(part->path, whole->path, length) == 0 &&
           (part->path[length] == '/' || part->path[length] == '\0');
}

static char *read_mounts(void)
{
    FILE *file = fopen("/proc/self/mountinfo", "re");
    char *table = NULL;
    size_t size = 0;
    if (file != NULL && getdelim(&table, &size, '\0', file) <= 0) {
        free(table);
        table = NULL;
    }
    if (file != NULL)
        (void)fclose(file); /* nothing was written */
    return table;
}

/* A part of an own place that is mounted elsewhere has nothing above it that tells. The table of mounts does; it is read only where
 * the two stand in one file system but in different mounts, for within one mount the way up leads to the place. */
static bool is_part_of_own(int fd, const struct own_place *own, size_t count)
{
    struct statx here;
    struct origin part, whole;
    char path[PATH_MAX];
    auto_free char *table = NULL;
    if (!look_at(fd, "", &here) || !find_path(fd, path, sizeof(path)))
        return true;
    for (size_t i = 0; i < count; i++) {
        if (!is_same_device(&own[i].stat, &here) || own[i].stat.stx_mnt_id == here.stx_mnt_id)
            continue;
        if (table == NULL && (table = read_mounts()) == NULL)
            return true;
        if (find_origin(table, here.stx_mnt_id, path, &part) &&
            find_origin(table, own[i].stat.stx_mnt_id, own[i].path, &whole) && lies_in(&part, &whole))
            return true;
    }
    return false;
}

/* ---- What a descriptor stands for ---- */

/* A directory of kern's by what is in it: the data of another XDG_DATA_HOME. */
static bool holds_store(int folder)
{
    return faccessat(folder, "images/ingest", F_OK, AT_SYMLINK_NOFOLLOW) == 0 &&
           faccessat(folder, "images/refs", F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* The directory itself, or the one that a file stands in. */
static int open_folder(int fd)
{
    char path[PATH_MAX];
    int folder = openat(fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (folder >= 0)
        return folder;
    if (!find_path(fd, path, sizeof(path)))
        return -1;
    char *slash = strrchr(path, '/');
    slash[slash == path ? 1 : 0] = '\0';
    return open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

int32_t kern_is_own_state(const kern_box *box, int32_t fd)
{
    struct own_place own[CORE_OWN_PLACES];
    struct statx here, before = {0};
    size_t count = 0;
    for (size_t i = 0; i < CORE_OWN_PLACES && box->own_state[i] != NULL; i++) {
        own[count].path = box->own_state[i];
        count += look_at(AT_FDCWD, own[count].path, &own[count].stat);
    }
    auto_fd at = open_folder(fd);
    while (at >= 0 && look_at(at, "", &here) && !is_same(&here, &before)) {
        for (size_t i = 0; i < count; i++)
            if (is_same(&here, &own[i].stat))
                return 1;
        if (holds_store(at))
            return 1;
        before = here;
        int up = openat(at, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
        kern_close_fd(&at);
        at = up;
    }
    return is_part_of_own(fd, own, count);
}

int32_t kern_own_state_below(const kern_box *box, int32_t fd, uint32_t index, const char **ret_below)
{
    const char *own = index < CORE_OWN_PLACES ? box->own_state[index] : NULL;
    struct statx wanted, here;
    *ret_below = NULL;
    if (own == NULL)
        return 0;
    char path[PATH_MAX];
    for (const char *slash = own; look_at(fd, "", &wanted) && slash != NULL; slash = strchr(slash + 1, '/')) {
        size_t length = slash == own ? 1 : (size_t)(slash - own);
        (void)snprintf(path, sizeof(path), "%.*s", (int)length, own); /* canonical, so no longer */
        if (!look_at(AT_FDCWD, path, &here) || !is_same(&here, &wanted))
            continue;
        /* A place that does not exist yet could be made by the box, and believed by the next kern: it is taken first. */
        if (mkdir(own, 0700) == 0 || errno == EEXIST)
            *ret_below = slash;
        break;
    }
    return 1;
}
