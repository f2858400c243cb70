/* Names of signals: "SIGTERM", "term", "15". Pure. */
#ifndef CORE_SIGNALS_H
#define CORE_SIGNALS_H

/* The number, or 0 for what is none. */
int core_signal_number(const char *text);

#endif
