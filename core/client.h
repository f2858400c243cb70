/* Talking to the supervisor of a living box, for verbs; the other end is control.c. */
#ifndef CORE_CLIENT_H
#define CORE_CLIENT_H

#include "records.h"

/* Connects to the control socket of the box. A box that has just been started gets a moment to have one. */
int core_client_connect(const struct core_record *record, int *ret_fd, struct kern_error *err);
/* One request, one answer (NUL-terminated). An answer that begins
 * with "error: " is an error. */
int core_client_ask(const struct core_record *record, const char *request, char *ret_answer, size_t size,
                    struct kern_error *err);
/* As above, for what goes on after the answer: the connection is the caller's then. */
int core_client_begin(const struct core_record *record, const char *request, char *ret_answer, size_t size,
                      int *ret_fd, struct kern_error *err);
/* Sends "wait"; the answer comes with core_client_exit(). */
int core_client_wait(const struct core_record *record, int *ret_fd, struct kern_error *err);
/* The exit code that the supervisor says at the end, or -1 when it died without a word. */
int core_client_exit(int fd);

#endif
