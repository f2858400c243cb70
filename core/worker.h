/* Workers: processes beside the supervisor for what reads hostile bytes; see worker.c. */
#ifndef CORE_WORKER_H
#define CORE_WORKER_H

#include "box.h"

/* All but the late ones. */
int core_workers_start(kern_box *box, struct kern_error *err);
/* Those that were called for. Where that fails, it is said, and the box is killed. */
void core_workers_start_called(kern_box *box);
/* The box has ended: they begin to end beside what else is to be done then, all but the one that still writes the log. The plugins are
 * told before. */
void core_workers_end(kern_box *box);
void core_workers_stop(kern_box *box);

#endif
