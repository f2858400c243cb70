/* Compiles a custom seccomp profile (--seccomp FILE) to one BPF program. Runs in prepare, on the host side; part
 * of an object of its own, with libseccomp and jansson, that no box without such a profile loads.
 *
 * What holds under any profile: a foreign architecture is killed unless the profile lists it ("architectures", or
 * "archMap" for the native one), so is x32, and ioctl's TIOCSTI and TIOCLINUX get EPERM on all of them. */
#ifndef SECCOMP_JSON_H
#define SECCOMP_JSON_H

#include "kern/plugin.h"

#include <linux/filter.h>
#include <stddef.h>
#include <stdint.h>

/* `file` is for messages; `caps` is the mask of capabilities that the box will hold, for includes and excludes.
 * *ret_prog is the caller's to free. *ret_skipped counts the names that no known call has: they are passed over,
 * as Docker does, and deserve a note. */
KERN_EXPORT int seccomp_json_compile(const char *text, size_t len, const char *file, uint64_t caps,
                                     struct sock_filter **ret_prog, size_t *ret_len, uint32_t *ret_skipped,
                                     struct kern_error *err);

#endif
