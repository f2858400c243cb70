/* Limits as numbers and text; see cgroup_limits.h. Pure: nothing here touches the kernel. */
#include "cgroup_limits.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORD_BITS (8 * sizeof(unsigned long))

static int has_cpu(const struct cgroup_cpus *cpus, uint32_t cpu)
{
    return (int)(cpus->bits[cpu / WORD_BITS] >> (cpu % WORD_BITS) & 1);
}

static int parse_cpu(const char **at, uint32_t *ret_cpu)
{
    if (!isdigit((unsigned char)**at))
        return -EINVAL;
    uint32_t cpu = 0;
    for (; isdigit((unsigned char)**at); (*at)++) {
        cpu = cpu * 10 + (uint32_t)(**at - '0');
        if (cpu >= CGROUP_CPUS_MAX)
            return -ERANGE;
    }
    *ret_cpu = cpu;
    return 0;
}

int cgroup_cpus_parse(const char *text, struct cgroup_cpus *ret_cpus)
{
    struct cgroup_cpus cpus = {.bits = {0}};
    const char *at = text;
    while (*at != '\0' && *at != '\n') {
        uint32_t first, last;
        int result = parse_cpu(&at, &first);
        last = first;
        if (result == 0 && *at == '-') {
            at++;
            result = parse_cpu(&at, &last);
        }
        if (result < 0)
            return result;
        if (last < first)
            return -EINVAL;
        for (uint32_t cpu = first; cpu <= last; cpu++)
            cpus.bits[cpu / WORD_BITS] |= 1ul << (cpu % WORD_BITS);
        if (*at == ',' && isdigit((unsigned char)at[1]))
            at++;
        else if (*at != '\0' && *at != '\n')
            return -EINVAL;
    }
    *ret_cpus = cpus;
    return 0;
}

uint32_t cgroup_cpus_count(const struct cgroup_cpus *cpus)
{
    uint32_t count = 0;
    for (size_t i = 0; i < sizeof(cpus->bits) / sizeof(cpus->bits[0]); i++)
        count += (uint32_t)__builtin_popcountl(cpus->bits[i]);
    return count;
}

uint32_t cgroup_cpus_minus(const struct cgroup_cpus *cpus, const struct cgroup_cpus *without,
                           struct cgroup_cpus *ret_rest)
{
    for (size_t i = 0; i < sizeof(cpus->bits) / sizeof(cpus->bits[0]); i++)
        ret_rest->bits[i] = cpus->bits[i] & ~without->bits[i];
    return cgroup_cpus_count(ret_rest);
}

void cgroup_cpus_format(const struct cgroup_cpus *cpus, char *text, size_t room)
{
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t cpu = 0; cpu < CGROUP_CPUS_MAX; cpu++) {
        if (!has_cpu(cpus, cpu))
            continue;
        uint32_t last = cpu;
        while (last + 1 < CGROUP_CPUS_MAX && has_cpu(cpus, last + 1))
            last++;
        char part[32];
        const char *comma = used > 0 ? "," : "";
        int length = last > cpu ? snprintf(part, sizeof(part), "%s%u-%u", comma, cpu, last)
                                : snprintf(part, sizeof(part), "%s%u", comma, cpu);
        if (used + (size_t)length + sizeof("...") > room) {
            (void)snprintf(text + used, room - used, "..."); /* the list was too long for a message anyway */
            return;
        }
        memcpy(text + used, part, (size_t)length + 1);
        used += (size_t)length;
        cpu = last;
    }
}

/* The kernel takes no quota below a millisecond and no period above a second. */
struct cgroup_quota cgroup_quota(double cpus)
{
    struct cgroup_quota quota = {.period_us = cpus < 0.01 ? 1000000 : 100000};
    quota.quota_us = (int64_t)(cpus * (double)quota.period_us + 0.5);
    if (quota.quota_us < 1000)
        quota.quota_us = 1000;
    return quota;
}

uint64_t cgroup_whole_pages(uint64_t bytes, uint64_t page)
{
    return bytes - bytes % page;
}

int64_t cgroup_number(const char *text)
{
    if (strncmp(text, "max", 3) == 0)
        return INT64_MAX;
    if (!isdigit((unsigned char)text[0]))
        return -1;
    unsigned long long number = strtoull(text, NULL, 10);
    return number > INT64_MAX ? INT64_MAX : (int64_t)number;
}

int64_t cgroup_field(const char *text, const char *key)
{
    size_t length = strlen(key);
    for (const char *line = text; line != NULL && *line != '\0'; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, length) == 0 && line[length] == ' ')
            return cgroup_number(line + length + 1);
    }
    return -1;
}

int64_t cgroup_oom_kills(const char *events)
{
    int64_t groups = cgroup_field(events, "oom_group_kill");
    return groups > 0 ? groups : cgroup_field(events, "oom_kill");
}

uint32_t cgroup_weight_bfq(uint32_t weight)
{
    return weight <= 100 ? weight : 100 + (weight - 100) * 900 / 9900;
}

uint32_t cgroup_weight_blkio(uint32_t weight)
{
    uint32_t scaled = weight * 5;
    return scaled < 10 ? 10 : scaled > 1000 ? 1000 : scaled;
}
