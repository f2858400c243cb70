/* The life of a box, from a spec to an outcome. Host side. */
#ifndef CORE_ENGINE_H
#define CORE_ENGINE_H

#include "box.h"

/* A box with nothing in it: every descriptor -1. */
void core_box_init(kern_box *box);
/* Frees what it holds; harmless on a half-built one. */
void core_box_clear(kern_box *box);

/* Runs the box that the spec describes, to its end. Fills the outcome; `err` is set when it never got to its command, and
 * has been neither printed nor reported. The caller reports, then clears. */
void core_engine_run(kern_box *box, struct core_outcome *ret_outcome, struct kern_error *err);

/* Prepares the box as a run would, shows it, and takes everything back. */
void core_engine_plan(kern_box *box, void (*show)(const kern_box *box), struct kern_error *err);

/* KERN_DEBUG holds this word (comma-separated list). */
bool core_debug(const char *word);

#endif
