/* Named volumes: directories below VOLUMES, $XDG_DATA_HOME/kern/volumes. Beside them stand VOLUMES/.sizes/NAME for those of a
 * size, and VOLUMES/.unused/NAME for those that no box has had yet, which may get their first content from an image.
 * Volumes come into being, or get that content, under a lock on VOLUMES. Runs in prepare and in `kern volume`, on the host. */
#include "box.h"

#include "cleanup.h"
#include "resources.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

static int check_name(const char *name, struct kern_error *err)
{
    size_t length = strlen(name);
    bool valid = length > 0 && length <= 64 && name[0] != '.' && name[0] != '-' &&
                 strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") == length;
    return valid ? 0
                 : kern_refuse(
                       err, 0,
                       "cannot use volume \"%s\": neither a path (with a /) nor a name of [A-Za-z0-9_.-]",
                       name);
}

static int open_volumes(int *ret_fd, struct kern_error *err)
{
    char path[PATH_MAX];
    int failed = core_data_directory(path, sizeof(path) - sizeof("/volumes"));
    if (failed != 0)
        return kern_refuse(err, -failed, "cannot find the directory of named volumes");
    (void)strcat(path, "/volumes"); /* there is room for it */
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) {
        failed = core_make_path(path);
        fd = failed == 0 ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    }
    if (fd < 0)
        return kern_refuse(err, failed != 0 ? -failed : errno,
                           "cannot make the directory of named volumes \"%s\"", path);
    *ret_fd = fd;
    return 0;
}

/* The same, for a volume that may have this name. */
static int open_place_of(const char *name, int *ret_fd, struct kern_error *err)
{
    int failed = check_name(name, err);
    return failed == 0 ? open_volumes(ret_fd, err) : failed;
}

static int lock(int volumes)
{
    while (flock(volumes, LOCK_EX) != 0)
        if (errno != EINTR)
            return -errno;
    return 0;
}

static void path_beside(const char *folder, const char *name, char *ret_path, size_t size)
{
    (void)snprintf(ret_path, size, "%s/%s", folder, name); /* names are 64 characters at most */
}

static int write_beside(int volumes, const char *folder, const char *name, const char *text)
{
    char path[96];
    path_beside(folder, name, path, sizeof(path));
    if (mkdirat(volumes, folder, 0700) != 0 && errno != EEXIST)
        return -errno;
    auto_fd fd = openat(volumes, path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    size_t length = strlen(text);
    if (write(fd, text, length) == (ssize_t)length)
        return 0;
    (void)unlinkat(volumes, path, 0); /* half a number would be another size */
    return -ENOSPC;
}

static int remove_beside(int volumes, const char *folder, const char *name)
{
    char path[96];
    path_beside(folder, name, path, sizeof(path));
    return unlinkat(volumes, path, 0) == 0 || errno == ENOENT ? 0 : -errno;
}

/* ---- For boxes ---- */

void kern_volume_content(kern_box *box, kern_volume_fn fill, void *state)
{
    box->fill_volume = fill;
    box->fill_state = state;
}

static int open_volume(int volumes, const char *name)
{
    return openat(volumes, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static bool is_unused(int volumes, const char *name)
{
    char path[96];
    path_beside(KERN_VOLUMES_UNUSED, name, path, sizeof(path));
    return faccessat(volumes, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* From here on a box has it: whoever would still give it a first content sees that under the lock. */
static int take_first(int volumes, const char *name)
{
    int failed = lock(volumes);
    if (failed == 0 && mkdirat(volumes, name, 0755) != 0 && errno != EEXIST)
        failed = -errno;
    if (failed == 0)
        failed = remove_beside(volumes, KERN_VOLUMES_UNUSED, name);
    return failed; /* the lock goes with the caller's descriptor */
}

int kern_named_volume(kern_box *box, const struct kern_wanted_volume *volume, int32_t *ret_fd,
                      struct kern_error *err)
{
    const char *name = volume->name;
    auto_fd volumes = -1;
    int failed = open_place_of(name, &volumes, err);
    if (failed != 0)
        return failed;
    int fd = open_volume(volumes, name);
    if (fd < 0 ? errno == ENOENT : is_unused(volumes, name)) {
        kern_close_fd(&fd);
        if (volume->path != NULL && box->fill_volume != NULL)
            failed = box->fill_volume(box, box->fill_state, volumes, volume, err);
        if (failed != 0)
            return failed;
        failed = take_first(volumes, name);
        fd = failed == 0 ? open_volume(volumes, name) : -1;
    }
    if (fd < 0)
        return kern_refuse(err, failed != 0 ? -failed : errno, "cannot make the named volume \"%s\"", name);
    *ret_fd = fd;
    return 0;
}

int kern_named_volume_size(kern_box *box, const char *name, uint64_t *ret_bytes, struct kern_error *err)
{
    (void)box; /* volumes belong to the user, not to a box */
    char path[PATH_MAX + 96], text[32] = {0}, *end = text;
    if (check_name(name, err) != 0)
        return -EINVAL;
    int failed = core_data_directory(path, PATH_MAX);
    size_t used = failed == 0 ? strlen(path) : 0;
    (void)snprintf(path + used, sizeof(path) - used, "/volumes/.sizes/%s", name); /* sized for it */
    auto_fd fd = failed == 0 ? open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC) : failed;
    *ret_bytes = 0;
    if (fd < 0 && failed == 0 && errno == ENOENT)
        return 0;
    if (fd >= 0 && read(fd, text, sizeof(text) - 1) > 0)
        *ret_bytes = strtoull(text, &end, 10);
    if (*ret_bytes > 0 && *end == '\n')
        return 0;
    kern_refuse(err, 0, "cannot read the size of volume '%s' in \"%s\"", name, path);
    kern_hint(err, "kern volume rm %s, or write its bytes and a newline there", name);
    return -EINVAL;
}

/* ---- For `kern volume` ---- */

/* All under the lock, so that no box takes the volume before it is marked. */
static int make_marked(int volumes, const char *name, uint64_t bytes)
{
    char text[32] = "";
    struct stat st;
    int failed = lock(volumes);
    if (failed == 0 && fstatat(volumes, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
        failed = -EEXIST;
    if (bytes > 0)
        (void)snprintf(text, sizeof(text), "%" PRIu64 "\n", bytes); /* fits */
    if (failed == 0)
        failed =
            bytes > 0 ? write_beside(volumes, ".sizes", name, text) : remove_beside(volumes, ".sizes", name);
    if (failed == 0)
        failed = write_beside(volumes, KERN_VOLUMES_UNUSED, name, "");
    return failed == 0 && mkdirat(volumes, name, 0755) != 0 ? -errno : failed;
}

int core_volume_create(const char *name, uint64_t bytes, struct kern_error *err)
{
    auto_fd volumes = -1;
    int failed = open_place_of(name, &volumes, err);
    if (failed != 0)
        return failed;
    failed = make_marked(volumes, name, bytes);
    if (failed == -EEXIST)
        return kern_refuse(err, 0, "volume '%s' is there already", name);
    return failed == 0 ? 0 : kern_refuse(err, -failed, "cannot make the named volume \"%s\"", name);
}

int core_volume_forget(const char *name)
{
    struct kern_error ignored = {0};
    auto_fd volumes = -1;
    int failed = open_volumes(&volumes, &ignored);
    if (failed == 0)
        failed = remove_beside(volumes, ".sizes", name);
    return failed == 0 ? remove_beside(volumes, KERN_VOLUMES_UNUSED, name) : failed;
}
