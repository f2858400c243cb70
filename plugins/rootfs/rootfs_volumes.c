/* --volume, --mount and --tmpfs: from words to mounts of the box. Runs in prepare, on the host. Sources are opened here and
 * stand for themselves from then on; kern's own state is kept out of every box. */
#include "rootfs_options.h"
#include "rootfs_state.h"

#include "kern/cleanup.h"
#include "kern/foundation.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

static int is_name(const char *source)
{
    return strchr(source, '/') == NULL && strcmp(source, ".") != 0 && strcmp(source, "..") != 0;
}

/* A directory that holds kern's state may be shared, its part that is kern's may not. */
static int guard_own_state(kern_box *box, const struct rootfs_volume *volume, int fd, struct kern_error *err)
{
    const char *below = NULL;
    if (kern_is_own_state(box, fd) != 0)
        return kern_refuse(err, 0, "cannot use volume \"%s\": kern keeps its own state there",
                           volume->source);
    for (uint32_t i = 0; kern_own_state_below(box, fd, i, &below) != 0; i++) {
        if (below == NULL)
            continue;
        char cover[2 * PATH_MAX];
        (void)snprintf(cover, sizeof(cover), "%s%s", volume->target, below); /* sized for it */
        int failed = kern_add_tmpfs(box, cover, 4096, 0500, KERN_MOUNT_READ_ONLY, err);
        if (failed != 0)
            return failed;
    }
    return 0;
}

int rootfs_guard_root(kern_box *box, int fd, const char *given, struct kern_error *err)
{
    const char *below = NULL;
    int is_ours = kern_is_own_state(box, fd);
    for (uint32_t i = 0; is_ours == 0 && kern_own_state_below(box, fd, i, &below) != 0; i++)
        is_ours = below != NULL;
    if (is_ours == 0)
        return 0;
    kern_refuse(err, 0, "cannot use root directory \"%s\": kern keeps its own state there", given);
    kern_hint(err, "an image is used by its name: kern box --image NAME; kern images lists them");
    return -EPERM;
}

/* The smaller of what the flag and the volume's own size allow. */
static int open_named(kern_box *box, const struct rootfs_volume *volume, int *ret_fd, uint64_t *ret_max,
                      struct kern_error *err)
{
    uint64_t own = 0;
    int failed = kern_named_volume_size(box, volume->source, &own, err);
    if (failed != 0)
        return failed;
    int is_own = own != 0 && (volume->max == 0 || own < volume->max);
    *ret_max = is_own ? own : volume->max;
    const struct kern_wanted_volume wanted = {.name = volume->source,
                                              .path = volume->no_copy != 0 ? NULL : volume->target,
                                              .most = *ret_max,
                                              .is_own = is_own};
    return kern_named_volume(box, &wanted, ret_fd, err);
}

static int open_source(const struct rootfs_volume *volume, int *ret_fd, struct kern_error *err)
{
    int fd = open(volume->source, O_PATH | O_CLOEXEC);
    if (fd >= 0) {
        *ret_fd = fd;
        return 0;
    }
    int code = errno;
    kern_refuse(err, code, "cannot use volume \"%s\"", volume->source);
    if (code == ENOENT)
        kern_hint(err, "mkdir -p '%s'", volume->source);
    return -code;
}

static int add_volume(kern_box *box, struct rootfs_state *state, const struct rootfs_volume *volume,
                      struct kern_error *err)
{
    auto_fd fd = -1;
    uint64_t max = volume->max;
    int failed =
        is_name(volume->source) ? open_named(box, volume, &fd, &max, err) : open_source(volume, &fd, err);
    if (failed != 0)
        return failed;
    uint32_t flags = KERN_MOUNT_RECURSIVE | (volume->read_only != 0 ? KERN_MOUNT_READ_ONLY : 0);
    failed = kern_add_bind(box, fd, volume->target, flags, err);
    if (failed == 0 && max != 0 && volume->read_only == 0) /* what cannot be written to needs no bound */
        failed = rootfs_bound_volume(box, state, fd, volume->target, max, err);
    if (failed != 0 || is_name(volume->source))
        return failed;
    return guard_own_state(box, volume, fd, err);
}

int rootfs_add_volumes(kern_box *box, struct rootfs_state *state, struct kern_error *err)
{
    const kern_values *options = kern_options(box);
    auto_free struct rootfs_volume *volume = malloc(sizeof(*volume));
    if (volume == NULL)
        return kern_fail(err, ENOMEM, "cannot read the volumes");
    for (uint32_t i = 0; i < kern_get_count(options, "volume"); i++) {
        int failed = rootfs_parse_volume(kern_get_item(options, "volume", i), volume, err);
        if (failed == 0)
            failed = add_volume(box, state, volume, err);
        if (failed != 0)
            return failed;
    }
    for (uint32_t i = 0; i < kern_get_count(options, "mount"); i++) {
        int failed = rootfs_parse_mount(kern_get_item(options, "mount", i), volume, err);
        if (failed == 0)
            failed = add_volume(box, state, volume, err);
        if (failed != 0)
            return failed;
    }
    return 0;
}

int rootfs_add_tmpfs(kern_box *box, uint64_t *budget, struct kern_error *err)
{
    const kern_values *options = kern_options(box);
    uint32_t count = kern_get_count(options, "tmpfs"), unsized = 1; /* the root's own scratch is one */
    struct rootfs_tmpfs tmpfs;
    for (uint32_t i = 0; i < count; i++) {
        int failed = rootfs_parse_tmpfs(kern_get_item(options, "tmpfs", i), &tmpfs, err);
        if (failed != 0)
            return failed;
        unsized += tmpfs.size == 0;
        *budget -= tmpfs.size < *budget ? tmpfs.size : *budget;
    }
    /* Those without a size share what is left, so that full ones together end in ENOSPC and not in the OOM killer. */
    uint64_t share = *budget / unsized > 1 << 20 ? *budget / unsized : 1 << 20;
    for (uint32_t i = 0; i < count; i++) {
        int failed = rootfs_parse_tmpfs(kern_get_item(options, "tmpfs", i), &tmpfs, err);
        if (failed == 0)
            failed = kern_add_tmpfs(box, tmpfs.target, tmpfs.size != 0 ? tmpfs.size : share, 01777,
                                    KERN_MOUNT_EXEC, err);
        if (failed != 0)
            return failed;
    }
    *budget = share;
    return 0;
}
