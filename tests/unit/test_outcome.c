/* How a box ended: a table of what is known afterwards, and what is made of it. Pure. */
#include "outcome.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define EXITED(code)   .executed = true, .ended = true, .status = (code) << 8
#define SIGNALED(sig)  .executed = true, .ended = true, .status = (sig)
#define CODE(n)        .exit_code = (n), .started = 1
#define DIED_OF(sig)   .exit_code = 128 + (sig), .signal = (sig), .started = 1
#define BLOCKED        .blocked_call = "bpf", .blocked_program = "sh"
#define OUT_OF_MEMORY  .oom = true, .memory_cap = 1048576
#define FLEET_IS_OUT   .oom = true, .memory_cap = 1048576, .fleet_cap = 8388608
#define LONGER_THAN_2S .timed_out = true, .timeout_ms = 2000, .stop_signal = SIGTERM

static const struct kern_error nothing = {0};
static const struct kern_error refused = {.category = KERN_ERROR_REFUSED, .message = "cannot find \"x\""};
static const struct kern_error broken = {.category = KERN_ERROR_BUILD, .message = "cannot mount \"x\""};

struct row {
    const char *what;
    struct core_evidence evidence;
    int32_t exit_code, signal;
    int started;
    const char *fault, *part; /* part: of the message */
};

static const struct row rows[] = {
    /* The command's own codes, whatever they look like. */
    {"success", {EXITED(0)}, CODE(0)},
    {"one", {EXITED(1)}, CODE(1)},
    {"125", {EXITED(125)}, CODE(125)},
    {"126", {EXITED(126)}, CODE(126)},
    {"127", {EXITED(127)}, CODE(127)},
    {"137", {EXITED(137)}, CODE(137)},
    {"143", {EXITED(143)}, CODE(143)},
    {"159", {EXITED(159)}, CODE(159)},
    {"255", {EXITED(255)}, CODE(255)},
    {"a signal", {SIGNALED(SIGSEGV)}, DIED_OF(SIGSEGV)},
    {"a signal with a core", {SIGNALED(SIGABRT | 0x80)}, DIED_OF(SIGABRT)},
    {"its own SIGTERM", {SIGNALED(SIGTERM)}, DIED_OF(SIGTERM)},
    {"a code after a stop", {EXITED(3), .stop_signal = SIGTERM}, CODE(3)},
    {"137 after a stop", {EXITED(137), .stop_signal = SIGTERM}, CODE(137)},
    {"143 after a stop", {EXITED(143), .stop_signal = SIGTERM}, CODE(143)},

    /* Killed from outside. */
    {"SIGKILL", {SIGNALED(SIGKILL)}, DIED_OF(SIGKILL), "killed", "from outside"},
    {"no status at all", {.executed = true}, DIED_OF(SIGKILL), "killed", "from outside"},
    {"SIGKILL after a blocked child",
     {SIGNALED(SIGKILL), BLOCKED},
     DIED_OF(SIGKILL),
     "killed",
     "from outside"},
    {"a full workspace",
     {SIGNALED(SIGKILL), .end_fault = "workspace_full", .end_message = "\"/w\" holds more than 1 MiB"},
     DIED_OF(SIGKILL),
     "workspace_full",
     "/w"},
    {"a full workspace that ended by itself",
     {EXITED(0), .end_fault = "workspace_full", .end_message = "\"/w\" holds more than 1 MiB"},
     DIED_OF(SIGKILL),
     "workspace_full",
     "/w"},
    {"worker lost",
     {SIGNALED(SIGKILL), .worker_lost = "egress"},
     DIED_OF(SIGKILL),
     "killed",
     "the worker of plugin egress"},
    {"worker lost, another code", {EXITED(0), .worker_lost = "egress"}, DIED_OF(SIGKILL), "killed", "egress"},
    {"worker lost, nothing known",
     {.executed = true, .worker_lost = "egress"},
     DIED_OF(SIGKILL),
     "killed",
     "egress"},

    /* Stopped: PID 1 without a handler is killed, and what was asked for is reported. */
    {"stopped, no handler", {SIGNALED(SIGKILL), .stop_signal = SIGTERM}, DIED_OF(SIGTERM)},
    {"interrupted, no handler", {SIGNALED(SIGKILL), .stop_signal = SIGINT}, DIED_OF(SIGINT)},
    {"killed on request", {SIGNALED(SIGKILL), .stop_signal = SIGKILL}, DIED_OF(SIGKILL)},
    {"stopped, died of another", {SIGNALED(SIGSEGV), .stop_signal = SIGTERM}, DIED_OF(SIGSEGV)},
    {"stopped before exec", {.stop_signal = SIGTERM}, .exit_code = 143, .signal = SIGTERM, .started = 0},

    /* The filter. */
    {"blocked", {SIGNALED(SIGSYS), BLOCKED}, DIED_OF(SIGSYS), "escape_blocked", "bpf of 'sh'"},
    {"blocked PID 1",
     {SIGNALED(SIGKILL), BLOCKED, .blocked_init = true},
     DIED_OF(SIGSYS),
     "escape_blocked",
     "bpf of 'sh'"},
    {"a blocked child's code",
     {EXITED(159), BLOCKED},
     .exit_code = 159,
     .signal = SIGSYS,
     .started = 1,
     "escape_blocked",
     "bpf of 'sh'"},
    {"a blocked child, another code", {EXITED(1), BLOCKED}, CODE(1)},
    {"a blocked child, 137", {EXITED(137), BLOCKED}, CODE(137)},
    {"SIGSYS of an unnamed call", {SIGNALED(SIGSYS)}, DIED_OF(SIGSYS), "escape_blocked", "a system call"},
    {"blocked PID 1 and memory",
     {SIGNALED(SIGKILL), BLOCKED, .blocked_init = true, OUT_OF_MEMORY},
     DIED_OF(SIGSYS),
     "escape_blocked",
     "bpf"},

    /* Memory. */
    {"oom", {SIGNALED(SIGKILL), OUT_OF_MEMORY}, DIED_OF(SIGKILL), "oom", "1048576 bytes"},
    {"oom of all boxes",
     {SIGNALED(SIGKILL), FLEET_IS_OUT},
     DIED_OF(SIGKILL),
     "oom",
     "all boxes together is 8388608"},
    {"oom of a child, 137", {EXITED(137), OUT_OF_MEMORY}, CODE(137), "oom", "1048576 bytes"},
    {"oom of a child, another code", {EXITED(1), OUT_OF_MEMORY}, CODE(1)},
    {"oom of a child, SIGTERM", {SIGNALED(SIGTERM), OUT_OF_MEMORY}, DIED_OF(SIGTERM)},
    {"oom beats a blocked child",
     {SIGNALED(SIGKILL), BLOCKED, OUT_OF_MEMORY},
     DIED_OF(SIGKILL),
     "oom",
     "1048576"},
    {"oom beats a stop",
     {SIGNALED(SIGKILL), .stop_signal = SIGTERM, OUT_OF_MEMORY},
     DIED_OF(SIGKILL),
     "oom",
     "cap"},

    /* The deadline beats everything: 143 whichever signal ended it. */
    {"timeout", {SIGNALED(SIGTERM), LONGER_THAN_2S}, DIED_OF(SIGTERM), "timeout", "longer than 2 s"},
    {"timeout, SIGKILL", {SIGNALED(SIGKILL), LONGER_THAN_2S}, DIED_OF(SIGTERM), "timeout", "longer than 2 s"},
    {"timeout, code", {EXITED(0), LONGER_THAN_2S}, DIED_OF(SIGTERM), "timeout", "longer than 2 s"},
    {"timeout, oom", {SIGNALED(SIGKILL), LONGER_THAN_2S, OUT_OF_MEMORY}, DIED_OF(SIGTERM), "timeout", "2 s"},
    {"timeout, blocked", {SIGNALED(SIGSYS), LONGER_THAN_2S, BLOCKED}, DIED_OF(SIGTERM), "timeout", "2 s"},
    {"timeout, worker",
     {.executed = true, LONGER_THAN_2S, .worker_lost = "x"},
     DIED_OF(SIGTERM),
     "timeout",
     "2 s"},
    {"timeout before exec",
     {LONGER_THAN_2S},
     .exit_code = 143,
     .signal = SIGTERM,
     .started = 0,
     "timeout",
     "2 s"},
    {"a short timeout",
     {SIGNALED(SIGTERM), .timed_out = true, .timeout_ms = 250},
     DIED_OF(SIGTERM),
     "timeout",
     "0.25 s"},

    /* The command never ran. */
    {"not found",
     {.exec_failed = 127, .error = &broken},
     .exit_code = 127,
     .fault = "exec_failed",
     "mount \"x\""},
    {"not executable",
     {.exec_failed = 126, .error = &broken},
     .exit_code = 126,
     .fault = "exec_failed",
     "\"x\""},
    {"refused", {.error = &refused}, .exit_code = 1, .fault = "startup_failed", "cannot find \"x\""},
    {"broken", {.error = &broken}, .exit_code = 125, .fault = "startup_failed", "cannot mount \"x\""},
    {"exec failed otherwise",
     {.exec_failed = 125, .error = &broken},
     .exit_code = 125,
     .fault = "startup_failed",
     "x"},
    {"ended while built",
     {.ended = true, .status = SIGKILL},
     .exit_code = 125,
     .fault = "startup_failed",
     "built"},
    {"exit 0 while built",
     {.ended = true, .status = 0},
     .exit_code = 125,
     .fault = "startup_failed",
     "built"},
};

static void test_table(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct row row = rows[i];
        struct core_outcome outcome;
        memset(&outcome, 0x5a, sizeof(outcome));
        if (row.evidence.error == NULL)
            row.evidence.error = &nothing;
        core_classify(&row.evidence, &outcome);
        char got[64], wanted[64];
        (void)snprintf(got, sizeof(got), "%d %d %d %s", outcome.exit_code, outcome.signal, outcome.started,
                       outcome.fault != NULL ? outcome.fault : "-"); /* fits */
        (void)snprintf(wanted, sizeof(wanted), "%d %d %d %s", row.exit_code, row.signal, row.started,
                       row.fault != NULL ? row.fault : "-"); /* fits */
        if (strcmp(got, wanted) != 0 || strstr(outcome.message, row.part != NULL ? row.part : "") == NULL)
            fail_msg("%s: got %s (%s), wanted %s (%s)", row.what, got, outcome.message, wanted, row.part);
        if (row.fault == NULL)
            assert_string_equal(outcome.message, "");
    }
}

static void test_each_fault_is_in_the_table(void **state)
{
    (void)state;
    static const char *const faults[] = {"timeout",        "oom",         "killed",
                                         "escape_blocked", "exec_failed", "startup_failed"};
    for (size_t f = 0; f < sizeof(faults) / sizeof(faults[0]); f++) {
        int found = 0;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
            found += rows[i].fault != NULL && strcmp(rows[i].fault, faults[f]) == 0;
        assert_true(found > 0);
    }
}

static void test_a_long_message_is_kept(void **state)
{
    (void)state;
    struct kern_error error = {.category = KERN_ERROR_BUILD};
    memset(error.message, 'm', sizeof(error.message) - 1);
    struct core_evidence evidence = {.error = &error};
    struct core_outcome outcome;
    core_classify(&evidence, &outcome);
    assert_string_equal(outcome.message, error.message);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_each_fault_is_in_the_table),
        cmocka_unit_test(test_a_long_message_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
