/* The only door to stderr. kern's lines start with "kern: ", benign ones with "kern: note: " or "kern: warning: ", what
 * mends a failure with "hint: "; clients sort the workload's stderr from ours by these prefixes. */
#ifndef CORE_LOG_H
#define CORE_LOG_H

#include "kern/plugin.h"

#include <stdbool.h>
#include <stddef.h>

/* Whether a switch among the environment variables (KERN_QUIET, KERN_TIMING) is on: empty and 0 are off. */
bool core_log_switch(const char *name);
/* -q and KERN_QUIET: benign lines are not printed. Decided once, before anything is printed. */
void core_log_set_quiet(bool quiet);

void core_log_error(const struct kern_error *err);
void core_log_note(const char *format, ...) KERN_PRINTF(1, 2);
void core_log_warning(const char *format, ...) KERN_PRINTF(1, 2);
/* The one benign line that clients know by a prefix of its own. */
void core_log_profile(const char *name);
/* A line after "kern: " that is neither benign nor carries a hint: "cannot start 'X' in box: ...". */
void core_log_failure(const char *format, ...) KERN_PRINTF(1, 2);

/* Copies `text` with control characters, quotes' escapes and invalid UTF-8 made visible, always terminated. */
void core_escape(const char *text, char *ret_text, size_t size);

/* Flushes standard output; a write that was lost is an error of the verb. Returns 0 or 1. */
int core_log_close_stdout(void);

#endif
