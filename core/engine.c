/* The life of a box; see engine.h and section 1 of the design. Host side. Each step either succeeds or leaves its cause in the
 * error; whatever happened, teardown runs in reverse for every plugin whose prepare was entered. */
#include "engine.h"

#include "cleanup.h"
#include "control.h"
#include "detach.h"
#include "env.h"
#include "fleet.h"
#include "guard.h"
#include "launch.h"
#include "log.h"
#include "mounts.h"
#include "order.h"
#include "plan.h"
#include "plugin.h"
#include "records.h"
#include "registry.h"
#include "report.h"
#include "restart.h"
#include "scratch.h"
#include "secrets.h"
#include "supervise.h"
#include "sys.h"
#include "worker.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

/* Below this the box's first process would be killed for its own building, and what shares memory with it as well. */
#define SHARING_LEAST ((uint64_t)16 << 20)

void core_box_init(kern_box *box)
{
    *box = (kern_box){0};
    int *const fds[] = {
        &box->cgroup_fd,        &box->report_fd,    &box->started_fd,      &box->alive_fd,
        &box->owner_fd,         &box->state_fd,     &box->run_fd,          &box->epoll_fd,
        &box->channel_fd,       &box->signal_fd,    &box->control_fd,      &box->outer_pidfd,
        &box->child_channel_fd, &box->root_fd,      &box->proc_fd,         &box->kern_pidfd,
        &box->ids_fd,           &box->ended_fd,     &box->maps_fd,         &box->disk_fd,
        &box->report_folder,    &box->host_proc_fd, &box->terminal.master, &box->terminal.out_fd,
        &box->terminal.tap,     &box->sys_fd};
    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
        *fds[i] = -1;
    box->place_fd = -1;
    memset(box->space_fd, 0xff, sizeof(box->space_fd)); /* all -1 */
    memset(box->std_fd, 0xff, sizeof(box->std_fd));     /* as above */
    memset(box->log_fd, 0xff, sizeof(box->log_fd));     /* as above */
    box->watched_fd = box->detach_fd = box->changes_fd = -1;
    memcpy(box->shell_name, "/bin/sh", sizeof("/bin/sh"));
    box->usage = (struct kern_usage){
        .peak_memory = -1, .cpu_us = -1, .peak_pids = -1, .oom_kills = -1, .oom_own = -1, .throttled_us = -1};
}

static void free_records(kern_box *box)
{
    for (size_t i = 0; i < box->field_count; i++) {
        free(box->field[i].key);
        free(box->field[i].text);
    }
    for (size_t i = 0; i < box->denied_count; i++) {
        free(box->denied[i].what);
        free(box->denied[i].reason);
    }
    free(box->field);
    free(box->denied);
    free(box->rule);
    free(box->handler);
    free(box->receiver);
    free(box->listener);
    free(box->worker);
}

void core_box_clear(kern_box *box)
{
    int *const fds[] = {&box->report_fd,   &box->started_fd, &box->alive_fd,      &box->owner_fd,
                        &box->state_fd,    &box->run_fd,     &box->epoll_fd,      &box->channel_fd,
                        &box->signal_fd,   &box->control_fd, &box->ids_fd,        &box->ended_fd,
                        &box->maps_fd,     &box->disk_fd,    &box->report_folder, &box->kern_pidfd,
                        &box->outer_pidfd, &box->place_fd,   &box->host_proc_fd,  &box->changes_fd};
    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
        kern_close_fd(fds[i]);
    for (size_t i = 0; i < CORE_SPACES; i++)
        kern_close_fd(&box->space_fd[i]);
    core_secrets_clear(box);
    core_mounts_clear(box);
    core_list_clear(&box->env);
    for (char **word = box->image_command; word != NULL && *word != NULL; word++)
        free(*word);
    free(box->image_command);
    free(box->image_ref);
    free(box->image_digest);
    core_list_clear(&box->notes);
    core_list_clear(&box->held_notes);
    for (char **env = box->child_env; env != NULL && *env != NULL; env++)
        if (*env != box->home)
            free(*env);
    free(box->child_env);
    free_records(box);
    for (size_t i = 0; box->catalog != NULL && i < box->catalog->count; i++) {
        free(box->catalog->plugin[i].state);
        box->catalog->plugin[i].state = NULL;
    }
    free(box->order);
    for (size_t i = 0; i < CORE_OWN_PLACES; i++)
        free(box->own_state[i]);
    if (box->shared != NULL)
        (void)munmap(box->shared, sizeof(*box->shared)); /* was mapped with this size */
    box->shared = NULL;
}

bool core_debug(const char *word)
{
    const char *list = getenv("KERN_DEBUG");
    size_t length = strlen(word);
    while (list != NULL && *list != '\0') {
        size_t item = strcspn(list, ",");
        if (item == length && strncmp(list, word, length) == 0)
            return true;
        list += item + (list[item] == ',');
    }
    return false;
}

static void mark(kern_box *box, const char *phase)
{
    if (!box->timing)
        return;
    int64_t now = core_now_ns();
    size_t used = strlen(box->timing_text);
    (void)snprintf(box->timing_text + used, sizeof(box->timing_text) - used, "%s%s %.3f",
                   used > 0 ? ", " : "", phase,
                   (double)(now - box->mark_ns) / 1e6); /* a full line loses its last phases */
    box->mark_ns = now;
}

/* ---- Before the clone ---- */

static void reset_page(struct core_shared *shared)
{
    memset(shared, 0, sizeof(*shared));
    shared->inner_pidfd = -1;
    shared->init_status = -1;
    shared->root_tree = -1;
    memset(shared->tree, 0xff, sizeof(shared->tree)); /* all -1 */
}

static int share_page(kern_box *box, struct kern_error *err)
{
    void *page =
        mmap(NULL, sizeof(struct core_shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return kern_fail(err, errno, "cannot map the page shared with the box");
    box->shared = page;
    reset_page(box->shared);
    return 0;
}

static int open_plugins(kern_box *box, struct kern_error *err)
{
    int failed = core_plugin_load_wanted(box->catalog, err);
    if (failed != 0)
        return failed;
    box->order = calloc(box->catalog->count, sizeof(struct core_plugin *));
    if (box->order == NULL)
        return kern_fail(err, ENOMEM, "cannot order the plugins");
    failed = core_order(box->catalog, box->order, &box->order_count, err);
    for (size_t i = 0; failed == 0 && i < box->order_count; i++) {
        struct core_plugin *plugin = box->order[i];
        plugin->state = calloc(1, plugin->table->state_size > 0 ? plugin->table->state_size : 1);
        if (plugin->state == NULL)
            failed = kern_fail(err, ENOMEM, "cannot keep the state of plugin \"%s\"", plugin->name);
    }
    return failed;
}

static bool is_first(const struct core_plugin *plugin)
{
    return (plugin->table->flags & KERN_PLUGIN_FIRST) != 0;
}

/* Somebody asked kern to end meanwhile. */
static int stopped_early(kern_box *box, struct kern_error *err)
{
    box->stop_signal = core_guard_asked(box);
    return kern_fail(err, EINTR, "stopped by SIG%s before the box was built", sigabbrev_np(box->stop_signal));
}

/* Every plugin in its order, but those that choose what the others ask for ahead of them all. */
static int prepare_all(kern_box *box, struct kern_error *err)
{
    for (size_t i = 0; i < box->order_count * 2; i++) {
        struct core_plugin *plugin = box->order[i % box->order_count];
        if (is_first(plugin) != (i < box->order_count))
            continue;
        plugin->entered = true;
        if (plugin->table->prepare == NULL)
            continue;
        int failed = core_guard_prepare(box, plugin, err);
        box->stop_signal = core_guard_asked(box);
        if (failed == 0 && box->stop_signal == 0)
            continue;
        if (failed == 0)
            return stopped_early(box, err);
        kern_fail(err, -failed, "the hook failed without saying why");
        /* A refusal is about what the user asked for; which plugin noticed is of no use then. */
        if (err->category != KERN_ERROR_REFUSED || !plugin->builtin)
            core_error_context(err, plugin->name, "prepare");
        return failed;
    }
    return 0;
}

static int open_channel(kern_box *box, struct kern_error *err)
{
    int pair[2];
    box->ended_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    box->maps_fd = eventfd(0, EFD_CLOEXEC);
    if (box->ended_fd < 0 || box->maps_fd < 0)
        return kern_fail(err, errno, "cannot make an event descriptor");
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
        return kern_fail(err, errno, "cannot make the channel to the box");
    box->channel_fd = pair[0];
    box->child_channel_fd = pair[1];
    box->host_proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (box->host_proc_fd < 0)
        return kern_fail(err, errno, "cannot open \"/proc\"");
    box->kern_pidfd = sys_call(SYS_pidfd_open, getpid(), 0, 0, 0, 0, 0);
    if (box->kern_pidfd < 0)
        return kern_fail(err, -box->kern_pidfd, "cannot open kern's own process");
    return 0;
}

static bool must_fork(const kern_box *box)
{
#if defined(__SANITIZE_ADDRESS__)
    return true; /* its shadow of the stack knows one stack only */
#endif
    for (size_t i = 0; i < box->catalog->count; i++) {
        const struct core_plugin *plugin = &box->catalog->plugin[i];
        if (plugin->wanted && plugin->table->enter != NULL && (plugin->table->flags & KERN_PLUGIN_LEAN) == 0)
            return true;
    }
    bool small = box->memory_cap > 0 && box->memory_cap < SHARING_LEAST;
    return box->want_init || box->nested || core_debug("fork") || core_guard_debugs(box) || small;
}

static int claim(kern_box *box, struct kern_error *err)
{
    bool claimed = box->state_fd >= 0; /* it runs again */
    int failed = claimed ? core_registry_renew(box, err) : core_registry_open(box, err);
    if (failed == 0 && !claimed)
        failed = core_registry_claim(box, err);
    if (failed == 0 && core_has_host_directories(box))
        core_find_own_state(box);
    if (failed == 0)
        failed = share_page(box, err);
    if (failed == 0)
        failed = core_supervise_prepare(box, err);
    if (failed == 0)
        core_guard_open(box);
    mark(box, "claim");
    return failed;
}

/* In a privileged kern box, which says so: its filter kills for the newer mount calls, so they cannot even be tried. Any other
 * outer sandbox answers with an errno. */
static bool is_nested(void)
{
    const char *container = getenv("container");
    return container != NULL && strcmp(container, "kern") == 0 && prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == 2;
}

/* Asks every plugin what the box is to be; nothing runs yet. */
static int compose(kern_box *box, struct kern_error *err)
{
    const char *userns = kern_get_string(&box->options, "userns"),
               *net = kern_get_string(&box->options, "net");
    box->host_userns = userns != NULL && strcmp(userns, "host") == 0;
    box->share_network = net != NULL && strcmp(net, "host") == 0;
    box->nested = is_nested();
    int failed = open_plugins(box, err);
    mark(box, "plugins");
    if (failed == 0)
        core_guard_listen(box, true);
    if (failed == 0)
        failed = core_secrets_add(box, err);
    box->holds_notes = true;
    if (failed == 0)
        failed = prepare_all(box, err);
    core_notes_release(box, failed == 0);
    core_guard_listen(box, false);
    if (failed == 0 && core_guard_asked(box) != 0) /* while the notes were written */
        failed = stopped_early(box, err);
    mark(box, "prepare");
    if (failed == 0 && box->child_env == NULL) /* what was read for the first run counts for all */
        failed = box->bare ? core_env_build_host(box, err) : core_env_build(box, err);
    return failed;
}

static int build(kern_box *box, struct kern_error *err)
{
    int failed = claim(box, err);
    if (failed == 0)
        failed = core_fleet_join(box, err);
    if (failed == 0)
        failed = core_detach_prepare(box, err);
    if (failed == 0)
        failed = compose(box, err);
    if (failed == 0)
        failed = core_workers_start(box, err);
    if (failed == 0) /* after the workers: whoever else held its other end would hide the exec */
        failed = open_channel(box, err);
    if (failed != 0)
        return failed;
    box->fork_style = must_fork(box);
    int64_t timeout = kern_get_int(&box->options, "timeout");
    box->start_ns = core_now_ns();
    box->deadline_ms = timeout > 0 ? box->start_ns / 1000000 + timeout : 0;
    core_report_alive(box);
    if (kern_get_int(&box->options, "verbose") != 0)
        core_plan_panel(box);
    failed = box->bare ? core_launch_host(box, err) : core_launch(box, err);
    mark(box, "clone");
    return failed;
}

/* ---- After the end ---- */

static void collect_usage(kern_box *box)
{
    if (box->group_hooks == NULL)
        return;
    struct kern_usage usage = box->usage;
    box->group_hooks->collect(box, box->group_state, &usage);
    box->usage = usage;
}

static struct core_evidence gather(const kern_box *box, const struct kern_error *err)
{
    const struct core_shared *shared = box->shared;
    bool ended = shared != NULL && atomic_load(&shared->ended) != 0;
    struct core_evidence evidence = {
        .error = err,
        .ended = ended,
        .status = ended ? shared->status : 0,
        .executed = box->executed,
        .exec_failed = shared != NULL ? (int)atomic_load(&shared->exec_failed) : 0,
        .timed_out = box->timed_out,
        .timeout_ms = kern_get_int(&box->options, "timeout"),
        .stop_signal = box->stop_signal,
        .oom = box->usage.oom_own == 1 || box->usage.oom_fleet > 0,
        .memory_cap = (uint64_t)kern_get_int(&box->options, "memory"),
        .fleet_cap = box->usage.oom_fleet,
        .blocked_call = box->blocked_call[0] != '\0' ? box->blocked_call : NULL,
        .blocked_init = box->blocked_init,
        .blocked_program = box->blocked_program,
        .worker_lost = box->worker_lost[0] != '\0' ? box->worker_lost : NULL,
        .end_fault = box->end_fault,
        .end_message = box->end_message,
        .plugin_lost = box->plugin_lost[0] != '\0' ? box->plugin_lost : NULL,
    };
    /* Below --init the command's own end counts, not the code that its init turned it into. */
    if (ended && shared->init_status != -1 && WIFEXITED(shared->status))
        evidence.status = shared->init_status;
    return evidence;
}

static void teardown_all(kern_box *box, const struct core_outcome *outcome)
{
    struct kern_outcome told = {.struct_size = sizeof(told),
                                .exit_code = outcome->exit_code,
                                .signal = outcome->signal,
                                .started = outcome->started,
                                .fault = outcome->fault};
    core_guard_listen(box, true);
    for (size_t i = box->order_count; i-- > 0;) {
        struct core_plugin *plugin = box->order[i];
        if (!plugin->entered)
            continue;
        core_guard_teardown(box, plugin, &told);
        plugin->entered = false;
    }
    core_guard_listen(box, false);
}

/* Which hook was at work when the box's first process died without a word. */
static void blame_hook(const kern_box *box, struct kern_error *err)
{
    const struct core_shared *shared = box->shared;
    if (core_error_is_set(err))
        return;
    if (box->worker_lost[0] != '\0') {
        kern_fail(err, 0, "the worker of plugin %s ended while the box was built", box->worker_lost);
        return;
    }
    if (box->plugin_lost[0] != '\0') {
        kern_fail(err, 0, "plugin %s crashed or hung in a callback while the box was built",
                  box->plugin_lost);
        return;
    }
    if (atomic_load(&shared->progress) == CORE_EXECUTING)
        return;
    if (box->usage.oom_own == 1) {
        kern_fail(err, 0, "the memory cap of %s is too small for a box to be built in",
                  kern_get_string(&box->options, "memory"));
        kern_hint(err, "give it more: --memory 16m");
        return;
    }
    if (box->usage.oom_fleet > 0) {
        kern_fail(err, 0,
                  "out of memory: all boxes together have used the %" PRIu64
                  " bytes of KERN_FLEET_MEMORY_MAX",
                  box->usage.oom_fleet);
        kern_hint(err, "kern stats shows what each of them uses");
        return;
    }
    bool ended = atomic_load(&shared->ended) != 0;
    int code = ended && WIFEXITED(shared->status) ? WEXITSTATUS(shared->status) : -1;
    int number = code == CORE_ABORTED ? SIGABRT : ended && code < 0 ? WTERMSIG(shared->status) : SIGKILL;
    if (code >= 0 && code != CORE_ABORTED)
        kern_fail(err, 0, "the box's first process was ended by exit(%d) while it was built", code);
    else
        kern_fail(err, 0, "the box's first process was ended by signal %d (%s) while it was built", number,
                  sigdescr_np(number));
    if (atomic_load(&shared->progress) == CORE_ENTERING)
        core_error_context(err, box->order[atomic_load(&shared->enter_index)]->name, "enter");
}

static void give_back(kern_box *box, int exit_code)
{
    core_mounts_remove_nodes(box);
    core_launch_wait(box);
    core_control_close(box);
    core_scratch_remove(box);
    core_record_ended(box, exit_code);
    core_registry_release(box);
    core_control_finish(box, exit_code);
}

void core_engine_plan(kern_box *box, void (*show)(const kern_box *box), struct kern_error *err)
{
    int failed = claim(box, err);
    if (failed == 0)
        failed = compose(box, err);
    if (failed == 0)
        show(box);
    const struct core_outcome nothing = {.exit_code = failed == 0 ? 0 : 1};
    teardown_all(box, &nothing);
    core_guard_close(box);
    give_back(box, nothing.exit_code);
}

static void print_timing(const kern_box *box)
{
    core_log_note("timing in ms: %s", box->timing_text);
    if (box->shared == NULL)
        return;
    char text[400] = "";
    int64_t before = box->start_ns;
    for (uint32_t i = 0; i < box->shared->moment_count; i++) {
        const struct core_moment *moment = &box->shared->moment[i];
        size_t used = strlen(text);
        (void)snprintf(text + used, sizeof(text) - used, "%s%s %.3f", used > 0 ? ", " : "", moment->name,
                       (double)(moment->at_ns - before) / 1e6); /* a full line loses its last phases */
        before = moment->at_ns;
    }
    if (!box->executed)
        core_log_note("timing in the box: %s, never executed", text);
    else
        core_log_note("timing in the box: %s, exec seen after %.3f, ended after %.3f", text,
                      (double)(box->exec_ns - before) / 1e6, (double)(box->end_ns - box->exec_ns) / 1e6);
}

void core_engine_run(kern_box *box, struct core_outcome *ret_outcome, struct kern_error *err)
{
    box->timing = core_log_switch("KERN_TIMING");
    box->mark_ns = core_now_ns();
    int failed = box->restarts == 0 ? core_report_open(box, err) : 0;
    if (failed == 0)
        failed = build(box, err);
    if (failed != 0) {
        core_launch_undo(box);
    } else {
        core_supervise(box);
        core_workers_end(box);
        if (box->bare)
            core_launch_host_finish(box);
        collect_usage(box);
        core_hookcheck_entered(box);
        mark(box, "run");
        if (core_error_is_set(&box->shared->error))
            *err = box->shared->error;
        else if (!box->executed && !box->timed_out && box->stop_signal == 0)
            blame_hook(box, err);
        else if (!box->executed && atomic_load(&box->shared->progress) == CORE_ENTERING)
            kern_warn(box, "plugin %s was still in enter when the box was ended",
                      box->order[atomic_load(&box->shared->enter_index)]->name);
    }
    box->end_ns = core_now_ns();
    if (!box->executed)
        core_report_not_alive(box);
    struct core_evidence evidence = gather(box, err);
    core_classify(&evidence, ret_outcome);
    if (box->restarts > 0 && core_error_is_set(err))
        core_log_error(err); /* into the log, while there is one */
    core_detach_finish(box);
    core_workers_stop(box);
    teardown_all(box, ret_outcome);
    bool asked = core_guard_asked(box) != 0; /* a signal that came meanwhile is a stop as well */
    core_guard_close(box);
    core_launch_wait(box);
    box->restart = !asked && core_restart_pause(box, ret_outcome);
    if (box->restart) {
        core_scratch_remove(box);
        return;
    }
    give_back(box, ret_outcome->exit_code);
    if (!box->swept && box->run_fd >= 0)
        core_registry_sweep(box); /* one that was executed has done so meanwhile */
    mark(box, "teardown");
    if (box->timing)
        print_timing(box);
}
