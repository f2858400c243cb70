/* The cage of the registry worker, looked at from inside: what it must do still works, what it must not does not. */
#include "registry_confine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <netdb.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* Runs `look` confined; it returns the number of the first thing that is wrong, or 0. */
static int confined(int (*look)(int keep))
{
    int pair[2];
    pid_t parent = getpid();
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct kern_error err = {0};
        int r = registry_confine(pair[1], parent, &err);
        if (r < 0)
            dprintf(2, "%s\n", err.message);
        _exit(r < 0 ? 99 : look(pair[1]));
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    close(pair[0]);
    close(pair[1]);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int look_at_what_works(int keep)
{
    struct addrinfo *found = NULL;
    if (write(keep, "x", 1) != 1)
        return 1;
    if (getaddrinfo("localhost", "443", NULL, &found) != 0)
        return 2;
    freeaddrinfo(found);
    if (open("/etc/nsswitch.conf", O_RDONLY) < 0 && errno != ENOENT)
        return 3;
    if (socket(AF_INET, SOCK_STREAM, 0) < 0 || socket(AF_INET6, SOCK_STREAM, 0) < 0)
        return 4;
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
        return 5;
    return 0;
}

static bool has_landlock(void)
{
    return syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION) > 0;
}

static int look_at_what_does_not(int keep)
{
    char *const words[] = {(char *)(uintptr_t) "true", NULL};
    (void)keep;
    if (socket(AF_UNIX, SOCK_STREAM, 0) >= 0 || errno != EAFNOSUPPORT)
        return 1;
    if (socket(AF_VSOCK, SOCK_STREAM, 0) >= 0)
        return 2;
    if (execv("/bin/true", words) == 0 || errno != EPERM)
        return 3;
    if (kill(getppid(), 0) == 0 || errno != EPERM)
        return 4;
    if (ptrace(PTRACE_ATTACH, getppid(), NULL, NULL) == 0)
        return 5;
    if (has_landlock()) {
        if (open("/proc/self/status", O_RDONLY) >= 0)
            return 6;
        if (open("/tmp", O_RDONLY | O_DIRECTORY) >= 0)
            return 7;
        if (open("/tmp/registry-worker-was-here", O_WRONLY | O_CREAT, 0600) >= 0)
            return 8;
    }
    if (geteuid() == 0 || setuid(0) == 0)
        return getuid() == 0 ? 9 : 10;
    if (fcntl(3, F_GETFD) >= 0 && fcntl(9, F_GETFD) >= 0)
        return 11;
    return 0;
}

static void what_it_needs_works(void **state)
{
    (void)state;
    assert_int_equal(confined(look_at_what_works), 0);
}

static void what_it_does_not_need_is_gone(void **state)
{
    (void)state;
    int left = open("/dev/null", O_RDONLY); /* without O_CLOEXEC: the cage closes it, not an exec */
    assert_int_equal(dup2(left, 9), 9);
    assert_int_equal(confined(look_at_what_does_not), 0);
    close(9);
    close(left);
}

static void it_is_bound_to_its_parent(void **state)
{
    (void)state;
    pid_t pid = fork();
    if (pid == 0) {
        struct kern_error err = {0};
        int fd = open("/dev/null", O_RDONLY);
        _exit(registry_confine(fd, 1, &err) < 0 ? 0 : 1); /* not our parent */
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_it_needs_works),
        cmocka_unit_test(what_it_does_not_need_is_gone),
        cmocka_unit_test(it_is_bound_to_its_parent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
