/* What `kern help` prints and the man pages are made of: the table of verbs and the option tables, set as text or as
 * roff. Host side. What is printed is not checked line by line: core_log_close_stdout() tells whether any was lost. */
#ifndef CORE_HELP_H
#define CORE_HELP_H

#include "catalog.h"
#include "verbs.h"

#include <stdio.h>

/* Help for `verb` (NULL: for kern) to standard output, as wide as the terminal. Returns the exit code. */
int core_help_print(const struct core_verb *verb);

/* The same as text: `width` columns. The catalog gives the options of `box`. */
void core_help_kern(FILE *out, int width);
void core_help_verb(FILE *out, const struct core_verb *verb, const struct core_catalog *catalog, int width);

/* Copies a man page template; lines that begin with "@" are replaced (docs/man/README.md). */
int core_help_roff(FILE *in, FILE *out, const struct core_catalog *catalog, struct kern_error *err);

/* ---- One option, for all three of help, man page and completion --------------------------------------- */

/* Shown: has one of the flags in `mask` and is part of this build. */
bool core_help_shows(const struct kern_option *option, uint32_t mask);
/* "SIZE", "[host|none]", or "" for a flag without value. */
void core_help_arg(const struct kern_option *option, char *ret_text, size_t size);
/* The one line of help with what the table knows besides: default, choices, whether it may be repeated. */
void core_help_line(const struct kern_option *option, char *ret_text, size_t size);

#endif
