/* Sets of CPUs; see view_cpus.h. Pure; used in prepare and in the supervisor's loop. */
#include "view_cpus.h"

#include <errno.h>
#include <stdio.h>

#define WORDS (VIEW_CPU_MAX / 64)

static void add(struct view_cpus *cpus, uint32_t cpu)
{
    cpus->word[cpu / 64] |= UINT64_C(1) << (cpu % 64);
}

static int read_cpu(const char **at, uint32_t *ret_cpu)
{
    const char *digit = *at;
    uint32_t cpu = 0;
    for (; *digit >= '0' && *digit <= '9'; digit++) {
        cpu = cpu * 10 + (uint32_t)(*digit - '0');
        if (cpu >= VIEW_CPU_MAX)
            return -ERANGE;
    }
    if (digit == *at)
        return -EINVAL;
    *at = digit;
    *ret_cpu = cpu;
    return 0;
}

int view_cpus_parse(const char *text, struct view_cpus *ret_cpus)
{
    struct view_cpus cpus = {{0}};
    while (*text != '\0' && *text != '\n') {
        uint32_t first = 0;
        int failed = read_cpu(&text, &first);
        uint32_t last = first;
        if (failed == 0 && *text == '-') {
            text++;
            failed = read_cpu(&text, &last);
        }
        if (failed != 0 || last < first)
            return failed != 0 ? failed : -EINVAL;
        for (uint32_t cpu = first; cpu <= last; cpu++)
            add(&cpus, cpu);
        if (*text == ',' && text[1] >= '0' && text[1] <= '9')
            text++;
        else if (*text != '\0' && *text != '\n')
            return -EINVAL;
    }
    *ret_cpus = cpus;
    return 0;
}

uint32_t view_cpus_count(const struct view_cpus *cpus)
{
    uint32_t count = 0;
    for (size_t i = 0; i < WORDS; i++)
        count += (uint32_t)__builtin_popcountll(cpus->word[i]);
    return count;
}

uint32_t view_cpus_has(const struct view_cpus *cpus, uint32_t cpu)
{
    return cpu < VIEW_CPU_MAX ? (uint32_t)(cpus->word[cpu / 64] >> (cpu % 64) & 1) : 0;
}

uint32_t view_cpus_next(const struct view_cpus *cpus, uint32_t cpu)
{
    while (cpu < VIEW_CPU_MAX) {
        uint64_t rest = cpus->word[cpu / 64] >> (cpu % 64);
        if (rest != 0)
            return cpu + (uint32_t)__builtin_ctzll(rest);
        cpu = (cpu | 63) + 1;
    }
    return VIEW_CPU_MAX;
}

void view_cpus_keep(struct view_cpus *cpus, const struct view_cpus *with)
{
    for (size_t i = 0; i < WORDS; i++)
        cpus->word[i] &= with->word[i];
}

size_t view_cpus_format(const struct view_cpus *cpus, char *text, size_t room)
{
    size_t used = 0;
    for (uint32_t cpu = view_cpus_next(cpus, 0); cpu < VIEW_CPU_MAX; cpu = view_cpus_next(cpus, cpu + 1)) {
        char item[16];
        uint32_t last = cpu;
        while (view_cpus_has(cpus, last + 1))
            last++;
        int length =
            snprintf(item, sizeof(item), last > cpu ? "%s%u-%u" : "%s%u", used > 0 ? "," : "", cpu, last);
        if (used + (size_t)length + 2 > room)
            break;
        for (int i = 0; i < length; i++)
            text[used++] = item[i];
        cpu = last;
    }
    if (used + 2 > room)
        return 0;
    text[used++] = '\n';
    text[used] = '\0';
    return used;
}

void view_cpus_choose(const struct view_cpus *from, uint32_t count, uint32_t seed, struct view_cpus *ret_cpus)
{
    struct view_cpus chosen = {{0}};
    uint32_t there = view_cpus_count(from);
    if (count >= there) {
        *ret_cpus = *from;
        return;
    }
    uint32_t first = (uint32_t)((uint64_t)(seed * UINT32_C(0x9e3779b1)) * there >> 32);
    uint32_t index = 0;
    for (uint32_t cpu = view_cpus_next(from, 0); cpu < VIEW_CPU_MAX; cpu = view_cpus_next(from, cpu + 1)) {
        uint32_t behind = (index + there - first) % there;
        if (behind < count)
            add(&chosen, cpu);
        index++;
    }
    *ret_cpus = chosen;
}

static void take(struct view_cpus *to, uint32_t *left, const struct view_cpus *from,
                 const struct view_cpus *shown, uint32_t wanted)
{
    for (uint32_t cpu = view_cpus_next(from, 0); *left > 0 && cpu < VIEW_CPU_MAX;
         cpu = view_cpus_next(from, cpu + 1)) {
        if (view_cpus_has(shown, cpu) != wanted)
            continue;
        add(to, cpu);
        --*left;
    }
}

void view_cpus_narrow(const struct view_cpus *real, const struct view_cpus *shown, uint32_t count,
                      struct view_cpus *ret_cpus)
{
    struct view_cpus told = {{0}};
    take(&told, &count, real, shown, 1);
    take(&told, &count, real, shown, 0);
    *ret_cpus = told;
}
