/* The filter of processes that read what strangers wrote: what each of its kinds refuses. Each case in a child of its own. */
#include <kern/foundation.h>

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define EVERYTHING (KERN_CALLS_NETWORK | KERN_CALLS_FORK | KERN_CALLS_JOIN | KERN_CALLS_FILES)

/* The errno of a call that is not used otherwise, 0 when it worked; 128 + signal where it was the end. */
static int outcome(uint32_t allow, long number, long one, long two, long three)
{
    pid_t pid = fork();
    if (pid == 0) {
        if (kern_confine_calls(allow) != 0)
            _exit(127);
        if (number == SYS_tgkill)
            one = one != 0 ? one : getpid(), two = two != 0 ? two : getpid();
        errno = 0;
        long result = syscall(number, one, two, three, 0L);
        _exit(result < 0 ? errno : 0);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void test_what_nobody_may(void **state)
{
    (void)state;
    char *none[] = {NULL};
    assert_int_equal(outcome(EVERYTHING, SYS_execve, (long)"/bin/true", (long)none, (long)none), EPERM);
    assert_int_equal(outcome(EVERYTHING, SYS_ptrace, 0, 0, 0), EPERM);
    assert_int_equal(outcome(EVERYTHING, SYS_kill, getpid(), 0, 0), EPERM);
    assert_int_equal(outcome(EVERYTHING, SYS_tgkill, getpid(), getpid(), 0), EPERM);
    assert_int_equal(outcome(EVERYTHING, SYS_unshare, 0, 0, 0), EPERM);
    assert_int_equal(outcome(EVERYTHING, SYS_io_uring_setup, 0, 0, 0), EPERM);
    assert_int_equal(outcome(EVERYTHING, SYS_tgkill, 0, 0, 0), 0); /* itself */
}

static void test_sockets(void **state)
{
    (void)state;
    assert_int_equal(outcome(EVERYTHING, SYS_socket, AF_INET, SOCK_STREAM, 0), 0);
    assert_int_equal(outcome(EVERYTHING, SYS_socket, AF_UNIX, SOCK_STREAM, 0), EAFNOSUPPORT);
    assert_int_equal(outcome(EVERYTHING, SYS_socket, AF_PACKET, SOCK_RAW, 0), EAFNOSUPPORT);
    assert_int_equal(outcome(0, SYS_socket, AF_INET, SOCK_STREAM, 0), EAFNOSUPPORT);
    assert_int_equal(outcome(0, SYS_socket, AF_UNIX, SOCK_STREAM, 0), EAFNOSUPPORT);
}

static void test_what_must_be_allowed(void **state)
{
    (void)state;
    assert_int_equal(outcome(KERN_CALLS_FILES, SYS_openat, AT_FDCWD, (long)"/dev/null", O_RDONLY), 0);
    assert_int_equal(outcome(0, SYS_openat, AT_FDCWD, (long)"/dev/null", O_RDONLY), EPERM);
    assert_int_equal(outcome(0, SYS_clone, SIGCHLD, 0, 0), EPERM);
    assert_int_equal(outcome(KERN_CALLS_JOIN, SYS_setns, -1, 0, 0), EBADF);
    assert_int_equal(outcome(0, SYS_setns, -1, 0, 0), EPERM);
}

static void test_other_numbers(void **state)
{
    (void)state;
#if defined(__x86_64__)
    assert_int_equal(outcome(EVERYTHING, 0x40000000 | 520, 0, 0, 0), 128 + SIGSYS); /* execve of x32 */
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_nobody_may),
        cmocka_unit_test(test_sockets),
        cmocka_unit_test(test_what_must_be_allowed),
        cmocka_unit_test(test_other_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
