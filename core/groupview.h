/* What the control groups of a living box say, read from outside by verbs. Host side. */
#ifndef CORE_GROUPVIEW_H
#define CORE_GROUPVIEW_H

#include "records.h"

/* -1 where the kernel keeps no such figure for the box. */
struct core_group_figures {
    int64_t memory, cpu_usec, tasks, read_bytes, written_bytes;
};
void core_group_read(const struct core_record *record, struct core_group_figures *ret_figures);
/* How often the OOM killer has struck because of the box's own cap. */
int64_t core_group_oom_kills(const struct core_record *record);
/* Freezes or thaws all processes of the box. 0, or -errno: -EOPNOTSUPP where no group of the box can do that. */
int core_group_freeze(const struct core_record *record, bool freeze);

#endif
