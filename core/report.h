/* What is told to whoever started kern: the JSON report, the four bytes of KERN_STARTED_FD, KERN_ALIVE_FD. Host side. */
#ifndef CORE_REPORT_H
#define CORE_REPORT_H

#include "box.h"
#include "json.h"

/* Opens or adopts the descriptors that the caller named, before the clone. */
int core_report_open(kern_box *box, struct kern_error *err);
/* The byte A: kern has accepted KERN_ALIVE_FD. */
void core_report_alive(kern_box *box);
/* End of file, or in a regular file, which has none, the byte E: the command was executed. */
void core_report_executed(kern_box *box);
/* Any other byte: the setup failed. */
void core_report_not_alive(kern_box *box);
void core_report_started(kern_box *box, const struct core_outcome *outcome);
/* What was refused before anything was built is reported as well, if the words said `where`. The error itself is the caller's
 * to print. */
void core_report_refusal(kern_box *box, const char *where, const struct kern_error *error);
/* NAME: {"asked", "enforced", "by"}. */
void core_report_limit(struct core_json *json, const struct kern_limit *limit);
/* Writes the one JSON object. 0, or -errno when it could not be written whole. */
int core_report_write(kern_box *box, const struct core_outcome *outcome);

#endif
