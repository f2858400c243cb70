/* kern's own directories, which no box may have as a volume or a root: they are known by what they are (device and inode), so
 * that neither a link nor a bind mount of them stands for something else. Runs in prepare, on the host. */
#include "box.h"

#include "cleanup.h"
#include "registry.h"
#include "resources.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Canonical even where the last part does not exist yet. */
static char *canonical_place(const char *path)
{
    char folder[PATH_MAX], resolved[PATH_MAX];
    if (realpath(path, resolved) != NULL)
        return strdup(resolved);
    (void)snprintf(folder, sizeof(folder), "%s", path); /* callers' buffers are no longer */
    char *slash = strrchr(folder, '/');
    if (slash == NULL)
        return NULL;
    *slash = '\0';
    if (realpath(folder[0] != '\0' ? folder : "/", resolved) == NULL)
        return NULL;
    char *place = NULL;
    return asprintf(&place, "%s/%s", strcmp(resolved, "/") == 0 ? "" : resolved, slash + 1) > 0 ? place
                                                                                                : NULL;
}

static void add_place(kern_box *box, size_t *used, const char *path)
{
    char *place = *used < CORE_OWN_PLACES ? canonical_place(path) : NULL;
    for (size_t i = 0; place != NULL && i < *used; i++)
        if (strcmp(place, box->own_state[i]) == 0) {
            free(place);
            return;
        }
    if (place != NULL)
        box->own_state[(*used)++] = place;
}

/* Also the data directory of a kern that was started without XDG_DATA_HOME, where there is one. */
static void add_usual_data(kern_box *box, size_t *used)
{
    char path[PATH_MAX];
    const char *home = getenv("HOME");
    int length =
        home != NULL && home[0] == '/' ? snprintf(path, sizeof(path), "%s/.local/share/kern", home) : -1;
    if (length > 0 && (size_t)length < sizeof(path) && access(path, F_OK) == 0)
        add_place(box, used, path);
    if (access("/var/lib/kern", F_OK) == 0)
        add_place(box, used, "/var/lib/kern");
}

bool core_has_host_directories(const kern_box *box)
{
    const kern_values *options = &box->options;
    return kern_get_count(options, "volume") + kern_get_count(options, "mount") > 0 ||
           kern_get_string(options, "rootfs") != NULL;
}

void core_find_own_state(kern_box *box)
{
    char path[PATH_MAX];
    size_t used = 0;
    int place = 0;
    if (core_data_directory(path, sizeof(path)) == 0)
        add_place(box, &used, path);
    for (unsigned choice = 0; place >= 0; choice++) {
        place = core_registry_place(choice, path, sizeof(path));
        if (place > 0)
            add_place(box, &used, path);
    }
    add_usual_data(box, &used);
}

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* A directory of kern's by what is in it: the data of another XDG_DATA_HOME. */
static bool holds_store(int folder)
{
    return faccessat(folder, "images/ingest", F_OK, AT_SYMLINK_NOFOLLOW) == 0 &&
           faccessat(folder, "images/refs", F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* The directory itself, or the one that a file stands in. */
static int open_folder(int fd)
{
    char link[40], path[PATH_MAX];
    int folder = openat(fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (folder >= 0)
        return folder;
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd); /* fits: a number is short */
    ssize_t length = readlink(link, path, sizeof(path) - 1);
    char *slash = length > 0 ? memrchr(path, '/', (size_t)length) : NULL;
    if (slash == NULL)
        return -1;
    slash[slash == path ? 1 : 0] = '\0';
    return open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

int32_t kern_is_own_state(const kern_box *box, int32_t fd)
{
    struct stat own[CORE_OWN_PLACES], here, before = {0};
    size_t count = 0;
    for (size_t i = 0; i < CORE_OWN_PLACES && box->own_state[i] != NULL; i++)
        if (stat(box->own_state[i], &own[count]) == 0)
            count++;
    auto_fd at = open_folder(fd);
    while (at >= 0 && fstat(at, &here) == 0 && !is_same(&here, &before)) {
        for (size_t i = 0; i < count; i++)
            if (is_same(&here, &own[i]))
                return 1;
        if (holds_store(at))
            return 1;
        before = here;
        int up = openat(at, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
        kern_close_fd(&at);
        at = up;
    }
    return 0;
}

int32_t kern_own_state_below(const kern_box *box, int32_t fd, uint32_t index, const char **ret_below)
{
    const char *own = index < CORE_OWN_PLACES ? box->own_state[index] : NULL;
    struct stat wanted, here;
    *ret_below = NULL;
    if (own == NULL)
        return 0;
    char path[PATH_MAX];
    for (const char *slash = own; fstat(fd, &wanted) == 0 && slash != NULL; slash = strchr(slash + 1, '/')) {
        size_t length = slash == own ? 1 : (size_t)(slash - own);
        (void)snprintf(path, sizeof(path), "%.*s", (int)length, own); /* canonical, so no longer */
        if (stat(path, &here) != 0 || !is_same(&here, &wanted))
            continue;
        /* A place that does not exist yet could be made by the box, and believed by the next kern: it is taken first. */
        if (mkdir(own, 0700) == 0 || errno == EEXIST)
            *ret_below = slash;
        break;
    }
    return 1;
}
