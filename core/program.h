/* The file that is executed as a box's command, where a name of the root may be a trap. In a process of the box, with its identity
 * and filter in place; perhaps on kern's memory: raw calls only. */
#ifndef CORE_PROGRAM_H
#define CORE_PROGRAM_H

#include "box.h"

/* Host side: could a process of the box change kern's own file, had it a way to it? Without the ids of its owner it could not. */
bool core_program_is_at_risk(const struct kern_ids *ids);

/* Executes `file` with the box's words and variables. Returns only on failure: -EXDEV for what leads to kern's own file, else as
 * execve(2) does. */
int core_program_execute(kern_box *box, const char *file);

/* Host side: what a start on kern's memory left of its words. */
void core_program_forget(kern_box *box);

#endif
