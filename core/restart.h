/* --restart and --health-*: what keeps a detached box up. In its supervisor. */
#ifndef CORE_RESTART_H
#define CORE_RESTART_H

#include "box.h"

/* "no", "always", "on-failure", "on-failure:N". Pure. ret_most stays as it is where no N is given. */
enum core_restart { CORE_RESTART_NO, CORE_RESTART_FAILURE, CORE_RESTART_ALWAYS };
int core_restart_parse(const char *text, enum core_restart *ret_policy, int64_t *ret_most);
/* Milliseconds before restart number `count` (from 0) in a row. Pure. */
int64_t core_restart_delay(uint32_t count);
/* Before anything is started: whether these options make sense. */
int core_restart_check(const kern_box *box, struct kern_error *err);

/* The box has ended and its plugins are torn down. True when it is to run again, after a pause in which it can still be
 * asked, and told to stop. */
bool core_restart_pause(kern_box *box, const struct core_outcome *outcome);
/* Makes the box what it was before its first run; its name, its record and its socket stay claimed. */
void core_restart_renew(kern_box *box);

/* The loop's share: milliseconds of CLOCK_MONOTONIC when health is to be looked at next, 0 never; and the look. */
int64_t core_health_due(const kern_box *box);
void core_health_look(kern_box *box);
/* The check has ended, as waitpid says it. */
void core_health_result(kern_box *box, int status);

#endif
