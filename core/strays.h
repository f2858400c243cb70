/* Empty groups of kern's that no record leads to; see strays.c. Host side. */
#ifndef CORE_STRAYS_H
#define CORE_STRAYS_H

#include <stddef.h>

struct core_strays {
    char **path; /* owned */
    size_t count;
};

void core_strays_find(struct core_strays *ret_strays);
/* Takes a second, in which none of them may have changed. */
void core_strays_remove(const struct core_strays *strays);
void core_strays_clear(struct core_strays *strays);

#endif
