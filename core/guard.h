/* Hooks that go wrong on the host side: one that crashes or hangs is named and given up, and kern goes on to say so and to
 * put things back. With KERN_DEBUG=plugins it is also told what a hook left behind. In kern. */
#ifndef CORE_GUARD_H
#define CORE_GUARD_H

#include "box.h"

struct core_guard;

/* Without memory for it there is no guard: hooks run all the same, and a crash ends kern. */
void core_guard_open(kern_box *box);
void core_guard_close(kern_box *box);

/* While on, signals that ask kern to end are taken here instead of waiting for the loop. */
void core_guard_listen(kern_box *box, bool on);
/* The signal that asked kern to end while no loop ran, or 0. */
int core_guard_asked(const kern_box *box);

/* As the hooks themselves. A crash is -EFAULT with the error set; given up, -EINTR. */
int core_guard_prepare(kern_box *box, struct core_plugin *plugin, struct kern_error *err);
/* What goes wrong becomes a warning: the outcome stands. */
void core_guard_teardown(kern_box *box, struct core_plugin *plugin, const struct kern_outcome *told);
/* A callback of a plugin, from the loop: fn(arg). One that crashes or hangs ends the box, and box->plugin_lost names it. */
void core_guard_callback(kern_box *box, struct core_plugin *plugin, void (*fn)(void *), void *arg);

/* Whoever calls exit() in a hook is named, and kern ends with 125. Once this was called, kern itself must end with _exit(). */
void core_guard_exit(kern_box *box);
/* Opening a plugin runs its constructors: fn(arg), with no box yet. Returns 0, or the signal that it crashed with. */
int core_guard_opening(void (*fn)(void *), void *arg);

/* ---- KERN_DEBUG=plugins ---- */

struct core_hook_state {
    uint64_t mask, ignored, caught;
    uint32_t threads, children, umask;
    char folder[256], locale[256];
};

void core_hookcheck_before(struct core_hook_state *ret_before);
/* Warns of what differs. */
void core_hookcheck_after(kern_box *box, const struct core_plugin *plugin, const char *phase,
                          const struct core_hook_state *before);
/* Descriptors: from before prepare until after teardown. `held` has a bit for each number that was open. */
void core_hookcheck_mark(uint64_t held[16]);
void core_hookcheck_new(kern_box *box, const struct core_plugin *plugin, const uint64_t held[16],
                        uint64_t ret_own[16]);
void core_hookcheck_closed(kern_box *box, const struct core_plugin *plugin, const uint64_t own[16]);

#endif
