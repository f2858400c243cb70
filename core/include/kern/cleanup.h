/* kern/cleanup.h: scope-exit cleanup: descriptors, heap blocks and directory streams that close themselves when their
 * variable leaves scope, and steal_*() that hands ownership on. Used on both sides of the clone. Nothing but inline
 * functions for C: a plugin may use it and is bound to nothing by that. Include it in .c files only, for its names are
 * short. */
#ifndef KERN_CLEANUP_H
#define KERN_CLEANUP_H

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define cleanup(fn) __attribute__((cleanup(fn)))

static inline void kern_close_fd(int *fd)
{
    if (*fd < 0)
        return;
    int keep = errno;
    (void)close(*fd); /* nothing can be done about it, and errno belongs to the failure being reported */
    errno = keep;
    *fd = -1;
}

static inline void kern_free_ptr(void *where)
{
    void **p = where;
    free(*p);
    *p = NULL;
}

static inline void kern_close_dir(DIR **dir)
{
    if (*dir != NULL)
        (void)closedir(*dir); /* a directory stream has nothing to flush */
    *dir = NULL;
}

static inline void kern_close_file(FILE **file)
{
    if (*file != NULL)
        (void)fclose(*file); /* callers that write check with fflush first */
    *file = NULL;
}

#define auto_fd   cleanup(kern_close_fd) int
#define auto_free cleanup(kern_free_ptr)
#define auto_dir  cleanup(kern_close_dir) DIR *
#define auto_file cleanup(kern_close_file) FILE *

static inline int steal_fd(int *fd)
{
    int taken = *fd;
    *fd = -1;
    return taken;
}

static inline void *kern_steal(void *where)
{
    void **p = where;
    void *taken = *p;
    *p = NULL;
    return taken;
}

#define steal_ptr(p) ((__typeof__(p))kern_steal(&(p)))

#endif
