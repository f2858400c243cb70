/* Sets of CPUs; see vcpu_cpus.h. Pure. */
#include "vcpu_cpus.h"

#include <errno.h>
#include <stdio.h>

static int has(const struct vcpu_cpus *cpus, uint32_t cpu)
{
    return cpu < VCPU_CPU_MAX && (cpus->word[cpu / 64] >> (cpu % 64) & 1) != 0;
}

static int read_cpu(const char **at, uint32_t *ret_cpu)
{
    const char *digit = *at;
    uint32_t cpu = 0;
    for (; *digit >= '0' && *digit <= '9'; digit++) {
        cpu = cpu * 10 + (uint32_t)(*digit - '0');
        if (cpu >= VCPU_CPU_MAX)
            return -ERANGE;
    }
    if (digit == *at)
        return -EINVAL;
    *at = digit;
    *ret_cpu = cpu;
    return 0;
}

static int read_range(const char **at, struct vcpu_cpus *cpus)
{
    uint32_t first = 0;
    int result = read_cpu(at, &first);
    uint32_t last = first;
    if (result == 0 && **at == '-') {
        (*at)++;
        result = read_cpu(at, &last);
    }
    if (result < 0)
        return result;
    if (last < first)
        return -EINVAL;
    for (uint32_t cpu = first; cpu <= last; cpu++)
        cpus->word[cpu / 64] |= UINT64_C(1) << (cpu % 64);
    return 0;
}

int vcpu_cpus_parse(const char *text, struct vcpu_cpus *ret_cpus)
{
    struct vcpu_cpus cpus = {{0}};
    while (*text != '\0') {
        int result = read_range(&text, &cpus);
        if (result < 0)
            return result;
        if (*text == ',' && text[1] != '\0')
            text++;
        else if (*text != '\0')
            return -EINVAL;
    }
    *ret_cpus = cpus;
    return 0;
}

void vcpu_cpus_intersect(struct vcpu_cpus *cpus, const struct vcpu_cpus *with)
{
    for (size_t i = 0; i < VCPU_CPU_MAX / 64; i++)
        cpus->word[i] &= with->word[i];
}

int vcpu_cpus_is_empty(const struct vcpu_cpus *cpus)
{
    for (size_t i = 0; i < VCPU_CPU_MAX / 64; i++)
        if (cpus->word[i] != 0)
            return 0;
    return 1;
}

void vcpu_cpus_format(const struct vcpu_cpus *cpus, struct vcpu_cpus_text *ret_text)
{
    size_t used = 0;
    ret_text->text[0] = '\0';
    for (uint32_t cpu = 0; cpu < VCPU_CPU_MAX; cpu++) {
        if (!has(cpus, cpu))
            continue;
        uint32_t last = cpu;
        while (has(cpus, last + 1))
            last++;
        int wrote = snprintf(ret_text->text + used, sizeof(ret_text->text) - used,
                             last > cpu ? "%s%u-%u" : "%s%u", used > 0 ? "," : "", cpu, last);
        used += (size_t)wrote; /* the text has room for the longest set */
        cpu = last;
    }
}
