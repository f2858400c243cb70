/* The words of --volume, --mount and --tmpfs as values. Pure. */
#ifndef ROOTFS_OPTIONS_H
#define ROOTFS_OPTIONS_H

#include "kern/plugin.h"

#include <limits.h>

struct rootfs_volume {
    char source[PATH_MAX];
    char target[PATH_MAX];
    uint32_t read_only;
    uint32_t no_copy; /* a new named volume starts empty, whatever the image has there */
    uint64_t max;     /* bytes that it may hold; 0: no bound */
};

struct rootfs_tmpfs {
    char target[PATH_MAX];
    uint64_t size; /* 0: none given */
};

int rootfs_parse_volume(const char *text, struct rootfs_volume *ret_volume, struct kern_error *err);
int rootfs_parse_mount(const char *text, struct rootfs_volume *ret_volume, struct kern_error *err);
int rootfs_parse_tmpfs(const char *text, struct rootfs_tmpfs *ret_tmpfs, struct kern_error *err);
/* "NAME:IP" to "IP NAME". */
int rootfs_parse_host(const char *text, char *ret_line, size_t size, struct kern_error *err);
/* Refuses targets that belong to the kernel or to kern: /proc, /sys, /dev (but /dev/shm), ".." and the root. */
int rootfs_check_target(const char *target, const char *option, int is_tmpfs, struct kern_error *err);

/* --scratch ram|disk[:SIZE]. size 0: none was given. */
struct rootfs_scratch {
    int32_t on_disk;
    uint64_t size;
};
int rootfs_parse_scratch(const char *text, struct rootfs_scratch *ret_scratch, struct kern_error *err);

#endif
