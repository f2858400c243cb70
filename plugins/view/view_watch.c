/* Keeps a box's view fresh: once a second the figures are read from its control groups and its procfs, and the files written
 * anew through descriptors that only kern has. Runs in the supervisor's loop, from the moment the command is about to run.
 * Reads files of the kernel only, none of the box's. */
#include "view_state.h"

#include "kern/cleanup.h"
#include "kern/foundation.h"
#include "kern/sys.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>

#define LOAD_SECONDS 5   /* the kernel's own step */
#define LOOK_MOST    256 /* tasks looked at for the load; what is more is taken to be alike */
#define CPUINFO_MOST ((size_t)1 << 20)

/* A box that may mount can put a pipe of its own over a file of /proc, and opening that would wait for its other end: what is read
 * below a directory is on the file system that it is of. */
static int open_below(int dir, const char *path, int flags)
{
    return dir == AT_FDCWD ? sys_open(dir, path, O_RDONLY | flags, 0)
                           : sys_open_beneath(dir, path, O_RDONLY | flags, 0,
                                              RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV);
}

long view_read(int dir, const char *path, char *text, size_t size)
{
    int fd = open_below(dir, path, 0);
    if (fd < 0)
        return fd;
    size_t used = 0;
    long got = 0;
    while (used < size - 1 && (got = sys_read(fd, text + used, size - 1 - used)) > 0)
        used += (size_t)got;
    (void)sys_close(fd); /* only read */
    text[used] = '\0';
    return got < 0 ? got : (long)used;
}

static uint64_t number_in(int dir, const char *path)
{
    char text[32];
    return view_read(dir, path, text, sizeof(text)) > 0 ? strtoull(text, NULL, 10) : 0;
}

/* ---- Memory, CPU time, tasks ---- */

/* On a machine with both versions the group of version 2 has no memory controller, but counts CPU time all the same. */
static void open_groups(kern_box *box, struct view_state *state)
{
    const char *path = NULL, *controller = NULL;
    state->looked = 1;
    for (uint32_t i = 0; kern_group_view(box, i, &path, &controller) != 0; i++) {
        struct view_group *group = controller == NULL                   ? &state->cpu
                                   : strcmp(controller, "memory") == 0  ? &state->memory
                                   : strcmp(controller, "pids") == 0    ? &state->pids
                                   : strncmp(controller, "cpu", 3) == 0 ? &state->cpu
                                                                        : NULL;
        if (group == NULL || (group->dir >= 0 && controller != NULL))
            continue;
        kern_close_fd(&group->dir);
        group->dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC); /* -1: the figures stay as they are */
        group->version = controller == NULL ? 2 : 1;
    }
    if (state->cpu.dir < 0 || state->cpu.version != 2)
        return;
    if (state->memory.dir < 0)
        state->memory = (struct view_group){.dir = fcntl(state->cpu.dir, F_DUPFD_CLOEXEC, 3), .version = 2};
    if (state->pids.dir < 0)
        state->pids = (struct view_group){.dir = fcntl(state->cpu.dir, F_DUPFD_CLOEXEC, 3), .version = 2};
}

static void read_memory(struct view_state *state)
{
    struct view_memory *memory = &state->figures.memory;
    int dir = state->memory.dir;
    char text[8192];
    if (!state->shows_memory || dir < 0)
        return;
    if (state->memory.version == 2) {
        memory->used = number_in(dir, "memory.current");
        memory->swap_used = number_in(dir, "memory.swap.current");
    } else {
        memory->used = number_in(dir, "memory.usage_in_bytes");
        uint64_t both = number_in(dir, "memory.memsw.usage_in_bytes");
        memory->swap_used = both > memory->used ? both - memory->used : 0;
    }
    if (view_read(dir, "memory.stat", text, sizeof(text)) > 0)
        view_memory_stat(text, state->memory.version, memory);
}

/* Without a group that counts: what the first process and those that it has waited for have used. */
static void read_first_process(struct view_state *state)
{
    char text[1024];
    unsigned long user = 0, sys = 0, user_below = 0, sys_below = 0;
    if (state->proc < 0 || view_read(state->proc, "1/stat", text, sizeof(text)) <= 0)
        return;
    const char *at = strrchr(text, ')');
    if (at == NULL || sscanf(at, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %lu %lu", &user, &sys,
                             &user_below, &sys_below) != 4)
        return;
    state->figures.user_us = (uint64_t)(user + user_below) * 10000;
    state->figures.sys_us = (uint64_t)(sys + sys_below) * 10000;
}

static void read_cpu(struct view_state *state)
{
    char text[2048];
    int dir = state->cpu.dir;
    if (dir >= 0 && state->cpu.version == 2 && view_read(dir, "cpu.stat", text, sizeof(text)) > 0) {
        state->figures.user_us = view_field(text, "user_usec");
        state->figures.sys_us = view_field(text, "system_usec");
    } else if (dir >= 0 && view_read(dir, "cpuacct.usage_user", text, sizeof(text)) > 0) {
        state->figures.user_us = strtoull(text, NULL, 10) / 1000;
        state->figures.sys_us = number_in(dir, "cpuacct.usage_sys") / 1000;
    } else {
        read_first_process(state);
    }
}

/* ---- Load ---- */

struct census {
    uint32_t seen, tasks, running, blocked, last_pid;
};

static void count_task(int dir, const char *id, struct census *census, uint32_t *ret_threads)
{
    char path[300], text[1024], state = '?';
    uint32_t threads = 0;
    (void)snprintf(path, sizeof(path), "%s/stat", id); /* a name fits */
    if (view_read(dir, path, text, sizeof(text)) <= 0 || view_task_stat(text, &state, &threads) != 0)
        return; /* ended meanwhile */
    census->seen++;
    census->running += state == 'R';
    census->blocked += state == 'D';
    *ret_threads = threads;
}

static DIR *open_tasks(int dir, const char *path)
{
    int fd = open_below(dir, path, O_DIRECTORY);
    DIR *list = fd < 0 ? NULL : fdopendir(fd);
    if (list == NULL && fd >= 0)
        (void)sys_close(fd); /* only read */
    return list;
}

/* The first thread has been counted with its process. */
static void count_threads(int proc, const char *id, struct census *census)
{
    char path[300];
    (void)snprintf(path, sizeof(path), "%s/task", id); /* a name fits */
    auto_dir tasks = open_tasks(proc, path);
    const struct dirent *entry;
    uint32_t threads = 0;
    while (tasks != NULL && census->seen < LOOK_MOST && (entry = readdir(tasks)) != NULL)
        if (entry->d_name[0] != '.' && strcmp(entry->d_name, id) != 0)
            count_task(dirfd(tasks), entry->d_name, census, &threads);
}

static void take_census(const struct view_state *state, struct census *ret_census)
{
    struct census census = {0};
    auto_dir all = open_tasks(state->proc, ".");
    const struct dirent *entry;
    while (all != NULL && (entry = readdir(all)) != NULL) {
        uint32_t threads = 0;
        if (entry->d_name[0] < '0' || entry->d_name[0] > '9')
            continue;
        census.last_pid = (uint32_t)strtoul(entry->d_name, NULL, 10);
        if (census.seen < LOOK_MOST)
            count_task(state->proc, entry->d_name, &census, &threads);
        if (threads > 1)
            count_threads(state->proc, entry->d_name, &census);
        census.tasks += threads;
    }
    *ret_census = census;
}

static void read_tasks(struct view_state *state)
{
    struct view_figures *figures = &state->figures;
    uint64_t tasks = state->pids.dir >= 0 ? number_in(state->pids.dir, "pids.current") : 0;
    if (tasks > 0)
        figures->tasks = (uint32_t)tasks;
    if (state->proc < 0 || state->beats % LOAD_SECONDS != 0)
        return;
    struct census census;
    take_census(state, &census);
    if (census.seen == 0)
        return;
    if (tasks == 0)
        figures->tasks = census.tasks;
    uint64_t scale = figures->tasks > census.seen ? figures->tasks : census.seen;
    figures->running = (uint32_t)(census.running * scale / census.seen);
    figures->blocked = (uint32_t)(census.blocked * scale / census.seen);
    figures->last_pid = census.last_pid;
    view_load_step(figures->load, figures->running + figures->blocked, LOAD_SECONDS);
}

/* ---- The files ---- */

static void rewrite(struct view_state *state, enum view_file file, const char *text, size_t length)
{
    char path[48];
    (void)snprintf(path, sizeof(path), VIEW_FOLDER "/%s", view_file_name[file]); /* all names are short */
    if (state->text[file] == NULL)
        return;
    if (state->file[file] < 0)
        state->file[file] = sys_open(state->store, path, O_WRONLY | O_NOFOLLOW, 0);
    /* One write in place: whoever reads meanwhile sees one second's figures or the next's. */
    if (state->file[file] >= 0 && pwrite(state->file[file], text, length, 0) == (ssize_t)length)
        (void)!ftruncate(state->file[file], (off_t)length); /* it grew or kept its length otherwise */
}

void view_rewrite_cpuinfo(struct view_state *state)
{
    auto_free char *host = malloc(CPUINFO_MOST), *text = malloc(CPUINFO_MOST);
    if (state->text[VIEW_CPUINFO] == NULL || host == NULL || text == NULL ||
        view_read(AT_FDCWD, "/proc/cpuinfo", host, CPUINFO_MOST) <= 0)
        return;
    size_t length = view_cpuinfo(host, &state->shown, text, CPUINFO_MOST);
    if (length > 0)
        rewrite(state, VIEW_CPUINFO, text, length);
    kern_close_fd(&state->file[VIEW_CPUINFO]); /* once is enough */
}

static void rewrite_all(struct view_state *state)
{
    char text[32768];
    const struct view_figures *figures = &state->figures;
    rewrite(state, VIEW_MEMINFO, text, view_meminfo(&figures->memory, text, sizeof(text)));
    rewrite(state, VIEW_UPTIME, text, view_uptime(figures, state->cpu_count, text, sizeof(text)));
    rewrite(state, VIEW_LOADAVG, text, view_loadavg(figures, text, sizeof(text)));
    rewrite(state, VIEW_STAT, text, view_stat(figures, &state->shown, text, sizeof(text)));
}

void view_refresh(struct view_state *state)
{
    state->figures.uptime_us = view_now_us() - (uint64_t)state->start_us;
    read_memory(state);
    read_cpu(state);
    read_tasks(state);
    if (state->store >= 0)
        rewrite_all(state);
    state->beats++;
}

static void on_beat(kern_box *box, void *block, int32_t fd, uint32_t events)
{
    struct view_state *state = block;
    uint64_t beats = 0;
    (void)events;                           /* it can only have expired */
    (void)!read(fd, &beats, sizeof(beats)); /* clears it; a late beat makes up for none */
    if (!state->looked) {
        open_groups(box, state);
        view_fetch(box, state);
    }
    view_refresh(state);
}

int view_watch(kern_box *box, struct view_state *state, struct kern_error *err)
{
    static const struct itimerspec pace = {.it_interval.tv_sec = 1, .it_value.tv_sec = 1};
    state->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (state->timer < 0 || timerfd_settime(state->timer, 0, &pace, NULL) != 0)
        return kern_fail(err, errno, "cannot make the timer of the box's view");
    return kern_watch(box, state->timer, EPOLLIN, on_beat, err);
}

void view_unwatch(kern_box *box, struct view_state *state)
{
    int *const fds[] = {&state->store, &state->proc, &state->memory.dir, &state->cpu.dir, &state->pids.dir};
    view_fetch_end(box, state);
    if (state->timer >= 0)
        kern_unwatch(box, state->timer);
    kern_close_fd(&state->timer);
    for (int i = 0; i < VIEW_FILES; i++)
        kern_close_fd(&state->file[i]);
    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
        kern_close_fd(fds[i]);
}
