/* Living boxes: one locked state file each in the run directory. The lock is the truth: it falls when the supervisor and
 * the outer init are both gone, however that came about, and only what is unlocked is swept. Host side. */
#ifndef CORE_REGISTRY_H
#define CORE_REGISTRY_H

#include "box.h"

/* Finds or makes the run directory (0700, ours) and the empty directory to mount on. Fills box->run_fd and mount_point. */
int core_registry_open(kern_box *box, struct kern_error *err);

/* Claims box->name (or makes one up) under a lock, before the box makes anything. Fills name, id and state_fd. */
int core_registry_claim(kern_box *box, struct kern_error *err);

/* The same box runs again: its state starts anew, and its name stays claimed meanwhile. */
int core_registry_renew(kern_box *box, struct kern_error *err);

/* Appends "KEY VALUE" to the state file, before the thing it names is made. */
int core_registry_record(kern_box *box, const char *key, const char *value, struct kern_error *err);

/* Takes the box out: nothing of it is left. */
void core_registry_release(kern_box *box);

/* Where this user's run directory may be: 1 with a path, 0 when this choice does not apply, -1 past the last one. */
int core_registry_place(unsigned choice, char *ret_path, size_t size);

/* Removes what dead boxes left behind (groups, scratch, sockets, state), in every run directory of this user. */
void core_registry_sweep(const kern_box *box);
/* The same, also when another kern is sweeping: it waits for that one and looks again. */
void core_registry_sweep_now(const kern_box *box);

/* For verbs that look at boxes from outside: this user's run directories (0 .. CORE_RUN_PLACES - 1; the same one may come
 * twice), or -1; a folder in one, if it is ours alone; and the sweep of them all. */
#define CORE_RUN_PLACES 3u
int core_registry_run(unsigned choice);
int core_registry_folder(int run_fd, const char *name);
void core_registry_sweep_all(void);
/* Tells of each thing that a dead box left: its kind, name, and size in bytes (0 where it has none). Removes nothing. */
typedef void (*core_lost_fn)(void *context, const char *box, const char *kind, const char *what,
                             uint64_t bytes);
void core_registry_list_lost(core_lost_fn tell, void *context);

#endif
