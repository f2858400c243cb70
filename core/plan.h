/* `--plan` and `--show-config`: what a run would do, from the same data that a run uses. Host side. */
#ifndef CORE_PLAN_H
#define CORE_PLAN_H

#include "box.h"

/* Each resolved option with where it came from. Returns the exit code. */
int core_plan_show_config(kern_box *box);
/* What would be done: root, limits, mounts, plugins in their order. No hook runs. Returns the exit code. */
int core_plan_print(kern_box *box);

#endif
