/* The words of --volume, --mount, --tmpfs and --add-host; see rootfs_options.h. Pure. */
#include "rootfs_options.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int copy(char *to, size_t size, const char *from, size_t length, const char *text,
                struct kern_error *err)
{
    if (length >= size)
        return kern_refuse(err, ENAMETOOLONG, "cannot use \"%.100s...\"", text);
    memcpy(to, from, length);
    to[length] = '\0';
    return 0;
}

static int is_below(const char *path, const char *directory)
{
    size_t length = strlen(directory);
    return strncmp(path, directory, length) == 0 && (path[length] == '\0' || path[length] == '/');
}

static int has_dotdot(const char *path)
{
    for (const char *part = path; part != NULL; part = strchr(part, '/')) {
        part += *part == '/';
        if (part[0] == '.' && part[1] == '.' && (part[2] == '/' || part[2] == '\0'))
            return 1;
    }
    return 0;
}

/* Without the parts that mean nothing: "//proc" and "/./proc" are /proc. */
static void simplify(const char *path, char *ret_path, size_t size)
{
    size_t used = 0;
    for (const char *part = path; *part != '\0';) {
        part += strspn(part, "/");
        size_t length = strcspn(part, "/");
        if (length > 0 && !(length == 1 && part[0] == '.') && used + length + 1 < size) {
            ret_path[used++] = '/';
            memcpy(ret_path + used, part, length);
            used += length;
        }
        part += length;
    }
    ret_path[used] = '\0';
}

int rootfs_check_target(const char *given, const char *option, int is_tmpfs, struct kern_error *err)
{
    const char *why = NULL;
    char target[PATH_MAX];
    simplify(given, target, sizeof(target));
    if (given[0] != '/')
        why = "the path in the box must be absolute";
    else if (has_dotdot(target))
        why = "\"..\" is not allowed in the path in the box";
    else if (target[0] == '\0')
        why = "that is the root of the box";
    else if (is_below(target, "/proc") || is_below(target, "/sys"))
        why = "/proc and /sys belong to the kernel";
    else if (is_below(target, "/dev") && (is_tmpfs || !is_below(target, "/dev/shm")))
        why = is_tmpfs ? "/dev is made by kern, and /dev/shm is a tmpfs already"
                       : "/dev is made by kern; only /dev/shm may be a volume";
    return why == NULL ? 0 : kern_refuse(err, 0, "cannot use %s onto \"%s\": %s", option, given, why);
}

static int read_max(const char *value, size_t length, const char *text, struct rootfs_volume *volume,
                    struct kern_error *err)
{
    char size[32];
    int failed = copy(size, sizeof(size), value, length, text, err);
    if (failed == 0)
        failed = kern_parse_size(size, "max", &volume->max, err);
    if (failed == 0 && volume->max == 0)
        failed = kern_refuse(err, 0, "cannot use volume \"%s\": max must be at least 1 byte", text);
    return failed;
}

static int check_max(const struct rootfs_volume *volume, const char *text, struct kern_error *err)
{
    if (volume->max == 0 || volume->read_only == 0)
        return 0;
    return kern_refuse(err, 0, "cannot use volume \"%s\": it is read-only, so max means nothing", text);
}

/* "ro", "rw", "nocopy" and "max=SIZE", between commas. */
static int read_volume_words(const char *words, const char *text, struct rootfs_volume *volume,
                             struct kern_error *err)
{
    for (const char *at = words, *comma; at != NULL; at = comma != NULL ? comma + 1 : NULL) {
        comma = strchr(at, ',');
        size_t length = strcspn(at, ",");
        int failed = 0;
        if (length == 2 && strncmp(at, "ro", 2) == 0)
            volume->read_only = 1;
        else if (length == 6 && strncmp(at, "nocopy", 6) == 0)
            volume->no_copy = 1;
        else if (length > 4 && strncmp(at, "max=", 4) == 0)
            failed = read_max(at + 4, length - 4, text, volume, err);
        else if (length != 2 || strncmp(at, "rw", 2) != 0)
            failed = kern_refuse(
                err, 0, "cannot use --volume \"%s\": \"%.*s\" is neither ro nor rw nor nocopy nor max=SIZE",
                text, (int)length, at);
        if (failed != 0)
            return failed;
    }
    return check_max(volume, text, err);
}

int rootfs_parse_volume(const char *text, struct rootfs_volume *ret_volume, struct kern_error *err)
{
    struct rootfs_volume volume = {.read_only = 0};
    const char *colon = strchr(text, ':');
    if (colon == NULL || colon == text) {
        kern_refuse(err, 0,
                    "cannot use --volume \"%s\": write it as SOURCE:TARGET[:ro|:rw[,nocopy][,max=SIZE]]",
                    text);
        kern_hint(err, "a path with a colon in it goes into --mount type=bind,src=SOURCE,dst=TARGET");
        return -EINVAL;
    }
    int failed = copy(volume.source, sizeof(volume.source), text, (size_t)(colon - text), text, err);
    const char *target = colon + 1;
    const char *end = strchr(target, ':');
    if (failed == 0 && end != NULL)
        failed = read_volume_words(end + 1, text, &volume, err);
    if (failed == 0)
        failed = copy(volume.target, sizeof(volume.target), target,
                      end != NULL ? (size_t)(end - target) : strlen(target), text, err);
    if (failed == 0)
        failed = rootfs_check_target(volume.target, "--volume", 0, err);
    if (failed == 0)
        *ret_volume = volume;
    return failed;
}

static int apply_mount_key(const char *key, size_t key_length, const char *value, size_t length,
                           const char *text, struct rootfs_volume *volume, struct kern_error *err)
{
#define IS(word) (key_length == strlen(word) && strncmp(key, word, key_length) == 0)
    if (IS("type"))
        return length == 4 && strncmp(value, "bind", 4) == 0
                   ? 0
                   : kern_refuse(err, 0, "cannot use --mount \"%s\": only type=bind is known", text);
    if (IS("src") || IS("source"))
        return copy(volume->source, sizeof(volume->source), value, length, text, err);
    if (IS("dst") || IS("target") || IS("destination"))
        return copy(volume->target, sizeof(volume->target), value, length, text, err);
    bool is_false = length == 5 && strncmp(value, "false", 5) == 0;
    if (IS("ro") || IS("readonly")) {
        volume->read_only = !is_false;
        return 0;
    }
    if (IS("rw")) {
        volume->read_only = volume->read_only || is_false;
        return 0;
    }
    if (IS("nocopy") || IS("volume-nocopy")) {
        volume->no_copy = !is_false;
        return 0;
    }
    if (IS("max"))
        return read_max(value, length, text, volume, err);
#undef IS
    return kern_refuse(err, 0,
                       "cannot use --mount \"%s\": unknown key \"%.*s\" (type, src, dst, ro, nocopy, max)",
                       text, (int)key_length, key);
}

int rootfs_parse_mount(const char *text, struct rootfs_volume *ret_volume, struct kern_error *err)
{
    struct rootfs_volume volume = {.read_only = 0};
    for (const char *at = text; *at != '\0';) {
        size_t length = strcspn(at, ",");
        size_t key = strcspn(at, "=,");
        const char *value = at[key] == '=' ? at + key + 1 : "";
        size_t value_length = at[key] == '=' ? length - key - 1 : 0;
        int failed = apply_mount_key(at, key, value, value_length, text, &volume, err);
        if (failed != 0)
            return failed;
        at += length + (at[length] == ',');
    }
    if (volume.source[0] == '\0' || volume.target[0] == '\0')
        return kern_refuse(
            err, 0, "cannot use --mount \"%s\": write it as type=bind,src=SOURCE,dst=TARGET[,ro]", text);
    int failed = check_max(&volume, text, err);
    if (failed == 0)
        failed = rootfs_check_target(volume.target, "--mount", 0, err);
    if (failed == 0)
        *ret_volume = volume;
    return failed;
}

int rootfs_parse_tmpfs(const char *text, struct rootfs_tmpfs *ret_tmpfs, struct kern_error *err)
{
    struct rootfs_tmpfs tmpfs = {.size = 0};
    const char *colon = strchr(text, ':');
    int failed = copy(tmpfs.target, sizeof(tmpfs.target), text,
                      colon != NULL ? (size_t)(colon - text) : strlen(text), text, err);
    if (failed == 0)
        failed = rootfs_check_target(tmpfs.target, "--tmpfs", 1, err);
    if (failed == 0 && colon != NULL) {
        const char *size = strncmp(colon + 1, "size=", 5) == 0 ? colon + 6 : colon + 1;
        failed = kern_parse_size(size, "--tmpfs", &tmpfs.size, err);
        if (failed == 0 && tmpfs.size == 0)
            failed = kern_refuse(err, 0, "cannot use --tmpfs \"%s\": its size is zero", text);
    }
    if (failed == 0)
        *ret_tmpfs = tmpfs;
    return failed;
}

int rootfs_parse_scratch(const char *text, struct rootfs_scratch *ret_scratch, struct kern_error *err)
{
    struct rootfs_scratch scratch = {.size = 0};
    size_t length = strcspn(text, ":");
    scratch.on_disk = length == 4 && strncmp(text, "disk", 4) == 0;
    if (!scratch.on_disk && !(length == 3 && strncmp(text, "ram", 3) == 0)) {
        int failed =
            kern_refuse(err, 0, "cannot use --scratch \"%s\": it is ram or disk, and perhaps a size", text);
        kern_hint(err, "such as --scratch ram:256m");
        return failed;
    }
    int failed =
        text[length] == ':' ? kern_parse_size(text + length + 1, "--scratch", &scratch.size, err) : 0;
    if (failed == 0 && text[length] == ':' && scratch.size == 0)
        failed = kern_refuse(err, 0, "cannot use --scratch \"%s\": its size is zero", text);
    if (failed == 0)
        *ret_scratch = scratch;
    return failed;
}

int rootfs_parse_host(const char *text, char *ret_line, size_t size, struct kern_error *err)
{
    const char *colon = strchr(text, ':');
    unsigned char address[16];
    int valid = colon != NULL && colon != text;
    for (const char *c = text; valid && c < colon; c++)
        valid = isalnum((unsigned char)*c) || *c == '-' || *c == '.' || *c == '_';
    /* The host is reached on the shared loopback, or not at all. */
    bool gateway = valid && strcmp(colon + 1, "host-gateway") == 0;
    if (!valid || (!gateway && inet_pton(AF_INET, colon + 1, address) != 1 &&
                   inet_pton(AF_INET6, colon + 1, address) != 1)) {
        kern_refuse(err, 0, "cannot use --add-host \"%s\": write it as NAME:IP, such as db:127.0.0.1", text);
        return -EINVAL;
    }
    int used =
        snprintf(ret_line, size, "%s %.*s", gateway ? "127.0.0.1" : colon + 1, (int)(colon - text), text);
    return used > 0 && (size_t)used < size
               ? 0
               : kern_refuse(err, ENAMETOOLONG, "cannot use --add-host \"%s\"", text);
}
