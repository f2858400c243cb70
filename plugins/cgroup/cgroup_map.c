/* Finds the caller's own group in each hierarchy; see cgroup_map.h. Runs in kern.
 *
 * The path in /proc/self/cgroup counts from the root of the hierarchy (or of the cgroup namespace), the mount may
 * begin deeper: a container without a namespace of its own sees "/docker/ID" in both, and what is below the mount
 * point is only the rest. */
#include "cgroup_map.h"

#include "kern/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct slice {
    const char *at;
    size_t length;
};

struct mount_line {
    struct slice root, target, options, type, super;
};

const char *cgroup_controller_v1(enum cgroup_kind kind)
{
    static const char *const name[CGROUP_KINDS] = {"memory", "pids", "cpu", "cpuset", "blkio"};
    return name[kind];
}

const char *cgroup_controller_v2(enum cgroup_kind kind)
{
    return kind == CGROUP_IO ? "io" : cgroup_controller_v1(kind);
}

/* Cuts the next part off `rest`; false when nothing is left. */
static bool next_part(struct slice *rest, char separator, struct slice *ret_part)
{
    if (rest->at == NULL)
        return false;
    const char *end = memchr(rest->at, separator, rest->length);
    size_t length = end != NULL ? (size_t)(end - rest->at) : rest->length;
    *ret_part = (struct slice){rest->at, length};
    if (end == NULL)
        *rest = (struct slice){NULL, 0};
    else
        *rest = (struct slice){end + 1, rest->length - length - 1};
    return true;
}

static bool slice_is(struct slice slice, const char *text)
{
    return slice.length == strlen(text) && memcmp(slice.at, text, slice.length) == 0;
}

static bool list_has(struct slice list, const char *word)
{
    struct slice part;
    while (next_part(&list, ',', &part))
        if (slice_is(part, word))
            return true;
    return false;
}

/* mountinfo writes space, tab, newline and backslash as three octal digits. */
static int unescape(struct slice slice, char ret_text[CGROUP_PATH_MAX])
{
    size_t used = 0;
    for (size_t i = 0; i < slice.length; i++) {
        unsigned char byte = (unsigned char)slice.at[i];
        if (byte == '\\' && i + 3 < slice.length) {
            unsigned value = 0;
            for (size_t digit = 1; digit <= 3; digit++)
                value = value << 3 | ((unsigned char)slice.at[i + digit] & 7u);
            byte = (unsigned char)value;
            i += 3;
        }
        if (used + 1 >= CGROUP_PATH_MAX)
            return -ENAMETOOLONG;
        ret_text[used++] = (char)byte;
    }
    ret_text[used] = '\0';
    return 0;
}

static bool split_mount(struct slice line, struct mount_line *ret_mount)
{
    struct slice part;
    for (int field = 0; field < 6; field++) {
        if (!next_part(&line, ' ', &part))
            return false;
        if (field == 3)
            ret_mount->root = part;
        else if (field == 4)
            ret_mount->target = part;
        else if (field == 5)
            ret_mount->options = part;
    }
    do { /* optional fields, as many as there are, end with a dash */
        if (!next_part(&line, ' ', &part))
            return false;
    } while (!slice_is(part, "-"));
    struct slice source;
    return next_part(&line, ' ', &ret_mount->type) && next_part(&line, ' ', &source) &&
           next_part(&line, ' ', &ret_mount->super);
}

/* The caller's path in the hierarchy that has `controller`, or in v2 where it is NULL. */
static bool own_path(const char *self_cgroup, const char *controller, char ret_path[CGROUP_PATH_MAX])
{
    struct slice rest = {self_cgroup, strlen(self_cgroup)}, line;
    while (next_part(&rest, '\n', &line)) {
        struct slice number, list;
        if (!next_part(&line, ':', &number) || !next_part(&line, ':', &list) || line.at == NULL)
            continue;
        bool found = controller != NULL ? list_has(list, controller) : list.length == 0;
        if (!found || line.length == 0 || line.length >= CGROUP_PATH_MAX)
            continue;
        memcpy(ret_path, line.at, line.length);
        ret_path[line.length] = '\0';
        return true;
    }
    return false;
}

/* A path that begins with "/.." lies outside the cgroup namespace: it has no name here. */
static bool outside(const char *path)
{
    return strncmp(path, "/..", 3) == 0 && (path[3] == '/' || path[3] == '\0');
}

static int place(const struct mount_line *mount, const char *path, struct cgroup_place *ret_place)
{
    char root[CGROUP_PATH_MAX], target[CGROUP_PATH_MAX];
    if (unescape(mount->root, root) < 0 || unescape(mount->target, target) < 0)
        return -ENAMETOOLONG;
    if (outside(path) || outside(root))
        return -ENOENT;
    size_t skip = strcmp(root, "/") == 0 ? 0 : strlen(root);
    if (strncmp(path, root, skip) != 0 || (path[skip] != '/' && path[skip] != '\0'))
        return -ENOENT;
    const char *below = strcmp(path + skip, "/") == 0 ? "" : path + skip;
    size_t mount_length = strlen(target), below_length = strlen(below);
    if (mount_length + below_length >= sizeof(ret_place->own))
        return -ENAMETOOLONG;
    memcpy(ret_place->own, target, mount_length);
    memcpy(ret_place->own + mount_length, below, below_length + 1);
    ret_place->mount_length = (uint32_t)mount_length;
    ret_place->read_only = list_has(mount->options, "ro") || list_has(mount->super, "ro");
    return 0;
}

/* A writable mount is better than a read-only one of the same hierarchy, whichever stands first. */
static void consider(const struct mount_line *mount, const char *self_cgroup, const char *controller,
                     struct cgroup_place *where)
{
    if (where->own[0] != '\0' && !where->read_only)
        return;
    char path[CGROUP_PATH_MAX];
    struct cgroup_place found = {.own = ""};
    if (!own_path(self_cgroup, controller, path) || place(mount, path, &found) < 0)
        return;
    if (where->own[0] == '\0' || !found.read_only)
        *where = found;
}

static void consider_v1(const struct mount_line *mount, const char *self_cgroup, struct cgroup_map *map)
{
    for (enum cgroup_kind kind = 0; kind < CGROUP_KINDS; kind++)
        if (list_has(mount->super, cgroup_controller_v1(kind)))
            consider(mount, self_cgroup, cgroup_controller_v1(kind), &map->v1[kind]);
    if (list_has(mount->super, "cpuacct"))
        consider(mount, self_cgroup, "cpuacct", &map->accounts);
}

void cgroup_map_parse(const char *mountinfo, const char *self_cgroup, struct cgroup_map *ret_map)
{
    memset(ret_map, 0, sizeof(*ret_map));
    struct slice rest = {mountinfo, strlen(mountinfo)}, line;
    while (next_part(&rest, '\n', &line)) {
        struct mount_line mount;
        if (!split_mount(line, &mount))
            continue;
        if (slice_is(mount.type, "cgroup2"))
            consider(&mount, self_cgroup, NULL, &ret_map->v2);
        else if (slice_is(mount.type, "cgroup"))
            consider_v1(&mount, self_cgroup, ret_map);
    }
}

/* The whole of a /proc file, which has no size to ask for. */
static int read_text(const char *path, char **ret_text)
{
    auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    size_t room = 16384, used = 0;
    auto_free char *text = malloc(room);
    while (text != NULL) {
        ssize_t got = read(fd, text + used, room - used - 1);
        if (got < 0)
            return -errno;
        if (got == 0) {
            text[used] = '\0';
            *ret_text = steal_ptr(text);
            return 0;
        }
        used += (size_t)got;
        if (room - used < 4096) {
            char *more = realloc(text, room *= 2);
            if (more == NULL)
                return -ENOMEM;
            text = more;
        }
    }
    return -ENOMEM;
}

int cgroup_map_read(struct cgroup_map *ret_map)
{
    auto_free char *mountinfo = NULL;
    auto_free char *self = NULL;
    int result = read_text("/proc/self/mountinfo", &mountinfo);
    if (result == 0)
        result = read_text("/proc/self/cgroup", &self);
    if (result == 0)
        cgroup_map_parse(mountinfo, self, ret_map);
    return result;
}

int cgroup_place_ancestor(const struct cgroup_place *place, uint32_t index, char ret_path[CGROUP_PATH_MAX])
{
    size_t length = place->mount_length;
    for (; index > 0; index--) {
        if (place->own[length] == '\0')
            return -ENOENT;
        length += 1 + strcspn(place->own + length + 1, "/");
    }
    memcpy(ret_path, place->own, length);
    ret_path[length] = '\0';
    return 0;
}
