/* kern/plugin_test.h: a fake box, to test the hooks of a plugin without privileges and without kern. Link libkern-plugin-test.a
 * together with the plugin's own objects: it defines every function of kern/plugin.h. Options are parsed and checked by kern's
 * own code; whatever the plugin asks for is written down, one line each, and nothing is done. For tests only.
 *
 *     kern_box *box = kern_fake_new(&kern_plugin_table);
 *     kern_fake_profile(box, "morning", "text", "good morning", NULL);
 *     assert(kern_fake_prepare(box, &err) == 0);
 *     assert(kern_fake_asked(box, "file /etc/greeting 0444 good morning"));
 *     kern_fake_free(box);
 *
 * The lines, by the function that writes them:
 *
 *     file TARGET 0MODE TEXT                     kern_add_file
 *     bind SOURCE TARGET FLAGS                   kern_add_bind; SOURCE is a path; FLAGS as 0x1
 *     tmpfs TARGET SIZE 0MODE FLAGS              kern_add_tmpfs
 *     link TARGET TO                             kern_add_link
 *     env NAME=VALUE                             kern_set_env
 *     option NAME=VALUE                          kern_set_option
 *     namespace 0xFLAG                           kern_add_namespace
 *     note TEXT, warning TEXT                    kern_note, kern_warn
 *     receive TAG, send TAG, watch FD, unwatch FD, worker COUNT
 *     rule CALL allow|errno N|notify, handler CALL, finish CALL
 *     report KEY=VALUE, denied KIND WHAT (REASON)
 *     event                                      kern_on_event
 */
#ifndef KERN_PLUGIN_TEST_H
#define KERN_PLUGIN_TEST_H

#include <kern/plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define KERN_SENTINEL __attribute__((sentinel))
#else
#define KERN_SENTINEL
#endif

/* The table that KERN_PLUGIN() defines in the plugin's own source. */
extern const struct kern_plugin kern_plugin_table;

/* A box for this plugin, with zeroed state and its options at their defaults. NULL: no memory, or a default that does not parse (said
 * on stderr). */
kern_box *kern_fake_new(const struct kern_plugin *plugin);
void kern_fake_free(kern_box *box);

/* As [[plugin]] KEY = TEXT or --NAME-KEY TEXT. 0, or a negative errno with kern's own message in err (may be NULL). */
int kern_fake_option(kern_box *box, const char *key, const char *text, struct kern_error *err);
/* As KIND:NAME with the keys and texts that follow, up to NULL. The plugin's check judges it: its answer is returned, and the message
 * is in kern_fake_error(). */
int kern_fake_profile(kern_box *box, const char *name, ...) KERN_SENTINEL;
const struct kern_error *kern_fake_error(const kern_box *box);
/* What kern_box_root() opens; by default there is no root. */
int kern_fake_root(kern_box *box, const char *path);
/* What kern_box_name() and kern_box_strict() say; "fake" and 0 by default. */
void kern_fake_name(kern_box *box, const char *name, int32_t strict);
/* What kern_box_bare() says, 0 by default: with 1 what needs a box is refused, as under `kern run`. */
void kern_fake_bare(kern_box *box, int32_t bare);

/* The hooks. Each may be called as kern would; kern_fake_teardown(box, NULL) stands for a box that ran and returned 0. */
int kern_fake_prepare(kern_box *box, struct kern_error *err);
int kern_fake_enter(kern_box *box, struct kern_error *err);
void kern_fake_teardown(kern_box *box, const struct kern_outcome *outcome);
void *kern_fake_state(kern_box *box);

/* The `nth` call (from 1) of this function fails with `code`: kern_fake_fail(box, "kern_add_file", 1, ENOSPC). */
void kern_fake_fail(kern_box *box, const char *function, uint32_t nth, int code);

/* What was asked for: 1 when a line begins with this text; how many do; line number `index`, or NULL. */
int kern_fake_asked(const kern_box *box, const char *line);
uint32_t kern_fake_count(const kern_box *box, const char *beginning);
const char *kern_fake_line(const kern_box *box, uint32_t index);

/* What kern would call: the functions given to kern_receive_fd, kern_watch, kern_add_worker (the first one), kern_on_call and
 * kern_on_event. They return -1 when there is none; what enter sent is delivered at once. */
int kern_fake_wake(kern_box *box, int32_t fd, uint32_t events);
int kern_fake_work(kern_box *box);
int kern_fake_call(kern_box *box, struct kern_call *call);
int kern_fake_event(kern_box *box, const struct kern_event *event);

#ifdef __cplusplus
}
#endif

#endif
