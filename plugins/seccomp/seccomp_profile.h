/* A custom profile (Docker's or OCI's seccomp JSON) as plain data, its conditions on kernel, capabilities and
 * architecture already settled for this box. Runs in prepare, on the host side; part of the object that only
 * --seccomp FILE loads. */
#ifndef SECCOMP_PROFILE_H
#define SECCOMP_PROFILE_H

#include "kern/plugin.h"

#include <jansson.h>
#include <seccomp.h>
#include <stddef.h>
#include <stdint.h>

#define SECCOMP_PROFILE_CONDITIONS 16u /* in one entry; a call has six arguments */

/* Architectures beside the native one that this machine can run and the profile lists. */
#define SECCOMP_PROFILE_X86 (1u << 0)
#define SECCOMP_PROFILE_X32 (1u << 1)
#define SECCOMP_PROFILE_ARM (1u << 2)

struct seccomp_profile_call {
    const json_t *names; /* an array of strings, or one string; lives as long as the profile's root */
    uint32_t action;     /* SCMP_ACT_* */
    unsigned condition_count;
    unsigned any_suffices; /* the conditions are alternatives */
    struct scmp_arg_cmp conditions[SECCOMP_PROFILE_CONDITIONS];
};

struct seccomp_profile {
    json_t *root;
    uint32_t default_action;
    uint32_t arches; /* SECCOMP_PROFILE_* */
    struct seccomp_profile_call *calls;
    size_t call_count;
};

/* `caps` is the mask of capabilities that the box will hold. */
int seccomp_profile_read(const char *text, size_t len, const char *file, uint64_t caps,
                         struct seccomp_profile *ret_profile, struct kern_error *err);
void seccomp_profile_clear(struct seccomp_profile *profile);

#endif
