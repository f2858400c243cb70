/* --health-*; see restart.h. A check is an exec of the supervisor's own: it has the box's limits and filter, and its streams
 * lead nowhere. */
#include "restart.h"

#include "execs.h"
#include "log.h"
#include "records.h"
#include "supervise.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>

static int64_t now_ms(void)
{
    return core_now_ns() / 1000000;
}

int64_t core_health_due(const kern_box *box)
{
    const char *command = kern_get_string(&box->options, "health-cmd");
    if (command == NULL || !box->executed || box->stopping || box->paused)
        return 0;
    if (box->health_due_ms != 0)
        return box->health_due_ms;
    return box->exec_ns / 1000000 + kern_get_int(&box->options, "health-interval");
}

static void judge(kern_box *box, bool healthy)
{
    const kern_values *options = &box->options;
    bool early = now_ms() < box->exec_ns / 1000000 + kern_get_int(options, "health-start-period");
    if (!healthy && early)
        return;
    box->health_failures = healthy ? 0 : box->health_failures + 1;
    bool bad = box->health_failures >= (uint32_t)kern_get_int(options, "health-retries");
    if (!healthy && !bad)
        return;
    int8_t now = healthy ? 1 : -1;
    if (box->health == now)
        return;
    box->health = now;
    core_record_change(box, "health", healthy ? "healthy" : "unhealthy");
    const char *action = kern_get_string(options, "health-action");
    if (healthy || strcmp(action, "none") == 0)
        return;
    core_log_note("box is unhealthy: %s", action);
    box->health_restart = strcmp(action, "restart") == 0;
    core_stop_gently(box, -1);
}

void core_health_result(kern_box *box, int status)
{
    box->health_check = NULL;
    box->health_due_ms = now_ms() + kern_get_int(&box->options, "health-interval");
    judge(box, WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

void core_health_look(kern_box *box)
{
    int64_t limit = kern_get_int(&box->options, "health-timeout");
    int64_t interval = kern_get_int(&box->options, "health-interval");
    if (box->health_check != NULL) { /* it took too long: its end comes as its result */
        core_exec_signal_all(box->health_check, SIGKILL);
        box->health_due_ms = now_ms() + interval;
        return;
    }
    struct kern_error err = {0};
    box->health_due_ms = now_ms() + (limit > 0 ? limit : interval);
    if (core_exec_check(box, kern_get_string(&box->options, "health-cmd"), &box->health_check, &err) == 0)
        return;
    core_log_note("the health of the box cannot be checked: %s", err.message);
    box->health_due_ms = now_ms() + interval;
    judge(box, false);
}
