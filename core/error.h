/* How a failure travels: fixed size, no pointers, so that the same bytes can be written by the box's first
 * process into the page it shares with the supervisor. The first cause wins: a second kern_fail() on an
 * error that is already set changes nothing. */
#ifndef CORE_ERROR_H
#define CORE_ERROR_H

#include "kern/plugin.h"

#include <stdarg.h>

/* Prefixes a set error with context ("cannot read kern.toml: ") while the cause stays. */
int core_error_vset(struct kern_error *err, uint32_t category, int code, const char *format, va_list args)
    __attribute__((format(printf, 4, 0)));

/* True once a cause has been recorded. */
static inline int core_error_is_set(const struct kern_error *err)
{
    return err->category != KERN_ERROR_NONE;
}

/* Records who was at work; kept only when no name was recorded before. */
void core_error_context(struct kern_error *err, const char *plugin, const char *phase);

#endif
