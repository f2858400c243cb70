/* Making room in the caller's own v2 group, where that was delegated (Delegate=yes of a service): a group with processes in
 * it cannot hand controllers on, so they all step down into a child of it, as systemd's rules for delegation foresee. It happens
 * once in the life of a service: kerns that are started later find themselves below. Runs in kern, in prepare. */
#include "cgroup_file.h"
#include "cgroup_state.h"

#include "kern/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#define CHILD      "supervisors"
#define ROUNDS_MAX 50

/* systemd says so on the directory, since version 251; a group that merely happens to be writable is somebody else's. */
static bool is_delegated(const char *own, int dir)
{
    char word[8] = "";
    return getxattr(own, "user.delegate", word, sizeof(word) - 1) == 1 && word[0] == '1' &&
           faccessat(dir, "cgroup.procs", W_OK, AT_EACCESS) == 0 &&
           faccessat(dir, "cgroup.subtree_control", W_OK, AT_EACCESS) == 0;
}

static int step_down(int dir, int child)
{
    for (int round = 0; round < ROUNDS_MAX; round++) {
        char text[1024], *rest = NULL;
        int result = cgroup_read(dir, "cgroup.procs", text, sizeof(text));
        if (result < 0 || text[0] == '\0')
            return result;
        text[strlen(text) + 1 == sizeof(text) ? strrchr(text, '\n') - text : (ptrdiff_t)strlen(text)] = '\0';
        for (char *pid = strtok_r(text, "\n", &rest); pid != NULL; pid = strtok_r(NULL, "\n", &rest)) {
            result = cgroup_write(child, "cgroup.procs", pid);
            if (result < 0 && result != -ESRCH)
                return result;
        }
    }
    return -EBUSY;
}

int cgroup_make_room(const struct cgroup_place *place)
{
    auto_fd dir = -1;
    int result = cgroup_open_group(place->own, &dir);
    if (result < 0)
        return result;
    if (!is_delegated(place->own, dir))
        return -EPERM;
    if (mkdirat(dir, CHILD, 0755) < 0 && errno != EEXIST)
        return -errno;
    auto_fd child = openat(dir, CHILD, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return child < 0 ? -errno : step_down(dir, child);
}
