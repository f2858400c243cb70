/* --secret: files that only the box has, in /run/secrets. Host side, before the plugins prepare. */
#ifndef CORE_SECRETS_H
#define CORE_SECRETS_H

#include "box.h"

/* Where a secret comes from and what it is called: "FILE", "FILE:NAME", "NAME=-". Pure. */
struct core_secret {
    char name[65];
    char path[4096]; /* "-": standard input */
};
int core_secret_parse(const char *text, struct core_secret *ret_secret, struct kern_error *err);

struct core_secret_file {
    char target[96];
    char *bytes;
    size_t length;
};

void core_secrets_clear(kern_box *box);
/* Reads those that the options name and adds them to the box. What they say is never on a command line, in a record, or in a
 * report. */
int core_secrets_add(kern_box *box, struct kern_error *err);

#endif
