/* Docker's credential helpers: programs that keep secrets. Runs in kern itself, as the caller. */
#ifndef REGISTRY_HELPER_H
#define REGISTRY_HELPER_H

#include "kern/plugin.h"

#define REGISTRY_HELPER_ANSWER 65536

/* Runs docker-credential-NAME with one word ("get", "store", "erase") and `input` on its standard input; what it prints is
 * in ret_answer (REGISTRY_HELPER_ANSWER bytes), NUL-terminated. -ENOENT without an error text: it knows no credentials. */
int registry_helper_run(const char *name, const char *word, const char *input, char *ret_answer,
                        struct kern_error *err);

#endif
