/* Landlock rules; see creds_landlock.h. Only rights to write are handled: reading and executing stay as they are.
 * Landlock does not cover changes of mode, owner, times or extended attributes (as of ABI 7). */
#include "creds_landlock.h"

#include "creds_fd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

/* Not in the header of Linux 6.1, which Debian 12 builds with. */
#ifndef LANDLOCK_ACCESS_FS_TRUNCATE
#define LANDLOCK_ACCESS_FS_TRUNCATE (1ULL << 14)
#endif

/* ABI 3 (Linux 6.2) is the first that stops truncate(): before it, a file that may not be written could still be
 * emptied, and the option would promise too much. */
#define ABI_NEEDED 3

#define FILE_RIGHTS (LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_TRUNCATE)
#define TREE_RIGHTS                                                                                \
    (FILE_RIGHTS | LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE |                \
     LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |    \
     LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_BLOCK | \
     LANDLOCK_ACCESS_FS_MAKE_SYM | LANDLOCK_ACCESS_FS_REFER)

/* Nothing written to these stays anywhere, and without them every "> /dev/null" of a script would fail. */
static const char *const harmless[] = {"dev/null",    "dev/zero", "dev/full", "dev/random",
                                       "dev/urandom", "dev/tty",  "dev/ptmx", "dev/pts"};

int creds_landlock_check(const kern_values *options, struct kern_error *err)
{
    for (uint32_t i = 0; i < kern_get_count(options, "landlock-rw"); i++) {
        const char *path = kern_get_item(options, "landlock-rw", i);
        if (path[0] != '/')
            return kern_refuse(err, 0, "--landlock-rw \"%s\": the path must be absolute in the box", path);
    }
    long abi = sys_call(SYS_landlock_create_ruleset, 0, 0, LANDLOCK_CREATE_RULESET_VERSION, 0, 0, 0);
    if (abi >= ABI_NEEDED)
        return 0;
    if (abi >= 0)
        return kern_fail(err, 0, "--landlock-rw needs Landlock ABI %d (Linux 6.2); this kernel has ABI %ld",
                         ABI_NEEDED, abi);
    int result = kern_fail(err, (int)-abi, "--landlock-rw: this kernel has no Landlock");
    if (abi == -EOPNOTSUPP)
        kern_hint(err, "it is built in but off: put landlock first in lsm= on the kernel's command line");
    return result;
}

static int kind_of(int fd, mode_t *ret_mode)
{
    struct statx what;
    long result = sys_call(SYS_statx, fd, SYS_P(""), AT_EMPTY_PATH, STATX_TYPE, SYS_P(&what), 0);
    if (result == 0)
        *ret_mode = what.stx_mode;
    return (int)result;
}

static int allow(int ruleset, int fd, uint64_t rights)
{
    const struct landlock_path_beneath_attr rule = {.allowed_access = rights, .parent_fd = fd};
    return (int)sys_call(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, SYS_P(&rule), 0, 0, 0);
}

static int allow_listed(int ruleset, int root, const char *path)
{
    auto_raw_fd fd = sys_open_beneath(root, path, O_PATH, 0, RESOLVE_IN_ROOT);
    if (fd < 0)
        return fd;
    mode_t mode = 0;
    int result = kind_of(fd, &mode);
    if (result < 0)
        return result;
    /* The kernel refuses a rule that gives a file the rights of a directory. */
    return allow(ruleset, fd, S_ISDIR(mode) ? TREE_RIGHTS : FILE_RIGHTS);
}

static int allow_harmless(int ruleset, int root, const char *path)
{
    auto_raw_fd fd = sys_open_beneath(root, path, O_PATH, 0, RESOLVE_IN_ROOT);
    if (fd < 0)
        return 0; /* a box need not have each of them */
    mode_t mode = 0;
    int result = kind_of(fd, &mode);
    if (result < 0 || S_ISREG(mode))
        return result; /* a plain file under that name would keep what is written */
    return allow(ruleset, fd, FILE_RIGHTS);
}

int creds_landlock_build(int root, const kern_values *options, int *ret_ruleset, struct kern_error *err)
{
    /* The one field of ABI 1 to 3; a longer struct of a newer header would only carry zeros. */
    const uint64_t handled = TREE_RIGHTS;
    auto_raw_fd ruleset =
        (int)sys_call(SYS_landlock_create_ruleset, SYS_P(&handled), (long)sizeof(handled), 0, 0, 0, 0);
    if (ruleset < 0)
        return kern_fail(err, -ruleset, "cannot make the Landlock rules");
    for (size_t i = 0; i < sizeof(harmless) / sizeof(harmless[0]); i++) {
        int result = allow_harmless(ruleset, root, harmless[i]);
        if (result < 0)
            return kern_fail(err, -result, "cannot add \"/%s\" to the Landlock rules", harmless[i]);
    }
    for (uint32_t i = 0; i < kern_get_count(options, "landlock-rw"); i++) {
        const char *path = kern_get_item(options, "landlock-rw", i);
        int result = allow_listed(ruleset, root, path);
        if (result < 0) {
            (void)kern_fail(err, -result, "cannot use --landlock-rw \"%s\"", path);
            if (result == -ENOENT)
                kern_hint(err, "the path must exist in the box: mount it, for example with --tmpfs %s", path);
            return result;
        }
    }
    *ret_ruleset = steal_fd(&ruleset);
    return 0;
}

/* ---- What a standard stream leads to ---- */

/* Opened to be read, but /proc/self/fd/0 would open it again for whoever may write the file: its owner is the box's root. */
static bool is_only_read(int fd)
{
    mode_t mode = 0;
    long flags = sys_call(SYS_fcntl, fd, F_GETFL, 0, 0, 0, 0);
    return flags >= 0 && (flags & O_ACCMODE) == O_RDONLY && kind_of(fd, &mode) == 0 &&
           (S_ISREG(mode) || S_ISBLK(mode));
}

/* Its path may be written as well: scripts do that with /dev/stdout. */
static int allow_stream(int ruleset, int fd)
{
    long flags = sys_call(SYS_fcntl, fd, F_GETFL, 0, 0, 0, 0);
    if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY)
        return 0;
    int result = allow(ruleset, fd, FILE_RIGHTS);
    return result == -EBADFD ? 0 : result; /* pipes and sockets are not held against rules */
}

int creds_landlock_streams(int root, int *ret_ruleset, struct kern_error *err)
{
    if (!is_only_read(0) && !is_only_read(1) && !is_only_read(2))
        return 0;
    if (sys_call(SYS_landlock_create_ruleset, 0, 0, LANDLOCK_CREATE_RULESET_VERSION, 0, 0, 0) < ABI_NEEDED)
        return 0; /* SECURITY.md says what that means */
    /* Moving files is forbidden by any rule that does not speak of it. */
    const uint64_t handled = FILE_RIGHTS | LANDLOCK_ACCESS_FS_REFER;
    auto_raw_fd ruleset =
        (int)sys_call(SYS_landlock_create_ruleset, SYS_P(&handled), (long)sizeof(handled), 0, 0, 0, 0);
    int result = ruleset < 0 ? ruleset : allow(ruleset, root, handled);
    for (int fd = 0; fd <= 2 && result == 0; fd++)
        result = allow_stream(ruleset, fd);
    if (result < 0)
        return kern_fail(err, -result, "cannot keep the file on a standard stream from being written");
    *ret_ruleset = steal_fd(&ruleset);
    return 0;
}

int creds_landlock_bind(int ruleset, struct kern_error *err)
{
    int result = (int)sys_call(SYS_landlock_restrict_self, ruleset, 0, 0, 0, 0, 0);
    if (result < 0)
        return kern_fail(err, -result, "cannot bind the box to the Landlock rules");
    return 0;
}
