/* --user USER[:GROUP] and the lines of the box's /etc/passwd and /etc/group that explain it. Pure; the matching
 * half runs in the box's first process, so nothing here allocates.
 *
 * A string must never become user 0 by accident: C's number readers turn "", "0x0", "root\n" or 2^32 into a zero,
 * and -1 tells setresuid() to change nothing at all. So what is not plainly a number or plainly a name is refused. */
#ifndef CREDS_USER_H
#define CREDS_USER_H

#include "kern/plugin.h"

#include <stdbool.h>

/* (uint32_t)-1 means "leave as it is" to the kernel and is nobody's id. */
#define CREDS_ID_MAX UINT32_C(4294967294)

struct creds_id {
    bool given;
    char name[64]; /* empty: `number` counts */
    uint32_t number;
};

struct creds_user {
    struct creds_id user;
    struct creds_id group;
};

/* What the box says about a user. */
struct creds_account {
    uint32_t uid;
    uint32_t gid;
    char home[256];
};

int creds_user_parse(const char *text, struct creds_user *ret_user, struct kern_error *err);

/* Judges one line without its newline: 1 it is the one, 0 it is not, -EINVAL it is the one named and makes no sense. */
int creds_user_match_passwd(const char *line, size_t length, const struct creds_id *wanted,
                            struct creds_account *ret_account);
int creds_user_match_group(const char *line, size_t length, const struct creds_id *wanted, uint32_t *ret_gid);

#endif
