/* Sets of CPUs as cpuset.cpus and /sys write them, "0-2,4". Pure. */
#ifndef VCPU_CPUS_H
#define VCPU_CPUS_H

#include <stddef.h>
#include <stdint.h>

#define VCPU_CPU_MAX 8192 /* the bound of every kernel that Linux distributions build */

struct vcpu_cpus {
    uint64_t word[VCPU_CPU_MAX / 64];
};

/* Room for any set as text: every second CPU is the longest. */
struct vcpu_cpus_text {
    char text[VCPU_CPU_MAX * 3];
};

/* -EINVAL for what is no list, -ERANGE for a CPU beyond VCPU_CPU_MAX. "" is the empty set. */
int vcpu_cpus_parse(const char *text, struct vcpu_cpus *ret_cpus);
void vcpu_cpus_intersect(struct vcpu_cpus *cpus, const struct vcpu_cpus *with);
int vcpu_cpus_is_empty(const struct vcpu_cpus *cpus);
void vcpu_cpus_format(const struct vcpu_cpus *cpus, struct vcpu_cpus_text *ret_text);

#endif
