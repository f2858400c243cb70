/* A child that is nothing without its parent: it ends with it, and at once when the parent was gone before it said so. */
#include "sys.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { READY, GO, OVER, PIPES };

struct pipes {
    int end[PIPES][2];
};

/* Says when it is ready, and once more when it is let go and still there. */
_Noreturn static void live_on(const struct pipes *pipes, pid_t parent, bool early)
{
    char byte = 0;
    (void)close(pipes->end[GO][1]); /* it sees the end of it */
    if (early)
        sys_end_with(parent);
    (void)!write(pipes->end[READY][1], "r", 1); /* without it the test fails */
    (void)!read(pipes->end[GO][0], &byte, 1);
    if (!early)
        sys_end_with(parent);
    (void)!write(pipes->end[OVER][1], "o", 1);
    sys_exit(0);
}

/* Returns whether the grandchild was still there after its parent. */
static bool outlives(bool early)
{
    struct pipes pipes;
    char byte = 0;
    for (int i = 0; i < PIPES; i++)
        assert_int_equal(pipe(pipes.end[i]), 0);
    pid_t parent = fork();
    if (parent == 0) {
        pid_t self = getpid();
        if (fork() == 0)
            live_on(&pipes, self, early);
        for (;;)
            (void)pause();
    }
    assert_true(parent > 0);
    assert_int_equal(close(pipes.end[READY][1]) | close(pipes.end[OVER][1]), 0);
    assert_int_equal(read(pipes.end[READY][0], &byte, 1), 1);
    assert_int_equal(kill(parent, SIGKILL), 0);
    assert_int_equal(waitpid(parent, NULL, 0), parent);
    if (!early)
        assert_int_equal(write(pipes.end[GO][1], "g", 1), 1);
    bool said = read(pipes.end[OVER][0], &byte, 1) == 1; /* ends when nobody can say it any more */
    assert_int_equal(close(pipes.end[READY][0]) | close(pipes.end[OVER][0]) | close(pipes.end[GO][0]) |
                         close(pipes.end[GO][1]),
                     0);
    return said;
}

static void test_ends_with_its_parent(void **state)
{
    (void)state;
    assert_false(outlives(true));
}

static void test_ends_when_the_parent_was_first(void **state)
{
    (void)state;
    assert_false(outlives(false));
}

static void test_lives_as_long_as_its_parent(void **state)
{
    (void)state;
    pid_t self = getpid(), child = fork();
    if (child == 0) {
        sys_end_with(self);
        sys_exit(7);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ends_with_its_parent),
        cmocka_unit_test(test_ends_when_the_parent_was_first),
        cmocka_unit_test(test_lives_as_long_as_its_parent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
