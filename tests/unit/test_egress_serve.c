/* What the worker keeps of those that it serves: nothing that it has no use for. */
#include "egress_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <sys/socket.h>
#include <unistd.h>

static void a_client_that_the_loop_does_not_take_is_let_go(void **state)
{
    (void)state; /* no fixture */
    int pair[2];
    uint8_t byte;
    struct egress_world *world = calloc(1, sizeof(*world));
    assert_non_null(world);
    assert_int_equal(egress_loop_open(&world->loop), 0);
    (void)close(
        world->loop.epoll); /* now adding fails, as it does where a user's epoll watches are used up */
    world->loop.epoll = -1;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    egress_serve_tcp(world, pair[0]);
    assert_int_equal(recv(pair[1], &byte, 1, 0), 0); /* closed, not forgotten */
    assert_int_equal(world->relays.count, 0);
    assert_non_null(world->loop.garbage);
    free(world->loop.garbage);
    (void)close(pair[1]);           /* nothing was said */
    (void)close(world->loop.spare); /* a copy of the loop's */
    free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_client_that_the_loop_does_not_take_is_let_go),
    };
    return cmocka_run_group_tests_name("egress_serve", tests, NULL, NULL);
}
