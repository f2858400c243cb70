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
    int64_t left_ms;  /* how long it waits for groups to empty, all together */
    bool waits;       /* for another kern that is sweeping, and looks again; else that one does it all */
    bool own;         /* what this very kern made */
};

/* While a box runs nobody is to wait for the dead of others; a kern that only sweeps may. */
#define BESIDE_A_BOX_MS 100
#define FOR_ITSELF_MS   (3 * CGROUP_SWEEP_MS)

static bool sweep_state(struct sweep *sweep, int run, const char *name, int fd, char **ret_left);
static bool has_groups(const kern_box *box);

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

/* The state starts anew, with what could not be removed yet: a record is all that leads to it. Written over the old lines, so
 * that no moment is without. */
static int start_state(kern_box *box, int fd, const char *left, struct kern_error *err)
{
    char *made = NULL;
    int length = asprintf(&made, "pid %d\n%s", (int)getpid(), left != NULL ? left : "");
    if (length < 0)
        return kern_fail(err, ENOMEM, "cannot record the box \"%s\"", box->name);
    auto_free char *text = made;
    if (pwrite(fd, text, (size_t)length, 0) != length || ftruncate(fd, length) != 0 ||
        lseek(fd, length, SEEK_SET) != length)
        return kern_fail(err, errno != 0 ? errno : EIO, "cannot reset the state of box \"%s\"", box->name);
    return 0;
}

static int claim(kern_box *box, struct kern_error *err)
{
    auto_free char *left = NULL;
    auto_fd fd = -1;
    int got = lock_own_state(box->run_fd, box->name, &fd);
    if (got < 0)
        return kern_fail(err, -got, "cannot lock the state of box \"%s\"", box->name);
    if (got == 0)
        return refuse_taken(box, err);
    (void)sweep_state(&(struct sweep){.left_ms = CGROUP_SWEEP_MS}, box->run_fd, box->name, fd,
                      &left); /* of a dead box of this name the remains go first */
    /* A second lock, which others can ask about without taking it: who only looks must not stand in anybody's way. */
    struct flock mine = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(fd, F_OFD_SETLK, &mine) != 0)
        return kern_fail(err, errno, "cannot lock the state of box \"%s\"", box->name);
    int failed = start_state(box, fd, left, err);
    if (failed == 0)
        box->state_fd = steal_fd(&fd);
    return failed;
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
    return 0;
}

/* What the hooks of this kern's own box left, as a rule nothing: a group may be busy with a process that does not end, and a hook
 * that was torn off has removed nothing at all. */
static void settle(kern_box *box, char **ret_left)
{
    struct sweep own = {.own = true, .left_ms = box->torn ? CGROUP_SWEEP_MS : 0};
    if (box->torn || has_groups(box))
        (void)sweep_state(&own, box->run_fd, box->name, box->state_fd, ret_left);
    box->torn = false;
}

int core_registry_renew(kern_box *box, struct kern_error *err)
{
    auto_free char *left = NULL;
    settle(box, &left);
    return start_state(box, box->state_fd, left, err);
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
    auto_free char *left = NULL;
    char path[CORE_NAME_MAX + 16];
    state_path(box->name, path, sizeof(path));
    settle(box, &left);
    if (left == NULL && unlinkat(box->run_fd, path, 0) != 0)
        (void)!ftruncate(box->state_fd, 0); /* nothing is left to sweep, whatever becomes of the file */
    kern_close_fd(&box->state_fd);
}

/* ---- The sweep ---- */

/* A box's groups carry its name and the pid of the kern that made them, or of an earlier one whose group would not empty:
 * whatever else a file says is not ours to remove. */
static bool is_group_of(const char *path, const char *name)
{
    char expected[CORE_NAME_MAX + 16];
    const char *slash = strrchr(path, '/');
    int length = snprintf(expected, sizeof(expected), CGROUP_NAME_PREFIX "%s.", name); /* names are bounded */
    if (slash == NULL || strncmp(slash + 1, expected, (size_t)length) != 0)
        return false;
    size_t digits = strspn(slash + 1 + length, "0123456789");
    return digits > 0 && slash[1 + length + (int)digits] == '\0';
}

static void tell_line(const struct sweep *sweep, const char *name, const char *pid, const char *key,
                      const char *value)
{
    char mine[CORE_NAME_MAX + 32];
    (void)snprintf(mine, sizeof(mine), "%s.%s", name, pid); /* names and numbers are bounded */
    if (strcmp(key, "group") == 0 && is_group_of(value, name) && access(value, F_OK) == 0)
        sweep->tell(sweep->context, name, "group", value, 0);
    else if (strcmp(key, "scratch") == 0 && strcmp(value, mine) == 0)
        sweep->tell(sweep->context, name, "scratch", value, core_scratch_size(value));
    else if (strcmp(key, "device") == 0 && vgpio_sweep_shows(value) != NULL)
        sweep->tell(sweep->context, name, "device", vgpio_sweep_shows(value), 0);
    else if (strcmp(key, "project") == 0)
        sweep->tell(sweep->context, name, "quota", value + strcspn(value, " "), 0);
}

/* Judges the path itself. Whatever holds a group may let go of it later, but that it is none at all. */
static void sweep_group(struct sweep *sweep, const char *path, char **left)
{
    int result = cgroup_sweep_within(path, &sweep->left_ms);
    if (result != -EBUSY && result != -EACCES && result != -EPERM && result != -EROFS)
        return;
    char *more = NULL;
    if (asprintf(&more, "%sgroup %s\n", *left != NULL ? *left : "", path) < 0)
        return;
    free(*left);
    *left = more;
}

static void sweep_line(int run, const char *name, const char *pid, const char *key, const char *value)
{
    char mine[CORE_NAME_MAX + 32];
    (void)snprintf(mine, sizeof(mine), "sockets/%s", name); /* names are bounded */
    if (strcmp(key, "socket") == 0 && strcmp(value, mine) == 0)
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

static char *read_state(int fd)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return NULL;
    size_t size = (size_t)st.st_size < CORE_RECORD_MOST ? (size_t)st.st_size : CORE_RECORD_MOST - 1;
    auto_free char *text = malloc(size + 1);
    ssize_t length = text != NULL ? pread(fd, text, size, 0) : -1;
    if (length < 0)
        return NULL;
    text[length] = '\0';
    return steal_ptr(text);
}

#define SWEPT_BEFORE "\nswept 1\n"

/* Returns false for a file that no kern wrote: it is left alone. What could not be removed is in *ret_left, as lines of a state
 * file. */
static bool sweep_state(struct sweep *sweep, int run, const char *name, int fd, char **ret_left)
{
    char pid[16];
    auto_free char *text = read_state(fd);
    if (text == NULL)
        return false;
    if (text[0] == '\0')
        return true; /* a kern that was killed at once */
    size_t digits = strncmp(text, "pid ", 4) == 0 ? strspn(text + 4, "0123456789") : 0;
    if (digits == 0 || digits >= sizeof(pid) || text[4 + digits] != '\n')
        return false;
    memcpy(pid, text + 4, digits);
    pid[digits] = '\0';
    if (sweep->tell != NULL)
        sweep->tell(sweep->context, name, "record", pid, 0);
    else if (!sweep->own && strstr(text, SWEPT_BEFORE) == NULL)
        core_record_lost(run, name, text);
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        char *space = strchr(line, ' ');
        if (space == NULL)
            continue;
        *space = '\0';
        if (sweep->tell != NULL)
            tell_line(sweep, name, pid, line, space + 1);
        else if (strcmp(line, "group") == 0 && is_group_of(space + 1, name))
            sweep_group(sweep, space + 1, ret_left);
        else
            sweep_line(run, name, pid, line, space + 1);
    }
    return true;
}

static bool has_groups(const kern_box *box)
{
    auto_free char *text = read_state(box->state_fd);
    char *rest = NULL;
    for (char *line = text != NULL ? strtok_r(text, "\n", &rest) : NULL; line != NULL;
         line = strtok_r(NULL, "\n", &rest))
        if (strncmp(line, "group ", 6) == 0 && access(line + 6, F_OK) == 0)
            return true;
    return false;
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

/* The box is no longer a record that nobody looked at; what is left of it stays written down. */
static void keep_state(int fd)
{
    auto_free char *text = read_state(fd);
    const char *mark = &SWEPT_BEFORE[1];
    if (text != NULL && strstr(text, SWEPT_BEFORE) == NULL)
        (void)!pwrite(fd, mark, strlen(mark), (off_t)strlen(text)); /* else its row is written once more */
}

static void sweep_one(struct sweep *sweep, int run_fd)
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
        auto_free char *left = NULL;
        if (!sweep_state(sweep, run_fd, entry->d_name, fd, &left) || sweep->tell != NULL)
            continue;
        char path[CORE_NAME_MAX + 16];
        state_path(entry->d_name, path, sizeof(path));
        if (left != NULL)
            keep_state(fd);
        else
            (void)unlinkat(run_fd, path, 0); /* we hold its lock; a failure leaves it for the next run */
    }
    if (sweep->tell != NULL)
        return;
    core_records_forget(run_fd);
    note_sweep(run_fd, began);
}

static void sweep_for(const kern_box *box, struct sweep *sweep)
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
    struct sweep sweep = {.start_ns = box->start_ns, .left_ms = BESIDE_A_BOX_MS};
    sweep_for(box, &sweep);
}

void core_registry_sweep_now(const kern_box *box)
{
    struct sweep sweep = {.waits = true, .left_ms = FOR_ITSELF_MS};
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

static void sweep_places(struct sweep *sweep)
{
    for (unsigned choice = 0; choice < PLACES; choice++) {
        auto_fd run = core_registry_run(choice);
        if (run >= 0)
            sweep_one(sweep, run);
    }
}

void core_registry_sweep_all(void)
{
    sweep_places(&(struct sweep){.left_ms = FOR_ITSELF_MS});
}

void core_registry_list_lost(core_lost_fn tell, void *context)
{
    sweep_places(&(struct sweep){.tell = tell, .context = context});
}
