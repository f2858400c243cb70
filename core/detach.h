/* Detached boxes (-d): the supervisor lives on in a session of its own, and what the command prints goes to a log. Host side. */
#ifndef CORE_DETACH_H
#define CORE_DETACH_H

#include "box.h"

/* Parts kern in two. In the caller's half returns true, with the exit code, once the command was executed (and says so) or
 * could not be; in the half that becomes the supervisor returns false. */
bool core_detach(kern_box *box, int *ret_code);
/* In the supervisor: the log and the command's streams, before the workers start. */
int core_detach_prepare(kern_box *box, struct kern_error *err);
/* The command runs: tells the caller, and lets go of the caller's streams. */
void core_detach_executed(kern_box *box);
/* The box has ended: the log gets what is left. */
void core_detach_finish(kern_box *box);

#endif
