/* `kern stop`, `kill`, `wait`, `rm`, `prune`: the end of boxes. Host side; what is done is done by their supervisors. */
#include "cmd.h"

#include "cleanup.h"
#include "client.h"
#include "groupview.h"
#include "log.h"
#include "records.h"
#include "registry.h"
#include "signals.h"

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
    char request[48] = "stop", answer[128];
    if (kern_get_source(&call->flags, "timeout") != KERN_FROM_DEFAULT)
        (void)snprintf(request, sizeof(request), "stop %lld",
                       (long long)kern_get_int(&call->flags, "timeout")); /* fits */
    for (size_t i = 0; waiting != NULL && i < job.target.count; i++) {
        struct kern_error failure = {0};
        waiting[i] = -1;
        if (core_client_wait(&job.target.item[i], &waiting[i], &failure) != 0 ||
            core_client_ask(&job.target.item[i], request, answer, sizeof(answer), &failure) != 0)
            complain(&job, &failure);
        else
            thaw(&job.target.item[i]);
    }
    for (size_t i = 0; waiting != NULL && i < job.target.count; i++) {
        if (waiting[i] < 0)
            continue;
        (void)core_client_exit(waiting[i]); /* that it ended is all that was asked */
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
        failed = signal == SIGKILL ? core_client_wait(record, &waiting, &failure) : 0;
        if (failed == 0)
            failed = core_client_ask(record, request, answer, sizeof(answer), &failure);
        if (failed != 0) {
            complain(&job, &failure);
            continue;
        }
        if (waiting >= 0)
            (void)core_client_exit(waiting);         /* as above */
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
    char answer[128];
    int removed = -ENOENT;
    if (core_record_find(name, &record, &none) == 0) {
        if (!force) {
            kern_refuse(err, 0, "box '%s' is running", name);
            kern_hint(err, "kern stop %s, or kern rm --force %s", name, name);
            return -EBUSY;
        }
        auto_fd fd = -1;
        int failed = core_client_wait(&record, &fd, err);
        if (failed == 0)
            failed = core_client_ask(&record, "kill", answer, sizeof(answer), err);
        if (failed != 0)
            return failed;
        (void)core_client_exit(fd); /* that it ended is all that was asked */
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
