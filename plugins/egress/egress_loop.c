/* The loop of the workers; see egress_loop.h. Runs in a worker. */
#include "egress_loop.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define EVENTS_AT_ONCE 128
#define SHORT_SLEEP_NS 60000

static int64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail with a valid clock and pointer */
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t egress_now_ms(void)
{
    return now_ns() / 1000000;
}

int egress_loop_open(struct egress_loop *loop)
{
    loop->epoll = epoll_create1(EPOLL_CLOEXEC);
    loop->spare = fcntl(loop->epoll, F_DUPFD_CLOEXEC, 0);
    loop->now_ms = egress_now_ms();
    loop->garbage = NULL;
    loop->looks_around = 0;
    return loop->epoll < 0 || loop->spare < 0 ? -errno : 0;
}

int egress_loop_add(struct egress_loop *loop, struct egress_source *source, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = source};
    return epoll_ctl(loop->epoll, EPOLL_CTL_ADD, source->fd, &event) != 0 ? -errno : 0;
}

int egress_loop_accept(struct egress_loop *loop, int listener)
{
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    while (fd < 0 && (errno == EMFILE || errno == ENFILE)) {
        (void)close(loop->spare); /* makes room for one */
        fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        int failed = errno;
        if (fd >= 0)
            (void)close(fd); /* nothing was said yet */
        loop->spare = fcntl(loop->epoll, F_DUPFD_CLOEXEC, 0);
        if (fd < 0) {
            errno = failed;
            return -1;
        }
        fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    }
    return fd;
}

void egress_loop_close(struct egress_source *source)
{
    if (source->fd >= 0)
        (void)close(source->fd); /* sockets have nothing to lose; epoll forgets it */
    source->fd = -1;
}

void egress_loop_remove(struct egress_loop *loop, struct egress_source *source)
{
    (void)epoll_ctl(loop->epoll, EPOLL_CTL_DEL, source->fd, NULL); /* it was added */
    egress_loop_close(source);
}

void egress_loop_discard(struct egress_loop *loop, struct egress_garbage *garbage)
{
    garbage->next = loop->garbage;
    loop->garbage = garbage;
}

/* Whoever sleeps is woken late, by 20 microseconds and more in a virtual machine, which a connection with short questions and
 * answers feels twice for each. So after a short sleep the next one begins with looking around for as long; a long sleep ends that.
 * That is as long as another process on this machine takes to wake and answer; longer has a processor, which others want as well. */
static int wait_for_events(struct egress_loop *loop, struct epoll_event *ret_event, int timeout_ms)
{
    int64_t start = now_ns();
    while (timeout_ms != 0 && loop->looks_around && now_ns() - start < SHORT_SLEEP_NS) {
        int count = epoll_wait(loop->epoll, ret_event, EVENTS_AT_ONCE, 0);
        if (count != 0)
            return count;
    }
    int count = epoll_wait(loop->epoll, ret_event, EVENTS_AT_ONCE, timeout_ms);
    if (timeout_ms != 0)
        loop->looks_around = now_ns() - start < SHORT_SLEEP_NS;
    return count;
}

int egress_loop_turn(struct egress_loop *loop, int timeout_ms)
{
    struct epoll_event event[EVENTS_AT_ONCE];
    int count = wait_for_events(loop, event, timeout_ms);
    if (count < 0 && errno != EINTR)
        return -errno;
    loop->now_ms = egress_now_ms();
    loop->events = count;
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
