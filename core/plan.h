/* `--plan` and `--show-config`: what a run would do, from the same data that a run uses. Host side. */
#ifndef CORE_PLAN_H
#define CORE_PLAN_H

#include "box.h"

/* Each resolved option with where it came from. Returns the exit code. */
int core_plan_show_config(kern_box *box);
/* A prepared box: ids, root, limits and through what, mounts, plugins in their order. */
void core_plan_print(const kern_box *box);
/* --verbose: the same in a few benign lines, before the command starts. */
void core_plan_panel(kern_box *box);

#endif
