/* --restart; see restart.h. A box runs again in the same supervisor, so that it stays one box to whoever asks: one name, one
 * process id, one log, and a stop that is obeyed also between two runs. */
#include "restart.h"

#include "cleanup.h"
#include "control.h"
#include "engine.h"
#include "launch.h"
#include "log.h"
#include "records.h"
#include "supervise.h"
#include "sys.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define FIRST_MS   100
#define LONGEST_MS 60000
#define STEADY_MS  10000 /* a run of this length ends a row of failures */

int core_restart_parse(const char *text, enum core_restart *ret_policy, int64_t *ret_most)
{
    static const char failure[] = "on-failure";
    if (strcmp(text, "no") == 0)
        *ret_policy = CORE_RESTART_NO;
    else if (strcmp(text, "always") == 0)
        *ret_policy = CORE_RESTART_ALWAYS;
    else if (strcmp(text, failure) == 0)
        *ret_policy = CORE_RESTART_FAILURE;
    else if (strncmp(text, "on-failure:", sizeof(failure)) == 0) {
        const char *number = text + sizeof(failure);
        size_t digits = strspn(number, "0123456789");
        if (digits == 0 || digits > 6 || number[digits] != '\0')
            return -EINVAL;
        *ret_policy = CORE_RESTART_FAILURE;
        *ret_most = strtoll(number, NULL, 10);
    } else {
        return -EINVAL;
    }
    return 0;
}

int64_t core_restart_delay(uint32_t count)
{
    int64_t delay = FIRST_MS;
    while (count-- > 0 && delay < LONGEST_MS)
        delay *= 2;
    return delay < LONGEST_MS ? delay : LONGEST_MS;
}

static enum core_restart policy_of(const kern_box *box, int64_t *ret_most)
{
    enum core_restart policy = CORE_RESTART_NO;
    *ret_most = kern_get_int(&box->options, "restart-max");
    (void)core_restart_parse(kern_get_string(&box->options, "restart"), &policy, ret_most); /* was checked */
    return policy;
}

int core_restart_check(const kern_box *box, struct kern_error *err)
{
    const kern_values *options = &box->options;
    enum core_restart policy = CORE_RESTART_NO;
    int64_t most = 0;
    const char *text = kern_get_string(options, "restart");
    if (core_restart_parse(text, &policy, &most) != 0) {
        kern_refuse(err, 0, "--restart: \"%s\" is not known; it can be: no, on-failure, on-failure:N, always",
                    text);
        return -EINVAL;
    }
    /* What kern.toml says for all boxes is for those that it fits. */
    bool detached = kern_get_int(options, "detach") != 0;
    bool health = kern_get_source(options, "health-cmd") == KERN_FROM_FLAG;
    bool again = policy != CORE_RESTART_NO && kern_get_source(options, "restart") == KERN_FROM_FLAG;
    const char *word = health ? "--health-cmd" : again ? "--restart" : NULL;
    if (detached || word == NULL)
        return 0;
    kern_refuse(err, 0, "%s is for detached boxes", word);
    kern_hint(err, "add -d");
    return -EINVAL;
}

/* ---- Between two runs ---- */

static bool is_wanted(const kern_box *box, const struct core_outcome *outcome)
{
    int64_t most = 0;
    enum core_restart policy = policy_of(box, &most);
    if (!box->detached || box->detach_fd >= 0 || (box->stopping && !box->health_restart))
        return false;
    if (box->health_restart)
        return (int64_t)box->restarts < most;
    if (box->stop_signal != 0 || policy == CORE_RESTART_NO ||
        (policy == CORE_RESTART_FAILURE && outcome->exit_code == 0))
        return false;
    return (int64_t)box->restarts < most;
}

/* There is no command that could have a meaning for the others. */
static void on_signal(kern_box *box)
{
    struct signalfd_siginfo info;
    while (read(box->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
        if (info.ssi_signo == SIGTERM || info.ssi_signo == SIGINT || info.ssi_signo == SIGHUP ||
            info.ssi_signo == SIGQUIT)
            box->stopping = true;
}

static void handle(kern_box *box, int fd, uint32_t events)
{
    if (fd == box->signal_fd)
        on_signal(box);
    else if (fd == box->control_fd)
        core_control_accept(box);
    else
        core_dispatch_watched(box, fd, events, true);
}

/* True when nobody said stop. */
static bool rest(kern_box *box, int64_t delay)
{
    int64_t until = core_now_ns() / 1000000 + delay;
    const int gone[] = {box->outer_pidfd, box->ended_fd};
    for (size_t i = 0; i < 2; i++)
        (void)sys_call(SYS_epoll_ctl, box->epoll_fd, EPOLL_CTL_DEL, gone[i], 0, 0,
                       0); /* they have said it all */
    box->resting = true;
    box->stopping = box->escalated = false;
    while (!box->stopping) {
        struct epoll_event events[8];
        int64_t left = until - core_now_ns() / 1000000;
        if (left <= 0)
            break;
        int count = epoll_wait(box->epoll_fd, events, 8, (int)left);
        for (int i = 0; i < count; i++)
            handle(box, events[i].data.fd, events[i].events);
    }
    box->resting = false;
    return !box->stopping;
}

bool core_restart_pause(kern_box *box, const struct core_outcome *outcome)
{
    if (box->executed && (box->end_ns - box->exec_ns) / 1000000 >= STEADY_MS)
        box->restarts = 0;
    if (!is_wanted(box, outcome) || box->control_fd < 0)
        return false;
    core_log_note("box ended with %d; it runs again in %lld ms", outcome->exit_code,
                  (long long)core_restart_delay(box->restarts));
    core_record_change(box, "status", "restarting");
    return rest(box, core_restart_delay(box->restarts));
}

/* ---- The next run ---- */

void core_restart_renew(kern_box *box)
{
    kern_box *kept = malloc(sizeof(*kept));
    if (kept == NULL)
        return; /* the next run fails for the same reason, and says so */
    core_launch_forget(box);
    core_control_leave(box);
    kern_close_fd(&box->shared->inner_pidfd);
    kern_close_fd(&box->shared->root_tree);
    for (size_t i = 0; i < CORE_MAX_MOUNT; i++)
        kern_close_fd(&box->shared->tree[i]);
    *kept = *box;
    box->child_env = NULL;
    box->secret = NULL;
    box->notes = (struct core_list){0};
    box->report_fd = box->started_fd = box->report_folder = box->run_fd = box->state_fd = box->control_fd =
        -1;
    core_box_clear(box);
    core_box_init(box);
#define KEEP(field) memcpy(&box->field, &kept->field, sizeof(box->field))
    KEEP(name), KEEP(id), KEEP(catalog), KEEP(config), KEEP(options), KEEP(words), KEEP(words_size),
        KEEP(command);
    KEEP(shell), KEEP(shell_name), KEEP(own_terminal), KEEP(want_init), KEEP(strict), KEEP(quiet),
        KEEP(privileged);
    KEEP(untrusted), KEEP(read_only), KEEP(child_env), KEEP(home), KEEP(home_is_fixed), KEEP(window),
        KEEP(detached);
    KEEP(report_fd), KEEP(started_fd), KEEP(report_folder), KEEP(report_name), KEEP(run_fd), KEEP(run_path);
    KEEP(state_fd), KEEP(control_fd), KEEP(waiter), KEEP(waiter_count), KEEP(secret), KEEP(secret_count);
    KEEP(child_sigmask); /* signals stay blocked: one that comes now is heard by the next run */
    KEEP(notes);         /* what was said once is not said again */
#undef KEEP
    box->named = true;
    box->restarts = kept->restarts + 1;
    for (size_t i = 0; i < box->catalog->count; i++)
        box->catalog->plugin[i].entered = false;
    free(kept);
}
