/* Host resources that plugins which ship with kern ask for by name: id blocks, the data directory, heavy companion objects. Runs in prepare. */
#include "box.h"

#include "cleanup.h"
#include "plugin.h"
#include "resources.h"

#include <fcntl.h>
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

void *kern_companion(kern_box *box, const char *object, const char *function, struct kern_error *err)
{
    (void)box; /* an object is opened for the process */
    return core_plugin_companion(object, function, err);
}
