/* The parts of the box's first process that stand in files of their own. */
#ifndef CORE_INNER_H
#define CORE_INNER_H

#include "box.h"

/* Leaves the host's root for the box's. Afterwards "/" is box->root_fd. */
int core_pivot(kern_box *box, struct kern_error *err);
/* Enters an inner user namespace that owns none of the mounts, with the same ids. */
int core_inner_userns(kern_box *box, struct kern_error *err);
/* A terminal of the box's own devpts as descriptors 0 to 2; the master goes to kern. */
int core_child_terminal(kern_box *box, struct kern_error *err);
/* Executes the command, or leaves its reason in shared->exec_errno and the error. Returns the exit code to die with. */
int core_exec_command(kern_box *box, struct kern_error *err);
/* Closes all that kern had open but the channel. */
int core_close_inherited(const kern_box *box, struct kern_error *err);
/* A session of its own, default signals, umask 022. */
void core_forget_caller(void);
/* --init: runs the command as a child, forwards signals, reaps; returns the exit code. */
int core_run_init(kern_box *box, struct kern_error *err);

#endif
