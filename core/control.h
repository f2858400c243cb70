/* The supervisor's control socket: a seqpacket socket beside the box's state file, for the same user and root only. Host side.
 *
 * One request a connection, one short answer: "status", "stop [MILLISECONDS]", "signal N", "kill". "attach": what the box's terminal shows follows the
 * answer, keys and sizes come back (attach_client.h). "wait" is answered when
 * nothing of the box is left: "exit CODE". A packet that is a struct core_exec_ask begins an exec (execs.h). */
#ifndef CORE_CONTROL_H
#define CORE_CONTROL_H

#include "box.h"

int core_control_listen(kern_box *box);
void core_control_accept(kern_box *box);
void core_control_close(kern_box *box);
/* Whoever is attached is not any more. */
void core_control_leave(kern_box *box);
/* Everything is gone: those who wait may know. */
void core_control_finish(kern_box *box, int exit_code);

#endif
