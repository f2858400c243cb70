/* One box's disks, from prepare to teardown, and the parts of the plugin that work on them. Everything runs in kern, in prepare,
 * unless it says otherwise. */
#ifndef VDISK_STATE_H
#define VDISK_STATE_H

#include "kern/plugin.h"

#define VDISK_MOST 8

enum vdisk_kind { VDISK_RAM, VDISK_LOOP, VDISK_FUSE };

struct vdisk_disk {
    const char *name, *pool; /* the profile's name; the pool's id, or NULL */
    uint64_t size;
    uint32_t persistent, busy_ram, iops;
    uint64_t bandwidth;
    enum vdisk_kind kind;
    char target[80];
    int image;          /* open and locked, or -1 */
    uint32_t is_new;    /* nobody has mounted it yet */
    uint32_t has_grown; /* e2fsck may have made a lost+found */
    uint64_t device;    /* LOOP: of the loop device, for throttling */
    /* FUSE: */
    int32_t server;   /* its process, or 0 */
    int server_pidfd; /* or -1 */
    int said;         /* what it prints */
    int folder;       /* the pool's directory */
    int hand_out,
        hand_in; /* a socket: out of the second comes the mount, or an empty message when there is none */
};

struct vdisk_state {
    struct vdisk_disk disk[VDISK_MOST];
    uint32_t count;
};

/* Runs a program of the host, of /usr/sbin, /sbin, /usr/bin or /bin, with `fd` kept open under its number (-1: none), to its end.
 * Returns its exit code, -ENOENT where there is no such program, or -errno; the first line that it said goes to `said`. */
int vdisk_run(const char *const *words, int fd, char *said, size_t room);
/* 1 if that program is there. */
int vdisk_has(const char *program, char *ret_path, size_t room);

/* Opens and locks the image of a disk in its pool's directory, makes it at first use, checks it after a crash. -EBUSY without an
 * error: another box has it. */
int vdisk_image_open(struct vdisk_disk *disk, const kern_values *pool, uint32_t kernel,
                     struct kern_error *err);

/* Real root: mounts the image on a loop device; *ret_tree is attached nowhere. -ENOTSUP with *ret_why: this machine cannot. */
int vdisk_loop_mount(struct vdisk_disk *disk, int *ret_tree, const char **ret_why, struct kern_error *err);

/* Everybody else: a fuse2fs that serves the image. vdisk_fuse_why() says why this machine cannot do that, or NULL. enter asks for
 * the server, which the supervisor starts, and attaches the mount that comes. */
const char *vdisk_fuse_why(const kern_box *box);
int vdisk_fuse_prepare(kern_box *box, struct vdisk_disk *disk, uint32_t index, struct kern_error *err);
int vdisk_fuse_enter(kern_box *box, const struct vdisk_disk *disk, uint32_t index, struct kern_error *err);
/* Waits for the server to write what it has; the box has ended, and the mount with it. */
void vdisk_fuse_end(kern_box *box, struct vdisk_disk *disk);

/* Caps iops and bandwidth of the loop device in the box's control group, or says why not. */
int vdisk_throttle(kern_box *box, const struct vdisk_disk *disk, struct kern_error *err);

#endif
