/* Disks of a size: /vdisk/NAME for each vdisk: profile. This file: the table, and what prepare decides, in kern on the host.
 * In memory it is a tmpfs of the box; with a [[disk]] pool it is an ext4 in a sparse file: on a loop device for real root, served by
 * fuse2fs for everybody else. Where a machine cannot do that, it is in memory, and one line says so. */
#include "vdisk_check.h"
#include "vdisk_manifest.h"
#include "vdisk_state.h"

#include "kern/cleanup.h"
#include "kern/foundation.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void read_disk(kern_box *box, uint32_t index, struct vdisk_disk *disk)
{
    const kern_values *profile = kern_profile(box, index), *pool = kern_profile_pool(box, index);
    const char *busy = kern_get_string(profile, "on-busy");
    *disk = (struct vdisk_disk){
        .name = kern_profile_name(box, index),
        .pool = pool != NULL ? kern_get_string(pool, "id") : NULL,
        .size = (uint64_t)kern_get_int(profile, "size"),
        .persistent = kern_get_int(profile, "persistent") != 0,
        .busy_ram = busy != NULL && strcmp(busy, "ram") == 0,
        .iops = kern_get_string(profile, "iops") != NULL ? (uint32_t)kern_get_int(profile, "iops") : 0,
        .bandwidth =
            kern_get_string(profile, "bandwidth") != NULL ? (uint64_t)kern_get_int(profile, "bandwidth") : 0,
        .image = -1,
        .server_pidfd = -1,
        .said = -1,
        .folder = -1,
        .hand_out = -1,
        .hand_in = -1,
    };
    (void)snprintf(disk->target, sizeof(disk->target), "/vdisk/%s", disk->name); /* names were checked */
}

/* What is full must say ENOSPC; beyond the memory cap it would say nothing more. */
static int put_in_memory(kern_box *box, struct vdisk_disk *disk, const char *why, struct kern_error *err)
{
    uint64_t cap = (uint64_t)kern_get_int(kern_options(box), "memory");
    disk->kind = VDISK_RAM;
    if (disk->size >= cap) {
        kern_refuse(err, 0,
                    "disk \"%s\" of %" PRIu64 " MiB does not fit into memory under a cap of %" PRIu64
                    " MiB%s%s",
                    disk->name, disk->size >> 20, cap >> 20, why != NULL ? ", and it has to be there: " : "",
                    why != NULL ? why : "");
        kern_hint(err, "give the box more (--memory %" PRIu64 "m), or a [[disk]] pool as the backend",
                  (disk->size >> 20) + (disk->size >> 21) + 64);
        return -ENOSPC;
    }
    if (why != NULL)
        kern_note(box, "disk %s is in memory and gone with the box: %s", disk->name, why);
    return kern_add_tmpfs(box, disk->target, disk->size, 01777, KERN_MOUNT_EXEC, err);
}

static int refuse_busy(const struct vdisk_disk *disk, struct kern_error *err)
{
    kern_refuse(err, 0, "disk \"%s\" is in use by another box", disk->name);
    kern_hint(
        err, "stop that box, or write on_busy = \"ram\" in the profile to start with an empty one in memory");
    return -EBUSY;
}

/* The kernel mounts it, for root. */
static int use_loop(kern_box *box, struct vdisk_disk *disk, struct kern_error *err)
{
    const char *why = NULL;
    int tree = -1;
    int failed = vdisk_loop_mount(disk, &tree, &why, err);
    auto_fd made = tree;
    kern_close_fd(&disk->image); /* the device has it, and the lock with it */
    if (failed == -ENOTSUP && why != NULL)
        return put_in_memory(box, disk, why, err);
    if (failed != 0)
        return failed;
    disk->kind = VDISK_LOOP;
    return kern_add_tree(box, made, disk->target, KERN_MOUNT_EXEC, err);
}

static int put_on_disk(kern_box *box, uint32_t index, struct vdisk_disk *disk, const kern_values *pool,
                       struct kern_error *err)
{
    int is_root = geteuid() == 0;
    const char *why = is_root ? NULL : vdisk_fuse_why(box);
    if (why != NULL)
        return put_in_memory(box, disk, why, err);
    int failed = vdisk_image_open(disk, pool, (uint32_t)is_root, err);
    if (failed == -EBUSY && err->category == KERN_ERROR_NONE)
        return disk->busy_ram ? put_in_memory(box, disk, "another box has it", err) : refuse_busy(disk, err);
    if (failed == 0)
        failed = is_root ? use_loop(box, disk, err) : vdisk_fuse_prepare(box, disk, index, err);
    return failed != 0 ? failed : vdisk_throttle(box, disk, err);
}

static int prepare_disk(kern_box *box, uint32_t index, struct vdisk_disk *disk, struct kern_error *err)
{
    static const char *const words[] = {"ram", "loop", "fuse"};
    const kern_values *pool = kern_profile_pool(box, index);
    char key[96];
    read_disk(box, index, disk);
    if (kern_get_int(kern_options(box), "plan") != 0)
        return 0; /* nothing is made for a plan */
    int failed =
        pool == NULL ? put_in_memory(box, disk, NULL, err) : put_on_disk(box, index, disk, pool, err);
    if (failed != 0)
        return failed;
    (void)snprintf(key, sizeof(key), "%s.backend", disk->name); /* names are short */
    kern_report_string(box, key, words[disk->kind]);
    return 0;
}

static int prepare(kern_box *box, void *block, struct kern_error *err)
{
    struct vdisk_state *state = block;
    uint32_t count = kern_profile_count(box);
    if (count > VDISK_MOST)
        return kern_refuse(err, E2BIG, "cannot give a box %u disks: %d at most", count, VDISK_MOST);
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k < i; k++)
            if (strcmp(state->disk[k].name, kern_profile_name(box, i)) == 0)
                return kern_refuse(err, 0, "disk \"%s\" is named twice", state->disk[k].name);
        state->count++;
        int failed = prepare_disk(box, i, &state->disk[i], err);
        if (failed != 0)
            return failed;
    }
    return 0;
}

/* Needs CAP_SYS_ADMIN in the box's outer user namespace for nothing but its directories: the mounting is the server's. */
static int enter(kern_box *box, void *block, struct kern_error *err)
{
    const struct vdisk_state *state = block;
    int failed = 0;
    for (uint32_t i = 0; failed == 0 && i < state->count; i++)
        if (state->disk[i].kind == VDISK_FUSE)
            failed = vdisk_fuse_enter(box, &state->disk[i], i, err);
    return failed;
}

static void teardown(kern_box *box, void *block, const struct kern_outcome *outcome)
{
    struct vdisk_state *state = block;
    (void)outcome; /* mounts and devices went with the box, however it ended */
    for (uint32_t i = 0; i < state->count; i++) {
        kern_close_fd(&state->disk[i].image);
        vdisk_fuse_end(box, &state->disk[i]);
    }
}

KERN_PLUGIN(VDISK_MANIFEST, .state_size = sizeof(struct vdisk_state), .prepare = prepare, .enter = enter,
            .teardown = teardown, .check = vdisk_check);
