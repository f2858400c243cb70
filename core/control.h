/* The supervisor's control socket: a seqpacket socket beside the box's state file, for the same user only. One request a
 * connection: "status" or "stop [SIGNAL]"; the answer is one line. exec joins here later. Host side. */
#ifndef CORE_CONTROL_H
#define CORE_CONTROL_H

#include "box.h"

int core_control_listen(kern_box *box);
void core_control_accept(kern_box *box);
void core_control_close(kern_box *box);

#endif
