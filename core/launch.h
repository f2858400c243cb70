/* From prepared state to a running command: clone, id maps, the outer init, the box's first process. */
#ifndef CORE_LAUNCH_H
#define CORE_LAUNCH_H

#include "box.h"

/* Clones the outer init and writes the id maps that it cannot write itself; it then starts the box. How that went is in
 * box->shared. Host side. */
int core_launch(kern_box *box, struct kern_error *err);
/* Waits until the outer init, and with it every mount and namespace of the box, is gone. Host side. */
void core_launch_wait(kern_box *box);
/* Ends an outer init, at whatever it is. Harmless when there is none. Host side. */
void core_launch_undo(kern_box *box);

/* `kern run`: the command, as a process of the host in the box's control groups, below a keeper. Host side. */
int core_launch_host(kern_box *box, struct kern_error *err);
/* Waits for the keeper to end, and says so when something of the command's outlives it. */
void core_launch_host_finish(kern_box *box);

/* The stacks of a box that has ended, before it runs again. Host side. */
void core_launch_forget(kern_box *box);

/* Asks newuidmap and newgidmap, side by side, to write the maps of `pid`. Host side. */
int core_map_with_helpers(const struct kern_ids *ids, pid_t pid, struct kern_error *err);

/* Adds the hint that fits a failed clone: which setting of the host forbids user namespaces. Host side. */
void core_explain_userns(int code, struct kern_error *err);

/* The outer init: PID 1 of the outer pid namespace, owner of the box's mounts, alive as long as the box. */
int core_outer_main(void *box);

/* The first process ends with this when a plugin calls abort() in enter. */
#define CORE_ABORTED (128 + 6)
/* The box's first process: PID 1 of the inner pid namespace; becomes the command. */
int core_inner_main(void *box);

/* futex(2) on a word of the shared page. wait returns when the word is no longer 0. */
void core_signal_word(_Atomic uint32_t *word, uint32_t value);
void core_await_word(_Atomic uint32_t *word);

#endif
