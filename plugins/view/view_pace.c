/* Bounds what a box can make kern do by asking: an answer costs kern more than the question costs the box, and kern stands
 * outside the box's limits. So only so many are answered at once in each tenth of a second; whoever asks more often waits for
 * the next. Runs in the supervisor's loop. */
#include "view_state.h"

#include "kern/cleanup.h"
#include "kern/sys.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>

#define WINDOW_US    100000
#define ANSWERS      1000 /* in a window: ten thousand a second */
#define WAITING_MOST 4096 /* more threads than that would have to ask at one time */

static void arm(const struct view_pace *pace, int64_t us)
{
    struct itimerspec once = {.it_value.tv_nsec = us * 1000};
    (void)timerfd_settime(pace->timer, 0, &once,
                          NULL); /* a valid timer and a time below a second: cannot fail */
}

static void begin_window(struct view_pace *pace)
{
    pace->window_us = view_now_us();
    pace->answered = 0;
}

static void on_window(kern_box *box, void *block, int32_t fd, uint32_t events)
{
    struct view_state *state = block;
    struct view_pace *pace = &state->pace;
    uint64_t count = 0;
    (void)events;                           /* it can only have expired */
    (void)!read(fd, &count, sizeof(count)); /* clears it */
    begin_window(pace);
    size_t now = pace->waiting_count < ANSWERS ? pace->waiting_count : ANSWERS;
    for (size_t i = 0; i < now; i++) {
        view_answer(state, &pace->waiting[i]);
        kern_finish_call(box, &pace->waiting[i]);
    }
    pace->answered = (uint32_t)now;
    pace->waiting_count -= now;
    memmove(pace->waiting, pace->waiting + now, pace->waiting_count * sizeof(pace->waiting[0]));
    if (pace->waiting_count > 0)
        arm(pace, WINDOW_US);
}

static int keep(kern_box *box, struct view_pace *pace, const struct kern_call *call)
{
    struct kern_error ignored = {0};
    if (pace->waiting == NULL) {
        pace->waiting = calloc(WAITING_MOST, sizeof(pace->waiting[0])); /* touched as far as it is used */
        pace->timer =
            pace->waiting != NULL ? timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK) : -1;
        if (pace->timer >= 0 && kern_watch(box, pace->timer, EPOLLIN, on_window, &ignored) != 0)
            kern_close_fd(&pace->timer);
    }
    if (pace->timer < 0 || pace->waiting_count == WAITING_MOST)
        return -ENOSPC;
    if (pace->waiting_count == 0)
        arm(pace, WINDOW_US);
    pace->waiting[pace->waiting_count++] = *call;
    return 0;
}

int32_t view_pace(kern_box *box, struct view_state *state, struct kern_call *call)
{
    struct view_pace *pace = &state->pace;
    if (pace->waiting_count == 0 && view_now_us() - pace->window_us >= WINDOW_US)
        begin_window(pace);
    if (pace->answered >= ANSWERS && keep(box, pace, call) == 0)
        return KERN_CALL_LATER;
    pace->answered++;
    view_answer(state, call);
    return KERN_CALL_DONE;
}

void view_pace_end(kern_box *box, struct view_pace *pace)
{
    if (pace->timer >= 0)
        kern_unwatch(box, pace->timer);
    kern_close_fd(&pace->timer);
    free(pace->waiting); /* whoever waits still has ended with the box */
    pace->waiting = NULL;
}
