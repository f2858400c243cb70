/* `kern stop`, `kill`, `wait`, `rm`, `prune`: the end of boxes. Host side; what is done is done by their supervisors. */
#include "cmd.h"

#include "args.h"
#include "cleanup.h"
#include "client.h"
#include "groupview.h"
#include "help.h"
#include "log.h"
#include "records.h"
#include "registry.h"
#include "signals.h"
#include "verbs.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

struct call {
    struct kern_values flags;
    struct core_records target;
    int words;
    int code;
};

static void drop_call(struct call *call)
{
    core_values_clear(&call->flags);
    core_records_clear(&call->target);
}

static void complain(struct call *call, const struct kern_error *err)
{
    core_log_error(err);
    call->code = 1;
}

/* Reads the words. True when the verb is to go on. */
static bool begin(struct call *call, int argc, char **argv, bool some)
{
    struct kern_error err = {0};
    bool help = false;
    const struct core_verb *verb = core_verb_find(argv[0]);
    int failed = core_args_verb(argc, argv, verb->options, &call->flags, 4096, &call->words, &help, &err);
    if (failed == 0 && help) {
        call->code = core_help_print(verb);
        return false;
    }
    bool all = core_values_find(&call->flags, "all") != NULL && kern_get_int(&call->flags, "all") != 0;
    if (failed == 0 && some && call->words == 0 && !all) {
        failed = kern_refuse(&err, 0, "which box? kern %s takes a name%s", argv[0],
                             core_values_find(&call->flags, "all") != NULL ? ", or --all" : "");
        kern_hint(&err, "kern ps shows the boxes that run");
    }
    if (failed == 0 && all && call->words > 0)
        failed = kern_refuse(&err, 0, "kern %s takes names or --all, not both", argv[0]);
    if (failed != 0)
        complain(call, &err);
    return failed == 0;
}

/* The living boxes that the words name, or all of them. What cannot be found is said at once. */
static void find_targets(struct call *call, char **argv)
{
    struct kern_error err = {0};
    if (call->words == 0) {
        if (core_records_read(false, &call->target, &err) != 0)
            complain(call, &err);
        return;
    }
    call->target.item = calloc((size_t)call->words, sizeof(*call->target.item));
    for (int i = 1; call->target.item != NULL && i <= call->words; i++) {
        err = (struct kern_error){0};
        if (core_record_find(argv[i], &call->target.item[call->target.count], &err) == 0)
            call->target.count++;
        else
            complain(call, &err);
    }
}

static int finish(const struct call *call)
{
    int failed = core_log_close_stdout();
    core_registry_sweep_all();
    return failed != 0 ? failed : call->code;
}

/* One that stands still would sit out its grace: its signal waits for it when it goes on. */
static void thaw(const struct core_record *record)
{
    const char *status = core_record_get(record, "status");
    if (status != NULL && strcmp(status, "paused") == 0)
        (void)core_group_freeze(record, false); /* it is ended after its grace otherwise */
}

/* All are asked before one is waited for: they end side by side. */
int core_cmd_stop(int argc, char **argv)
{
    cleanup(drop_call) struct call call = {0};
    if (!begin(&call, argc, argv, true))
        return call.code;
    find_targets(&call, argv);
    auto_free int *waiting = calloc(call.target.count + 1, sizeof(int));
    char request[48] = "stop", answer[128];
    if (kern_get_source(&call.flags, "timeout") != KERN_FROM_DEFAULT)
        (void)snprintf(request, sizeof(request), "stop %lld",
                       (long long)kern_get_int(&call.flags, "timeout")); /* fits */
    for (size_t i = 0; waiting != NULL && i < call.target.count; i++) {
        struct kern_error err = {0};
        waiting[i] = -1;
        if (core_client_wait(&call.target.item[i], &waiting[i], &err) != 0 ||
            core_client_ask(&call.target.item[i], request, answer, sizeof(answer), &err) != 0)
            complain(&call, &err);
        else
            thaw(&call.target.item[i]);
    }
    for (size_t i = 0; waiting != NULL && i < call.target.count; i++) {
        if (waiting[i] < 0)
            continue;
        (void)core_client_exit(waiting[i]); /* that it ended is all that was asked */
        kern_close_fd(&waiting[i]);
        (void)printf("stopped '%s' (pid %d)\n", call.target.item[i].name,
                     call.target.item[i].pid); /* checked in finish() */
    }
    return finish(&call);
}

int core_cmd_kill(int argc, char **argv)
{
    cleanup(drop_call) struct call call = {0};
    if (!begin(&call, argc, argv, true))
        return call.code;
    const char *name = kern_get_string(&call.flags, "signal");
    int signal = core_signal_number(name);
    char request[32] = "kill", answer[128];
    struct kern_error err = {0};
    if (signal == 0) {
        (void)kern_refuse(&err, 0, "--signal: \"%s\" is not a signal", name); /* the code is 1 */
        complain(&call, &err);
        return call.code;
    }
    if (signal != SIGKILL)
        (void)snprintf(request, sizeof(request), "signal %d", signal); /* fits */
    find_targets(&call, argv);
    for (size_t i = 0; i < call.target.count; i++) {
        err = (struct kern_error){0};
        auto_fd waiting = -1;
        const struct core_record *record = &call.target.item[i];
        int failed = signal == SIGKILL ? core_client_wait(record, &waiting, &err) : 0;
        if (failed == 0)
            failed = core_client_ask(record, request, answer, sizeof(answer), &err);
        if (failed != 0) {
            complain(&call, &err);
            continue;
        }
        if (waiting >= 0)
            (void)core_client_exit(waiting);         /* as above */
        (void)printf("killed '%s'\n", record->name); /* checked in finish() */
    }
    return finish(&call);
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

int core_cmd_wait(int argc, char **argv)
{
    cleanup(drop_call) struct call call = {0};
    if (!begin(&call, argc, argv, true))
        return call.code;
    for (int i = 1; i <= call.words; i++) {
        struct kern_error err = {0};
        int code = 0;
        if (wait_for(argv[i], &code, &err) == 0)
            (void)printf("%d\n", code); /* checked in finish() */
        else
            complain(&call, &err);
    }
    return finish(&call);
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

int core_cmd_rm(int argc, char **argv)
{
    cleanup(drop_call) struct call call = {0};
    if (!begin(&call, argc, argv, true))
        return call.code;
    for (int i = 1; i <= call.words; i++) {
        struct kern_error err = {0};
        if (remove_one(argv[i], kern_get_int(&call.flags, "force") != 0, &err) == 0)
            (void)printf("removed '%s'\n", argv[i]); /* checked in finish() */
        else
            complain(&call, &err);
    }
    return finish(&call);
}

int core_cmd_prune(int argc, char **argv)
{
    cleanup(drop_call) struct call call = {0};
    struct kern_error err = {0};
    if (!begin(&call, argc, argv, false))
        return call.code;
    core_registry_sweep_all();
    if (core_records_read(true, &call.target, &err) != 0) {
        complain(&call, &err);
        return call.code;
    }
    for (size_t i = 0; i < call.target.count; i++)
        if (call.target.item[i].exited && core_record_remove(call.target.item[i].name) == 0)
            (void)printf("removed '%s'\n", call.target.item[i].name); /* checked in finish() */
    return finish(&call);
}
