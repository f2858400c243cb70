/* How verbs ask a supervisor to start something in its box; the other end is execs.c. Host side. */
#ifndef CORE_EXEC_CLIENT_H
#define CORE_EXEC_CLIENT_H

#include "execs.h"

/* Sends `ask` (its size is filled in), the words and the three standard streams on a connection to the supervisor of the box
 * `name`. Takes no descriptor. */
int core_exec_ask(int client, const char *name, struct core_exec_ask *ask, const struct core_list *words,
                  const int streams[3], struct kern_error *err);

#endif
