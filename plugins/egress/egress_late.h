/* A worker that starts when somebody first wants something of it. Until then kern keeps what was sent to it, and watches the sockets:
 * most snippets of a box that may reach a host never do, and a process for each is a tenth of their start. In kern. */
#ifndef EGRESS_LATE_H
#define EGRESS_LATE_H

#include "egress.h"

/* Called for each message, in their order: which of its sockets somebody may want something of. */
typedef int (*egress_wanted_fn)(const struct egress_state *state, uint32_t message, const void *bytes,
                                uint32_t index);

/* prepare: `late` has its channel, and `sockets` will be kept in kern. Where there are too many for that, the worker is there from
 * the start. */
int egress_late_add(kern_box *box, struct egress_late *late, uint32_t sockets, kern_worker_fn fn,
                    const int32_t *fds, uint32_t count, struct kern_error *err);
/* The command runs: takes the messages, of `length` bytes each, off the channel, and rings for the sockets that are wanted. The box ends where
 * that fails. */
void egress_late_wait(kern_box *box, const struct egress_state *state, struct egress_late *late,
                      size_t length, egress_wanted_fn wanted);
/* The box has ended: the worker ends as well when it has carried what is on its way, which it begins to do if need be. */
void egress_late_end(kern_box *box, struct egress_late *late);
/* Ends the wait: puts the messages back and calls for the worker. */
void egress_late_call(kern_box *box, struct egress_late *late);
void egress_late_clear(kern_box *box, struct egress_late *late);

#endif
