/* Host resources that plugins which ship with kern ask for by name: id blocks, named volumes, kern's own directories, heavy
 * companion objects. Runs in prepare. */
#include "box.h"

#include "cleanup.h"
#include "plugin.h"
#include "registry.h"
#include "resources.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- Id blocks ---- */

/* 1879048192..2147483647 is left unused by distributions and by systemd ("Users, Groups, UIDs and GIDs on systemd Systems"):
 * 4096 blocks of 65536. */
#define BLOCK_FIRST UINT32_C(0x70000000)
#define BLOCK_SIZE  UINT32_C(65536)
#define BLOCK_COUNT 4096u

/* Byte N of one file stands for block N, locked as long as its box lives: the lock belongs to our open file, which the outer
 * init shares, and to nobody else. */
int kern_claim_ids(kern_box *box, uint32_t *ret_start, uint32_t *ret_count, struct kern_error *err)
{
    auto_fd fd = openat(box->run_fd, "id-blocks", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return kern_fail(err, errno, "cannot open the file of id blocks");
    /* Where to begin is only a guess at a free one: boxes started in a row have pids in a row. */
    unsigned first = (unsigned)getpid() % BLOCK_COUNT;
    for (unsigned i = 0; i < BLOCK_COUNT; i++) {
        unsigned number = (first + i) % BLOCK_COUNT;
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = number, .l_len = 1};
        if (fcntl(fd, F_OFD_SETLK, &lock) == 0) {
            box->ids_fd = steal_fd(&fd);
            *ret_start = BLOCK_FIRST + number * BLOCK_SIZE;
            *ret_count = BLOCK_SIZE;
            return 0;
        }
        if (errno != EAGAIN && errno != EACCES)
            return kern_fail(err, errno, "cannot lock id block %u", number);
    }
    return kern_fail(err, EAGAIN, "cannot find a free block of ids: %u boxes are running", BLOCK_COUNT);
}

/* ---- kern's own directories ---- */

int core_data_directory(char *ret_path, size_t size)
{
    const char *xdg = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    int used = xdg != NULL && xdg[0] == '/'     ? snprintf(ret_path, size, "%s/kern", xdg)
               : home != NULL && home[0] == '/' ? snprintf(ret_path, size, "%s/.local/share/kern", home)
                                                : snprintf(ret_path, size, "/var/lib/kern");
    return used > 0 && (size_t)used < size ? 0 : -ENAMETOOLONG;
}

int32_t kern_is_own_state(const kern_box *box, const char *path, uint32_t index, const char **ret_below)
{
    *ret_below = NULL;
    char *own = index < CORE_OWN_PLACES ? box->own_state[index] : NULL;
    if (own == NULL)
        return 0;
    size_t own_length = strlen(own), length = strlen(path);
    if (strncmp(path, own, own_length) == 0 && (path[own_length] == '\0' || path[own_length] == '/'))
        return 1;
    if (strncmp(own, path, length) == 0 && (own[length] == '/' || strcmp(path, "/") == 0))
        *ret_below = strcmp(path, "/") == 0 ? own : own + length;
    /* A place that does not exist yet could be made by the box, and believed by the next kern: it is taken first. */
    if (*ret_below != NULL && mkdir(own, 0700) != 0 && errno != EEXIST)
        *ret_below = NULL;
    return 0;
}

/* Canonical even where the last part does not exist yet: a volume's source is compared as such a path. */
static char *canonical_place(const char *path)
{
    char folder[PATH_MAX], resolved[PATH_MAX];
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

int core_find_own_state(kern_box *box)
{
    char path[PATH_MAX];
    size_t used = 0;
    int place = 0;
    for (unsigned choice = 0; place >= 0; choice++) {
        place = core_registry_place(choice, path, sizeof(path));
        if (place > 0 && used + 1 < CORE_OWN_PLACES)
            box->own_state[used++] = canonical_place(path);
    }
    if (core_data_directory(path, sizeof(path)) == 0)
        box->own_state[used++] = canonical_place(path);
    return 0;
}

int core_make_path(const char *path)
{
    char part[PATH_MAX + 96];
    (void)snprintf(part, sizeof(part), "%s", path); /* callers bound it */
    for (char *slash = strchr(part + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(part, 0700) != 0 && errno != EEXIST)
            return -errno;
        *slash = '/';
    }
    return mkdir(part, 0755) == 0 || errno == EEXIST ? 0 : -errno;
}

int kern_named_volume(kern_box *box, const char *name, int32_t *ret_fd, struct kern_error *err)
{
    (void)box; /* volumes belong to the user, not to a box */
    char base[PATH_MAX], path[PATH_MAX + 96];
    size_t length = strlen(name);
    bool valid = length > 0 && length <= 64 && name[0] != '.' && name[0] != '-' &&
                 strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") == length;
    if (!valid)
        return kern_refuse(
            err, 0, "cannot use volume \"%s\": neither a path (with a /) nor a name of [A-Za-z0-9_.-]", name);
    if (core_data_directory(base, sizeof(base)) != 0)
        return kern_refuse(err, ENAMETOOLONG, "cannot find the directory of named volumes");
    (void)snprintf(path, sizeof(path), "%s/volumes/%s", base, name); /* sized for it */
    int failed = core_make_path(path);
    int fd = failed == 0 ? open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
    if (fd < 0)
        return kern_refuse(err, failed != 0 ? -failed : errno, "cannot make the named volume \"%s\"", path);
    *ret_fd = fd;
    return 0;
}

/* ---- The size of a named volume ---- */

static int size_path(const char *name, char *ret_path, size_t size)
{
    char base[PATH_MAX];
    if (core_data_directory(base, sizeof(base)) != 0)
        return -ENAMETOOLONG;
    (void)snprintf(ret_path, size, "%s/volumes/.sizes/%s", base, name); /* sized for it */
    return 0;
}

int core_volume_set_size(const char *name, uint64_t bytes)
{
    char path[PATH_MAX + 96], folder[PATH_MAX + 96], text[32];
    int failed = size_path(name, path, sizeof(path));
    if (failed != 0)
        return failed;
    if (bytes == 0)
        return unlink(path) == 0 || errno == ENOENT ? 0 : -errno;
    (void)snprintf(folder, sizeof(folder), "%.*s", (int)(strrchr(path, '/') - path), path); /* as long */
    failed = core_make_path(folder);
    if (failed != 0)
        return failed;
    int length = snprintf(text, sizeof(text), "%" PRIu64 "\n", bytes);
    auto_fd fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    if (write(fd, text, (size_t)length) == length)
        return 0;
    (void)unlink(path); /* half a number would be another size */
    return -ENOSPC;
}

int kern_named_volume_size(kern_box *box, const char *name, uint64_t *ret_bytes, struct kern_error *err)
{
    (void)box; /* volumes belong to the user, not to a box */
    char path[PATH_MAX + 96], text[32] = {0}, *end = text;
    int failed = size_path(name, path, sizeof(path));
    auto_fd fd = failed == 0 ? open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC) : failed;
    *ret_bytes = 0;
    if (fd < 0 && failed == 0 && errno == ENOENT)
        return 0;
    if (fd >= 0 && read(fd, text, sizeof(text) - 1) > 0)
        *ret_bytes = strtoull(text, &end, 10);
    if (*ret_bytes > 0 && *end == '\n')
        return 0;
    kern_refuse(err, 0, "cannot read the size of volume '%s' in \"%s\"", name, path);
    kern_hint(err, "kern volume rm %s, or write its bytes and a newline there", name);
    return -EINVAL;
}

void *kern_companion(kern_box *box, const char *object, const char *function, struct kern_error *err)
{
    (void)box; /* an object is opened for the process */
    return core_plugin_companion(object, function, err);
}
