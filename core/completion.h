/* Completions for three shells, printed from the table of verbs and the option tables. Each is one function that
 * writes a whole script; host side. */
#ifndef CORE_COMPLETION_H
#define CORE_COMPLETION_H

#include "catalog.h"
#include "verbs.h"

#include <stdio.h>

void core_completion_bash(FILE *out, const struct core_catalog *catalog);
void core_completion_zsh(FILE *out, const struct core_catalog *catalog);
void core_completion_fish(FILE *out, const struct core_catalog *catalog);

/* Calls `fn` for each flag of the verb that help shows. */
typedef void (*core_completion_fn)(FILE *out, const struct core_verb *verb, const struct kern_option *option);
void core_completion_each(FILE *out, const struct core_verb *verb, const struct core_catalog *catalog,
                          core_completion_fn fn);

#endif
