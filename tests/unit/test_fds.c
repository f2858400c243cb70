/* Descriptors over a unix socket: what arrives is what was sent, and a message with too many leaves none open. */
#include "sys.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

static int open_count(void)
{
    int count = 0;
    for (int fd = 0; fd < 64; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static int make_pair(void **state)
{
    static int pair[2];
    *state = pair;
    return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair);
}

static int close_pair(void **state)
{
    const int *pair = *state;
    return close(pair[0]) | close(pair[1]);
}

static void test_bytes_and_descriptors_arrive(void **state)
{
    const int *pair = *state;
    int pipes[2], got[3] = {-1, -1, -1};
    char word[16] = {0}, byte = 0;
    size_t count = 9;
    assert_int_equal(pipe(pipes), 0);
    assert_int_equal(sys_send_fds(pair[0], "hello", 5, pipes, 2, 0), 5);
    assert_int_equal(sys_receive_fds(pair[1], word, sizeof(word), got, 3, &count, 0), 5);
    assert_string_equal(word, "hello");
    assert_int_equal(count, 2);
    assert_int_equal(fcntl(got[0], F_GETFD), FD_CLOEXEC);
    assert_int_equal(write(got[1], "x", 1), 1);
    assert_int_equal(read(pipes[0], &byte, 1), 1);
    assert_int_equal(byte, 'x');
    for (int i = 0; i < 2; i++)
        assert_int_equal(close(got[i]) | close(pipes[i]), 0);
}

static void test_none_is_none(void **state)
{
    const int *pair = *state;
    char word[16];
    int got = -1;
    size_t count = 9;
    assert_int_equal(sys_send_fds(pair[0], "x", 1, NULL, 0, 0), 1);
    assert_int_equal(sys_receive_fds(pair[1], word, sizeof(word), &got, 1, &count, 0), 1);
    assert_int_equal(count, 0);
    assert_int_equal(sys_receive_fds(pair[1], word, sizeof(word), &got, 1, &count, MSG_DONTWAIT), -EAGAIN);
    assert_int_equal(got, -1);
}

/* CMSG_SPACE is rounded up: a buffer made for one descriptor takes two. */
static void test_too_many_leave_none_open(void **state)
{
    const int *pair = *state;
    int sent[SYS_FDS_MOST + 1] = {0}, got[1] = {-1}, before = open_count();
    char word[16];
    size_t count = 9;
    for (size_t number = 2; number <= SYS_FDS_MOST; number += SYS_FDS_MOST - 2) {
        assert_int_equal(sys_send_fds(pair[0], "x", 1, sent, number, 0), 1);
        assert_int_equal(sys_receive_fds(pair[1], word, sizeof(word), got, 1, &count, 0), -EMFILE);
        assert_int_equal(count, 0);
        assert_int_equal(got[0], -1);
        assert_int_equal(open_count(), before);
    }
    assert_int_equal(sys_send_fds(pair[0], "x", 1, sent, SYS_FDS_MOST + 1, 0), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_bytes_and_descriptors_arrive, make_pair, close_pair),
        cmocka_unit_test_setup_teardown(test_none_is_none, make_pair, close_pair),
        cmocka_unit_test_setup_teardown(test_too_many_leave_none_open, make_pair, close_pair),
    };
    return cmocka_run_group_tests_name("descriptors over a socket", tests, NULL, NULL);
}
