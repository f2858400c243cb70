/* The loop of the workers; see egress_loop.h. Runs in a worker. */
#include "egress_loop.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#define EVENTS_AT_ONCE 128

int64_t egress_now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail with a valid clock and pointer */
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int egress_loop_open(struct egress_loop *loop)
{
    loop->epoll = epoll_create1(EPOLL_CLOEXEC);
    loop->now_ms = egress_now_ms();
    loop->garbage = NULL;
    return loop->epoll < 0 ? -errno : 0;
}

int egress_loop_add(struct egress_loop *loop, struct egress_source *source, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = source};
    return epoll_ctl(loop->epoll, EPOLL_CTL_ADD, source->fd, &event) != 0 ? -errno : 0;
}

void egress_loop_close(struct egress_source *source)
{
    if (source->fd >= 0)
        (void)close(source->fd); /* sockets have nothing to lose; epoll forgets it */
    source->fd = -1;
}

void egress_loop_discard(struct egress_loop *loop, struct egress_garbage *garbage)
{
    garbage->next = loop->garbage;
    loop->garbage = garbage;
}

int egress_loop_turn(struct egress_loop *loop, int timeout_ms)
{
    struct epoll_event event[EVENTS_AT_ONCE];
    int count = epoll_wait(loop->epoll, event, EVENTS_AT_ONCE, timeout_ms);
    if (count < 0 && errno != EINTR)
        return -errno;
    loop->now_ms = egress_now_ms();
    for (int i = 0; i < count; i++) {
        struct egress_source *source = event[i].data.ptr;
        if (source->fd >= 0)
            source->fn(source, event[i].events);
    }
    while (loop->garbage != NULL) {
        struct egress_garbage *next = loop->garbage->next;
        free(loop->garbage);
        loop->garbage = next;
    }
    return 0;
}
