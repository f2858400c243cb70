/* `kern diff`: what a box has written over its root, from the overlay's upper directory. The supervisor hands over that directory and
 * what is below it; this process reads names and kinds there and opens no file. It joins the user namespace of a box of an
 * ordinary user, because directories there may be closed to all but the box's ids. Host side. */
#include "cmd.h"

#include "cleanup.h"
#include "client.h"
#include "log.h"
#include "sys.h"

#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/xattr.h>

#define DEEPEST     200
#define LAYERS_MOST 128
#define ANSWER_S    30

struct diff {
    int upper;
    int layer[LAYERS_MOST]; /* what was there before, the topmost first */
    unsigned layers;
    char path[2 * PATH_MAX]; /* begins with a / */
    bool incomplete;
};

/* ---- What was there before ---- */

static bool is_whiteout(const struct stat *st)
{
    return S_ISCHR(st->st_mode) && st->st_rdev == makedev(0, 0);
}

/* A directory that hides what the layers below have in it. */
static bool is_opaque(int fd)
{
    static const char *const names[] = {"user.overlay.opaque", "trusted.overlay.opaque"};
    char path[40], value;
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd); /* fits */
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (getxattr(path, names[i], &value, 1) == 1 && value == 'y')
            return true;
    return false;
}

static int open_below(int layer, const char *path)
{
    return sys_open_beneath(layer, path, O_PATH | O_NOFOLLOW, 0, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
}

/* Whether something above `path` in the layer hides it in the layers further down. */
static bool is_cut_off(int layer, const char *path)
{
    char part[PATH_MAX];
    for (const char *slash = strchr(path, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        struct stat st;
        (void)snprintf(part, sizeof(part), "%.*s", (int)(slash - path), path); /* callers bound it */
        auto_fd fd = open_below(layer, part);
        if (fd < 0 || fstat(fd, &st) != 0)
            return false;
        if (!S_ISDIR(st.st_mode) || is_opaque(fd))
            return true;
    }
    return false;
}

/* `path` is relative. Returns the layer in which it stands, or -1. */
static int find_before(const struct diff *diff, const char *path)
{
    for (unsigned i = 0; i < diff->layers && strlen(path) < PATH_MAX; i++) {
        struct stat st;
        auto_fd fd = open_below(diff->layer[i], path);
        if (fd >= 0 && fstat(fd, &st) == 0)
            return is_whiteout(&st) ? -1 : (int)i;
        if (is_cut_off(diff->layer[i], path))
            return -1;
    }
    return -1;
}

/* ---- The walk ---- */

static void print_change(char kind, const char *path)
{
    char clean[4 * PATH_MAX];
    core_escape(path, clean, sizeof(clean));
    (void)printf("%c %s\n", kind, clean); /* checked when standard output is closed */
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int read_names(int fd, struct core_list *ret_names)
{
    int again = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    auto_dir dir = again >= 0 ? fdopendir(again) : NULL;
    if (dir == NULL)
        return -errno;
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
            core_list_add(ret_names, entry->d_name) != 0)
            return -ENOMEM;
    if (ret_names->count > 0)
        qsort(ret_names->item, ret_names->count, sizeof(char *), compare);
    return 0;
}

/* Extends the path by a name; false, and said, where it has no room. */
static bool descend(struct diff *diff, const char *name)
{
    size_t length = strlen(diff->path);
    if (length + strlen(name) + 2 > sizeof(diff->path)) {
        diff->incomplete = true;
        return false;
    }
    (void)snprintf(diff->path + length, sizeof(diff->path) - length, "/%s", name); /* fits */
    return true;
}

/* A directory that was made anew over one of the same name: what that held is deleted, unless it stands there again. */
static void list_hidden(struct diff *diff, int fd)
{
    size_t length = strlen(diff->path);
    for (unsigned i = 0; i < diff->layers; i++) {
        struct core_list names = {0};
        struct stat st;
        auto_fd before = open_below(diff->layer[i], diff->path + 1);
        if (before >= 0)
            (void)read_names(before, &names); /* what is no directory has none */
        for (size_t k = 0; k < names.count && descend(diff, names.item[k]); k++) {
            if (fstatat(fd, names.item[k], &st, AT_SYMLINK_NOFOLLOW) != 0 &&
                find_before(diff, diff->path + 1) == (int)i)
                print_change('D', diff->path);
            diff->path[length] = '\0';
        }
        core_list_clear(&names);
    }
}

static void walk(struct diff *diff, int fd, int depth);

static void show(struct diff *diff, int parent, const char *name, int depth)
{
    struct stat st;
    if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return; /* gone meanwhile */
    bool before = find_before(diff, diff->path + 1) >= 0;
    if (is_whiteout(&st)) {
        if (before)
            print_change('D', diff->path);
        return;
    }
    print_change(before ? 'C' : 'A', diff->path);
    if (!S_ISDIR(st.st_mode))
        return;
    auto_fd fd = openat(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return; /* as above */
    if (before && is_opaque(fd))
        list_hidden(diff, fd);
    walk(diff, fd, depth + 1);
}

static void walk(struct diff *diff, int fd, int depth)
{
    struct core_list names = {0};
    size_t length = strlen(diff->path);
    int failed = depth < DEEPEST ? read_names(fd, &names) : -ELOOP;
    if (failed != 0) {
        core_log_failure("cannot look into \"%s\": %s", diff->path, strerror(-failed));
        diff->incomplete = true;
    }
    for (size_t i = 0; i < names.count && descend(diff, names.item[i]); i++) {
        show(diff, fd, names.item[i], depth);
        diff->path[length] = '\0';
    }
    core_list_clear(&names);
}

/* ---- What the supervisor hands over ---- */

static int open_layers(struct diff *diff, int root, unsigned count, const char *folder,
                       struct kern_error *err)
{
    if (count == 0) {
        diff->layer[0] = fcntl(root, F_DUPFD_CLOEXEC, 3);
        diff->layers = 1;
        return diff->layer[0] >= 0 ? 0 : kern_refuse(err, errno, "cannot open the root of the box");
    }
    auto_fd links = open_below(root, folder);
    for (unsigned i = 0; i < count && i < LAYERS_MOST; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "%u", i); /* fits */
        diff->layer[i] = links >= 0 ? openat(links, name, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
        if (diff->layer[i] < 0)
            return kern_refuse(err, errno, "cannot open the layers of the image");
        diff->layers++;
    }
    return 0;
}

/* `joins`: both directories hold files of ids that only this namespace knows. Nobody in it may look into kern. */
static int join(int outer, bool joins, struct kern_error *err)
{
    if (!joins || geteuid() == 0)
        return 0;
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0 || setns(outer, CLONE_NEWUSER) != 0)
        return kern_refuse(err, errno, "cannot join the user namespace of the box");
    return 0;
}

static int ask(const char *name, char *ret_text, size_t size, int fds[3], struct kern_error *err)
{
    cleanup(core_record_clear) struct core_record record = {0};
    auto_fd client = -1;
    size_t count = 0;
    int failed = core_record_find(name, &record, err);
    if (failed == 0)
        failed = core_client_connect(&record, &client, err);
    if (failed != 0)
        return failed;
    struct timeval patience = {.tv_sec = ANSWER_S};
    (void)setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)); /* we wait longer then */
    long got = send(client, "changes", 7, MSG_NOSIGNAL) == 7
                   ? sys_receive_fds(client, ret_text, size - 1, fds, 3, &count, 0)
                   : -errno;
    if (got <= 0)
        return kern_refuse(err, got < 0 ? (int)-got : 0, "the supervisor of box '%s' does not answer", name);
    ret_text[got] = '\0';
    if (strncmp(ret_text, "error: ", 7) == 0)
        return kern_refuse(err, 0, "box '%s': %s", name, ret_text + 7);
    return count == 3 ? 0 : kern_refuse(err, 0, "box '%s' was started by another version of kern", name);
}

static int list_changes(const char *name, bool *ret_incomplete, struct kern_error *err)
{
    char text[160], folder[128] = "";
    int fds[3] = {-1, -1, -1}, joins = 0;
    unsigned count = 0;
    auto_free struct diff *diff = calloc(1, sizeof(*diff));
    int failed = diff == NULL ? kern_refuse(err, ENOMEM, "cannot list changes")
                              : ask(name, text, sizeof(text), fds, err);
    if (failed == 0 && sscanf(text, "changes %d %u %127s", &joins, &count, folder) < 2)
        failed = kern_refuse(err, 0, "box '%s' was started by another version of kern", name);
    if (failed == 0)
        failed = join(fds[2], joins != 0, err);
    if (failed == 0)
        failed = open_layers(diff, fds[1], count, folder, err);
    if (failed == 0) {
        walk(diff, fds[0], 0);
        *ret_incomplete = diff->incomplete;
    }
    for (int i = 0; i < 3; i++)
        kern_close_fd(&fds[i]);
    return failed; /* the layers' descriptors end with the process */
}

int core_cmd_diff(struct core_call *call, struct kern_error *err)
{
    bool incomplete = false;
    int failed = list_changes(call->word[0], &incomplete, err);
    if (failed != 0)
        return failed;
    return core_log_close_stdout() != 0 || incomplete ? 1 : 0;
}
