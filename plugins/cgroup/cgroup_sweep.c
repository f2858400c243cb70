/* Ends and removes groups; see cgroup_sweep.h. Runs in kern: at teardown, and when sweeping after a crash. */
#include "cgroup_sweep.h"

#include "cgroup_file.h"

#include "kern/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

#define BATCH      64
#define ROUNDS_MAX 100
#define DEPTH_MAX  8

/* Waits, if `left_ms` has as much left; a false means that it has not. */
static bool nap_ms(long ms, int64_t *left_ms)
{
    if (*left_ms < ms)
        return false;
    *left_ms -= ms;
    struct timespec pause = {.tv_nsec = ms * 1000000L};
    (void)nanosleep(&pause, NULL); /* an early return only means an early look */
    return true;
}

/* The processes of the group as this pid namespace sees them; 0 stands for one that it does not see. Returns how many. */
static long list_processes(int dir, long **ret_pids)
{
    auto_fd fd = openat(dir, "cgroup.procs", O_RDONLY | O_CLOEXEC);
    auto_free char *text = NULL;
    auto_free long *pids = NULL;
    size_t used = 0, room = 0;
    for (ssize_t got = 1; got > 0; used += (size_t)got) {
        char *more = room - used < BATCH ? realloc(text, room = 2 * room + 4096) : text;
        if (fd < 0 || more == NULL)
            return fd < 0 ? -errno : -ENOMEM;
        text = more;
        got = read(fd, text + used, room - used - 1);
        if (got < 0)
            return -errno;
    }
    text[used] = '\0';
    pids = calloc(used / 2 + 1, sizeof(*pids)); /* each is a digit and a newline at least */
    if (pids == NULL)
        return -ENOMEM;
    long count = 0;
    for (char *at = text, *end; (end = strchr(at, '\n')) != NULL; at = end + 1)
        pids[count++] = strtol(at, NULL, 10);
    *ret_pids = steal_ptr(pids);
    return count;
}

static int listed(long pid, const long *pids, long count)
{
    for (long i = 0; i < count; i++)
        if (pids[i] == pid)
            return 1;
    return 0;
}

/* A number in the list may belong to somebody else by the time the signal is sent. A descriptor taken first and a
 * second look at the list rule that out: what is still listed is the group's, and a descriptor of a process that
 * ended meanwhile reaches nobody. */
static void kill_batch(int dir, const long *pids, long count)
{
    int fds[BATCH];
    auto_free long *again = NULL;
    for (long i = 0; i < count; i++)
        fds[i] = pids[i] > 0 && pids[i] != getpid() ? (int)syscall(SYS_pidfd_open, pids[i], 0) : -1;
    long still = list_processes(dir, &again);
    for (long i = 0; i < count; i++) {
        if (fds[i] >= 0 && still > 0 && listed(pids[i], again, still))
            (void)syscall(SYS_pidfd_send_signal, fds[i], SIGKILL, NULL,
                          0); /* the next round sees who lives */
        kern_close_fd(&fds[i]);
    }
}

/* Each process that is there, before anybody waits for one of them to end: where many want a CPU that takes its time, and whoever
 * has not been struck forks meanwhile. Returns how many there were. */
static long kill_round(int dir, bool strikes)
{
    auto_free long *pids = NULL;
    long count = list_processes(dir, &pids);
    for (long at = 0; strikes && at < count; at += BATCH)
        kill_batch(dir, pids + at, count - at < BATCH ? count - at : BATCH);
    return count;
}

static int kill_within(int dir, int64_t *left_ms)
{
    /* Linux 5.14 and v2: one write, which also stops forks that are under way. */
    int whole = cgroup_write(dir, "cgroup.kill", "1");
    if (whole != 0)
        (void)cgroup_write(dir, "pids.max", "0"); /* so do failing forks, in a group of that controller */
    for (int round = 0; round < ROUNDS_MAX; round++) {
        long count = kill_round(dir, whole != 0);
        if (count <= 0)
            return count < 0 ? (int)count : 1;
        if (round > 2 && !nap_ms(1, left_ms))
            break;
    }
    return -EBUSY;
}

int cgroup_kill_group(int dir)
{
    int64_t left_ms = ROUNDS_MAX;
    return kill_within(dir, &left_ms);
}

/* A process that was just reaped can keep its group busy for a moment, and on a busy machine one that was just killed takes
 * its time to end. */
static int remove_patiently(int parent, const char *name, int64_t *left_ms)
{
    for (long pause = 1;; pause *= 2) {
        if (unlinkat(parent, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
            return 0;
        if (errno != EBUSY || !nap_ms(pause, left_ms))
            return -errno;
    }
}

static int sweep_below(int parent, const char *name, int depth, int64_t *left_ms);

static void sweep_children(int dir, int depth, int64_t *left_ms)
{
    auto_fd listing = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    auto_dir entries = listing < 0 ? NULL : fdopendir(listing);
    if (entries == NULL)
        return;
    (void)steal_fd(&listing); /* the stream closes it */
    for (struct dirent *entry; (entry = readdir(entries)) != NULL;)
        if (entry->d_type == DT_DIR && strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            (void)sweep_below(dir, entry->d_name, depth + 1,
                              left_ms); /* the parent then stays busy, and says so */
}

static int sweep_below(int parent, const char *name, int depth, int64_t *left_ms)
{
    if (unlinkat(parent, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
        return 0;
    if (errno != EBUSY || depth > DEPTH_MAX)
        return -errno;
    auto_fd dir = openat(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0)
        return -errno;
    sweep_children(dir, depth, left_ms);
    (void)kill_within(dir, left_ms); /* whether it worked shows in the removal */
    return remove_patiently(parent, name, left_ms);
}

int cgroup_sweep(const char *path)
{
    int64_t left_ms = CGROUP_SWEEP_MS;
    return cgroup_sweep_within(path, &left_ms);
}

int cgroup_sweep_within(const char *path, int64_t *left_ms)
{
    const char *slash = strrchr(path, '/');
    size_t prefix = strlen(CGROUP_NAME_PREFIX);
    if (slash == NULL || slash == path || strncmp(slash + 1, CGROUP_NAME_PREFIX, prefix) != 0 ||
        slash[1 + prefix] == '\0')
        return -EINVAL;
    auto_fd group = -1;
    int result = cgroup_open_group(path, &group);
    if (result < 0)
        return result == -ENOENT ? 0 : result;
    auto_fd parent = openat(group, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (parent < 0)
        return -errno;
    result = sweep_below(parent, slash + 1, 0, left_ms);
    size_t length = (size_t)(slash - path), fleet = strlen("/" CGROUP_FLEET);
    if (length > fleet && strncmp(slash - fleet, "/" CGROUP_FLEET, fleet) == 0) {
        auto_fd above = openat(parent, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
        (void)unlinkat(above, CGROUP_FLEET, AT_REMOVEDIR); /* busy: there are other boxes in it */
    }
    return result;
}
