/* --ulimit NAME=SOFT[:HARD] with Docker's names. Pure. */
#ifndef CREDS_ULIMIT_H
#define CREDS_ULIMIT_H

#include "kern/plugin.h"

#include <sys/resource.h>

struct creds_ulimit {
    int32_t resource; /* RLIMIT_* */
    struct rlimit limit;
};

int creds_ulimit_parse(const char *text, struct creds_ulimit *ret_ulimit, struct kern_error *err);

/* RLIMIT_NOFILE -> "nofile". */
const char *creds_ulimit_name(int resource);

/* A limit as the option spells it: "1024" or "unlimited". */
struct creds_ulimit_text {
    char text[24];
};
struct creds_ulimit_text creds_ulimit_format(rlim_t value);

#endif
