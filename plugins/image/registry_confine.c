/* The worker's cage; see registry_confine.h. Runs in the worker, once, before the first connection. */
#include "registry_confine.h"

#include "kern/cleanup.h"
#include "kern/foundation.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define NOBODY 65534u

/* Where resolvers, their plugins and certificates are kept. */
static const char *const readable[] = {"/etc",
                                       "/usr",
                                       "/lib",
                                       "/lib64",
                                       "/run/systemd/resolve",
                                       "/run/resolvconf",
                                       "/run/NetworkManager",
                                       "/run/nscd",
                                       "/dev/urandom",
                                       "/dev/null"};

static int keep_only(unsigned keep)
{
    if (keep > 3 && syscall(SYS_close_range, 3u, keep - 1, 0) != 0)
        return -errno;
    return syscall(SYS_close_range, keep + 1, ~0u, 0) == 0 ? 0 : -errno;
}

static int null_streams(void)
{
    auto_fd null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0)
        return -errno;
    return 0;
}

/* Root's worker is nobody: files that only root may read are none of its business. In a user namespace that does not know
 * nobody it stays who it is, without capabilities. */
static void become_nobody(void)
{
    if (geteuid() != 0)
        return;
    if (setgroups(0, NULL) != 0 || setresgid(NOBODY, NOBODY, NOBODY) != 0)
        return;
    if (setresuid(NOBODY, NOBODY, NOBODY) != 0)
        return; /* EINVAL in such a namespace */
}

static int drop_capabilities(void)
{
    for (int cap = 0; cap < 64; cap++)
        if (prctl(PR_CAPBSET_READ, cap, 0, 0, 0) == 1)
            (void)prctl(PR_CAPBSET_DROP, cap, 0, 0, 0); /* EPERM without privilege: nothing to drop */
    (void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); /* known since 4.3 */
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {{0}, {0}};
    return syscall(SYS_capset, &header, none) == 0 ? 0 : -errno;
}

/* Landlock, since 5.13; an older kernel leaves the worker with what its ids may read. */
static void hide_files(void)
{
    const uint64_t read =
        LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR | LANDLOCK_ACCESS_FS_EXECUTE;
    /* All rights of the first version: whatever is named here and allowed below nowhere is denied. */
    struct landlock_ruleset_attr attr = {.handled_access_fs = (LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1};
    auto_fd ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr), 0);
    if (ruleset < 0)
        return;
    for (size_t i = 0; i < sizeof(readable) / sizeof(readable[0]); i++) {
        auto_fd place = open(readable[i], O_PATH | O_CLOEXEC);
        bool file = strncmp(readable[i], "/dev/", 5) == 0;
        struct landlock_path_beneath_attr rule = {
            .allowed_access = file ? LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE : read,
            .parent_fd = place};
        if (place >= 0) /* one that cannot be added is one that cannot be read */
            (void)syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
    }
    (void)syscall(SYS_landlock_restrict_self, ruleset, 0); /* as before 5.13 */
}

int registry_confine(int keep, int parent, struct kern_error *err)
{
    sigset_t none;
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    int r = null_streams();
    r = r < 0 ? r : keep_only((unsigned)keep);
    if (r < 0)
        return kern_fail(err, -r, "cannot close the descriptors of the registry worker");
    become_nobody();
    r = drop_capabilities();
    if (r == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        r = -errno;
    if (r == 0)
        hide_files();
    r = r < 0 ? r
              : kern_confine_calls(KERN_CALLS_NETWORK | KERN_CALLS_FORK |
                                   KERN_CALLS_FILES); /* resolvers are threads */
    if (r < 0)
        return kern_fail(err, -r, "cannot confine the registry worker");
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);        /* credentials belong into no core file */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0); /* after the ids, whose change clears it */
    if (getppid() != parent)
        return kern_fail(err, ESRCH, "kern has ended");
    return 0;
}
