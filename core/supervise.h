/* The supervisor: one epoll loop over the box's end, its messages, signals, the deadline and watched descriptors. */
#ifndef CORE_SUPERVISE_H
#define CORE_SUPERVISE_H

#include "box.h"

/* Before the clone: blocks the signals that kern forwards and makes the epoll and signal descriptors. */
int core_supervise_prepare(kern_box *box, struct kern_error *err);
/* Returns when the box has ended; its outer init may take a moment longer: core_launch_wait(). Never blocks on anything the box controls. */
void core_supervise(kern_box *box);
/* Ends every process of the box, now. */
void core_kill_box(kern_box *box);
/* Sends `signal` to the command; where it would be lost on a PID 1 without a handler, kills instead and remembers which
 * signal was asked for. */
void core_stop_box(kern_box *box, int signal);
int64_t core_now_ns(void);

#endif
