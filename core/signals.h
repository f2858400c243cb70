/* Signals: their names, "SIGTERM", "term", "15"; and which of them kern takes for itself. */
#ifndef CORE_SIGNALS_H
#define CORE_SIGNALS_H

#include <signal.h>
#include <stddef.h>

/* The number, or 0 for what is none. */
int core_signal_number(const char *text);
/* A set of those that whoever started kern does not ignore (nohup, a shell's &): a descriptor of signals would hear these as well. */
void core_signals_to_catch(const int *signals, size_t count, sigset_t *ret_set);

#endif
