/* Reading a box's control groups; see groupview.h. The paths stand in the box's record, which only its supervisor writes; each is
 * looked at only when it carries the box's name, as in the sweep. */
#include "groupview.h"

#include "cleanup.h"
#include "sys.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int open_group(const struct core_record *record, unsigned index)
{
    char expected[CORE_NAME_MAX + 48];
    const char *path = core_record_nth(record, "group", index);
    const char *slash = path != NULL ? strrchr(path, '/') : NULL;
    (void)snprintf(expected, sizeof(expected), "kern.%s.%d", record->name,
                   record->pid); /* both are bounded */
    if (slash == NULL || strcmp(slash + 1, expected) != 0)
        return path != NULL ? -EPERM : -ENOENT;
    return sys_open(AT_FDCWD, path, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0);
}

static bool read_text(int group, const char *name, char *ret_text, size_t size)
{
    auto_fd fd = openat(group, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    ssize_t length = fd >= 0 ? read(fd, ret_text, size - 1) : -1;
    if (length < 0)
        return false;
    ret_text[length] = '\0';
    return true;
}

static int64_t read_number(int group, const char *name)
{
    char text[64];
    return read_text(group, name, text, sizeof(text)) ? (int64_t)strtoll(text, NULL, 10) : -1;
}

static int64_t read_field(int group, const char *name, const char *field)
{
    char text[4096];
    const char *at = read_text(group, name, text, sizeof(text)) ? strstr(text, field) : NULL;
    return at != NULL ? (int64_t)strtoll(at + strlen(field), NULL, 10) : -1;
}

/* Over all devices: each line has them once. */
static int64_t sum_fields(int group, const char *name, const char *field)
{
    char text[16384];
    int64_t sum = 0;
    if (!read_text(group, name, text, sizeof(text)))
        return -1;
    for (const char *at = strstr(text, field); at != NULL; at = strstr(at + 1, field))
        sum += (int64_t)strtoll(at + strlen(field), NULL, 10);
    return sum;
}

static void prefer(int64_t *figure, int64_t found)
{
    *figure = found >= 0 ? found : *figure;
}

/* User and system time of a process and of those that it has waited for: proc_pid_stat(5), fields 14 to 17. */
static int64_t ticks_of(int proc, const char *pid)
{
    char name[32], text[1024];
    unsigned long long user = 0, system = 0, reaped_user = 0, reaped_system = 0;
    (void)snprintf(name, sizeof(name), "%.16s/stat", pid); /* fits */
    const char *after = read_text(proc, name, text, sizeof(text)) ? strrchr(text, ')') : NULL;
    if (after == NULL || sscanf(after, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %llu %llu",
                                &user, &system, &reaped_user, &reaped_system) != 4)
        return 0; /* it has ended */
    return (int64_t)(user + system + reaped_user + reaped_system);
}

/* Where no control group counts time (version 1 without its cpuacct hierarchy): what its processes have used. Those whose parents waited
 * for nobody are missing, so it is the least. */
static int64_t processes_usec(int group)
{
    char pids[16384], *rest = NULL;
    int64_t ticks = 0;
    auto_fd proc = sys_open(AT_FDCWD, "/proc", O_PATH | O_DIRECTORY, 0);
    if (proc < 0 || !read_text(group, "cgroup.procs", pids, sizeof(pids)))
        return -1;
    for (const char *pid = strtok_r(pids, "\n", &rest); pid != NULL; pid = strtok_r(NULL, "\n", &rest))
        ticks += ticks_of(proc, pid);
    return ticks * 1000000 / sysconf(_SC_CLK_TCK);
}

void core_group_read(const struct core_record *record, struct core_group_figures *ret_figures)
{
    struct core_group_figures figures = {-1, -1, -1, -1, -1};
    int group;
    for (unsigned i = 0; (group = open_group(record, i)) != -ENOENT; i++) {
        auto_fd fd = group;
        if (fd < 0)
            continue;
        prefer(&figures.memory, read_number(fd, "memory.current"));
        prefer(&figures.memory, read_number(fd, "memory.usage_in_bytes"));
        prefer(&figures.tasks, read_number(fd, "pids.current"));
        prefer(&figures.cpu_usec, read_field(fd, "cpu.stat", "usage_usec "));
        int64_t nanoseconds = read_number(fd, "cpuacct.usage");
        prefer(&figures.cpu_usec, nanoseconds >= 0 ? nanoseconds / 1000 : -1);
        prefer(&figures.read_bytes, sum_fields(fd, "io.stat", " rbytes="));
        prefer(&figures.written_bytes, sum_fields(fd, "io.stat", " wbytes="));
    }
    auto_fd first = figures.cpu_usec < 0 ? open_group(record, 0) : -1;
    if (first >= 0)
        figures.cpu_usec = processes_usec(first);
    *ret_figures = figures;
}

int64_t core_group_oom_kills(const struct core_record *record)
{
    int64_t kills = -1;
    int group;
    for (unsigned i = 0; (group = open_group(record, i)) != -ENOENT; i++) {
        auto_fd fd = group;
        if (fd < 0)
            continue;
        prefer(&kills, read_field(fd, "memory.events", "oom_kill "));
        prefer(&kills, read_field(fd, "memory.oom_control", "oom_kill "));
    }
    return kills;
}

int core_group_freeze(const struct core_record *record, bool freeze)
{
    int group, result = -EOPNOTSUPP;
    for (unsigned i = 0; (group = open_group(record, i)) != -ENOENT; i++) {
        auto_fd fd = group;
        auto_fd file = fd >= 0 ? openat(fd, "cgroup.freeze", O_WRONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
        if (file < 0)
            continue;
        result = write(file, freeze ? "1" : "0", 1) == 1 ? 0 : -errno;
    }
    return result;
}
