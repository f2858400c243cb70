/* Judges a [[vcpu]] profile against its [[cpu]] pool. Pure; runs in kern on the host, when kern.toml is
 * read. */
#include "vcpu_check.h"

#include <stdbool.h>

/* Far above any machine that Linux runs on; the kernel's own bound is 8192 CPUs. */
#define MAX_CPU 8192u

struct cpu_list {
    uint64_t bits[MAX_CPU / 64];
};

static bool read_number(const char **at, unsigned *ret_number)
{
    unsigned number = 0;
    if (**at < '0' || **at > '9')
        return false;
    for (; **at >= '0' && **at <= '9'; (*at)++) {
        number = number * 10 + (unsigned)(**at - '0');
        if (number >= MAX_CPU)
            return false;
    }
    *ret_number = number;
    return true;
}

/* "0-2,4": the syntax of cpuset.cpus without its strides, which no kernel interface for boxes needs. */
static int read_list(const char *owner, const char *text, struct cpu_list *ret_list, struct kern_error *err)
{
    struct cpu_list list = {0};
    const char *at = text;
    for (;;) {
        unsigned first, last;
        bool good = read_number(&at, &first);
        last = first;
        if (good && *at == '-') {
            at++;
            good = read_number(&at, &last) && last >= first;
        }
        if (!good || (*at != ',' && *at != '\0'))
            return kern_refuse(err, 0, "%s: cpuset \"%.64s\" is not a list of CPUs such as \"0-2,4\"", owner,
                               text);
        for (unsigned cpu = first; cpu <= last; cpu++)
            list.bits[cpu / 64] |= UINT64_C(1) << (cpu % 64);
        if (*at++ == '\0')
            break;
    }
    *ret_list = list;
    return 0;
}

static bool is_given(const kern_values *values, const char *name)
{
    return kern_get_string(values, name) != NULL;
}

static int check_cpuset(const kern_values *profile, const kern_values *pool, const char *pool_id,
                        struct kern_error *err)
{
    struct cpu_list wanted, offered;
    bool wants = is_given(profile, "cpuset");
    bool offers = pool != NULL && is_given(pool, "cpuset");
    int r = wants ? read_list("the profile", kern_get_string(profile, "cpuset"), &wanted, err) : 0;
    if (r == 0 && offers)
        r = read_list("its pool", kern_get_string(pool, "cpuset"), &offered, err);
    if (r < 0 || !wants || !offers)
        return r;
    for (unsigned cpu = 0; cpu < MAX_CPU; cpu++)
        if ((wanted.bits[cpu / 64] & ~offered.bits[cpu / 64]) >> (cpu % 64) & 1u)
            return kern_refuse(
                err, 0, "cpuset \"%.64s\" wants CPU %u, which pool \"%s\" (cpuset \"%.64s\") does not have",
                kern_get_string(profile, "cpuset"), cpu, pool_id, kern_get_string(pool, "cpuset"));
    return 0;
}

int vcpu_check(const kern_values *profile, const kern_values *pool, struct kern_error *err)
{
    const char *id = pool != NULL ? kern_get_string(pool, "id") : NULL;
    const char *pool_id = id != NULL ? id : "host";
    int r = check_cpuset(profile, pool, pool_id, err);
    if (r < 0 || pool == NULL)
        return r;
    if (is_given(profile, "cpus") && is_given(pool, "cores") &&
        kern_get_float(profile, "cpus") > kern_get_float(pool, "cores"))
        return kern_refuse(err, 0, "cpus = %s is more than the %s cores of pool \"%s\"",
                           kern_get_string(profile, "cpus"), kern_get_string(pool, "cores"), pool_id);
    if (is_given(profile, "memory") && is_given(pool, "memory") &&
        kern_get_int(profile, "memory") > kern_get_int(pool, "memory"))
        return kern_refuse(err, 0, "memory = %s is more than the %s of pool \"%s\"",
                           kern_get_string(profile, "memory"), kern_get_string(pool, "memory"), pool_id);
    if (is_given(profile, "numa") && is_given(pool, "numa") &&
        kern_get_int(profile, "numa") != kern_get_int(pool, "numa"))
        return kern_refuse(err, 0, "numa = %s is not the node of pool \"%s\", which is %s",
                           kern_get_string(profile, "numa"), pool_id, kern_get_string(pool, "numa"));
    return 0;
}
