/* The generated files of a box and the answer to sysinfo(2), from figures to text. Pure. */
#ifndef VIEW_TEXT_H
#define VIEW_TEXT_H

#include "view_cpus.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/sysinfo.h>

/* All in bytes. What a kernel does not count is 0. */
struct view_memory {
    uint64_t total, used; /* the cap, and what is charged against it */
    uint64_t swap_total, swap_used;
    uint64_t file, anon, shmem, mapped, dirty, writeback, kernel_stack, page_tables;
    uint64_t inactive_anon, active_anon, inactive_file, active_file, unevictable;
    uint64_t slab_reclaimable, slab_unreclaimable;
};

struct view_figures {
    struct view_memory memory;
    uint64_t uptime_us;       /* since the box began */
    uint64_t user_us, sys_us; /* CPU time of its processes */
    uint64_t boot_s;          /* the host's: start times of processes count from it */
    double load[3];           /* 1, 5 and 15 minutes */
    uint32_t tasks, running, blocked, last_pid;
};

/* Each writes text of at most `room` bytes with its NUL and returns its length; what does not fit is left out, by lines. */
size_t view_meminfo(const struct view_memory *memory, char *text, size_t room);
size_t view_uptime(const struct view_figures *figures, uint32_t cpus, char *text, size_t room);
size_t view_loadavg(const struct view_figures *figures, char *text, size_t room);
size_t view_stat(const struct view_figures *figures, const struct view_cpus *cpus, char *text, size_t room);
/* The blocks of those CPUs out of the host's /proc/cpuinfo. */
size_t view_cpuinfo(const char *host, const struct view_cpus *cpus, char *text, size_t room);
/* The same from the first block alone, copied for each: what a box begins with, because the whole takes the kernel long. */
size_t view_cpuinfo_first(const char *host, const struct view_cpus *cpus, char *text, size_t room);
void view_sysinfo(const struct view_figures *figures, struct sysinfo *ret_info);
/* One step of the kernel's own averages: `running` tasks during `seconds`. */
void view_load_step(double load[3], uint32_t running, double seconds);

/* The number behind `key` in lines of "key value"; 0 where there is none. */
uint64_t view_field(const char *text, const char *key);
/* Fills all but the totals and `used` from memory.stat, of version 2 or 1 (whose totals count what lies below as well). */
void view_memory_stat(const char *text, uint32_t version, struct view_memory *memory);
/* State and number of threads out of /proc/PID/stat; -EINVAL for anything else. */
int view_task_stat(const char *text, char *ret_state, uint32_t *ret_threads);

#endif
