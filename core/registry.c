/* Living boxes and what dead ones left behind; see registry.h. Host side.
 *
 * RUN/boxes/NAME   state of a box, "key value" lines, locked while any process of its supervision lives
 * RUN/sockets/NAME  its control socket, once it has lived for a moment
 * RUN/exited/NAME   how a detached box of that name ended, for a day; RUN/logs/NAME/ what it printed
 * RUN/swept         its time: when the last whole sweep began
 * RUN/id-blocks     byte N is locked: the block of host ids that a box of real root has */
#include "registry.h"

#include "cgroup_sweep.h"
#include "cleanup.h"
#include "records.h"
#include "rootfs_project.h"
#include "scratch.h"
#include "supervise.h"
#include "sys.h"
#include "vgpio/vgpio_sweep.h"

#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>

/* ---- The run directory ---- */

static int check_private(int fd, const char *path, struct kern_error *err)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return kern_fail(err, errno, "cannot look at run directory \"%s\"", path);
    if (st.st_uid == geteuid() && (st.st_mode & 077) == 0)
        return 0;
    kern_refuse(err, 0, "cannot use run directory \"%s\": %s", path,
                st.st_uid != geteuid() ? "it belongs to another user" : "others may look into it");
    kern_hint(err,
              st.st_uid != geteuid() ? "remove '%s', or set XDG_RUNTIME_DIR to a directory of yours"
                                     : "chmod 700 '%s'",
              path);
    return -EPERM;
}

static int open_run_directory(const char *path, int *ret_fd, struct kern_error *err)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) {
        if (mkdir(path, 0700) != 0 && errno != EEXIST)
            return kern_fail(err, errno, "cannot make run directory \"%s\"", path);
        fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    }
    if (fd < 0) {
        int code = errno;
        kern_fail(err, code, "cannot open run directory \"%s\"", path);
        kern_hint(err, "remove '%s', or set XDG_RUNTIME_DIR to a directory of yours", path);
        return -code;
    }
    auto_fd run = fd;
    int failed = check_private(run, path, err);
    if (failed == 0)
        *ret_fd = steal_fd(&run);
    return failed;
}

#define PLACES CORE_RUN_PLACES

/* The places of the contract, in order; the first whose parent exists is ours. */
static int run_directory_at(unsigned choice, char *ret_path, size_t size)
{
    const char *xdg = getenv("XDG_RUNTIME_DIR");
    int used = -1;
    if (geteuid() == 0)
        used = choice == 0 ? snprintf(ret_path, size, "/run/kern") : -1;
    else if (choice == 0)
        used = xdg != NULL && xdg[0] == '/' ? snprintf(ret_path, size, "%s/kern", xdg) : 0;
    else if (choice == 1)
        used = snprintf(ret_path, size, "/run/user/%u/kern", geteuid());
    else if (choice == 2)
        used = snprintf(ret_path, size, "/tmp/kern-%u", geteuid());
    return used < 0 ? -1 : used > 0 && (size_t)used < size ? 1 : 0;
}

static bool parent_is_usable(const char *path)
{
    char parent[256];
    (void)snprintf(parent, sizeof(parent), "%s", path); /* callers pass paths shorter than this */
    char *slash = strrchr(parent, '/');
    *slash = '\0';
    return access(parent[0] != '\0' ? parent : "/", W_OK | X_OK) == 0;
}

static int ensure_directory(int run, const char *name, struct kern_error *err)
{
    if (mkdirat(run, name, 0700) == 0 || errno == EEXIST)
        return 0;
    return kern_fail(err, errno, "cannot make \"%s\" in the run directory", name);
}

int core_registry_open(kern_box *box, struct kern_error *err)
{
    char path[96];
    for (unsigned choice = 0;; choice++) {
        int usable = run_directory_at(choice, path, sizeof(path));
        if (usable < 0)
            return kern_refuse(err, 0, "cannot find a place for a run directory");
        if (usable > 0 && parent_is_usable(path))
            break;
    }
    auto_fd run = -1;
    int failed = open_run_directory(path, &run, err);
    struct stat boxes;
    if (failed == 0 && fstatat(run, "boxes", &boxes, AT_SYMLINK_NOFOLLOW) != 0)
        failed = ensure_directory(run, "boxes", err);
    else if (failed == 0 && (!S_ISDIR(boxes.st_mode) || boxes.st_uid != geteuid()))
        failed = kern_refuse(err, 0, "cannot use run directory \"%s\": \"boxes\" in it is not kern's", path);
    if (failed != 0)
        return failed;
    (void)snprintf(box->run_path, sizeof(box->run_path), "%s", path); /* sized for it */
    box->run_fd = steal_fd(&run);
    return 0;
}

/* The other places of this user, where boxes of a differently started session may be. */
static int open_other(const kern_box *box, unsigned choice)
{
    char path[96];
    if (run_directory_at(choice, path, sizeof(path)) <= 0 || strcmp(path, box->run_path) == 0)
        return -1;
    auto_fd fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct kern_error ignored = {0};
    return fd >= 0 && check_private(fd, path, &ignored) == 0 ? steal_fd(&fd) : -1;
}

/* ---- Claiming a name ---- */

#define LOOKS_FOR_AN_END 400 /* two seconds of 5 ms each */

static void state_path(const char *name, char *ret_path, size_t size)
{
    (void)snprintf(ret_path, size, "boxes/%.73s", name); /* names are shorter */
}

/* Locks the state file of `name`. The file may be removed by its last owner between our open and our lock: then the lock is
 * on a file that nobody else will see, and we try again. Returns 1 with the descriptor, 0 when a living box has it. */
static int lock_state(int run, const char *name, bool create, int *ret_fd)
{
    char path[CORE_NAME_MAX + 16];
    state_path(name, path, sizeof(path));
    for (int attempt = 0; attempt < 100; attempt++) {
        auto_fd fd =
            openat(run, path, O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW | (create ? O_CREAT : 0), 0600);
        if (fd < 0)
            return -errno;
        if (flock(fd, LOCK_EX | LOCK_NB) != 0)
            return errno == EWOULDBLOCK ? 0 : -errno;
        struct stat held, named;
        if (fstat(fd, &held) == 0 && fstatat(run, path, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
            held.st_ino == named.st_ino) {
            *ret_fd = steal_fd(&fd);
            return 1;
        }
    }
    return -EAGAIN;
}

struct sweep { /* who is told instead of anything being removed; no `tell`: all is removed */
    core_lost_fn tell;
    void *context;
    int64_t start_ns; /* a sweep that began since then is as good; 0: none is */
    bool waits;       /* for another kern that is sweeping, and looks again; else that one does it all */
};

static bool sweep_state(const struct sweep *sweep, int run, const char *name, int fd);

static int refuse_taken(const kern_box *box, struct kern_error *err)
{
    kern_refuse(err, 0, "cannot start box \"%s\": a box of that name is running", box->name);
    kern_hint(err, "choose another name, or leave it out");
    return -EEXIST;
}

/* Whether the kern that wrote the state file of `name` has ended: what still holds its lock then is about to go. */
static bool owner_has_ended(int run, const char *name)
{
    char path[CORE_NAME_MAX + 16], text[32] = "";
    state_path(name, path, sizeof(path));
    auto_fd fd = openat(run, path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return errno == ENOENT;
    if (pread(fd, text, sizeof(text) - 1, 0) <= 0 || strncmp(text, "pid ", 4) != 0)
        return false;
    auto_fd owner = (int)sys_call(SYS_pidfd_open, atoi(text + 4), 0, 0, 0, 0, 0);
    struct pollfd end = {.fd = owner, .events = POLLIN};
    return owner == -ESRCH || (owner >= 0 && poll(&end, 1, 0) == 1);
}

/* As lock_state(). The processes of a box whose kern was killed need a moment to follow it, and until then they hold its name. */
static int lock_own_state(int run, const char *name, int *ret_fd)
{
    static const struct timespec pause = {.tv_nsec = 5000000};
    for (int look = 0; look < LOOKS_FOR_AN_END; look++) {
        int got = lock_state(run, name, true, ret_fd);
        if (got != 0 || !owner_has_ended(run, name))
            return got;
        (void)nanosleep(&pause, NULL); /* a shorter pause only looks sooner */
    }
    return 0;
}

static int claim(kern_box *box, struct kern_error *err)
{
    auto_fd fd = -1;
    int got = lock_own_state(box->run_fd, box->name, &fd);
    if (got < 0)
        return kern_fail(err, -got, "cannot lock the state of box \"%s\"", box->name);
    if (got == 0)
        return refuse_taken(box, err);
    struct stat st;
    if (fstat(fd, &st) == 0 && st.st_size > 0) {
        (void)sweep_state(&(struct sweep){0}, box->run_fd, box->name,
                          fd); /* a dead box of this name: its remains go first */
        if (ftruncate(fd, 0) != 0)
            return kern_fail(err, errno, "cannot reset the state of box \"%s\"", box->name);
    }
    /* A second lock, which others can ask about without taking it: who only looks must not stand in anybody's way. */
    struct flock mine = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(fd, F_OFD_SETLK, &mine) != 0)
        return kern_fail(err, errno, "cannot lock the state of box \"%s\"", box->name);
    box->state_fd = steal_fd(&fd);
    return 0;
}

/* One user has one registry, whatever way they logged in: a name counts in all places. */
static int check_elsewhere(const kern_box *box, struct kern_error *err)
{
    for (unsigned choice = 0; choice < PLACES; choice++) {
        auto_fd other = open_other(box, choice);
        auto_fd fd = -1;
        if (other >= 0 && lock_state(other, box->name, false, &fd) == 0)
            return refuse_taken(box, err);
    }
    return 0;
}

int core_registry_claim(kern_box *box, struct kern_error *err)
{
    if (!box->named) {
        uint32_t random = 0;
        if (getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random))
            return kern_fail(err, errno, "cannot make up a name");
        (void)snprintf(box->name, sizeof(box->name), "%s-%d-%04x", box->bare ? "run" : "box", (int)getpid(),
                       random & 0xffff); /* sized for it */
    }
    int failed = claim(box, err);
    if (failed == 0 && box->named) /* made-up names hold the pid: nobody else's can be the same */
        failed = check_elsewhere(box, err);
    if (failed != 0)
        return failed;
    (void)snprintf(box->id, sizeof(box->id), "%s.%d", box->name, (int)getpid()); /* sized for it */
    char pid[16];
    (void)snprintf(pid, sizeof(pid), "%d", (int)getpid()); /* sized for it */
    return core_registry_record(box, "pid", pid, err);
}

int core_registry_renew(kern_box *box, struct kern_error *err)
{
    char pid[16];
    (void)snprintf(pid, sizeof(pid), "%d", (int)getpid()); /* sized for it */
    if (ftruncate(box->state_fd, 0) != 0 || lseek(box->state_fd, 0, SEEK_SET) != 0)
        return kern_fail(err, errno, "cannot reset the state of box \"%s\"", box->name);
    return core_registry_record(box, "pid", pid, err);
}

int core_registry_record(kern_box *box, const char *key, const char *value, struct kern_error *err)
{
    char line[512];
    int length = snprintf(line, sizeof(line), "%s %s\n", key, value);
    if (length < 0 || (size_t)length >= sizeof(line))
        return kern_fail(err, ENAMETOOLONG, "cannot record %s \"%s\"", key, value);
    if (write(box->state_fd, line, (size_t)length) != length)
        return kern_fail(err, errno != 0 ? errno : EIO, "cannot record %s \"%s\" in the state of box \"%s\"",
                         key, value, box->name);
    return 0;
}

void core_registry_release(kern_box *box)
{
    if (box->state_fd < 0)
        return;
    char path[CORE_NAME_MAX + 16];
    state_path(box->name, path, sizeof(path));
    if (unlinkat(box->run_fd, path, 0) != 0)
        (void)!ftruncate(box->state_fd, 0); /* nothing is left to sweep, whatever becomes of the file */
    kern_close_fd(&box->state_fd);
}

/* ---- The sweep ---- */

/* A box's groups carry its name and the pid of the kern that made them: whatever else a file says is not ours to remove. */
static bool is_group_of(const char *path, const char *name, const char *pid)
{
    char expected[CORE_NAME_MAX + 48];
    const char *slash = strrchr(path, '/');
    (void)snprintf(expected, sizeof(expected), CGROUP_NAME_PREFIX "%s.%s", name,
                   pid); /* names and numbers are bounded */
    return slash != NULL && strcmp(slash + 1, expected) == 0;
}

static void tell_line(const struct sweep *sweep, const char *name, const char *pid, const char *key,
                      const char *value)
{
    char mine[CORE_NAME_MAX + 32];
    (void)snprintf(mine, sizeof(mine), "%s.%s", name, pid); /* names and numbers are bounded */
    if (strcmp(key, "group") == 0 && is_group_of(value, name, pid) && access(value, F_OK) == 0)
        sweep->tell(sweep->context, name, "group", value, 0);
    else if (strcmp(key, "scratch") == 0 && strcmp(value, mine) == 0)
        sweep->tell(sweep->context, name, "scratch", value, core_scratch_size(value));
    else if (strcmp(key, "device") == 0 && vgpio_sweep_shows(value) != NULL)
        sweep->tell(sweep->context, name, "device", vgpio_sweep_shows(value), 0);
    else if (strcmp(key, "project") == 0)
        sweep->tell(sweep->context, name, "quota", value + strcspn(value, " "), 0);
}

static void sweep_line(int run, const char *name, const char *pid, const char *key, const char *value)
{
    char mine[CORE_NAME_MAX + 32];
    (void)snprintf(mine, sizeof(mine), "sockets/%s", name); /* names are bounded */
    if (strcmp(key, "group") == 0 && is_group_of(value, name, pid))
        (void)cgroup_sweep(value); /* judges the path itself; what is busy stays for the next run */
    else if (strcmp(key, "socket") == 0 && strcmp(value, mine) == 0)
        (void)unlinkat(run, value, 0); /* gone already is as good */
    else if (strcmp(key, "project") == 0)
        rootfs_project_sweep(value, (pid_t)atoi(pid)); /* judges it itself */
    else if (strcmp(key, "device") == 0)
        vgpio_sweep(value);                                 /* looks whether it is still the box's */
    (void)snprintf(mine, sizeof(mine), "%s.%s", name, pid); /* names and numbers are bounded */
    if (strcmp(key, "scratch") == 0 && strcmp(value, mine) == 0)
        core_scratch_sweep(value);
    size_t length = strlen(mine);
    if (strcmp(key, "node") == 0 && strncmp(value, mine, length) == 0 && value[length] == '.' &&
        strchr(value, '/') == NULL)
        (void)unlinkat(run, value, 0); /* gone already, as a rule */
}

/* Returns false for a file that no kern wrote: it is left alone. */
static bool sweep_state(const struct sweep *sweep, int run, const char *name, int fd)
{
    char pid[16];
    auto_free char *text = malloc(CORE_RECORD_MOST);
    ssize_t length = text != NULL ? pread(fd, text, CORE_RECORD_MOST - 1, 0) : -1;
    if (length < 0)
        return false;
    text[length] = '\0';
    if (length == 0)
        return true; /* a kern that was killed at once */
    size_t digits = strncmp(text, "pid ", 4) == 0 ? strspn(text + 4, "0123456789") : 0;
    if (digits == 0 || digits >= sizeof(pid) || text[4 + digits] != '\n')
        return false;
    memcpy(pid, text + 4, digits);
    pid[digits] = '\0';
    if (sweep->tell != NULL)
        sweep->tell(sweep->context, name, "record", pid, 0);
    else
        core_record_lost(run, name, text);
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        char *space = strchr(line, ' ');
        if (space == NULL)
            continue;
        *space = '\0';
        if (sweep->tell != NULL)
            tell_line(sweep, name, pid, line, space + 1);
        else
            sweep_line(run, name, pid, line, space + 1);
    }
    return true;
}

/* Never through a link, and only what is ours alone: another may have made it, in a /tmp that a box could write to. */
int core_registry_folder(int run_fd, const char *name)
{
    auto_fd boxes = openat(run_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct kern_error ignored = {0};
    return boxes >= 0 && check_private(boxes, name, &ignored) == 0 ? steal_fd(&boxes) : -1;
}

/* Of boxes that start together one sweeps for all: a sweep that began after this box's start saw whatever this one would see.
 * The stamp is on the monotonic clock, which nobody sets; of another boot it lies outside. */
static bool was_swept_since(int run_fd, int64_t start_ns)
{
    struct stat st;
    if (start_ns == 0 || fstatat(run_fd, "swept", &st, AT_SYMLINK_NOFOLLOW) != 0)
        return false;
    int64_t began = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    return began >= start_ns && began <= core_now_ns();
}

static void note_sweep(int run_fd, int64_t began)
{
    auto_fd fd = openat(run_fd, "swept", O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    const struct timespec at = {.tv_sec = began / 1000000000, .tv_nsec = began % 1000000000};
    if (fd >= 0)
        (void)futimens(fd, (const struct timespec[]){at, at}); /* unstamped, the next box sweeps, too */
}

static void sweep_one(const struct sweep *sweep, int run_fd)
{
    if (was_swept_since(run_fd, sweep->start_ns))
        return;
    int64_t began = core_now_ns();
    auto_fd boxes = core_registry_folder(run_fd, "boxes");
    if (boxes < 0 || flock(boxes, LOCK_EX | (sweep->waits ? 0 : LOCK_NB)) != 0)
        return;
    int copy = fcntl(boxes, F_DUPFD_CLOEXEC, 3);
    auto_dir dir = copy >= 0 ? fdopendir(copy) : NULL;
    if (dir == NULL)
        return;
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        if (entry->d_name[0] == '.' || entry->d_type != DT_REG || strlen(entry->d_name) > CORE_NAME_MAX)
            continue;
        auto_fd fd = -1;
        if (lock_state(run_fd, entry->d_name, false, &fd) != 1)
            continue;
        if (!sweep_state(sweep, run_fd, entry->d_name, fd) || sweep->tell != NULL)
            continue;
        char path[CORE_NAME_MAX + 16];
        state_path(entry->d_name, path, sizeof(path));
        (void)unlinkat(run_fd, path, 0); /* we hold its lock; a failure leaves it for the next run */
    }
    if (sweep->tell != NULL)
        return;
    core_records_forget(run_fd);
    note_sweep(run_fd, began);
}

static void sweep_for(const kern_box *box, const struct sweep *sweep)
{
    sweep_one(sweep, box->run_fd);
    for (unsigned choice = 0; choice < PLACES; choice++) {
        auto_fd fd = open_other(box, choice);
        if (fd >= 0)
            sweep_one(sweep, fd);
    }
}

void core_registry_sweep(const kern_box *box)
{
    const struct sweep sweep = {.start_ns = box->start_ns};
    sweep_for(box, &sweep);
}

void core_registry_sweep_now(const kern_box *box)
{
    const struct sweep sweep = {.waits = true};
    sweep_for(box, &sweep);
}

int core_registry_place(unsigned choice, char *ret_path, size_t size)
{
    return run_directory_at(choice, ret_path, size);
}

int core_registry_run(unsigned choice)
{
    char path[96];
    if (run_directory_at(choice, path, sizeof(path)) <= 0)
        return -1;
    auto_fd fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct kern_error ignored = {0};
    return fd >= 0 && check_private(fd, path, &ignored) == 0 ? steal_fd(&fd) : -1;
}

static void sweep_places(const struct sweep *sweep)
{
    for (unsigned choice = 0; choice < PLACES; choice++) {
        auto_fd run = core_registry_run(choice);
        if (run >= 0)
            sweep_one(sweep, run);
    }
}

void core_registry_sweep_all(void)
{
    sweep_places(&(struct sweep){0});
}

void core_registry_list_lost(core_lost_fn tell, void *context)
{
    sweep_places(&(struct sweep){.tell = tell, .context = context});
}
