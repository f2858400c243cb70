/* Id maps that kern cannot write with its own privileges, and why a user namespace could not be had at all. Host side. */
#include "launch.h"

#include "cleanup.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#define WORDS_MOST 12

static int start_helper(const char *program, pid_t target, const char *map, pid_t *ret_pid,
                        struct kern_error *err)
{
    char words[160], pid[16];
    char *argv[WORDS_MOST] = {(char *)(uintptr_t)program, pid};
    (void)snprintf(words, sizeof(words), "%s", map);     /* maps are shorter than this */
    (void)snprintf(pid, sizeof(pid), "%d", (int)target); /* fits */
    char *rest = NULL;
    int count = 2;
    for (char *word = strtok_r(words, " \n", &rest); word != NULL && count < WORDS_MOST - 1;
         word = strtok_r(NULL, " \n", &rest))
        argv[count++] = word;
    char *none[] = {NULL};
    int failed = posix_spawnp(ret_pid, program, NULL, NULL, argv, none);
    if (failed == 0)
        return 0;
    kern_fail(err, failed, "cannot run \"%s\"", program);
    kern_hint(err, "apt-get install uidmap, or leave out --uid-range");
    return -failed;
}

static int await_helper(const char *program, pid_t pid, struct kern_error *err)
{
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    kern_fail(err, 0, "cannot map the subordinate ids: %s refused", program);
    kern_hint(err, "compare /etc/subuid and /etc/subgid with what 'id' says, or leave out --uid-range");
    return -EPERM;
}

int core_map_with_helpers(const struct kern_ids *ids, pid_t pid, struct kern_error *err)
{
    pid_t uid_helper = 0, gid_helper = 0;
    int failed = start_helper("newuidmap", pid, ids->uid_map, &uid_helper, err);
    if (failed == 0)
        failed = start_helper("newgidmap", pid, ids->gid_map, &gid_helper, err);
    if (uid_helper > 0) {
        int result = await_helper("newuidmap", uid_helper, err);
        failed = failed != 0 ? failed : result;
    }
    if (gid_helper > 0) {
        int result = await_helper("newgidmap", gid_helper, err);
        failed = failed != 0 ? failed : result;
    }
    return failed;
}

static long read_number(const char *path)
{
    char text[24] = "";
    auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
        return -1;
    return strtol(text, NULL, 10);
}

void core_explain_userns(int code, struct kern_error *err)
{
    if (read_number("/proc/sys/user/max_user_namespaces") == 0)
        kern_hint(
            err, "user namespaces are switched off on this host: sudo sysctl user.max_user_namespaces=15000");
    else if (geteuid() != 0 && read_number("/proc/sys/kernel/unprivileged_userns_clone") == 0)
        kern_hint(
            err,
            "unprivileged user namespaces are switched off: sudo sysctl kernel.unprivileged_userns_clone=1");
    else if (geteuid() != 0 && read_number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == 1)
        kern_hint(err, "AppArmor restricts user namespaces here: 'kern doctor' prints the profile for kern "
                       "that permits them");
    else if (code == ENOSPC)
        kern_hint(err, "too many user namespaces: sudo sysctl user.max_user_namespaces=15000");
    else if (code == EPERM)
        kern_hint(err, "a container, a chroot or a seccomp filter around kern forbids namespaces: 'kern "
                       "doctor' tells which");
}
