/* The numbers of one architecture: what a call is called, and which ones are answered by killing. The tables
 * are generated (seccomp_gen ARCH names). Pure; used on the host side only, by prepare and the supervisor. */
#ifndef SECCOMP_NAMES_H
#define SECCOMP_NAMES_H

#include <stddef.h>
#include <stdint.h>

struct seccomp_arch {
    uint32_t audit; /* AUDIT_ARCH_* */
    int32_t ioctl;  /* the number of ioctl(2) */
    const char *text;
    const uint16_t *at; /* number -> offset into text; 0: the number has no name */
    size_t at_count;
    const int16_t *killing;
    size_t killing_count;
};

/* The architecture that this build runs on. */
const struct seccomp_arch *seccomp_native(void);

/* NULL for a number without a name. */
const char *seccomp_name_in(const struct seccomp_arch *arch, int nr);
int seccomp_kills_in(const struct seccomp_arch *arch, int nr);

/* The same for the running architecture. */
const char *seccomp_call_name(int nr);

/* 1 for one of the 24 and for clone, whose CLONE_NEW* flags are answered alike: what a notification about it
 * ends in. Any other call that notifies was only to be counted. */
int seccomp_is_killing(int nr);

#endif
