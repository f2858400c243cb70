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

/* Code of a plugin while there is no box: fn(arg). Returns 0, the signal that it crashed with, that it meant to end the process, or
 * that it had not come to its end after 10 s, or a moment after SIGINT or SIGTERM. What that takes is set up by the first call and
 * serves all others of the process, until core_guard_open(); between them signals end kern as they would without it. */
#define CORE_GUARD_LEFT (-1)
#define CORE_GUARD_HUNG (-2)
int core_guard_alone(void (*fn)(void *), void *arg);
/* The same for the opening of a plugin, which runs its constructors. Once this was called, kern itself must end with _exit(). */
int core_guard_opening(void (*fn)(void *), void *arg);
/* Somebody calls `function` to end the process: does not return where that is a hook, which is given up instead. (exits.c) */
void core_guard_leaving(const char *function, int code);

/* ---- KERN_DEBUG=plugins ---- */

/* Whether it is on for this box. */
bool core_guard_debugs(const kern_box *box);

struct core_hook_state {
    uint64_t mask, ignored, caught, handlers;
    uint32_t threads, children, umask;
    char folder[256], locale[256];
};

/* `proc`: the host's /proc where the root is another one, or -1. */
void core_hookcheck_before(int proc, struct core_hook_state *ret_before);
/* A bit for each thing that differs now. */
uint32_t core_hookcheck_differs(int proc, const struct core_hook_state *before);
/* Warns of these. */
void core_hookcheck_tell(kern_box *box, const char *plugin, const char *phase, uint32_t differs);
/* Descriptors: from before prepare until after teardown. `held` has a bit for each number that was open. */
void core_hookcheck_mark(uint64_t held[16]);
void core_hookcheck_new(kern_box *box, const struct core_plugin *plugin, const uint64_t held[16],
                        uint64_t ret_own[16]);
/* What a callback opened is the plugin's to close as well. */
void core_hookcheck_keep(struct core_plugin *plugin, const uint64_t held[16]);
void core_hookcheck_closed(kern_box *box, const struct core_plugin *plugin, const uint64_t own[16]);
/* Those that are open now and were not before the hook. */
void core_hookcheck_opened(kern_box *box, const struct core_plugin *plugin, const char *phase,
                           const uint64_t held[16]);
/* Calls enter of a plugin, in the box's first process. With KERN_DEBUG=plugins, what one of a third party leaves behind is written
 * onto the shared page, where kern finds it. The hook's own result. */
int core_guard_enter(kern_box *box, struct core_plugin *plugin, struct kern_error *err);
int core_hookcheck_enter(kern_box *box, struct core_plugin *plugin, struct kern_error *err);
/* kern, when the box has ended: warns of that. */
void core_hookcheck_entered(kern_box *box);

#endif
