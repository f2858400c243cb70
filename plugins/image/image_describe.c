/* What is known of a file besides its bytes; see image_describe.h. Runs in a child that is root over the ids of the files. */
#include "image_describe.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/xattr.h>
#include <unistd.h>

static int copy_attributes(struct image_attributes *room, int from, int to, int capable)
{
    ssize_t size = flistxattr(from, room->names, sizeof(room->names));
    if (size < 0)
        return errno == ENOTSUP ? 0 : -errno;
    for (const char *name = room->names; name < room->names + size; name += strlen(name) + 1) {
        int is_capability = strcmp(name, "security.capability") == 0;
        int is_users = strncmp(name, "user.", 5) == 0 && strncmp(name, "user.overlay.", 13) != 0;
        if (!is_users && !(is_capability && capable))
            continue;
        ssize_t length = fgetxattr(from, name, room->value, sizeof(room->value));
        if (length < 0)
            return -errno;
        /* Capabilities cannot be given where all ids are the caller's; nor could they be used there. */
        if (fsetxattr(to, name, room->value, (size_t)length, 0) != 0 && !(is_capability && errno == EPERM))
            return -errno;
    }
    return 0;
}

/* In this order: a new owner takes away the setuid bit and capabilities. */
int image_describe(struct image_attributes *room, int from, int to, const struct stat *st, mode_t mode,
                   int capable)
{
    const struct timespec times[2] = {st->st_atim, st->st_mtim};
    if (fchown(to, st->st_uid, st->st_gid) != 0 || fchmod(to, mode) != 0)
        return -errno;
    int failed = copy_attributes(room, from, to, capable);
    return failed == 0 && futimens(to, times) != 0 ? -errno : failed;
}

void image_prepare_walk(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files); /* fewer are enough for most */
    }
    (void)umask(0); /* cannot fail */
}
