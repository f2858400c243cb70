/* The fleet: one group around the boxes of a user, with caps on what they use together (KERN_FLEET_MEMORY_MAX,
 * KERN_FLEET_PIDS_MAX). PARENT/kern.fleet/kern.BOXID. The last box that leaves takes it away. Runs in kern, in prepare. */
#include "cgroup_file.h"
#include "cgroup_state.h"
#include "cgroup_sweep.h"

#include "kern/cleanup.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

bool cgroup_fleet_wanted(const struct cgroup_fleet *fleet, uint32_t kinds)
{
    return (fleet->memory > 0 && (kinds & CGROUP_BIT(CGROUP_MEMORY))) ||
           (fleet->pids > 0 && (kinds & CGROUP_BIT(CGROUP_PIDS)));
}

/* Left as it is when it stands there already: writing it again would have the kernel look at every page. */
static int32_t set(int dir, const char *file, int64_t value, uint64_t unit)
{
    char text[64], number[32];
    (void)snprintf(number, sizeof(number), "%" PRId64, value); /* 20 characters at most */
    for (int round = 0; round < 2; round++) {
        int64_t there = cgroup_read(dir, file, text, sizeof(text)) == 0 ? cgroup_number(text) : -1;
        if (there >= 0 && (uint64_t)there / unit == (uint64_t)value / unit)
            return 1;
        if (round > 0 || cgroup_write(dir, file, number) < 0)
            return 0;
    }
    return 0;
}

static int64_t field_in(int dir, const char *file, const char *key)
{
    char text[1024];
    return cgroup_read(dir, file, text, sizeof(text)) < 0 ? -1 : cgroup_field(text, key);
}

/* The kernel counts a kill in the group of the victim, and the shortage in the group that ran short. */
int64_t cgroup_fleet_oom(int dir)
{
    int64_t local = field_in(dir, "memory.events.local", "oom"); /* Linux 5.2 */
    return local >= 0 ? local : field_in(dir, "memory.events", "oom");
}

static void cap(struct cgroup_fleet *fleet, int dir, uint32_t version, uint32_t kinds)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    if (fleet->memory > 0 && (kinds & CGROUP_BIT(CGROUP_MEMORY))) {
        fleet->out_of_memory = version == 2 ? cgroup_fleet_oom(dir) : 0;
        fleet->memory_binds =
            set(dir, version == 2 ? "memory.max" : "memory.limit_in_bytes", fleet->memory, page);
        /* Else it would page out instead of ending anything. Kernels that count no swap have no such file. */
        (void)set(dir, version == 2 ? "memory.swap.max" : "memory.memsw.limit_in_bytes",
                  version == 2 ? 0 : fleet->memory, page);
        if (version == 1) /* as in a box of its own */
            (void)set(dir, "memory.kmem.tcp.limit_in_bytes", fleet->memory, page);
    }
    if (fleet->pids > 0 && (kinds & CGROUP_BIT(CGROUP_PIDS)))
        fleet->pids_bind = set(dir, "pids.max", fleet->pids, 1);
}

int cgroup_fleet_open(struct cgroup_fleet *fleet, const char *parent, uint32_t version, uint32_t kinds,
                      char ret_path[CGROUP_PATH_MAX])
{
    char path[CGROUP_PATH_MAX];
    int length = snprintf(path, sizeof(path), "%s/" CGROUP_FLEET, parent);
    if (length < 0 || (size_t)length >= sizeof(path))
        return -ENAMETOOLONG;
    if (mkdir(path, 0755) < 0 && errno != EEXIST)
        return -errno;
    auto_fd dir = -1;
    int result = cgroup_open_group(path, &dir);
    if (result < 0)
        return result;
    if (version == 2) {
        int code = 0;
        if (cgroup_enable(dir, kinds, &code) != kinds)
            return -code;
    }
    cap(fleet, dir, version, kinds);
    memcpy(ret_path, path, (size_t)length + 1);
    return 0;
}
