/* What prepare decided about the root, for enter. */
#ifndef ROOTFS_STATE_H
#define ROOTFS_STATE_H

#include "rootfs_plan.h"

#define ROOTFS_FROM_HOST    0u /* built from parts of the host, on a tmpfs */
#define ROOTFS_FROM_OVERLAY 1u /* a directory below, a tmpfs above */
#define ROOTFS_FROM_BIND    2u /* the directory itself */

#define ROOTFS_BOUNDED_MOST 8

/* Volumes with a size, and the process that measures them. */
struct rootfs_bounds {
    struct {
        char *target;
        uint64_t max;
        int fd;           /* O_PATH of the directory on the host */
        uint32_t project; /* whose quota holds it to the size; 0: it is measured */
    } volume[ROOTFS_BOUNDED_MOST];
    uint32_t count;
    int timer, channel; /* or -1 */
    int32_t meter;      /* its process, or 0 */
};

struct rootfs_state {
    uint32_t from;
    struct rootfs_plan plan; /* FROM_HOST */
    char *hosts;             /* FROM_OVERLAY: text for /etc/hosts, or NULL: the directory's own stays */
    const char *hostname;    /* goes with it */
    char *resolver;          /* an image with the host's network: text for /etc/resolv.conf */
    struct rootfs_bounds bounds;
    uint64_t scratch_size; /* of the tmpfs that takes the root's changes; 0: the kernel's default */
};

/* prepare: volumes and tmpfs of the options become mounts of the box; the sizes given are taken off *budget. */
struct kern_box;
/* prepare: refuses a root directory in which kern keeps its own state, or that holds it. `given` is for messages. */
int rootfs_guard_root(struct kern_box *box, int fd, const char *given, struct kern_error *err);
int rootfs_add_volumes(struct kern_box *box, struct rootfs_state *state, struct kern_error *err);
/* prepare: the volume at `target` may hold that much: by a project quota where the file system has one, else what `fd` stands for
 * is measured while the box runs. */
int rootfs_bound_volume(struct kern_box *box, struct rootfs_state *state, int fd, const char *target,
                        uint64_t max, struct kern_error *err);
void rootfs_bounds_init(struct rootfs_bounds *bounds);
void rootfs_bounds_end(struct kern_box *box, struct rootfs_bounds *bounds);
int rootfs_add_tmpfs(struct kern_box *box, uint64_t *budget, struct kern_error *err);

/* enter: fills the directory that becomes the root. */
int rootfs_build_host(const struct kern_box *box, const struct rootfs_state *state, int root,
                      struct kern_error *err);

#endif
