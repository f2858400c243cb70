/* Scratch on disk; see scratch.h. Trees are removed by descriptor and without following links: what is in them is the box's
 * work. Host side. */
#include "scratch.h"

#include "cleanup.h"
#include "mounts.h"
#include "registry.h"
#include "resources.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define DEEPEST 200

static int open_store(bool make, int *ret_fd)
{
    char path[PATH_MAX];
    int failed = core_data_directory(path, sizeof(path));
    size_t used = strlen(path);
    if (failed != 0 || used + sizeof("/scratch") > sizeof(path))
        return -ENAMETOOLONG;
    memcpy(path + used, "/scratch", sizeof("/scratch"));
    if (make)
        failed = core_make_path(path);
    int fd = failed == 0 ? open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
    if (fd < 0)
        return failed != 0 ? failed : -errno;
    *ret_fd = fd;
    return 0;
}

int kern_disk_scratch(kern_box *box, struct kern_error *err)
{
    auto_fd store = -1;
    int failed = core_registry_record(box, "scratch", box->id, err);
    if (failed != 0)
        return failed;
    failed = open_store(true, &store);
    if (failed != 0)
        return kern_fail(err, -failed, "cannot make the directory for scratch on disk");
    if (mkdirat(store, box->id, 0700) != 0)
        return kern_fail(err, errno, "cannot make the box's scratch directory");
    box->disk_fd = openat(store, box->id, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (box->disk_fd < 0)
        return kern_fail(err, errno, "cannot open the box's scratch directory");
    return core_mount_source_path(box->disk_fd, box->disk_path, sizeof(box->disk_path), err);
}

int32_t kern_disk_scratch_fd(const kern_box *box)
{
    return box->disk_path[0] != '\0' ? box->disk_fd : -1;
}

/* ---- Removing ---- */

struct removal {
    int top;      /* the directory that goes, once it is open */
    size_t moved; /* how many of its directories were too deep */
};

static int open_to_empty(int parent, const char *name)
{
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == EACCES &&
        fchmodat(parent, name, 0700, 0) == 0) /* an overlay's work directory has no bits */
        fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0)
        (void)fchmod(fd, 0700); /* where it is not needed it may fail */
    return fd;
}

/* Each level holds descriptors, and a box may have gone as deep as it likes: what is too deep goes up to the top, where it is found
 * again. */
static int move_up(struct removal *r, int parent, const char *name)
{
    char fresh[32];
    int fd = open_to_empty(parent, name); /* opened for its bits alone: a move writes its ".." */
    kern_close_fd(&fd);
    for (;;) {
        (void)snprintf(fresh, sizeof(fresh), "deep-%zu", r->moved++); /* fits */
        if (renameat2(parent, name, r->top, fresh, RENAME_NOREPLACE) == 0)
            return 0;
        if (errno != EEXIST)
            return -errno;
    }
}

static int remove_below(struct removal *r, int parent, const char *name, int depth)
{
    if (unlinkat(parent, name, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR && errno != EPERM)
        return -errno;
    if (depth == DEEPEST)
        return move_up(r, parent, name);
    auto_fd fd = open_to_empty(parent, name);
    if (fd < 0)
        return -errno;
    if (depth == 0)
        r->top = fd;
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    auto_dir dir = copy >= 0 ? fdopendir(copy) : NULL;
    if (dir == NULL)
        return -EMFILE;
    int failed = 0;
    for (struct dirent *entry = readdir(dir); entry != NULL && failed == 0; entry = readdir(dir))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            failed = remove_below(r, fd, entry->d_name, depth + 1);
    return failed == 0 && unlinkat(parent, name, AT_REMOVEDIR) != 0 ? -errno : failed;
}

int kern_remove_tree(int32_t parent, const char *name)
{
    struct removal removal = {.top = -1};
    size_t before = 0;
    int failed = 0;
    do {
        before = removal.moved;
        failed = remove_below(&removal, parent, name, 0);
    } while (failed == -ENOTEMPTY && removal.moved > before);
    return failed;
}

/* ---- Sizes ---- */

static uint64_t size_below(int parent, const char *name, int depth)
{
    struct stat st;
    uint64_t size = fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) == 0 ? (uint64_t)st.st_blocks * 512 : 0;
    auto_fd fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    auto_dir dir = fd >= 0 && depth < DEEPEST ? fdopendir(fd) : NULL;
    if (dir == NULL)
        return size;
    (void)steal_fd(&fd); /* the stream has it */
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            size += size_below(dirfd(dir), entry->d_name, depth + 1);
    return size;
}

uint64_t core_scratch_size(const char *id)
{
    auto_fd store = -1;
    bool bad = id[0] == '\0' || id[0] == '.' || strchr(id, '/') != NULL || open_store(false, &store) != 0;
    return bad ? 0 : size_below(store, id, 0);
}

void core_scratch_sweep(const char *id)
{
    auto_fd store = -1;
    if (id[0] == '\0' || id[0] == '.' || strchr(id, '/') != NULL || open_store(false, &store) != 0)
        return;
    (void)kern_remove_tree(store, id); /* what could not be removed stays, under the box's name */
    char path[PATH_MAX + 16];
    if (core_data_directory(path, PATH_MAX) != 0)
        return;
    (void)strcat(path, "/scratch"); /* there is room for it */
    (void)rmdir(path);              /* for as long as other boxes use it, it is not empty */
}

void core_scratch_remove(kern_box *box)
{
    if (box->disk_fd < 0)
        return;
    kern_close_fd(&box->disk_fd);
    core_scratch_sweep(box->id);
}
