/* Starting a process in a function: see clone3.S and clone.c. */
#ifndef CORE_CLONE_H
#define CORE_CLONE_H

#include <linux/sched.h>
#include <stddef.h>

/* clone3(2); on a copy of this stack where args->stack is 0. Inside another sandbox clone3 may be unknown (ENOSYS, because a
 * filter cannot look into its arguments): then, for copies, the old call does it. Returns the pid or -errno. */
long core_clone(struct clone_args *args, int (*fn)(void *), void *arg);

#endif
