/* Volumes with a size (-v SRC:DST:rw,max=SIZE). A directory of the host has no size of its own. For real root on a file system with
 * project quotas the kernel gives it one (rootfs_project.c); everywhere else it is measured while the box
 * runs: a copy of kern walks through it again and again, and when it holds too much, the supervisor ends the box with the fault
 * workspace_full. That is a soft limit: what is written between two looks is written. prepare and the supervisor's part run in kern.
 *
 * The meter reads what the box made. It may read all of it, whatever the modes are (else a directory without any would hide
 * what is in it), and nothing else: by descriptors, without following links, within one file system. What cannot be measured
 * counts as too much. */
#include "rootfs_project.h"
#include "rootfs_state.h"

#include "kern/cleanup.h"
#include "kern/foundation.h"
#include "kern/sys.h"

#include <inttypes.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>

#define FIRST_LOOK_MS 50
#define LOOK_MS       100
#define SHARE         10  /* the meter sleeps this many times as long as it looked */
#define DEPTH_MOST    100 /* each level holds a descriptor */

/* What the meter says: which volume, and what is the matter. */
struct finding {
    uint32_t index;
    int32_t code; /* 0: too much; else the errno that kept it from measuring */
};

/* ---- The meter ---- */

struct tally {
    dev_t device;
    uint64_t bytes, most;
};

static int measure_below(int parent, const char *name, struct tally *tally, uint32_t depth);

static int measure_entry(int dir, const char *name, struct tally *tally, uint32_t depth)
{
    struct stat st;
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? 0 : -errno; /* gone meanwhile */
    if (st.st_dev != tally->device)
        return 0; /* something else is mounted here */
    uint64_t bytes = (uint64_t)st.st_blocks * 512;
    /* Each name of a file counts its part. */
    tally->bytes += S_ISDIR(st.st_mode) || st.st_nlink == 0 ? bytes : bytes / st.st_nlink;
    return S_ISDIR(st.st_mode) ? measure_below(dir, name, tally, depth + 1) : 0;
}

static int measure_below(int parent, const char *name, struct tally *tally, uint32_t depth)
{
    if (depth > DEPTH_MOST)
        return -ELOOP;
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NOATIME);
    if (fd < 0 && errno == EPERM) /* whose it is decides about O_NOATIME */
        fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT || errno == ENOTDIR || errno == ELOOP ? 0 : -errno; /* exchanged meanwhile */
    auto_dir list = fdopendir(fd);
    if (list == NULL) {
        (void)close(fd); /* only read */
        return -ENOMEM;
    }
    const struct dirent *entry;
    int failed = 0;
    while (failed == 0 && tally->bytes <= tally->most && (entry = readdir(list)) != NULL)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            failed = measure_entry(fd, entry->d_name, tally, depth);
    return failed;
}

/* 1: too much; 0: it fits; -errno. */
static int measure(int volume, uint64_t most)
{
    struct stat st;
    if (fstat(volume, &st) != 0)
        return -errno;
    struct tally tally = {.device = st.st_dev, .most = most};
    int failed = measure_below(volume, ".", &tally, 0);
    return failed != 0 ? failed : tally.bytes > most;
}

/* Without root: the box's user namespace is the caller's own, and in it what belongs to the caller or to the caller's range of ids
 * can be read whatever its mode. As root, all but that one right is given up. */
static int take_rights(int outer)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{0}, {0}};
    if (geteuid() != 0 && sys_setns(outer, CLONE_NEWUSER) != 0)
        return -EPERM;
    data[0].effective = data[0].permitted = UINT32_C(1) << CAP_DAC_READ_SEARCH;
    return (int)sys_call(SYS_capset, SYS_P(&header), SYS_P(data), 0, 0, 0, 0);
}

static int64_t now_us(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail with a valid clock and pointer */
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void pause_us(int64_t us)
{
    struct timespec length = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
    (void)nanosleep(&length, NULL); /* a shorter pause only looks sooner */
}

_Noreturn static void run_meter(const struct rootfs_bounds *bounds, pid_t parent, int outer, int channel)
{
    struct finding finding = {0};
    int keep[ROOTFS_BOUNDED_MOST + 2] = {outer, channel};
    sigset_t none;
    for (uint32_t i = 0; i < bounds->count; i++)
        keep[i + 2] = bounds->volume[i].fd;
    sys_close_all_but(keep, bounds->count + 2);
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    sys_end_with(parent);
    (void)setpriority(PRIO_PROCESS, 0, 10); /* a later look is no worse */
    finding.code = take_rights(outer) != 0 ? EPERM : 0;
    while (finding.code == 0) {
        int64_t began = now_us();
        for (uint32_t i = 0; i < bounds->count; i++) {
            if (bounds->volume[i].project != 0)
                continue;
            int found = measure(bounds->volume[i].fd, bounds->volume[i].max);
            if (found == 0)
                continue;
            finding = (struct finding){.index = i, .code = found < 0 ? -found : 0};
            (void)!write(channel, &finding, sizeof(finding)); /* kern has ended otherwise, and so does this */
            sys_exit(0);
        }
        int64_t took = (now_us() - began) * SHARE;
        pause_us(took > LOOK_MS * 1000 ? took : LOOK_MS * 1000);
    }
    (void)!write(channel, &finding, sizeof(finding)); /* as above */
    sys_exit(0);
}

/* ---- The supervisor ---- */

static void end_meter(kern_box *box, struct rootfs_bounds *bounds)
{
    if (bounds->channel >= 0)
        kern_unwatch(box, bounds->channel);
    kern_close_fd(&bounds->channel);
    if (bounds->meter == 0)
        return;
    (void)kill(bounds->meter, SIGKILL); /* not reaped yet, so the number is its own */
    (void)waitpid(bounds->meter, NULL, 0);
    bounds->meter = 0;
}

/* Without a finding the meter has ended otherwise: then nobody measures any more. */
static void on_finding(kern_box *box, void *block, int32_t fd, uint32_t events)
{
    struct rootfs_bounds *bounds = &((struct rootfs_state *)block)->bounds;
    struct finding finding = {.code = ESRCH};
    (void)events; /* a message or the end */
    bool whole =
        read(fd, &finding, sizeof(finding)) == (ssize_t)sizeof(finding) && finding.index < bounds->count;
    uint32_t index = whole ? finding.index : 0;
    const char *target = bounds->volume[index].target;
    if (finding.code == 0)
        kern_end_box(box, "workspace_full", "\"%s\" holds more than %" PRIu64 " bytes", target,
                     bounds->volume[index].max);
    else
        kern_end_box(box, "workspace_full", "\"%s\" cannot be measured: %s", target,
                     finding.code == ELOOP ? "its directories are too deep" : strerror(finding.code));
    end_meter(box, bounds);
}

static void on_timer(kern_box *box, void *block, int32_t fd, uint32_t events)
{
    struct rootfs_bounds *bounds = &((struct rootfs_state *)block)->bounds;
    struct kern_error ignored = {0};
    int pair[2], outer = kern_outer_pidfd(box);
    (void)events; /* it can only have expired */
    kern_unwatch(box, fd);
    kern_close_fd(&bounds->timer);
    if (outer < 0 || pipe2(pair, O_CLOEXEC) != 0) {
        kern_end_box(box, "workspace_full", "\"%s\" cannot be measured", bounds->volume[0].target);
        return;
    }
    auto_fd theirs = pair[1];
    pid_t self = getpid(), pid = fork();
    if (pid == 0)
        run_meter(bounds, self, outer, theirs);
    bounds->meter = pid > 0 ? pid : 0;
    bounds->channel = pair[0];
    if (pid > 0 && kern_watch(box, pair[0], EPOLLIN, on_finding, &ignored) == 0)
        return;
    kern_end_box(box, "workspace_full", "\"%s\" cannot be measured", bounds->volume[0].target);
    end_meter(box, bounds);
}

/* ---- prepare and teardown ---- */

static int start_timer(kern_box *box, struct rootfs_bounds *bounds, struct kern_error *err)
{
    static const struct itimerspec once = {.it_value.tv_nsec = FIRST_LOOK_MS * 1000000L};
    bounds->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (bounds->timer < 0 || timerfd_settime(bounds->timer, 0, &once, NULL) != 0)
        return kern_fail(err, errno, "cannot make the timer that measures volumes");
    return kern_watch(box, bounds->timer, EPOLLIN, on_timer, err);
}

/* One row for all volumes: where one is only measured, it says so. */
static void report(kern_box *box, const struct rootfs_bounds *bounds, const char *target, uint64_t max)
{
    struct kern_limit limit = {.name = "workspace", .enforced = 1, .by = "quota"};
    for (uint32_t i = 0; i < bounds->count; i++)
        if (bounds->volume[i].project == 0)
            (void)snprintf(limit.by, sizeof(limit.by), "supervised");  /* fits */
    (void)snprintf(limit.asked, sizeof(limit.asked), "%" PRIu64, max); /* fits */
    kern_limit_set(box, &limit);
    kern_report_int(box, target, (int64_t)max);
}

/* A box without a user namespace of its own could give its files to another project. */
static bool may_have_quota(const kern_box *box)
{
    const char *userns = kern_get_string(kern_options(box), "userns");
    return geteuid() == 0 && (userns == NULL || strcmp(userns, "host") != 0) &&
           kern_get_int(kern_options(box), "plan") == 0;
}

/* The project's id, or 0: then the volume is measured. */
static uint32_t hold_by_quota(kern_box *box, int fd, uint32_t index, uint64_t max, struct kern_error *err)
{
    char link[40], path[480];
    uint32_t id = rootfs_project_id(getpid(), index);
    if (!may_have_quota(box) || rootfs_project_probe(fd, id) != 0)
        return 0;
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd); /* fits: a number is short */
    ssize_t length = readlink(link, path, sizeof(path));
    if (length <= 0 || length == (ssize_t)sizeof(path))
        return 0;
    path[length] = '\0';
    if (kern_box_record_project(box, id, path, err) != 0)
        return 0;
    return rootfs_project_hold(fd, id, max) == 0 ? id : 0;
}

int rootfs_bound_volume(kern_box *box, struct rootfs_state *state, int fd, const char *target, uint64_t max,
                        struct kern_error *err)
{
    struct rootfs_bounds *bounds = &state->bounds;
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISDIR(st.st_mode))
        return kern_refuse(err, 0, "cannot give \"%s\" a size: only a directory can have one", target);
    if (bounds->count == ROOTFS_BOUNDED_MOST)
        return kern_refuse(err, 0, "cannot give \"%s\" a size: %d volumes with one are the most", target,
                           ROOTFS_BOUNDED_MOST);
    char *copy = strdup(target);
    int own = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    bounds->volume[bounds->count].target = copy;
    bounds->volume[bounds->count].max = max;
    bounds->volume[bounds->count].fd = own;
    bounds->count++;
    if (copy == NULL || own < 0)
        return kern_fail(err, ENOMEM, "cannot keep volume \"%s\"", target);
    uint32_t project = hold_by_quota(box, fd, bounds->count - 1, max, err);
    if (err->category != KERN_ERROR_NONE)
        return -EIO;
    bounds->volume[bounds->count - 1].project = project;
    report(box, bounds, target, max);
    return project != 0 || bounds->timer >= 0 ? 0 : start_timer(box, bounds, err);
}

void rootfs_bounds_init(struct rootfs_bounds *bounds)
{
    bounds->timer = bounds->channel = -1;
}

void rootfs_bounds_end(kern_box *box, struct rootfs_bounds *bounds)
{
    if (bounds->timer >= 0)
        kern_unwatch(box, bounds->timer);
    kern_close_fd(&bounds->timer);
    end_meter(box, bounds);
    for (uint32_t i = 0; i < bounds->count; i++) {
        if (bounds->volume[i].project != 0)
            rootfs_project_release(bounds->volume[i].fd, bounds->volume[i].project);
        free(bounds->volume[i].target);
        kern_close_fd(&bounds->volume[i].fd);
    }
    bounds->count = 0;
}
