/* What the root of a box is made of, as plain data: decided in prepare on the host, carried out in enter inside the
 * box's mount namespace. The plan owns its strings, bytes and descriptors. */
#ifndef ROOTFS_PLAN_H
#define ROOTFS_PLAN_H

#include "kern/plugin.h"

#define ROOTFS_DIR     1u /* an empty directory, `mode` */
#define ROOTFS_SYMLINK 2u /* `source` is what it points to */
#define ROOTFS_FILE    3u /* `bytes`, `mode` */
#define ROOTFS_BIND    4u /* host file or directory `source`, read-only with everything mounted below it */

/* One entry of a root that is built from nothing. Paths are absolute inside the box; parents stand before their
 * children in the plan, so that carrying it out is one pass. */
struct rootfs_entry {
    uint32_t kind;
    uint32_t mode;
    char *path;
    char *source; /* SYMLINK: target text; BIND: the absolute, canonical host path */
    void *bytes;
    size_t length;
    int fd; /* BIND: O_PATH descriptor of the source, opened in prepare; else -1 */
};

struct rootfs_plan {
    struct rootfs_entry *entry;
    size_t count;
    size_t room;
};

int rootfs_plan_dir(struct rootfs_plan *plan, const char *path, uint32_t mode, struct kern_error *err);
int rootfs_plan_symlink(struct rootfs_plan *plan, const char *path, const char *target,
                        struct kern_error *err);
int rootfs_plan_file(struct rootfs_plan *plan, const char *path, uint32_t mode, const void *bytes,
                     size_t length, struct kern_error *err);
/* A source that does not exist is left out when `required` is 0 (returns 0). Symlinks in `source` are resolved. */
int rootfs_plan_bind(struct rootfs_plan *plan, const char *path, const char *source, int required,
                     struct kern_error *err);
void rootfs_plan_clear(struct rootfs_plan *plan);

/* The host root (contract: neither --image nor --rootfs): fills an empty plan. `hostname` and the --add-host lines
 * go into /etc/hostname and /etc/hosts; `user_name`/`uid`: an extra passwd line when not 0. */
struct rootfs_host_facts {
    const char *hostname;
    const char *const *hosts_lines; /* "IP NAME" */
    size_t hosts_count;
    int share_network; /* 1: resolv.conf is the host's; 0: an empty one with a comment */
    int egress;        /* 1: resolv.conf names the resolver of the box's own */
};
int rootfs_host_plan(const struct rootfs_host_facts *facts, struct rootfs_plan *ret_plan,
                     struct kern_error *err);

#endif
