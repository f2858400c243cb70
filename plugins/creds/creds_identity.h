/* Who the command is: looks --user up in the box, takes its ids, sheds capabilities. Runs in the box's first process
 * after the pivot, with full capabilities in its user namespace; raw system calls only. */
#ifndef CREDS_IDENTITY_H
#define CREDS_IDENTITY_H

#include "creds_user.h"

/* Fills in what numbers `wanted` stands for and where its home is. `spelled` is the text of --user, for errors; `root`
 * is the box's root; `buffer` holds lines. */
int creds_identity_find(int root, const struct creds_user *wanted, const char *spelled, char *buffer,
                        size_t size, struct creds_account *ret_account, struct kern_error *err);

/* Narrows what any later program of the box can ever regain to `kept`. */
int creds_identity_bound(uint64_t kept, struct kern_error *err);

/* Groups, then group, then user. `count` is how many ids the box has, for the error. */
int creds_identity_take(const struct creds_account *account, const char *spelled, uint32_t count,
                        struct kern_error *err);
int creds_identity_shed_groups(struct kern_error *err);

/* Leaves this process with `kept` and nothing inheritable or ambient. Those in `asked` must be among them. */
int creds_identity_keep(uint64_t kept, uint64_t asked, struct kern_error *err);

#endif
