/* How a box ended; see outcome.h. Pure. The order of the questions is a property of security: what the supervisor itself
 * did or saw comes first, and nothing that the box's code chose (an exit code of 137, a line on stderr) can imitate it. */
#include "outcome.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#define EXIT_REFUSED 1
#define EXIT_BUILD   125

static void say(struct core_outcome *outcome, const char *fault, const char *text)
{
    outcome->fault = fault;
    (void)snprintf(outcome->message, sizeof(outcome->message), "%s", text); /* cut rather than lost */
}

/* The command never ran. */
static void classify_failure(const struct core_evidence *evidence, struct core_outcome *outcome)
{
    const struct kern_error *error = evidence->error;
    bool refused = error->category == KERN_ERROR_REFUSED;
    if (evidence->exec_failed == 126 || evidence->exec_failed == 127) {
        outcome->exit_code = evidence->exec_failed;
        say(outcome, "exec_failed", error->message);
        return;
    }
    outcome->exit_code = refused ? EXIT_REFUSED : EXIT_BUILD;
    say(outcome, "startup_failed",
        error->message[0] != '\0' ? error->message : "the box ended while it was built");
}

/* Ended before exec without an error of its own: somebody wanted it so. */
static bool ended_on_request(const struct core_evidence *evidence)
{
    return evidence->timed_out || evidence->stop_signal != 0 || evidence->end_fault != NULL;
}

static void classify_timeout(const struct core_evidence *evidence, struct core_outcome *outcome)
{
    char text[96];
    (void)snprintf(text, sizeof(text), "the box ran longer than %.6g s",
                   (double)evidence->timeout_ms / 1000.0); /* fits */
    outcome->exit_code = 128 + SIGTERM;                    /* contract: whichever signal ended it */
    outcome->signal = SIGTERM;
    say(outcome, "timeout", text);
}

static void classify_blocked(const struct core_evidence *evidence, struct core_outcome *outcome)
{
    char text[128];
    (void)snprintf(text, sizeof(text), "system call %s of '%s' is blocked by the filter",
                   evidence->blocked_call, evidence->blocked_program); /* fits by its parts */
    outcome->exit_code = 128 + SIGSYS;
    outcome->signal = SIGSYS;
    say(outcome, "escape_blocked", text);
}

static void classify_oom(const struct core_evidence *evidence, struct core_outcome *outcome)
{
    char text[128];
    if (evidence->fleet_cap > 0)
        (void)snprintf(text, sizeof(text), "out of memory: the cap of all boxes together is %llu bytes",
                       (unsigned long long)evidence->fleet_cap); /* fits */
    else
        (void)snprintf(text, sizeof(text), "out of memory: the cap is %llu bytes",
                       (unsigned long long)evidence->memory_cap); /* fits */
    say(outcome, "oom", text);
}

static void classify_signal(const struct core_evidence *evidence, int signal, struct core_outcome *outcome)
{
    outcome->exit_code = 128 + signal;
    outcome->signal = signal;
    if (evidence->blocked_call != NULL && (signal == SIGSYS || (signal == SIGKILL && evidence->blocked_init)))
        classify_blocked(evidence, outcome);
    else if (evidence->oom && signal == SIGKILL)
        classify_oom(evidence, outcome);
    else if (evidence->stop_signal != 0) {
        /* A PID 1 without a handler had to be killed: report what was asked for. */
        outcome->signal = signal == SIGKILL ? evidence->stop_signal : signal;
        outcome->exit_code = 128 + outcome->signal;
    } else if (signal == SIGSYS)
        say(outcome, "escape_blocked", "a system call is blocked by the filter");
    else if (signal == SIGKILL)
        say(outcome, "killed", "killed from outside");
}

void core_classify(const struct core_evidence *evidence, struct core_outcome *ret_outcome)
{
    *ret_outcome = (struct core_outcome){0};
    if (!evidence->executed && !ended_on_request(evidence)) {
        classify_failure(evidence, ret_outcome);
        return;
    }
    ret_outcome->started = evidence->executed;
    if (evidence->timed_out) {
        classify_timeout(evidence, ret_outcome);
        return;
    }
    if (evidence->end_fault != NULL) {
        ret_outcome->exit_code = 128 + SIGKILL;
        ret_outcome->signal = SIGKILL;
        say(ret_outcome, evidence->end_fault, evidence->end_message);
        return;
    }
    if (evidence->worker_lost != NULL || evidence->plugin_lost != NULL) {
        char text[96];
        if (evidence->worker_lost != NULL)
            (void)snprintf(text, sizeof(text), "the worker of plugin %s ended",
                           evidence->worker_lost); /* fits */
        else
            (void)snprintf(text, sizeof(text), "plugin %s crashed or hung while the box ran",
                           evidence->plugin_lost); /* fits */
        ret_outcome->exit_code = 128 + SIGKILL;
        ret_outcome->signal = SIGKILL;
        say(ret_outcome, "killed", text);
        return;
    }
    if (!evidence->ended || WIFSIGNALED(evidence->status)) {
        classify_signal(evidence, evidence->ended ? WTERMSIG(evidence->status) : SIGKILL, ret_outcome);
        return;
    }
    int code = WEXITSTATUS(evidence->status);
    ret_outcome->exit_code = code;
    if (evidence->blocked_call != NULL && code == 128 + SIGSYS)
        classify_blocked(evidence, ret_outcome);
    else if (evidence->oom && code == 128 + SIGKILL)
        classify_oom(evidence, ret_outcome);
}
