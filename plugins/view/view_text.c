/* The text of the generated files; see view_text.h. Pure; used in prepare, before there is a box, and in the supervisor's
 * loop. Numbers come from the kernel's own counters, never from what a box wrote. */
#include "view_text.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HZ 100u /* USER_HZ: what /proc/stat counts in, on both architectures */

struct out {
    char *text;
    size_t room, used;
};

/* Whole lines only: what does not fit is not there. */
static void line(struct out *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void line(struct out *out, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int length = vsnprintf(out->text + out->used, out->room - out->used, format, args);
    va_end(args);
    if (length >= 0 && out->used + (size_t)length < out->room)
        out->used += (size_t)length;
    else
        out->text[out->used] = '\0';
}

static uint64_t less(uint64_t from, uint64_t what)
{
    return from > what ? from - what : 0;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* ---- meminfo ---- */

/* As "%-16s%8llu kB\n" would, which takes ten times as long: there are many rows, and every start of a box writes them. */
static void row(struct out *out, const char *name, uint64_t number)
{
    enum { NUMBER = 24, DIGITS = 20 };
    size_t length = strlen(name), digits = 1;
    char text[NUMBER + DIGITS + 4];
    for (uint64_t rest = number; rest >= 10; rest /= 10)
        digits++;
    size_t end = length + 1 + digits > NUMBER ? length + 1 + digits : NUMBER;
    memset(text, ' ', end);
    memcpy(text, name, length);
    text[length] = ':';
    for (size_t i = 1; i <= digits; i++, number /= 10)
        text[end - i] = (char)('0' + number % 10);
    memcpy(text + end, " kB\n", 4);
    if (out->used + end + 4 < out->room) {
        memcpy(out->text + out->used, text, end + 4);
        out->used += end + 4;
    }
    out->text[out->used] = '\0';
}

static uint64_t available(const struct view_memory *memory)
{
    uint64_t reclaimable = memory->inactive_file + memory->active_file + memory->slab_reclaimable;
    return least(less(memory->total, memory->used) + reclaimable, memory->total);
}

size_t view_meminfo(const struct view_memory *memory, char *text, size_t room)
{
    struct out out = {.text = text, .room = room};
    uint64_t slab = memory->slab_reclaimable + memory->slab_unreclaimable;
    const struct {
        const char *name;
        uint64_t bytes;
    } rows[] = {
        {"MemTotal", memory->total},
        {"MemFree", less(memory->total, memory->used)},
        {"MemAvailable", available(memory)},
        {"Buffers", 0},
        {"Cached", memory->file},
        {"SwapCached", 0},
        {"Active", memory->active_anon + memory->active_file},
        {"Inactive", memory->inactive_anon + memory->inactive_file},
        {"Active(anon)", memory->active_anon},
        {"Inactive(anon)", memory->inactive_anon},
        {"Active(file)", memory->active_file},
        {"Inactive(file)", memory->inactive_file},
        {"Unevictable", memory->unevictable},
        {"Mlocked", 0},
        {"SwapTotal", memory->swap_total},
        {"SwapFree", less(memory->swap_total, memory->swap_used)},
        {"Dirty", memory->dirty},
        {"Writeback", memory->writeback},
        {"AnonPages", memory->anon},
        {"Mapped", memory->mapped},
        {"Shmem", memory->shmem},
        {"KReclaimable", memory->slab_reclaimable},
        {"Slab", slab},
        {"SReclaimable", memory->slab_reclaimable},
        {"SUnreclaim", memory->slab_unreclaimable},
        {"KernelStack", memory->kernel_stack},
        {"PageTables", memory->page_tables},
        {"CommitLimit", memory->total + memory->swap_total},
        {"Committed_AS", memory->anon + memory->shmem},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        row(&out, rows[i].name, rows[i].bytes / 1024);
    line(&out, "HugePages_Total:       0\nHugePages_Free:        0\nHugePages_Rsvd:        0\n"
               "HugePages_Surp:        0\nHugepagesize:       2048 kB\n");
    return out.used;
}

/* ---- uptime, loadavg, stat ---- */

static uint64_t idle_us(const struct view_figures *figures, uint32_t cpus)
{
    return less(figures->uptime_us * cpus, figures->user_us + figures->sys_us);
}

size_t view_uptime(const struct view_figures *figures, uint32_t cpus, char *text, size_t room)
{
    struct out out = {.text = text, .room = room};
    uint64_t up = figures->uptime_us / 10000, idle = idle_us(figures, cpus) / 10000;
    line(&out, "%llu.%02llu %llu.%02llu\n", (unsigned long long)(up / 100), (unsigned long long)(up % 100),
         (unsigned long long)(idle / 100), (unsigned long long)(idle % 100));
    return out.used;
}

size_t view_loadavg(const struct view_figures *figures, char *text, size_t room)
{
    struct out out = {.text = text, .room = room};
    unsigned load[3]; /* in hundredths: a "%.2f" takes as long as the whole of meminfo */
    for (size_t i = 0; i < 3; i++)
        load[i] = (unsigned)(figures->load[i] * 100 + 0.5);
    line(&out, "%u.%02u %u.%02u %u.%02u %u/%u %u\n", load[0] / 100, load[0] % 100, load[1] / 100,
         load[1] % 100, load[2] / 100, load[2] % 100, figures->running, figures->tasks, figures->last_pid);
    return out.used;
}

static unsigned long long ticks(uint64_t us)
{
    return us / (1000000 / HZ);
}

/* The kernel does not keep apart on which CPU a group ran, so each has an equal share. */
size_t view_stat(const struct view_figures *figures, const struct view_cpus *cpus, char *text, size_t room)
{
    struct out out = {.text = text, .room = room};
    uint32_t count = view_cpus_count(cpus);
    uint64_t idle = idle_us(figures, count);
    line(&out, "cpu  %llu 0 %llu %llu 0 0 0 0 0 0\n", ticks(figures->user_us), ticks(figures->sys_us),
         ticks(idle));
    for (uint32_t cpu = view_cpus_next(cpus, 0); cpu < VIEW_CPU_MAX; cpu = view_cpus_next(cpus, cpu + 1))
        line(&out, "cpu%u %llu 0 %llu %llu 0 0 0 0 0 0\n", cpu, ticks(figures->user_us / count),
             ticks(figures->sys_us / count), ticks(idle / count));
    line(&out, "intr 0\nctxt 0\nbtime %llu\nprocesses %u\nprocs_running %u\nprocs_blocked %u\n",
         (unsigned long long)figures->boot_s, figures->last_pid, figures->running, figures->blocked);
    line(&out, "softirq 0 0 0 0 0 0 0 0 0 0 0\n");
    return out.used;
}

/* ---- cpuinfo ---- */

/* The number of the block that begins here; -1 where no block does. */
static long block_number(const char *block)
{
    static const char key[] = "processor";
    if (strncmp(block, key, sizeof(key) - 1) != 0)
        return -1;
    const char *at = block + sizeof(key) - 1;
    at += strspn(at, " \t");
    return *at == ':' ? strtol(at + 1, NULL, 10) : -1;
}

static size_t block_length(const char *block)
{
    const char *end = strstr(block, "\n\n");
    return end != NULL ? (size_t)(end - block) + 2 : strlen(block);
}

size_t view_cpuinfo(const char *host, const struct view_cpus *cpus, char *text, size_t room)
{
    struct out out = {.text = text, .room = room};
    while (*host != '\0') {
        size_t length = block_length(host);
        long cpu = block_number(host);
        /* Behind the blocks, arm64 names the machine: that stays. */
        if (cpu < 0 || view_cpus_has(cpus, (uint32_t)cpu))
            line(&out, "%.*s", (int)length, host);
        host += length;
    }
    return out.used;
}

size_t view_cpuinfo_first(const char *host, const struct view_cpus *cpus, char *text, size_t room)
{
    struct out out = {.text = text, .room = room};
    const char *rest = strchr(host, '\n');
    if (block_number(host) < 0 || rest == NULL)
        return 0;
    size_t length = block_length(host) - (size_t)(rest - host);
    for (uint32_t cpu = view_cpus_next(cpus, 0); cpu < VIEW_CPU_MAX; cpu = view_cpus_next(cpus, cpu + 1))
        line(&out, "processor\t: %u%.*s", cpu, (int)length, rest);
    return out.used;
}

/* ---- sysinfo and the averages ---- */

void view_sysinfo(const struct view_figures *figures, struct sysinfo *ret_info)
{
    const struct view_memory *memory = &figures->memory;
    struct sysinfo info = {
        .uptime = (long)(figures->uptime_us / 1000000),
        .totalram = memory->total,
        .freeram = less(memory->total, memory->used),
        .sharedram = memory->shmem,
        .totalswap = memory->swap_total,
        .freeswap = less(memory->swap_total, memory->swap_used),
        .procs = (unsigned short)(figures->tasks < 65535 ? figures->tasks : 65535),
        .mem_unit = 1,
    };
    for (size_t i = 0; i < 3; i++)
        info.loads[i] = (unsigned long)(figures->load[i] * (1 << SI_LOAD_SHIFT));
    *ret_info = info;
}

void view_load_step(double load[3], uint32_t running, double seconds)
{
    static const double minutes[3] = {1, 5, 15};
    for (size_t i = 0; i < 3; i++) {
        /* exp(-x) for the small x of a step, without a library of mathematics: 1 / (1 + x + x^2/2 + x^3/6). */
        double x = seconds / (60 * minutes[i]);
        double keep = 1 / (1 + x + x * x / 2 + x * x * x / 6);
        load[i] = load[i] * keep + running * (1 - keep);
    }
}

/* ---- What the kernel wrote ---- */

uint64_t view_field(const char *text, const char *key)
{
    size_t length = strlen(key);
    while (text != NULL && *text != '\0') {
        if (strncmp(text, key, length) == 0 && text[length] == ' ')
            return strtoull(text + length, NULL, 10);
        text = strchr(text, '\n');
        text = text != NULL ? text + 1 : NULL;
    }
    return 0;
}

void view_memory_stat(const char *text, uint32_t version, struct view_memory *memory)
{
    const struct {
        uint64_t *to;
        const char *key[2]; /* version 1, version 2 */
    } rows[] = {
        {&memory->file, {"total_cache", "file"}},
        {&memory->anon, {"total_rss", "anon"}},
        {&memory->shmem, {"total_shmem", "shmem"}},
        {&memory->mapped, {"total_mapped_file", "file_mapped"}},
        {&memory->dirty, {"total_dirty", "file_dirty"}},
        {&memory->writeback, {"total_writeback", "file_writeback"}},
        {&memory->kernel_stack, {NULL, "kernel_stack"}},
        {&memory->page_tables, {NULL, "pagetables"}},
        {&memory->inactive_anon, {"total_inactive_anon", "inactive_anon"}},
        {&memory->active_anon, {"total_active_anon", "active_anon"}},
        {&memory->inactive_file, {"total_inactive_file", "inactive_file"}},
        {&memory->active_file, {"total_active_file", "active_file"}},
        {&memory->unevictable, {"total_unevictable", "unevictable"}},
        {&memory->slab_reclaimable, {NULL, "slab_reclaimable"}},
        {&memory->slab_unreclaimable, {NULL, "slab_unreclaimable"}},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *key = rows[i].key[version == 2];
        *rows[i].to = key != NULL ? view_field(text, key) : 0;
    }
}

int view_task_stat(const char *text, char *ret_state, uint32_t *ret_threads)
{
    const char *at = strrchr(text, ')'); /* the name in front of it is the program's to choose */
    if (at == NULL || at[1] != ' ' || !isalpha((unsigned char)at[2]))
        return -EINVAL;
    char state = at[2];
    at += 2;
    for (int field = 3; field < 20; field++) {
        at = strchr(at, ' ');
        if (at == NULL)
            return -EINVAL;
        at++;
    }
    *ret_state = state;
    *ret_threads = (uint32_t)strtoul(at, NULL, 10);
    return 0;
}
