/* Resource limits and priority of the command. The first half runs in kern, which alone may raise anything; the second
 * in the box's first process. */
#ifndef CREDS_LIMITS_H
#define CREDS_LIMITS_H

#include "creds_ulimit.h"

/* Makes sure that the box's first process will be allowed to set this. */
int creds_limits_permit(const struct creds_ulimit *wanted, struct kern_error *err);
int creds_limits_permit_nice(int nice, struct kern_error *err);

int creds_limits_set(const struct creds_ulimit *wanted, struct kern_error *err);
int creds_limits_set_nice(int nice, struct kern_error *err);

#endif
