/* A descriptor that closes itself, for the box's first process: like auto_fd of core/cleanup.h, but by a raw call, as
 * close() and the saving of errno would write a variable that belongs to the supervisor as well. */
#ifndef CREDS_FD_H
#define CREDS_FD_H

#include "kern/cleanup.h"
#include "kern/sys.h"

static inline void creds_close_fd(const int *fd)
{
    if (*fd >= 0)
        (void)sys_close(*fd); /* nothing was written that could still fail */
}

#define auto_raw_fd cleanup(creds_close_fd) int

#endif
