/* What the worker keeps of those that it serves: nothing that it has no use for, and no address that was not judged. */
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

/* A reply of `count` addresses of documentation, the last of them `last`. Returns its length. */
static size_t make_reply(unsigned count, const uint8_t last[4], uint8_t *ret_message)
{
    size_t at =
        egress_dns_write_query(9, "a.example.com", EGRESS_TYPE_A, ret_message) - 11; /* without EDNS */
    ret_message[2] = 0x81;
    ret_message[7] = (uint8_t)count;
    ret_message[11] = 0;
    for (unsigned i = 0; i < count; i++) {
        const uint8_t record[] = {0xc0, 12, 0, EGRESS_TYPE_A, 0, 1,   0,         0, 0,
                                  60,   0,  4, 203,           0, 113, (uint8_t)i};
        memcpy(ret_message + at, record, sizeof(record));
        at += sizeof(record);
    }
    memcpy(ret_message + at - 4, last, 4);
    return at;
}

static void addresses_that_have_no_room_are_judged_too(void **state)
{
    (void)state; /* no fixture */
    static const uint8_t good[] = {203, 0, 113, 99}, home[] = {10, 0, 0, 1}, many[] = {224, 0, 0, 1};
    uint8_t message[EGRESS_DNS_MOST];
    struct egress_reply reply;
    for (unsigned count = 1; count < 3 * EGRESS_DNS_ADDRESSES; count++) {
        size_t length = make_reply(count, good, message);
        assert_int_equal(egress_dns_read_reply(message, length, 9, "a.example.com", EGRESS_TYPE_A, &reply),
                         0);
        assert_int_equal(reply.count, count < EGRESS_DNS_ADDRESSES ? count : EGRESS_DNS_ADDRESSES);
        assert_int_equal(reply.worst, EGRESS_PUBLIC);
        length = make_reply(count, home, message);
        assert_int_equal(egress_dns_read_reply(message, length, 9, "a.example.com", EGRESS_TYPE_A, &reply),
                         0);
        assert_int_equal(reply.worst, EGRESS_PRIVATE);
        length = make_reply(count, many, message);
        assert_int_equal(egress_dns_read_reply(message, length, 9, "a.example.com", EGRESS_TYPE_A, &reply),
                         0);
        assert_int_equal(reply.worst, EGRESS_NEVER);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_client_that_the_loop_does_not_take_is_let_go),
        cmocka_unit_test(addresses_that_have_no_room_are_judged_too),
    };
    return cmocka_run_group_tests_name("egress_serve", tests, NULL, NULL);
}
