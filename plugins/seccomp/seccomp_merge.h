/* The joining of rules that other plugins contribute to a filter, built-in or custom. Pure and free of
 * libseccomp; runs in prepare, on the host side, and its result is installed by the box's first process. */
#ifndef SECCOMP_MERGE_H
#define SECCOMP_MERGE_H

#include "kern/plugin.h"
#include "seccomp_assemble.h"
#include "seccomp_names.h"

#include <linux/filter.h>
#include <stddef.h>
#include <stdint.h>

#define SECCOMP_RULES_MAX 256u /* contributed to one box; all plugins of a box together use a handful */

/* All conditions hold -> `action`. Rules for one call are tried in the order given; when none fits, the base
 * program decides. */
struct seccomp_rule {
    int32_t nr;
    uint32_t arg_count; /* 0..4 */
    struct seccomp_condition arg[4];
    uint32_t action; /* SECCOMP_RET_* | data */
};

/* One program out of `base` and `rules`: in a stack of filters ERRNO and KILL would beat NOTIF, and there is one
 * listener only. Foreign architectures go to the base program at once, uncontributed numbers after a few
 * comparisons. Two things no rule can do: let one of the 24, clone or an x32 number run (refused, naming
 * the call), or open TIOCSTI and TIOCLINUX (they are answered before any rule for ioctl). `out` may not
 * overlap `base`. */
int seccomp_merge_rules(const struct sock_filter *base, size_t base_len, const struct seccomp_rule *rules,
                        size_t count, struct sock_filter *out, size_t out_capacity, size_t *ret_len,
                        struct kern_error *err);

/* The same for any architecture. */
int seccomp_merge_rules_in(const struct seccomp_arch *arch, const struct sock_filter *base, size_t base_len,
                           const struct seccomp_rule *rules, size_t count, struct sock_filter *out,
                           size_t out_capacity, size_t *ret_len, struct kern_error *err);

/* Puts the TIOCSTI and TIOCLINUX refusals in front of `base`, for ioctl under the given architecture and number:
 * the floor that a custom profile cannot go below. */
int seccomp_guard_terminal(uint32_t audit_arch, int32_t ioctl_nr, const struct sock_filter *base,
                           size_t base_len, struct sock_filter *out, size_t out_capacity, size_t *ret_len,
                           struct kern_error *err);

#endif
