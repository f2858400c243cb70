/* Sets of CPUs: as lists ("0-2,4"), as the kernel's affinity masks, and the choice of which ones a box sees. Pure. */
#ifndef VIEW_CPUS_H
#define VIEW_CPUS_H

#include <stddef.h>
#include <stdint.h>

#define VIEW_CPU_MAX 8192u /* the bound of every kernel that Linux distributions build */

/* Bit N of word N / 64 is CPU N: on little-endian machines, which is all that kern runs on, the kernel's own layout. */
struct view_cpus {
    uint64_t word[VIEW_CPU_MAX / 64];
};

/* -EINVAL for what is no list, -ERANGE for a CPU beyond the bound. A newline ends it. "" is the empty set. */
int view_cpus_parse(const char *text, struct view_cpus *ret_cpus);
uint32_t view_cpus_count(const struct view_cpus *cpus);
uint32_t view_cpus_has(const struct view_cpus *cpus, uint32_t cpu);
/* The first CPU of the set from `cpu` on; VIEW_CPU_MAX where there is none. All loops over a set go by it: to ask for each of 8192
 * takes 40 us, a quarter of what the view costs. */
uint32_t view_cpus_next(const struct view_cpus *cpus, uint32_t cpu);
void view_cpus_keep(struct view_cpus *cpus, const struct view_cpus *with);
/* The list as text with a newline, as /sys has it; one that does not fit is cut after a whole CPU. Returns its length. */
size_t view_cpus_format(const struct view_cpus *cpus, char *text, size_t room);
/* `count` CPUs of `from`, beginning at one that `seed` picks: boxes that pin their threads must not all meet on the first. */
void view_cpus_choose(const struct view_cpus *from, uint32_t count, uint32_t seed,
                      struct view_cpus *ret_cpus);
/* What a task whose real mask is `real` is told: `count` CPUs of it at most, those of `shown` first. What a program
 * has narrowed itself to comes back as it was set. */
void view_cpus_narrow(const struct view_cpus *real, const struct view_cpus *shown, uint32_t count,
                      struct view_cpus *ret_cpus);

#endif
