/* A worker that starts when it is first needed; see egress_late.h. In kern: what enter sent waits here meanwhile, not in the socket
 * pair, for the kernel lets a user have no more descriptors on their way than one process may have open. */
#include "egress_late.h"

#include "kern/cleanup.h"
#include "kern/foundation.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#define MOST_SOCKETS 400
#define LAST_MS      2000 /* for what is on its way when the box ends */

struct egress_held { /* one message */
    uint8_t bytes[sizeof(struct egress_message)];
    size_t length;
    int fd[EGRESS_AT_ONCE];
    uint32_t count;
};

/* kern has descriptors of its own, and a file system's or a device's come on top. */
static int has_room(uint32_t sockets)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_NOFILE, &limit) == 0 && sockets <= limit.rlim_cur / 2 && sockets <= MOST_SOCKETS;
}

int egress_late_add(kern_box *box, struct egress_late *late, uint32_t sockets, kern_worker_fn fn,
                    const int32_t *fds, uint32_t count, struct kern_error *err)
{
    late->waits = has_room(sockets);
    const struct kern_worker worker = {.fn = fn, .fds = fds, .count = count, .late = late->waits};
    return kern_add_numbered_worker(box, &worker, &late->worker, err);
}

/* Everything is on the channel by now. Returns 0, or -EAGAIN past the last. */
static int take(struct egress_late *late, size_t length)
{
    struct egress_held *grown = realloc(late->held, (late->count + 1) * sizeof(*grown));
    if (grown == NULL)
        return -ENOMEM;
    late->held = grown;
    struct egress_held *held = &late->held[late->count];
    *held = (struct egress_held){.length = length};
    int got = egress_receive_fds(late->far, held->bytes, length, held->fd, EGRESS_AT_ONCE, MSG_DONTWAIT);
    if (got < 0)
        return got;
    held->count = (uint32_t)got;
    late->count++;
    return 0;
}

static void on_bell(kern_box *box, void *data, int32_t fd, uint32_t events)
{
    struct egress_state *state = data;
    (void)events; /* it was watched for EPOLLIN only */
    egress_late_call(box, state->late.bell == fd ? &state->late : &state->publish.late);
}

static int watch(struct egress_late *late, const struct egress_state *state, egress_wanted_fn wanted)
{
    late->bell = epoll_create1(EPOLL_CLOEXEC);
    if (late->bell < 0)
        return -errno;
    for (uint32_t i = 0; i < late->count; i++)
        for (uint32_t j = 0; j < late->held[i].count; j++) {
            struct epoll_event event = {.events = EPOLLIN};
            if (wanted(state, i, late->held[i].bytes, j) &&
                epoll_ctl(late->bell, EPOLL_CTL_ADD, late->held[i].fd[j], &event) != 0)
                return -errno;
        }
    return 0;
}

void egress_late_wait(kern_box *box, const struct egress_state *state, struct egress_late *late,
                      size_t length, egress_wanted_fn wanted)
{
    struct kern_error error = {0};
    if (!late->waits)
        return;
    int failed;
    do {
        failed = take(late, length);
    } while (failed == 0 || failed == -EINTR);
    if (failed == -EAGAIN)
        failed = watch(late, state, wanted);
    if (failed == 0)
        failed = kern_watch(box, late->bell, EPOLLIN, on_bell, &error);
    if (failed != 0)
        kern_end_box(box, "killed", "the box's sockets cannot be kept for its egress worker: %s",
                     strerror(-failed));
}

static void let_go(kern_box *box, struct egress_late *late)
{
    if (late->bell >= 0)
        kern_unwatch(box, late->bell);
    kern_close_fd(&late->bell);
    for (uint32_t i = 0; i < late->count; i++)
        while (late->held[i].count > 0)
            kern_close_fd(&late->held[i].fd[--late->held[i].count]);
    free(late->held);
    late->held = NULL;
    late->count = 0;
}

void egress_late_call(kern_box *box, struct egress_late *late)
{
    int failed = 0;
    for (uint32_t i = 0; failed == 0 && i < late->count; i++) {
        const struct egress_held *held = &late->held[i];
        failed = egress_send_fds(late->near, held->bytes, held->length, held->fd, held->count);
    }
    let_go(box, late); /* on their way, or of no use to anybody */
    if (failed == 0)
        kern_call_worker(box, late->worker);
    else
        kern_end_box(box, "killed", "the box's sockets cannot be handed to its egress worker: %s",
                     strerror(-failed));
}

/* What the box sent and nobody has taken yet would have gone out after its end on any other network. Its end of the channel is how the
 * worker hears of it. */
void egress_late_end(kern_box *box, struct egress_late *late)
{
    struct epoll_event event;
    if (late->bell >= 0 && epoll_wait(late->bell, &event, 1, 0) > 0)
        egress_late_call(box, late);
    if (late->bell < 0)
        kern_let_worker_end(box, late->worker, LAST_MS);
    kern_close_fd(&late->near);
}

void egress_late_clear(kern_box *box, struct egress_late *late)
{
    if (late->waits)
        let_go(box, late);
}
