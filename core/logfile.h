/* The log of a detached box: two files that take turns, lines of "TIME STREAM F|P TEXT" (P: the line goes on). */
#ifndef CORE_LOGFILE_H
#define CORE_LOGFILE_H

#include "kern/plugin.h"

#include <stddef.h>

#define CORE_LOG_PIECE 8192 /* bytes of text in one line of the log at most */

/* The worker that writes it: reads fds[0] (standard output) and fds[1] (standard error) to their ends; fds[2] and fds[3]
 * are the files. */
int32_t core_logfile_main(kern_box *box, void *state, const int32_t *fds, uint32_t count);

/* One line of a log, without its newline. */
struct core_log_line {
    const char *time; /* "2026-01-02T03:04:05.123456789Z", sortable as text */
    size_t time_length;
    int stream; /* 1 or 2 */
    int whole;  /* a newline followed */
    const char *text;
    size_t length;
};
/* 0, or -EINVAL for a line that no kern wrote. Pure. */
int core_logfile_parse(const char *line, size_t length, struct core_log_line *ret_line);

#endif
