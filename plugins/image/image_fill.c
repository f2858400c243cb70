/* The first content of a named volume; see image_fill.h. Runs in a child of kern, which starts one more: that one is root over
 * the ids of the layers, mounts them in a mount namespace of its own, copies, and puts the copy in its place by rename. */
#include "image_fill.h"

#include "image_child.h"
#include "image_describe.h"

#include "kern/cleanup.h"
#include "kern/foundation.h"
#include "kern/sys.h"

#include <fcntl.h>
#include <inttypes.h>
#include <linux/openat2.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define FRESH "volume" /* in the folder of a copy: what becomes the volume */

/* volumes/.new-X, locked while somebody is at work in it, has: "empty", the lowest layer, which makes an overlay also of one
 * layer; "root", where all are mounted; and the copy. */
struct filling {
    const struct image_fill *fill;
    struct image_ids ids;
    int folder;
    char name[40];
    struct kern_error *told; /* shared with the child */
};

static int open_folder(int parent, const char *name)
{
    return openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* ---- In the child ---- */

/* The links again, by their path: a descriptor of another mount namespace cannot be a layer in this one. */
static int reopen_links(const struct filling *f, int *ret_fd)
{
    char path[PATH_MAX], store[PATH_MAX - sizeof(f->ids.name) - 96];
    struct stat ours, there;
    if (image_directory(store, sizeof(store)) != 0)
        return -1;
    (void)snprintf(path, sizeof(path), "%s/layers/%s/%s", store, f->ids.name,
                   f->fill->links); /* sized for it */
    auto_fd before = open_folder(f->fill->layers, f->fill->links), fd = open_folder(AT_FDCWD, path);
    if (before < 0 || fd < 0 || fstat(before, &ours) != 0 || fstat(fd, &there) != 0)
        return -1;
    if (ours.st_dev != there.st_dev || ours.st_ino != there.st_ino) {
        errno = ESTALE;
        return -1;
    }
    *ret_fd = steal_fd(&fd);
    return 0;
}

static int mount_image(const struct filling *f, int *ret_root)
{
    char options[1024] = "lowerdir=", place[40];
    size_t used = strlen(options);
    auto_fd links = -1;
    /* The working directory comes along into the new mount namespace. */
    if (fchdir(f->folder) != 0 || unshare(CLONE_NEWNS) != 0 ||
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 || reopen_links(f, &links) != 0)
        return -1;
    auto_fd here = open_folder(AT_FDCWD, "."), empty = open_folder(here, "empty"),
            point = open_folder(here, "root");
    if (empty < 0 || point < 0)
        return -1;
    for (uint32_t i = 0; i < f->fill->count; i++)
        used +=
            (size_t)snprintf(options + used, sizeof(options) - used, "%u:", i); /* 127 of 4 bytes at most */
    (void)snprintf(options + used, sizeof(options) - used, "/proc/self/fd/%d,userxattr", empty); /* fits */
    (void)snprintf(place, sizeof(place), "/proc/self/fd/%d", point);                             /* fits */
    if (fchdir(links) != 0 ||
        mount("overlay", place, "overlay", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, options) != 0)
        return -1;
    *ret_root = open_folder(here, "root"); /* what is mounted there */
    return *ret_root >= 0 ? 0 : -1;
}

static int lock(int volumes)
{
    while (flock(volumes, LOCK_EX) != 0)
        if (errno != EINTR)
            return -1;
    return 0;
}

/* Over an empty directory only while no box has had it. Who comes too late leaves what is there. */
static int put(const struct filling *f)
{
    char unused[96];
    const char *name = f->fill->volume->name;
    (void)snprintf(unused, sizeof(unused), "%s/%s", KERN_VOLUMES_UNUSED, name); /* fits */
    if (syscall(SYS_renameat2, f->folder, FRESH, f->fill->volumes, name, 1U /* RENAME_NOREPLACE */) == 0)
        return 0;
    if (errno != EEXIST)
        return -1;
    if (faccessat(f->fill->volumes, unused, F_OK, AT_SYMLINK_NOFOLLOW) != 0)
        return 0;
    return renameat(f->folder, FRESH, f->fill->volumes, name) == 0 || errno == ENOTEMPTY || errno == EEXIST
               ? 0
               : -1;
}

static int put_in_place(const struct filling *f)
{
    /* Whole also after the power went, before anybody can see it. */
    if (syncfs(f->folder) != 0 || lock(f->fill->volumes) != 0)
        return -1;
    int failed = put(f);
    int code = errno;
    (void)flock(f->fill->volumes, LOCK_UN); /* else when kern closes it */
    errno = code;
    return failed != 0 || fsync(f->fill->volumes) != 0 ? -1 : 0;
}

static int refuse(const struct filling *f, const char *what)
{
    return kern_refuse(f->told, errno, "cannot %s for the new volume \"%s\"", what, f->fill->volume->name);
}

/* Before anything is copied: a box with more in its volume than that may hold would be ended at once. */
static int check_size(const struct filling *f, int from)
{
    const struct kern_wanted_volume *volume = f->fill->volume;
    uint64_t bytes = 0;
    if (volume->most == 0)
        return 0;
    int failed = image_measure_tree(from, &bytes, f->told);
    if (failed != 0 || bytes <= volume->most)
        return failed;
    kern_refuse(f->told, 0,
                "cannot fill volume \"%s\" from the image: what that has at \"%s\" takes %" PRIu64
                " bytes, and the volume may hold %" PRIu64,
                volume->name, volume->path, bytes, volume->most);
    uint64_t enough = (bytes >> 20) + 1;
    if (volume->is_own != 0)
        kern_hint(f->told, "kern volume rm %s && kern volume create %s --size %" PRIu64 "m", volume->name,
                  volume->name, enough);
    else
        kern_hint(f->told, "-v %s:%s:max=%" PRIu64 "m, or let it start empty: -v %s:%s:nocopy,max=SIZE",
                  volume->name, volume->path, enough, volume->name, volume->path);
    return -EDQUOT;
}

static int fill_volume(void *data)
{
    const struct filling *f = data;
    auto_fd root = -1;
    image_prepare_walk();
    if (mount_image(f, &root) != 0)
        return refuse(f, "mount the layers of the image");
    auto_fd from = sys_open_beneath(root, f->fill->volume->path, O_RDONLY | O_DIRECTORY, 0, RESOLVE_IN_ROOT);
    if (from == -ENOENT || from == -ENOTDIR || from == -ELOOP)
        return 0; /* nothing to copy: the box says what is wrong with the path, if anything is */
    if (from < 0) {
        errno = -from;
        return refuse(f, "open what the image has");
    }
    if (check_size(f, from) != 0)
        return -1;
    auto_fd to = mkdirat(f->folder, FRESH, 0700) == 0 ? open_folder(f->folder, FRESH) : -1;
    if (to < 0)
        return refuse(f, "make a directory");
    int failed = image_copy_tree(from, to, f->ids.kind == IMAGE_IDS_PLAIN, f->told);
    return failed == 0 && put_in_place(f) != 0 ? refuse(f, "put the files in place") : failed;
}

/* ---- Around it ---- */

static void remove_folder(const struct filling *f, const char *name)
{
    (void)image_remove_tree(&f->ids, f->fill->volumes, name); /* the next fill tries again */
}

/* What killed ones left. */
static void sweep(const struct filling *f)
{
    auto_fd again = open_folder(f->fill->volumes, ".");
    auto_dir dir = again >= 0 ? fdopendir(again) : NULL;
    if (dir == NULL)
        return;
    (void)steal_fd(&again); /* the stream has it */
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        if (strncmp(entry->d_name, ".new-", 5) != 0)
            continue;
        auto_fd folder = open_folder(f->fill->volumes, entry->d_name);
        if (folder >= 0 && flock(folder, LOCK_EX | LOCK_NB) == 0)
            remove_folder(f, entry->d_name);
    }
}

/* Under the lock of all volumes, so that nobody takes the folder for one that was left. */
static int make_folder(struct filling *f)
{
    int volumes = f->fill->volumes;
    if (lock(volumes) != 0)
        return -1;
    sweep(f);
    image_fresh_name(".new-", f->name, sizeof(f->name));
    f->folder = mkdirat(volumes, f->name, 0700) == 0 ? open_folder(volumes, f->name) : -1;
    int made = f->folder >= 0 && flock(f->folder, LOCK_EX | LOCK_NB) == 0;
    int code = errno;
    (void)flock(volumes, LOCK_UN); /* else when kern closes it */
    errno = code;
    return made && mkdirat(f->folder, "empty", 0755) == 0 && mkdirat(f->folder, "root", 0755) == 0 ? 0 : -1;
}

int image_tool_fill(const struct image_fill *fill, struct kern_error *err)
{
    struct filling f = {.fill = fill, .folder = -1};
    image_find_ids(fill->want_range, &f.ids);
    f.told = mmap(NULL, sizeof(*f.told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (f.told == MAP_FAILED)
        return kern_refuse(err, ENOMEM, "cannot fill volume \"%s\" from the image", fill->volume->name);
    int32_t pid = 0;
    int failed =
        make_folder(&f) != 0
            ? kern_refuse(err, errno, "cannot make a directory for the new volume \"%s\"", fill->volume->name)
            : image_start_with_ids(&f.ids, fill_volume, &f, &pid, err);
    if (failed == 0 && image_wait_child(pid) != 0) {
        *err = *f.told;
        failed = err->category != KERN_ERROR_NONE
                     ? -(err->code != 0 ? err->code : EIO)
                     : kern_refuse(err, 0,
                                   "cannot fill volume \"%s\" from the image: the process for it ended early",
                                   fill->volume->name);
    }
    if (f.folder >= 0)
        remove_folder(&f, f.name);
    kern_close_fd(&f.folder);
    (void)munmap(f.told, sizeof(*f.told));
    return failed;
}

int image_tool_remove(int folder, const char *name)
{
    struct image_ids ids;
    image_find_ids(1, &ids);
    return image_remove_tree(&ids, folder, name);
}
