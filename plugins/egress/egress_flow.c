/* One direction of a relayed connection; see egress_flow.h. Runs in a worker. Small messages are copied: two calls. What fills a
 * whole buffer is bulk, and is spliced through a pipe from then on. */
#include "egress_flow.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define COPY_SIZE  65536
#define PIPE_SIZE  (256 << 10)
#define FAIR_SHARE (4 << 20) /* bytes in one go, before others have their turn */

void egress_flow_init(struct egress_flow *flow, int from, int to)
{
    *flow = (struct egress_flow){.from = from, .to = to, .pipe = {-1, -1}, .readable = 1};
}

void egress_flow_hear(struct egress_flow *flow, uint32_t events)
{
    flow->readable |= (events & (EPOLLIN | EPOLLPRI | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
    flow->hung |= (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
    flow->urgent |= (events & EPOLLPRI) != 0;
}

/* It moves as it is, in bulk. */
static int may_splice(const struct egress_flow *flow)
{
    return !flow->copy && !flow->urgent;
}

static void drop_held(struct egress_flow *flow)
{
    free(flow->held);
    flow->held = NULL;
    flow->held_from = flow->held_to = flow->held_size = flow->cleared = 0;
}

void egress_flow_clear(struct egress_flow *flow)
{
    drop_held(flow);
    for (int i = 0; i < 2; i++)
        if (flow->pipe[i] >= 0)
            (void)close(flow->pipe[i]); /* the bytes in it have nowhere to go */
    flow->pipe[0] = flow->pipe[1] = -1;
}

static int make_room(struct egress_flow *flow, size_t length)
{
    if (flow->held_from > 0) {
        memmove(flow->held, flow->held + flow->held_from, flow->held_to - flow->held_from);
        flow->held_to -= flow->held_from;
        flow->held_from = 0;
    }
    size_t wanted = flow->held_to + length;
    if (wanted <= flow->held_size)
        return 0;
    if (wanted > EGRESS_HELD_MOST + COPY_SIZE)
        return -EMSGSIZE;
    uint8_t *grown = realloc(flow->held, wanted);
    if (grown == NULL)
        return -ENOMEM;
    flow->held = grown;
    flow->held_size = (uint32_t)wanted;
    return 0;
}

int egress_flow_push(struct egress_flow *flow, const uint8_t *bytes, size_t length)
{
    int failed = length > 0 ? make_room(flow, length) : 0;
    if (failed != 0 || length == 0)
        return failed;
    memcpy(flow->held + flow->held_to, bytes, length);
    flow->held_to += (uint32_t)length;
    return 0;
}

/* Returns how many bytes went, 0 when none can go now. */
static ssize_t put(struct egress_flow *flow, const uint8_t *bytes, size_t length)
{
    size_t done = 0;
    while (done < length) {
        ssize_t sent = send(flow->to, bytes + done, length - done, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0)
            return errno == EAGAIN ? (ssize_t)done : -errno;
        done += (size_t)sent;
    }
    return (ssize_t)done;
}

static ssize_t get(struct egress_flow *flow, uint8_t *bytes, size_t size)
{
    ssize_t got;
    do
        got = recv(flow->from, bytes, size, 0);
    while (got < 0 && errno == EINTR);
    if (got < 0 && errno == EAGAIN) {
        flow->readable = 0;
        return -EAGAIN;
    }
    if (got < 0)
        return -errno;
    if (got == 0)
        flow->eof = 1;
    else if ((size_t)got < size && !flow->hung && !flow->urgent)
        flow->readable =
            0; /* edge-triggered: more of it is a new event; an end that has come already is none */
    if (got > 0 && flow->seen != NULL)
        flow->seen(flow->data, bytes, (size_t)got);
    return got;
}

/* ---- What is held ---- */

/* 0: all that may go is gone; 1: the other side takes no more now. */
static int flush_cleared(struct egress_flow *flow)
{
    while (flow->cleared > 0) {
        ssize_t sent = put(flow, flow->held + flow->held_from, flow->cleared);
        if (sent < 0)
            return (int)sent;
        flow->held_from += (uint32_t)sent;
        flow->cleared -= (uint32_t)sent;
        if (flow->cleared > 0)
            return 1;
    }
    if (flow->held_from == flow->held_to && flow->held != NULL)
        drop_held(flow);
    return 0;
}

/* Lets the filter look at what is held, and sends what it lets through. */
static int settle_held(struct egress_flow *flow)
{
    for (;;) {
        int stuck = flush_cleared(flow);
        if (stuck != 0 || flow->held == NULL)
            return stuck;
        uint32_t length = flow->held_to - flow->held_from;
        long passed =
            flow->filter != NULL ? flow->filter(flow->data, flow->held + flow->held_from, length) : length;
        if (passed < 0)
            return (int)passed;
        if (passed == 0)
            return length >= EGRESS_HELD_MOST ? -EMSGSIZE : 0;
        flow->cleared = (uint32_t)passed;
    }
}

static int pump_filtered(struct egress_flow *flow)
{
    int stuck = settle_held(flow);
    while (stuck == 0 && flow->filter != NULL && flow->readable && !flow->eof) {
        uint32_t step = flow->held == NULL ? 16384 : 4096;
        stuck = make_room(flow, step);
        ssize_t got = stuck == 0 ? get(flow, flow->held + flow->held_to, step) : 0;
        if (got == -EAGAIN || flow->eof) {
            if (flow->held_from == flow->held_to)
                drop_held(flow);
            return 0;
        }
        if (got < 0)
            return (int)got;
        flow->held_to += (uint32_t)got;
        if (stuck == 0)
            stuck = settle_held(flow);
    }
    return stuck;
}

/* ---- Bulk ---- */

static int take_pipe(struct egress_flow *flow, struct egress_pipes *pipes)
{
    if (flow->pipe[0] >= 0)
        return 0;
    if (pipes->count > 0) {
        memcpy(flow->pipe, pipes->pipe[--pipes->count], sizeof(flow->pipe));
        return 0;
    }
    if (pipe2(flow->pipe, O_CLOEXEC | O_NONBLOCK) != 0) {
        flow->pipe[0] = flow->pipe[1] = -1;
        return -errno;
    }
    (void)fcntl(flow->pipe[1], F_SETPIPE_SZ, PIPE_SIZE); /* the usual size does, with more calls */
    return 0;
}

static void give_pipe(struct egress_flow *flow, struct egress_pipes *pipes)
{
    if (flow->pipe[0] < 0 || flow->piped > 0)
        return;
    if (pipes->count < sizeof(pipes->pipe) / sizeof(pipes->pipe[0])) {
        memcpy(pipes->pipe[pipes->count++], flow->pipe, sizeof(flow->pipe));
        flow->pipe[0] = flow->pipe[1] = -1;
    } else {
        egress_flow_clear(flow);
    }
}

static int empty_pipe(struct egress_flow *flow)
{
    while (flow->piped > 0) {
        ssize_t sent =
            splice(flow->pipe[0], NULL, flow->to, NULL, flow->piped, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0)
            return errno == EAGAIN ? 1 : -errno;
        flow->piped -= (uint32_t)sent;
    }
    return 0;
}

/* 0: the socket is empty for now; 1: the other side takes no more; 2: this flow had its share. */
static int pump_bulk(struct egress_flow *flow, struct egress_pipes *pipes)
{
    size_t moved = 0;
    if (take_pipe(flow, pipes) != 0) {
        flow->bulk = 0; /* no descriptor left: copying works all the same */
        return 0;
    }
    int stuck = empty_pipe(flow);
    while (stuck == 0 && flow->readable && !flow->eof && may_splice(flow)) {
        ssize_t got =
            splice(flow->from, NULL, flow->pipe[1], NULL, PIPE_SIZE, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && errno != EAGAIN)
            return -errno;
        if (got < 0) {
            flow->readable = 0;
            break;
        }
        flow->eof = got == 0;
        flow->piped += (uint32_t)got;
        moved += (size_t)got;
        stuck = empty_pipe(flow);
        if (stuck == 0 && moved >= FAIR_SHARE)
            stuck = 2;
    }
    give_pipe(flow, pipes);
    return stuck;
}

static int pump_copy(struct egress_flow *flow)
{
    uint8_t bytes[COPY_SIZE];
    size_t moved = 0;
    while (flow->readable && !flow->eof) {
        ssize_t got = get(flow, bytes, sizeof(bytes));
        if (got == -EAGAIN || got == 0)
            return 0;
        if (got < 0)
            return (int)got;
        ssize_t sent = put(flow, bytes, (size_t)got);
        if (sent < 0)
            return (int)sent;
        if (sent < got) {
            int failed = egress_flow_push(flow, bytes + sent, (size_t)(got - sent));
            return failed != 0 ? failed : 1;
        }
        flow->bulk = got == sizeof(bytes) && may_splice(flow);
        moved += (size_t)got;
        if (flow->bulk)
            return 0;
        if (moved >= FAIR_SHARE)
            return 2;
    }
    return 0;
}

int egress_flow_pump(struct egress_flow *flow, struct egress_pipes *pipes)
{
    int stuck = 0;
    if (flow->shut)
        return 0;
    if (flow->filter != NULL)
        stuck = pump_filtered(flow);
    if (stuck == 0 && flow->filter == NULL)
        stuck = settle_held(flow);
    while (stuck == 0 && flow->filter == NULL && (flow->piped > 0 || (flow->readable && !flow->eof)))
        stuck =
            flow->piped > 0 || (flow->bulk && may_splice(flow)) ? pump_bulk(flow, pipes) : pump_copy(flow);
    if (stuck < 0)
        return stuck;
    if (stuck == 0 && flow->eof && flow->piped == 0) {
        /* What the filter never let through is not sent: the client hung up in the middle of a word. */
        (void)shutdown(flow->to, SHUT_WR); /* ENOTCONN: then the other direction meets the same */
        flow->shut = 1;
        egress_flow_clear(flow);
    }
    return stuck == 2 ? 1 : 0;
}
