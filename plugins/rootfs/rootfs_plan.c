/* The plan of a root as a growing list that owns its strings, bytes and descriptors; see rootfs_plan.h. Runs in
 * kern on the host, in prepare and teardown; the box's first process only reads the finished list. */
#include "rootfs_plan.h"

#include "kern/cleanup.h"
#include "rootfs_host.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define FIRST_ROOM 64u /* a host root has about fifty entries: one allocation holds them */

static void clear_entry(struct rootfs_entry *entry)
{
    free(entry->path);
    free(entry->source);
    free(entry->bytes);
    kern_close_fd(&entry->fd);
    *entry = (struct rootfs_entry){.fd = -1};
}

#define auto_entry cleanup(clear_entry) struct rootfs_entry

static int out_of_memory(const char *path, struct kern_error *err)
{
    return kern_fail(err, ENOMEM, "cannot plan \"%s\" of the box", path);
}

static int grow(struct rootfs_plan *plan)
{
    size_t room = plan->room == 0 ? FIRST_ROOM : plan->room * 2;
    struct rootfs_entry *entry = reallocarray(plan->entry, room, sizeof(*entry));
    if (entry == NULL)
        return -ENOMEM;
    plan->entry = entry;
    plan->room = room;
    return 0;
}

/* Moves a filled entry into the plan under `path`; one that could not be moved stays the caller's. */
static int append(struct rootfs_plan *plan, const char *path, struct rootfs_entry *entry,
                  struct kern_error *err)
{
    if (path[0] != '/' || path[1] == '\0')
        return kern_fail(err, EINVAL, "cannot plan \"%s\" of the box: not a path below its root", path);
    entry->path = strdup(path);
    if (entry->path == NULL || (plan->count == plan->room && grow(plan) < 0))
        return out_of_memory(path, err);
    plan->entry[plan->count++] = *entry;
    *entry = (struct rootfs_entry){.fd = -1};
    return 0;
}

int rootfs_plan_dir(struct rootfs_plan *plan, const char *path, uint32_t mode, struct kern_error *err)
{
    auto_entry entry = {.kind = ROOTFS_DIR, .mode = mode, .fd = -1};
    return append(plan, path, &entry, err);
}

int rootfs_plan_symlink(struct rootfs_plan *plan, const char *path, const char *target,
                        struct kern_error *err)
{
    auto_entry entry = {.kind = ROOTFS_SYMLINK, .source = strdup(target), .fd = -1};
    if (entry.source == NULL)
        return out_of_memory(path, err);
    return append(plan, path, &entry, err);
}

int rootfs_plan_file(struct rootfs_plan *plan, const char *path, uint32_t mode, const void *bytes,
                     size_t length, struct kern_error *err)
{
    auto_entry entry = {.kind = ROOTFS_FILE, .mode = mode, .length = length, .fd = -1};
    if (length > 0) {
        entry.bytes = malloc(length);
        if (entry.bytes == NULL)
            return out_of_memory(path, err);
        memcpy(entry.bytes, bytes, length);
    }
    return append(plan, path, &entry, err);
}

/* The kernel's own name for an open object has no symlinks left in it, and cannot be exchanged between asking
 * and opening as a second walk over the path could. */
static char *path_of(int fd)
{
    char link[32], path[PATH_MAX];
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd); /* always fits */
    ssize_t length = readlink(link, path, sizeof(path));
    if (length < 0)
        return NULL;
    if ((size_t)length == sizeof(path)) {
        errno = ENAMETOOLONG;
        return NULL;
    }
    return strndup(path, (size_t)length);
}

int rootfs_plan_bind_fd(struct rootfs_plan *plan, const char *path, int *fd, struct kern_error *err)
{
    struct stat status;
    auto_entry entry = {.kind = ROOTFS_BIND, .fd = -1};
    entry.source = path_of(*fd);
    if (entry.source == NULL || fstat(*fd, &status) < 0)
        return kern_fail(err, errno, "cannot tell what stands on the host for \"%s\" of the box", path);
    if (!S_ISDIR(status.st_mode) && !S_ISREG(status.st_mode))
        return kern_fail(err, 0, "cannot show \"%s\" in the box: neither a file nor a directory",
                         entry.source);
    /* The file type tells enter which kind of mount point to make, without asking again. */
    entry.mode = S_ISDIR(status.st_mode) ? S_IFDIR | 0755 : S_IFREG | 0644;
    entry.fd = *fd;
    int result = append(plan, path, &entry, err);
    if (result < 0)
        entry.fd = -1; /* still the caller's */
    else
        *fd = -1;
    return result;
}

int rootfs_plan_bind(struct rootfs_plan *plan, const char *path, const char *source, int required,
                     struct kern_error *err)
{
    auto_fd fd = open(source, O_PATH | O_CLOEXEC);
    if (fd < 0 && !required && (errno == ENOENT || errno == ENOTDIR))
        return 0;
    if (fd < 0)
        return kern_fail(err, errno, "cannot open \"%s\" to show it in the box", source);
    return rootfs_plan_bind_fd(plan, path, &fd, err);
}

void rootfs_plan_clear(struct rootfs_plan *plan)
{
    if (plan == NULL)
        return;
    for (size_t i = 0; i < plan->count; i++)
        clear_entry(&plan->entry[i]);
    free(plan->entry);
    *plan = (struct rootfs_plan){0};
}
