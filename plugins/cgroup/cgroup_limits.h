/* Limits as numbers and text: CPU lists, quotas, weights, the counters in the kernel's event files. Pure. */
#ifndef CGROUP_LIMITS_H
#define CGROUP_LIMITS_H

#include <stddef.h>
#include <stdint.h>

/* The largest NR_CPUS that any architecture can be configured for. */
#define CGROUP_CPUS_MAX 8192u

struct cgroup_cpus {
    unsigned long bits[CGROUP_CPUS_MAX / (8 * sizeof(unsigned long))];
};

/* "0-2,4" as the kernel writes it; an empty text is an empty set. -EINVAL, or -ERANGE above CGROUP_CPUS_MAX. */
int cgroup_cpus_parse(const char *text, struct cgroup_cpus *ret_cpus);
/* What `cpus` has and `without` has not; returns how many. */
uint32_t cgroup_cpus_minus(const struct cgroup_cpus *cpus, const struct cgroup_cpus *without,
                           struct cgroup_cpus *ret_rest);
uint32_t cgroup_cpus_count(const struct cgroup_cpus *cpus);
/* The list as text; one that does not fit ends with "...". */
void cgroup_cpus_format(const struct cgroup_cpus *cpus, char *text, size_t room);

struct cgroup_quota {
    int64_t quota_us;
    int64_t period_us;
};
struct cgroup_quota cgroup_quota(double cpus);

/* The kernel counts memory in pages and forgets the rest. */
uint64_t cgroup_whole_pages(uint64_t bytes, uint64_t page);
/* The first number of a limit file; "max" is the largest there is; -1 where there is none. */
int64_t cgroup_number(const char *text);
/* The number behind `key` in lines of "key value"; -1 where there is none. */
int64_t cgroup_field(const char *text, const char *key);
/* How often the OOM killer struck, of memory.events. A kill of the whole group is one, however many processes it ends; older
 * kernels than Linux 5.17 count only processes, the chosen one twice. */
int64_t cgroup_oom_kills(const char *events);

/* --io-weight is on v2's scale, 1 to 10000 around 100; the older files have others. */
uint32_t cgroup_weight_bfq(uint32_t weight);   /* 1 to 1000 around 100 */
uint32_t cgroup_weight_blkio(uint32_t weight); /* 10 to 1000 around 500 */

#endif
