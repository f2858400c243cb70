/* Workers: processes beside the supervisor for what reads hostile bytes; see worker.c. */
#ifndef CORE_WORKER_H
#define CORE_WORKER_H

#include "box.h"

int core_workers_start(kern_box *box, struct kern_error *err);
void core_workers_stop(kern_box *box);

#endif
