/* `kern exec`: another command in a living box. This process asks the box's supervisor, hands over its standard streams, and
 * waits; nothing of it ever enters the box. Host side. */
#include "cmd.h"

#include "cleanup.h"
#include "client.h"
#include "engine.h"
#include "env.h"
#include "exec_client.h"
#include "log.h"
#include "report.h"
#include "signals.h"
#include "supervise.h"
#include "sys.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>

#define KILL_GRACE_MS 2000

struct session {
    kern_box *box; /* for the report, the terminal, the variables: no box is started */
    char **command;
    int argument_count;
    int client, signal_fd;
    int64_t deadline_ms;
    struct core_record record;
    bool timed_out, escalated, refused, ended;
    int stop_signal;
    struct core_exec_told told;
};

/* ---- The request ---- */

static void add_word(struct core_list *list, const char *text, bool *failed)
{
    *failed = *failed || core_list_add(list, text) != 0;
}

static int ask(struct session *session, struct kern_error *err)
{
    const kern_box *box = session->box;
    const kern_values *options = &box->options;
    struct core_list words = {0}, variables = {0};
    const char *workdir = kern_get_string(options, "workdir");
    bool failed_add = false;
    int failed = core_env_overrides(options, &variables, err);
    for (int i = 0; i < session->argument_count; i++)
        add_word(&words, session->command[i], &failed_add);
    for (size_t i = 0; i < variables.count; i++)
        add_word(&words, variables.item[i], &failed_add);
    add_word(&words, workdir != NULL ? workdir : "", &failed_add);
    struct core_exec_ask request = {.word = "exec",
                                    .version = KERN_VERSION,
                                    .flags = box->own_terminal ? CORE_EXEC_TERMINAL : 0,
                                    .arguments = (uint32_t)session->argument_count,
                                    .variables = (uint32_t)variables.count,
                                    .rows = box->window.ws_row,
                                    .columns = box->window.ws_col};
    const int streams[3] = {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO};
    if (failed == 0 && failed_add)
        failed = kern_refuse(err, ENOMEM, "cannot write down the command");
    if (failed == 0)
        failed = core_exec_ask(session->client, box->name, &request, &words, streams, err);
    core_list_clear(&words);
    core_list_clear(&variables);
    return failed;
}

/* ---- While it runs ---- */

static void send_signal(struct session *session, int signal)
{
    const struct core_exec_signal asked = {.signal = (uint32_t)signal};
    (void)send(session->client, &asked, sizeof(asked), MSG_NOSIGNAL); /* one that has ended needs none */
}

static void on_news(struct session *session)
{
    struct core_exec_told told = {0};
    int master = -1;
    size_t count = 0;
    long got = sys_receive_fds(session->client, &told, sizeof(told), &master, 1, &count, 0);
    if (got == -EINTR)
        return;
    kern_box *box = session->box;
    if (got != (long)sizeof(told)) { /* the supervisor has gone, and the box with it */
        session->ended = true;
        return;
    }
    if (told.news == CORE_EXEC_MASTER && count > 0) {
        (void)core_terminal_start(&box->terminal, master); /* without raw mode it works line by line */
    } else if (told.news == CORE_EXEC_STARTED) {
        box->executed = true;
        box->exec_ns = core_now_ns();
        core_report_executed(box);
    } else {
        session->told = told;
        session->refused = told.news == CORE_EXEC_REFUSED;
        session->ended = true;
    }
}

static void on_signal(struct session *session)
{
    struct signalfd_siginfo info;
    while (read(session->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        int signal = (int)info.ssi_signo;
        if (signal == SIGWINCH) {
            core_terminal_resize(&session->box->terminal);
        } else if (signal != SIGPIPE) {
            send_signal(session, session->escalated ? SIGKILL : signal);
            session->escalated = true;
        }
    }
}

static void on_deadline(struct session *session)
{
    send_signal(session, session->timed_out ? SIGKILL : SIGTERM);
    session->deadline_ms = session->timed_out ? 0 : session->deadline_ms + KILL_GRACE_MS;
    session->timed_out = true;
}

static int wait_time(const struct session *session)
{
    const struct core_terminal *terminal = &session->box->terminal;
    int64_t wait = terminal->in.length > 0 || terminal->out.length > 0 ? 20 : -1;
    if (session->deadline_ms != 0) {
        int64_t left = session->deadline_ms - core_now_ns() / 1000000;
        left = left < 0 ? 0 : left > 60000 ? 60000 : left;
        wait = wait < 0 || left < wait ? left : wait;
    }
    return (int)wait;
}

static void run(struct session *session)
{
    struct core_terminal *terminal = &session->box->terminal;
    while (!session->ended) {
        bool keys = terminal->master >= 0 && !terminal->in.closed && terminal->in.length == 0;
        bool shows = terminal->master >= 0 && !terminal->out.closed && terminal->out.length == 0;
        struct pollfd wait[5] = {{.fd = session->client, .events = POLLIN},
                                 {.fd = session->signal_fd, .events = POLLIN},
                                 {.fd = keys ? STDIN_FILENO : -1, .events = POLLIN},
                                 {.fd = shows ? terminal->master : -1, .events = POLLIN},
                                 {.fd = session->box->owner_fd, .events = 0}};
        if (poll(wait, 5, wait_time(session)) < 0 && errno != EINTR)
            return;
        if (wait[1].revents != 0)
            on_signal(session);
        if (wait[4].revents != 0) { /* nobody is left to hear of the command */
            send_signal(session, SIGKILL);
            kern_close_fd(&session->box->owner_fd);
        }
        if (wait[2].revents != 0 || terminal->in.length > 0)
            core_terminal_input(terminal);
        if (wait[3].revents != 0 || terminal->out.length > 0)
            core_terminal_output(terminal);
        if (wait[0].revents != 0)
            on_news(session);
        if (session->deadline_ms != 0 && core_now_ns() / 1000000 >= session->deadline_ms)
            on_deadline(session);
    }
    core_terminal_stop(terminal);
}

/* ---- Before and after ---- */

static int choose_terminal(struct session *session, struct kern_error *err)
{
    kern_box *box = session->box;
    box->own_terminal = kern_get_int(&box->options, "tty") != 0;
    if (!box->own_terminal)
        return 0;
    if (isatty(STDIN_FILENO) == 0 || isatty(STDOUT_FILENO) == 0) {
        kern_refuse(err, 0, "cannot give the command a terminal: kern's own input and output are not one");
        kern_hint(err, "leave out -t, or run kern from a terminal");
        return -ENOTTY;
    }
    if (ioctl(STDIN_FILENO, TIOCGWINSZ, &box->window) != 0)
        box->window = (struct winsize){.ws_row = 24, .ws_col = 80};
    return 0;
}

static int catch_signals(struct session *session, struct kern_error *err)
{
    sigset_t mask;
    static const int caught[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGWINCH, SIGPIPE};
    core_signals_to_catch(caught, sizeof(caught) / sizeof(caught[0]), &mask);
    if (sigprocmask(SIG_BLOCK, &mask, NULL) != 0)
        return kern_refuse(err, errno, "cannot block signals");
    session->signal_fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    return session->signal_fd >= 0 ? 0 : kern_refuse(err, errno, "cannot catch signals");
}

static int start(struct session *session, struct kern_error *err)
{
    kern_box *box = session->box;
    struct core_record *record = &session->record;
    int failed = core_report_open(box, err);
    if (failed == 0)
        failed = choose_terminal(session, err);
    if (failed == 0)
        failed = core_record_find(box->name, record, err);
    if (failed == 0)
        failed = core_client_connect(record, &session->client, err);
    if (failed == 0)
        failed = catch_signals(session, err);
    if (failed != 0)
        return failed;
    int64_t timeout = kern_get_int(&box->options, "timeout");
    box->start_ns = core_now_ns();
    session->deadline_ms = timeout > 0 ? box->start_ns / 1000000 + timeout : 0;
    core_report_alive(box);
    return ask(session, err);
}

/* What the box's end does to the report of one command in it. */
static struct core_evidence gather(const struct session *session, const struct kern_error *err)
{
    const struct core_exec_told *told = &session->told;
    bool ended = told->news == CORE_EXEC_ENDED;
    return (struct core_evidence){
        .error = err,
        .ended = ended,
        .status = told->status,
        .executed = session->box->executed,
        .exec_failed = told->exec_failed,
        .timed_out = session->timed_out,
        .timeout_ms = kern_get_int(&session->box->options, "timeout"),
        .blocked_call = told->blocked_call[0] != '\0' ? told->blocked_call : NULL,
        .blocked_program = told->blocked_program,
        .oom = session->box->usage.oom_own == 1,
        .memory_cap = session->box->memory_cap,
    };
}

static void look_for_oom(const struct session *session)
{
    kern_box *box = session->box;
    if (session->told.news != CORE_EXEC_ENDED || session->told.oom == 0)
        return;
    box->usage.oom_own = 1;
    box->memory_cap = (uint64_t)core_record_number(&session->record, "limit-memory", 0);
}

/* The box's own lines go to whoever started it, or into its log. */
static void name_blocked_call(kern_box *box, const struct core_exec_told *told)
{
    if (told->news != CORE_EXEC_ENDED || told->blocked_call[0] == '\0')
        return;
    (void)snprintf(box->blocked_call, sizeof(box->blocked_call), "%s",
                   told->blocked_call); /* as long as that */
    (void)snprintf(box->blocked_program, sizeof(box->blocked_program), "%s",
                   told->blocked_program); /* as above */
    kern_note(box, "blocked system call %s of '%s': killed", box->blocked_call, box->blocked_program);
}

static int conclude(struct session *session, struct kern_error *err)
{
    kern_box *box = session->box;
    const struct core_exec_told *told = &session->told;
    struct core_outcome outcome;
    if (err->category == KERN_ERROR_NONE && session->ended && !box->executed)
        *err = told->error;
    if (err->category == KERN_ERROR_NONE && !box->executed && !session->timed_out)
        (void)kern_fail(err, 0, "box \"%s\" ended before the command was executed",
                        box->name); /* classified below */
    box->end_ns = core_now_ns();
    if (!box->executed)
        core_report_not_alive(box);
    look_for_oom(session);
    name_blocked_call(box, told);
    struct core_evidence evidence = gather(session, err);
    core_classify(&evidence, &outcome);
    box->usage.cpu_us = told->news == CORE_EXEC_ENDED ? told->cpu_usec : -1;
    const struct kern_limit memory = {.name = "memory",
                                      .enforced = told->memory_cap == 0 ? -1 : told->memory_cap == 1};
    kern_limit_set(
        box, &memory); /* for the bytes only: the report of a command says nothing of the box's limits */
    if (err->category != KERN_ERROR_NONE && (outcome.exit_code == 126 || outcome.exit_code == 127))
        core_log_failure("%s", err->message);
    else if (err->category != KERN_ERROR_NONE)
        core_log_error(err);
    if (outcome.started)
        core_report_started(box, &outcome);
    box->limit_count = 0;
    int failed = core_report_write(box, &outcome);
    if (failed != 0)
        core_log_failure("cannot write the report to \"%s\": %s", kern_get_string(&box->options, "report"),
                         strerror(-failed));
    return outcome.exit_code;
}

static int exec_in(kern_box *box, char **command, int count)
{
    struct session session = {
        .box = box, .command = command, .argument_count = count, .client = -1, .signal_fd = -1};
    struct kern_error err = {0};
    if (start(&session, &err) == 0)
        run(&session);
    kern_close_fd(&session.client);
    kern_close_fd(&session.signal_fd);
    int code = conclude(&session, &err);
    core_record_clear(&session.record);
    return code;
}

int core_cmd_exec(struct core_call *call, struct kern_error *err)
{
    char word[] = "/bin/sh", *shell[] = {word, NULL};
    kern_box box;
    struct core_catalog catalog = {0};
    core_box_init(&box);
    box.catalog = &catalog;
    box.options = call->flags; /* the box's own from here */
    call->flags = (struct kern_values){0};
    int code = core_secure_descriptors(err);
    if (code == 0) {
        (void)snprintf(box.name, sizeof(box.name), "%s",
                       call->word[0]); /* one that is too long is not found */
        core_log_set_quiet(kern_get_int(&box.options, "quiet") != 0);
        bool given = call->words > 1;
        code = exec_in(&box, given ? call->word + 1 : shell, given ? call->words - 1 : 1);
    }
    core_box_clear(&box);
    core_values_clear(&box.options);
    return code;
}
