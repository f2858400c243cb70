/* The sockets of relayed connections: what a listener was tuned to, its connections have from their beginning. */
#include "egress_relay.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int number(int fd, int level, int option)
{
    int value = 0;
    socklen_t size = sizeof(value);
    assert_int_equal(getsockopt(fd, level, option, &value, &size), 0);
    return value;
}

static void assert_near(int fd, int buffer)
{
    char congestion[16] = "";
    socklen_t size = sizeof(congestion);
    assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, congestion, &size), 0);
    assert_string_equal(congestion, "reno"); /* which has no timer between packets */
    assert_int_not_equal(number(fd, IPPROTO_TCP, TCP_NODELAY), 0);
    assert_int_equal(number(fd, SOL_SOCKET, SO_SNDBUF), buffer);
    assert_int_equal(number(fd, SOL_SOCKET, SO_RCVBUF), buffer);
}

static void both_ends_of_a_near_connection_are_tuned(void **state)
{
    (void)state; /* no fixture */
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof(at);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(listener >= 0 && client >= 0);
    egress_tune(listener, 1);
    egress_tune(client, 1);
    int buffer = number(listener, SOL_SOCKET, SO_SNDBUF); /* the machine may have a limit */
    assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &size), 0);
    assert_int_equal(connect(client, (struct sockaddr *)&at, sizeof(at)), 0);
    int accepted = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    assert_true(accepted >= 0);
    assert_near(client, buffer);
    assert_near(accepted, buffer);
    (void)close(accepted); /* nothing was said */
    (void)close(client);   /* nothing was said */
    (void)close(listener); /* nobody waits in it */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(both_ends_of_a_near_connection_are_tuned)};
    return cmocka_run_group_tests_name("egress_relay", tests, NULL, NULL);
}
