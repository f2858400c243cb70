/* What rootfs_plan.c and rootfs_host.c share beyond the plan itself, and what their unit test reaches for. */
#ifndef ROOTFS_HOST_H
#define ROOTFS_HOST_H

#include "rootfs_plan.h"

/* Adds a bind of what the O_PATH descriptor stands for; takes the descriptor over on success. */
int rootfs_plan_bind_fd(struct rootfs_plan *plan, const char *path, int *fd, struct kern_error *err);

/* rootfs_host_plan() for a host whose root directory is `root`: the real one, or a tree that a test made. */
int rootfs_host_plan_at(int root, const struct rootfs_host_facts *facts, struct rootfs_plan *ret_plan,
                        struct kern_error *err);

#endif
