/* Workers: processes beside the supervisor for what reads hostile bytes; see worker.c. */
#ifndef CORE_WORKER_H
#define CORE_WORKER_H

#include "box.h"

/* All but the late ones. */
int core_workers_start(kern_box *box, struct kern_error *err);
/* One that was called for. */
int core_worker_start(kern_box *box, struct core_worker *worker, struct kern_error *err);
/* The box has ended: they begin to end beside what else is to be done then, all but the one that still writes the log. */
void core_workers_end(kern_box *box);
void core_workers_stop(kern_box *box);

#endif
