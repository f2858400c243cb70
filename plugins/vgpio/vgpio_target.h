/* The process whose call is being answered: its memory, its descriptors. Everything is read once, into kern's own copy, and the
 * notification is looked at again afterwards: only while it is valid is this still the same process
 * (seccomp_unotify(2)). Runs in kern. */
#ifndef VGPIO_TARGET_H
#define VGPIO_TARGET_H

#include "kern/plugin.h"

#include <stddef.h>

struct vgpio_target {
    struct kern_call call;
    int pidfd; /* of its thread group; -1 when closed */
    int memory; /* its /proc/PID/mem, which stays with this memory whoever gets the number; -1: by process_vm_*() */
};

/* 0, or -EPERM where kern may not look into it, -ESRCH when it is gone. */
int vgpio_target_open(const struct kern_call *call, struct vgpio_target *ret_target);
void vgpio_target_close(struct vgpio_target *target);

/* All of `size` bytes, or -EFAULT; -ESRCH when the process is gone. */
int vgpio_target_read(const struct vgpio_target *target, uint64_t address, void *ret_bytes, size_t size);
int vgpio_target_write(const struct vgpio_target *target, uint64_t address, const void *bytes, size_t size);
/* A copy of one of its descriptors: the same open file. */
int vgpio_target_fd(const struct vgpio_target *target, uint64_t number, int *ret_fd);
/* Puts kern's `fd` into it, closed at exec where `cloexec` is not 0. Returns its number there. */
int vgpio_target_give(const struct vgpio_target *target, int fd, int cloexec);
int vgpio_target_is_there(const struct vgpio_target *target);

#endif
