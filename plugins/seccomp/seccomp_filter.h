/* The built-in filters, generated at build time. Pure and free of libseccomp; runs in prepare, on the host side. */
#ifndef SECCOMP_FILTER_H
#define SECCOMP_FILTER_H

#include "kern/plugin.h"

#include <linux/filter.h>
#include <stddef.h>
#include <stdint.h>

#define SECCOMP_MODE_ALLOWLIST       0u
#define SECCOMP_MODE_DENYLIST        1u
#define SECCOMP_MODE_ALLOWLIST_AUDIT 2u
#define SECCOMP_MODES                3u

/* Where one of the generated programs stands in the array that holds them all. */
struct seccomp_span {
    uint16_t start;
    uint16_t length;
};

/* "allowlist", "denylist" or "allowlist-audit"; anything else is refused. */
int seccomp_parse_mode(const char *text, uint32_t *ret_mode, struct kern_error *err);

/* The built-in program for the running architecture; NULL for an unknown mode. Without a listener, what would
 * notify kills (the 24), or is let through and logged by the kernel (the audit mode's unlisted calls). */
const struct sock_filter *seccomp_program(uint32_t mode, int privileged, int listener, size_t *ret_len);

#endif
