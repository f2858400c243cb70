/* Which calls a box may make, by name, apart from any architecture's numbers. Read at build time by
 * seccomp_gen; of it only the newest numbers are needed at run time, by the compiler of custom profiles. */
#ifndef SECCOMP_TABLE_H
#define SECCOMP_TABLE_H

#include <stddef.h>

struct seccomp_list {
    const char *const *names;
    size_t count;
};

extern const struct seccomp_list seccomp_allowed; /* what Docker's default filter lets pass, less the 35 */
extern const struct seccomp_list seccomp_killing; /* the 24 */
extern const struct seccomp_list seccomp_hidden;  /* the 11 that answer ENOSYS */
extern const struct seccomp_list seccomp_nesting; /* the five that --privileged relaxes */
extern const struct seccomp_list seccomp_judged;  /* allowed or not by their arguments */
extern const struct seccomp_list seccomp_kindred; /* newer spellings of the 24: ENOSYS in every mode */

/* The number of a call that is younger than the libseccomp at hand, or -1. `is_x86` is for the two that only
 * x86-64 has; all others have one number everywhere since Linux 5.1. */
int seccomp_newer_number(const char *name, int is_x86);

/* What seccomp_newer_number() knows, for reports: NULL when the number is not among the newer ones. */
const char *seccomp_newer_name(int nr, int is_x86);

#endif
