/* `kern stop`, `kill`, `wait`, `rm`, `prune`: the end of boxes. Host side; what is done is done by their supervisors. */
#include "cmd.h"

#include "cleanup.h"
#include "client.h"
#include "groupview.h"
#include "log.h"
#include "records.h"
#include "registry.h"
#include "signals.h"
#include "sys.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

struct job {
    const struct core_call *call;
    struct core_records target;
    int code;
};

static void drop_job(struct job *job)
{
    core_records_clear(&job->target);
}

static void complain(struct job *job, const struct kern_error *err)
{
    core_log_error(err);
    job->code = 1;
}

/* The living boxes that the words name, or all of them. What cannot be found is said at once. */
static int find_targets(struct job *job, struct kern_error *err)
{
    const struct core_call *call = job->call;
    if (call->words == 0)
        return core_records_read(false, &job->target, err);
    if (kern_get_int(&call->flags, "all") != 0)
        return kern_refuse(err, 0, "kern %s takes names or --all, not both", call->verb->name);
    job->target.item = calloc((size_t)call->words, sizeof(*job->target.item));
    if (job->target.item == NULL)
        return kern_refuse(err, ENOMEM, "cannot %s boxes", call->verb->name);
    for (int i = 0; i < call->words; i++) {
        struct kern_error missing = {0};
        if (core_record_find(call->word[i], &job->target.item[job->target.count], &missing) == 0)
            job->target.count++;
        else
            complain(job, &missing);
    }
    return 0;
}

static int finish(const struct job *job)
{
    int failed = core_log_close_stdout();
    core_registry_sweep_all();
    return failed != 0 ? failed : job->code;
}

/* ---- One box's end ---- */

#define START_GRACE_S 10

/* A box that is not built yet, as its image comes over a slow line, has no socket to be asked at. */
static int end_start(const struct core_record *record, int signal, int *ret_fd, struct kern_error *err)
{
    cleanup(core_record_clear) struct core_record now = {0};
    struct kern_error gone = {0};
    auto_fd process = (int)sys_call(SYS_pidfd_open, record->pid, 0, 0, 0, 0, 0);
    /* Looked up after the descriptor is there: it is of the process that the record means. */
    if (process < 0 || core_record_find(record->name, &now, &gone) != 0 || now.pid != record->pid ||
        core_record_get(&now, "status") != NULL)
        return -ESRCH;
    int failed = (int)sys_call(SYS_pidfd_send_signal, process, signal, 0, 0, 0, 0);
    if (failed != 0)
        return failed;
    *err = (struct kern_error){0};
    *ret_fd = steal_fd(&process);
    return 0;
}

/* *ret_fd becomes readable when the box has ended. */
static int ask_to_end(const struct core_record *record, const char *request, int signal, int *ret_fd,
                      struct kern_error *err)
{
    char answer[128];
    auto_fd fd = -1;
    int failed = core_client_wait(record, &fd, err);
    if (failed != 0)
        return end_start(record, signal, ret_fd, err) == 0 ? 0 : failed;
    failed = core_client_ask(record, request, answer, sizeof(answer), err);
    if (failed == 0)
        *ret_fd = steal_fd(&fd);
    return failed;
}

static void see_end(int fd)
{
    struct pollfd end = {.fd = fd, .events = POLLIN};
    while (poll(&end, 1, START_GRACE_S * 1000) ==
           0) /* a supervisor keeps its grace itself, and cannot take this */
        (void)sys_call(SYS_pidfd_send_signal, fd, SIGKILL, 0, 0, 0, 0);
}

/* One that stands still would sit out its grace: its signal waits for it when it goes on. */
static void thaw(const struct core_record *record)
{
    const char *status = core_record_get(record, "status");
    if (status != NULL && strcmp(status, "paused") == 0)
        (void)core_group_freeze(record, false); /* it is ended after its grace otherwise */
}

/* All are asked before one is waited for: they end side by side. */
int core_cmd_stop(struct core_call *call, struct kern_error *err)
{
    cleanup(drop_job) struct job job = {.call = call};
    int failed = find_targets(&job, err);
    if (failed != 0)
        return failed;
    auto_free int *waiting = calloc(job.target.count + 1, sizeof(int));
    char request[48] = "stop";
    if (kern_get_source(&call->flags, "timeout") != KERN_FROM_DEFAULT)
        (void)snprintf(request, sizeof(request), "stop %lld",
                       (long long)kern_get_int(&call->flags, "timeout")); /* fits */
    for (size_t i = 0; waiting != NULL && i < job.target.count; i++) {
        struct kern_error failure = {0};
        waiting[i] = -1;
        if (ask_to_end(&job.target.item[i], request, SIGTERM, &waiting[i], &failure) != 0)
            complain(&job, &failure);
        else
            thaw(&job.target.item[i]);
    }
    for (size_t i = 0; waiting != NULL && i < job.target.count; i++) {
        if (waiting[i] < 0)
            continue;
        see_end(waiting[i]);
        kern_close_fd(&waiting[i]);
        (void)printf("stopped '%s' (pid %d)\n", job.target.item[i].name,
                     job.target.item[i].pid); /* checked in finish() */
    }
    return finish(&job);
}

int core_cmd_kill(struct core_call *call, struct kern_error *err)
{
    cleanup(drop_job) struct job job = {.call = call};
    const char *name = kern_get_string(&call->flags, "signal");
    int signal = core_signal_number(name);
    char request[32] = "kill", answer[128];
    if (signal == 0)
        return kern_refuse(err, 0, "--signal: \"%s\" is not a signal", name);
    if (signal != SIGKILL)
        (void)snprintf(request, sizeof(request), "signal %d", signal); /* fits */
    int failed = find_targets(&job, err);
    if (failed != 0)
        return failed;
    for (size_t i = 0; i < job.target.count; i++) {
        struct kern_error failure = {0};
        auto_fd waiting = -1;
        const struct core_record *record = &job.target.item[i];
        failed = signal == SIGKILL ? ask_to_end(record, request, SIGKILL, &waiting, &failure)
                                   : core_client_ask(record, request, answer, sizeof(answer), &failure);
        if (failed != 0) {
            complain(&job, &failure);
            continue;
        }
        if (waiting >= 0)
            see_end(waiting);
        (void)printf("killed '%s'\n", record->name); /* checked in finish() */
    }
    return finish(&job);
}

static int wait_for(const char *name, int *ret_code, struct kern_error *err)
{
    cleanup(core_record_clear) struct core_record record = {0};
    int code = -1;
    /* One that is just ending has no socket any more, and not yet a row. */
    while (code < 0 && core_record_find(name, &record, err) == 0) {
        auto_fd fd = -1;
        struct kern_error gone = {0};
        if (core_client_wait(&record, &fd, &gone) == 0)
            code = core_client_exit(fd);
        core_record_clear(&record);
        if (code < 0)
            (void)nanosleep(&(struct timespec){.tv_nsec = 5000000},
                            NULL); /* a shorter wait only asks sooner */
    }
    if (code < 0)
        core_registry_sweep_all(); /* its supervisor may have been killed: this writes down what became of it */
    if (code < 0 && core_record_find_exited(name, &record) == 0)
        code = (int)core_record_number(&record, "exit", -1);
    if (code < 0) {
        *err = (struct kern_error){0};
        kern_refuse(err, 0, "no box named '%s' runs, and none that was detached ended within a day", name);
        kern_hint(err, "kern ps -a shows both");
        return -ENOENT;
    }
    *ret_code = code;
    return 0;
}

int core_cmd_wait(struct core_call *call, struct kern_error *err)
{
    struct job job = {.call = call};
    (void)err; /* what became of each box is said at once */
    for (int i = 0; i < call->words; i++) {
        struct kern_error failure = {0};
        int code = 0;
        if (wait_for(call->word[i], &code, &failure) == 0)
            (void)printf("%d\n", code); /* checked in finish() */
        else
            complain(&job, &failure);
    }
    return finish(&job);
}

static int remove_one(const char *name, bool force, struct kern_error *err)
{
    cleanup(core_record_clear) struct core_record record = {0};
    struct kern_error none = {0};
    int removed = -ENOENT;
    if (core_record_find(name, &record, &none) == 0) {
        if (!force) {
            kern_refuse(err, 0, "box '%s' is running", name);
            kern_hint(err, "kern stop %s, or kern rm --force %s", name, name);
            return -EBUSY;
        }
        auto_fd fd = -1;
        int failed = ask_to_end(&record, "kill", SIGKILL, &fd, err);
        if (failed != 0)
            return failed;
        see_end(fd);
        removed = 0;
    }
    if (core_record_remove(name) == 0)
        removed = 0;
    if (removed == 0)
        return 0;
    kern_refuse(err, 0, "no box named '%s' to remove", name);
    kern_hint(err, "kern ps -a shows those that there are");
    return -ENOENT;
}

int core_cmd_rm(struct core_call *call, struct kern_error *err)
{
    struct job job = {.call = call};
    (void)err; /* as above */
    for (int i = 0; i < call->words; i++) {
        struct kern_error failure = {0};
        if (remove_one(call->word[i], kern_get_int(&call->flags, "force") != 0, &failure) == 0)
            (void)printf("removed '%s'\n", call->word[i]); /* checked in finish() */
        else
            complain(&job, &failure);
    }
    return finish(&job);
}

int core_cmd_prune(struct core_call *call, struct kern_error *err)
{
    cleanup(drop_job) struct job job = {.call = call};
    core_registry_sweep_all();
    int failed = core_records_read(true, &job.target, err);
    if (failed != 0)
        return failed;
    for (size_t i = 0; i < job.target.count; i++)
        if (job.target.item[i].exited && core_record_remove(job.target.item[i].name) == 0)
            (void)printf("removed '%s'\n", job.target.item[i].name); /* checked in finish() */
    return finish(&job);
}
