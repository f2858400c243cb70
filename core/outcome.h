/* How a box ended: exit code, signal, fault. Pure; the one place where that is decided. */
#ifndef CORE_OUTCOME_H
#define CORE_OUTCOME_H

#include "kern/plugin.h"

#include <stdbool.h>

struct core_outcome {
    int32_t exit_code;
    int32_t signal;
    bool started;
    const char
        *fault; /* NULL, timeout, oom, killed, escape_blocked, exec_failed, startup_failed, workspace_full */
    char message[640];
};

/* Everything that is known when the box has ended. */
struct core_evidence {
    const struct kern_error *error; /* category NONE: nothing failed */
    bool ended;                     /* status is valid */
    int status;                     /* wait status of the command */
    bool executed;
    int exec_failed; /* 0, 125, 126 or 127 */
    bool timed_out;
    int64_t timeout_ms;
    int stop_signal; /* that kern forwarded or was asked for, or 0 */
    bool oom;        /* the kernel's OOM killer acted against a cap of kern's */
    uint64_t memory_cap;
    uint64_t fleet_cap;       /* of all boxes together, where that was the cap; else 0 */
    const char *blocked_call; /* the filter killed its caller for this call; NULL: never */
    bool blocked_init;        /* kern killed PID 1 of the box for it, by SIGKILL */
    const char *blocked_program;
    const char *worker_lost; /* plugin whose worker ended first; NULL: none */
    const char *end_fault;   /* a plugin ended the box for this; NULL: none did */
    const char *end_message;
    const char *plugin_lost; /* plugin that crashed or hung while the box ran; NULL: none */
};

void core_classify(const struct core_evidence *evidence, struct core_outcome *ret_outcome);

#endif
