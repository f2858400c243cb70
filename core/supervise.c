/* The supervisor's loop; see supervise.h. Runs in kern from the clone to the end of the box. Until the command is executed
 * the box's processes may share kern's memory, and with it errno: so what the loop itself waits with are raw calls. It
 * parses nothing that the box sends: messages on the channel come from kern's own code before exec, and only descriptors
 * travel in them. */
#include "supervise.h"

#include "guard.h"

#include "cleanup.h"
#include "control.h"
#include "detach.h"
#include "execs.h"
#include "records.h"
#include "registry.h"
#include "report.h"
#include "restart.h"
#include "signals.h"
#include "sys.h"
#include "worker.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

#define KILL_GRACE_MS  2000 /* contract: SIGTERM at N, SIGKILL at N+2 */
#define LOOK_AGAIN_MS  20
#define SETTLED_MS     20 /* boxes that live this long get a control socket */
#define EVENTS_AT_ONCE 16

int64_t core_now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail with a valid clock and pointer */
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int64_t now_ms(void)
{
    return core_now_ns() / 1000000;
}

static int watch_fd(const kern_box *box, int fd, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.fd = fd};
    return (int)sys_call(SYS_epoll_ctl, box->epoll_fd, EPOLL_CTL_ADD, fd, SYS_P(&event), 0, 0);
}

int core_supervise_prepare(kern_box *box, struct kern_error *err)
{
    sigset_t mask, old;
    static const int forwarded[] = {SIGTERM, SIGINT,  SIGHUP,  SIGQUIT, SIGWINCH,
                                    SIGTSTP, SIGPIPE, SIGUSR1, SIGUSR2};
    core_signals_to_catch(forwarded, sizeof(forwarded) / sizeof(forwarded[0]), &mask);
    if (sigprocmask(SIG_BLOCK, &mask, &old) != 0)
        return kern_fail(err, errno, "cannot block signals");
    if (box->restarts == 0) /* else it is known from the first run, and these are blocked still */
        memcpy(&box->child_sigmask, &old,
               sizeof(box->child_sigmask)); /* the kernel's set is the first word of libc's */
    box->signal_fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    box->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (box->signal_fd < 0 || box->epoll_fd < 0)
        return kern_fail(err, errno, "cannot set up the supervisor");
    for (uint32_t i = 0; i < box->watch_count; i++)
        if (watch_fd(box, box->watch[i].fd, box->watch[i].events) != 0)
            return kern_fail(err, EINVAL, "cannot watch a descriptor of plugin \"%s\"",
                             box->watch[i].owner->name);
    return 0;
}

int kern_watch(kern_box *box, int32_t fd, uint32_t events, kern_watch_fn fn, struct kern_error *err)
{
    if (box->watch_count == CORE_MAX_WATCH)
        return kern_fail(err, ENOSPC, "cannot watch more than %d descriptors", CORE_MAX_WATCH);
    int failed = box->epoll_fd >= 0 ? watch_fd(box, fd, events) : 0;
    if (failed != 0)
        return kern_fail(err, -failed, "cannot watch descriptor %d", fd);
    box->watch[box->watch_count++] =
        (struct core_watch){.fd = fd, .events = events, .fn = fn, .owner = box->current};
    return 0;
}

void kern_unwatch(kern_box *box, int32_t fd)
{
    for (uint32_t i = 0; i < box->watch_count; i++) {
        if (box->watch[i].fd != fd)
            continue;
        (void)sys_call(SYS_epoll_ctl, box->epoll_fd, EPOLL_CTL_DEL, fd, 0, 0,
                       0); /* gone with the descriptor otherwise */
        box->watch[i] = box->watch[--box->watch_count];
        return;
    }
}

/* ---- Ending the box ---- */

static int signal_command(const kern_box *box, int signal)
{
    int pidfd = box->shared->inner_pidfd;
    return pidfd < 0 ? -ESRCH : (int)sys_call(SYS_pidfd_send_signal, pidfd, signal, 0, 0, 0, 0);
}

void core_kill_box(kern_box *box)
{
    /* Without a pid namespace the group is what ends at once all that the command started; its keeper does so by and by. */
    if (box->bare && box->group_hooks != NULL && box->group_hooks->kill(box, box->group_state) > 0)
        return;
    /* The first process takes its pid namespace with it; the outer init is for the time before there is one. The keeper of
     * `kern run` is left alone when the command has ended: it ends what the command left. */
    bool kept = box->bare && box->shared->inner_pidfd >= 0;
    if (signal_command(box, SIGKILL) != 0 && !kept && box->outer_pidfd >= 0)
        (void)sys_call(SYS_pidfd_send_signal, box->outer_pidfd, SIGKILL, 0, 0, 0,
                       0); /* it has ended already then */
}

/* Which signals the command handles or ignores, from /proc: 0 when it cannot be told. */
static uint64_t signals_in(const char *text, const char *field)
{
    const char *at = strstr(text, field);
    return at != NULL ? strtoull(at + strlen(field), NULL, 16) : 0;
}

static bool pid_of(int pidfd, int *ret_pid)
{
    char path[48], text[512];
    (void)snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", pidfd); /* fits: a number is short */
    auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (length <= 0)
        return false;
    text[length] = '\0';
    const char *at = strstr(text, "Pid:\t");
    return at != NULL && sscanf(at, "Pid:\t%d", ret_pid) == 1 && *ret_pid > 0;
}

enum say { SAY_NONE, SAY_LATER /* blocked, and no handler yet */, SAY_NOW };

static enum say say_of(const kern_box *box, int signal)
{
    int pid = 0;
    if (box->bare)
        return SAY_NOW; /* it is no PID 1: signals do what they do */
    if (box->want_init)
        return SAY_NOW; /* kern's own init takes every signal; while it waits for one the kernel shows none as blocked */
    if (!pid_of(box->shared->inner_pidfd, &pid))
        return SAY_NONE;
    enum { STATUS_MOST = 1 << 20 }; /* the line of groups alone may take most of it */
    char path[48];
    auto_free char *text = malloc(STATUS_MOST);
    (void)snprintf(path, sizeof(path), "/proc/%d/status", pid); /* fits: a number is short */
    auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 || text == NULL ? -1 : read(fd, text, STATUS_MOST - 1);
    if (length <= 0)
        return SAY_NONE;
    text[length] = '\0';
    uint64_t bit = UINT64_C(1) << (signal - 1);
    if (((signals_in(text, "SigCgt:") | signals_in(text, "SigIgn:")) & bit) != 0)
        return SAY_NOW;
    return (signals_in(text, "SigBlk:") & bit) != 0 ? SAY_LATER : SAY_NONE;
}

/* A shell blocks signals for the moment that it forks in. One that came then is dropped when it unblocks them, so a command
 * that seemed to have a say is asked again a little later, once. */
static void look_again(kern_box *box)
{
    box->look_again_ms = 0;
    if (say_of(box, box->stop_signal) == SAY_NONE)
        core_kill_box(box);
}

void core_stop_box(kern_box *box, int signal)
{
    box->stop_signal = signal;
    /* kern's own init lets go of the channel a moment after the command began, and takes signals from before that. */
    bool begun = box->executed || (box->want_init && atomic_load(&box->shared->progress) == CORE_EXECUTING);
    /* The kernel drops signals to a PID 1 that has no handler for them, so waiting would be for nothing. */
    enum say say = begun ? say_of(box, signal) : SAY_NONE;
    if (say == SAY_NONE || signal_command(box, signal) != 0)
        core_kill_box(box);
    else if (say == SAY_LATER)
        box->look_again_ms = now_ms() + LOOK_AGAIN_MS;
}

void core_stop_gently(kern_box *box, int64_t grace_ms)
{
    const char *text = kern_get_string(&box->options, "stop-signal");
    int signal = text != NULL ? core_signal_number(text) : SIGTERM;
    signal = signal != 0 ? signal : SIGTERM; /* an image names one that does not exist */
    int64_t grace = grace_ms >= 0 ? grace_ms : kern_get_int(&box->options, "stop-timeout");
    box->stopping = box->escalated = true;
    box->grace_ms = now_ms() + grace;
    core_stop_box(box, signal);
}

int core_signal_command(const kern_box *box, int signal)
{
    return signal_command(box, signal);
}

int core_command_pid(const kern_box *box)
{
    int pid = 0;
    return pid_of(box->shared->inner_pidfd, &pid) ? pid : 0;
}

/* ---- The channel: descriptors made in the box, and the moment of exec ---- */

int kern_send_fd(kern_box *box, uint32_t tag, int32_t fd, struct kern_error *err)
{
    long sent = sys_send_fds(box->child_channel_fd, &tag, sizeof(tag), &fd, 1, 0);
    box->sent += tag != CORE_TAG_TERMINAL;
    if (fd >= 0 && fd < 1024)
        box->sent_fd[fd / 64] |= UINT64_C(1) << (fd % 64);
    return sent == (long)sizeof(tag)
               ? 0
               : kern_fail(err, sent < 0 ? (int)-sent : EIO, "cannot hand a descriptor to kern");
}

struct delivery {
    kern_box *box;
    const struct core_receiver *receiver;
    int fd;
};

static void call_receiver(void *arg)
{
    const struct delivery *delivery = arg;
    const struct core_receiver *receiver = delivery->receiver;
    receiver->fn(delivery->box, receiver->owner->state, receiver->tag, delivery->fd);
}

void core_deliver(kern_box *box, uint32_t tag, int fd)
{
    if (tag >= CORE_TAG_SPACE && tag < CORE_TAG_SPACE + CORE_SPACES) {
        kern_close_fd(&box->space_fd[tag - CORE_TAG_SPACE]); /* usually there is none */
        box->space_fd[tag - CORE_TAG_SPACE] = fd;
        return;
    }
    if (tag == CORE_TAG_CHANGES) {
        kern_close_fd(&box->changes_fd); /* of the run before */
        box->changes_fd = fd;
        return;
    }
    if (tag == CORE_TAG_TERMINAL && box->detached) {
        core_terminal_detached(&box->terminal, fd, box->std_fd[1]);
        (void)watch_fd(box, fd, EPOLLIN); /* otherwise nothing is logged, and the deadline still holds */
        return;
    }
    if (tag == CORE_TAG_TERMINAL) {
        (void)core_terminal_start(&box->terminal,
                                  fd);    /* without raw mode the terminal still works, line by line */
        (void)watch_fd(box, fd, EPOLLIN); /* otherwise nothing is shown, and the deadline still holds */
        (void)watch_fd(box, STDIN_FILENO, EPOLLIN); /* EPERM for a file: it is pumped with the rest */
        return;
    }
    for (size_t i = 0; i < box->receiver_count; i++) {
        const struct core_receiver *receiver = &box->receiver[i];
        if (receiver->tag != tag)
            continue;
        struct delivery delivery = {.box = box, .receiver = receiver, .fd = fd};
        core_guard_callback(box, receiver->owner, call_receiver, &delivery);
        return;
    }
    (void)sys_close(fd); /* nobody asked for it */
}

enum core_received core_channel_receive(int channel, uint32_t *ret_tag, int *ret_fd)
{
    size_t count = 0;
    *ret_fd = -1;
    long got = sys_receive_fds(channel, ret_tag, sizeof(*ret_tag), ret_fd, 1, &count, MSG_DONTWAIT);
    if (got == -EAGAIN || got == -EINTR)
        return CORE_CHANNEL_EMPTY;
    if (got > 0 && got != (long)sizeof(*ret_tag))
        kern_close_fd(ret_fd);
    return got > 0 ? CORE_CHANNEL_MORE : CORE_CHANNEL_ENDED;
}

static enum core_received receive(kern_box *box)
{
    uint32_t tag = 0;
    int fd = -1;
    enum core_received received = core_channel_receive(box->channel_fd, &tag, &fd);
    if (fd >= 0)
        core_deliver(box, tag, fd);
    return received;
}

/* Returns false when there is nothing more to read. */
static void settle(kern_box *box);

static bool on_channel(kern_box *box)
{
    enum core_received received = receive(box);
    if (received != CORE_CHANNEL_ENDED)
        return received == CORE_CHANNEL_MORE;
    (void)sys_call(SYS_epoll_ctl, box->epoll_fd, EPOLL_CTL_DEL, box->channel_fd, 0, 0, 0); /* it was added */
    kern_close_fd(&box->channel_fd);
    if (atomic_load(&box->shared->exec_failed) == 0 &&
        atomic_load(&box->shared->progress) == CORE_EXECUTING) {
        box->executed = true;
        box->exec_ns = core_now_ns();
        core_event(
            box, &(struct kern_event){.struct_size = sizeof(struct kern_event), .event = KERN_EVENT_STARTED});
        core_report_executed(box);
        /* A change of ids in the box made the memory that it shared with kern private to root, and kern's own /proc with it. */
        (void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0); /* only a signal's answer would be less gentle without */
        if (box->described)                       /* it was slow to start */
            core_record_change(box, "status", "running");
        if (box->detached) {
            settle(box);
            core_detach_executed(box);
        }
    }
    return false;
}

/* ---- Deadline and signals ---- */

/* Whether the command runs decides how it can be stopped; the news of it may lie in the channel still. */
static void catch_up(kern_box *box)
{
    while (box->channel_fd >= 0 && on_channel(box))
        continue;
}

static void tell_stopping(kern_box *box, const char *why)
{
    core_event(box, &(struct kern_event){
                        .struct_size = sizeof(struct kern_event), .event = KERN_EVENT_STOPPING, .what = why});
}

static void on_deadline(kern_box *box)
{
    catch_up(box);
    if (box->bare && atomic_load(&box->shared->ended) != 0) { /* only what the command left is being ended */
        box->deadline_ms = 0;
        return;
    }
    if (!box->timed_out) {
        tell_stopping(box, "timeout");
        box->timed_out = true;
        box->deadline_ms += KILL_GRACE_MS;
        core_stop_box(box, SIGTERM);
        return;
    }
    box->deadline_ms = 0;
    core_kill_box(box);
}

/* The terminal has sent it to the command as well, which is in kern's own process group: passed on it would come twice. Only
 * the shell that waits for kern has to see that all of the job stops. */
static void of_terminal(int signal)
{
    if (signal == SIGTSTP)
        (void)kill(getpid(), SIGSTOP); /* kern itself */
}

static void on_signal(kern_box *box)
{
    struct signalfd_siginfo info;
    catch_up(box);
    while (sys_read(box->signal_fd, &info, sizeof(info)) == (long)sizeof(info)) {
        int signal = (int)info.ssi_signo;
        if (signal == SIGWINCH) {
            core_terminal_resize(&box->terminal);
        } else if (box->bare && info.ssi_code == SI_KERNEL) {
            of_terminal(signal);
        } else if (signal == SIGTSTP || signal == SIGPIPE) {
            continue; /* a stopped supervisor would keep no deadline; a closed stderr must not end the box */
        } else if (signal == SIGUSR1 || signal == SIGUSR2) {
            (void)signal_command(box, signal); /* mean what the command says; one that has ended hears none */
        } else if (!box->escalated) {
            char name[16];
            (void)snprintf(name, sizeof(name), "SIG%s",
                           sigabbrev_np(signal)); /* fits: one of those that are forwarded */
            tell_stopping(box, name);
            box->escalated = true;
            core_stop_box(box, signal);
        } else {
            box->stop_signal = signal;
            core_kill_box(box);
        }
    }
}

/* ---- The loop ---- */

struct wakeup {
    kern_box *box;
    struct core_watch watch;
    uint32_t events;
};

static void call_watch(void *arg)
{
    const struct wakeup *wakeup = arg;
    const struct core_watch *watch = &wakeup->watch;
    watch->fn(wakeup->box, watch->owner->state, watch->fd, wakeup->events);
}

void core_dispatch_watched(kern_box *box, int fd, uint32_t events, bool own)
{
    for (uint32_t i = 0; i < box->watch_count; i++) {
        struct core_watch watch = box->watch[i];
        if (watch.fd != fd || (own && !watch.owner->builtin))
            continue;
        struct wakeup wakeup = {.box = box, .watch = watch, .events = events};
        box->watched_fd = fd;
        if (watch.owner == &box->catalog->plugin[0])
            call_watch(&wakeup); /* the core's own; it may deliver to a plugin, and guards do not nest */
        else
            core_guard_callback(box, watch.owner, call_watch, &wakeup);
        box->watched_fd = -1;
        return;
    }
}

void core_lose_worker(kern_box *box, const struct core_worker *worker)
{
    (void)snprintf(box->worker_lost, sizeof(box->worker_lost), "%s",
                   worker->owner->name); /* names are short */
    core_kill_box(box);
}

static void on_worker(kern_box *box, struct core_worker *worker)
{
    (void)sys_call(SYS_epoll_ctl, box->epoll_fd, EPOLL_CTL_DEL, worker->pidfd, 0, 0, 0); /* it was added */
    (void)waitpid(worker->pid, NULL, 0);
    kern_close_fd(&worker->pidfd);
    worker->pid = 0;
    core_lose_worker(box, worker);
}

static bool is_worker(kern_box *box, int fd)
{
    for (size_t i = 0; i < box->worker_count; i++) {
        if (box->worker[i].pidfd == fd && fd >= 0) {
            on_worker(box, &box->worker[i]);
            return true;
        }
    }
    return false;
}

/* Bytes that the other side does not take yet wait in the relay, and where they came from is not listened to meanwhile: the
 * loop would be told of it without end. */
static void settle_relay(kern_box *box, struct core_relay *relay, int source)
{
    bool wait = relay->length > 0 && !relay->closed;
    if (relay->closed || (wait && !relay->waiting))
        (void)sys_call(SYS_epoll_ctl, box->epoll_fd, EPOLL_CTL_DEL, source, 0, 0,
                       0); /* it may be out already */
    else if (!wait && relay->waiting)
        (void)watch_fd(box, source, EPOLLIN); /* it was there before */
    relay->waiting = wait;
}

static void on_terminal(kern_box *box, int fd)
{
    if (fd == STDIN_FILENO) {
        core_terminal_input(&box->terminal);
        settle_relay(box, &box->terminal.in, STDIN_FILENO);
    } else {
        core_terminal_output(&box->terminal);
        settle_relay(box, &box->terminal.out, box->terminal.master);
    }
}

static void retry_relays(kern_box *box)
{
    if (box->terminal.in.waiting)
        on_terminal(box, STDIN_FILENO);
    if (box->terminal.out.waiting)
        on_terminal(box, box->terminal.master);
}

/* Returns true when the box has ended. */
static bool dispatch(kern_box *box, const struct epoll_event *event)
{
    int fd = event->data.fd;
    if (fd == box->outer_pidfd || fd == box->ended_fd)
        return true;
    if (fd == box->channel_fd)
        (void)on_channel(box); /* more of it wakes the loop again */
    else if (fd == box->signal_fd)
        on_signal(box);
    else if (fd == box->owner_fd)
        core_kill_box(box); /* nobody is left to hear of it, or to say when it has run for long enough */
    else if (box->terminal.master >= 0 && (fd == box->terminal.master || fd == STDIN_FILENO))
        on_terminal(box, fd);
    else if (fd == box->control_fd)
        core_control_accept(box);
    else if (!is_worker(box, fd))
        core_dispatch_watched(box, fd, event->events, false);
    return false;
}

/* A box that lives for some time is worth a control socket; one that prints a line and ends does not pay for it. */
static void settle(kern_box *box)
{
    box->settled = true;
    if (!box->described)
        core_record_describe(box);
    if (core_control_listen(box) == 0)
        (void)watch_fd(box, box->control_fd, EPOLLIN); /* unreachable then, as without it */
}

/* While the command runs there is time to look at what killed runs left behind; and kern's memory is its own again. */
static void sweep(kern_box *box)
{
    box->swept = true;
    core_registry_sweep(box);
}

static int wait_time(const kern_box *box)
{
    bool relays = box->terminal.in.waiting || box->terminal.out.waiting;
    int64_t wait = box->settled && !relays ? -1 : SETTLED_MS;
    const int64_t due[] = {box->deadline_ms, box->look_again_ms, box->grace_ms, core_health_due(box)};
    for (size_t i = 0; i < sizeof(due) / sizeof(due[0]); i++) {
        if (due[i] == 0)
            continue;
        int64_t left = due[i] - now_ms();
        left = left < 0 ? 0 : left > INT32_MAX ? INT32_MAX : left;
        wait = wait < 0 || left < wait ? left : wait;
    }
    return (int)wait;
}

void core_supervise(kern_box *box)
{
    bool ended = watch_fd(box, box->outer_pidfd, EPOLLIN) != 0;
    (void)watch_fd(box, box->ended_fd, EPOLLIN);   /* the outer init's own end says it, later */
    (void)watch_fd(box, box->channel_fd, EPOLLIN); /* these two are valid and new: */
    (void)watch_fd(box, box->signal_fd, EPOLLIN); /* only a lack of memory fails, and the end is still seen */
    if (box->owner_fd >= 0)
        (void)watch_fd(box, box->owner_fd,
                       EPOLLONESHOT); /* its end comes unasked; a file, which has none, is refused */
    for (size_t i = 0; i < box->worker_count; i++)
        if (box->worker[i].pidfd >= 0)
            (void)watch_fd(box, box->worker[i].pidfd, EPOLLIN);
    while (!ended) {
        struct epoll_event events[EVENTS_AT_ONCE];
        long count =
            sys_call(SYS_epoll_pwait, box->epoll_fd, SYS_P(events), EVENTS_AT_ONCE, wait_time(box), 0, 8);
        for (long i = 0; i < count; i++)
            ended = dispatch(box, &events[i]) || ended;
        core_workers_start_called(box);
        if (box->executed && !box->swept)
            sweep(box);
        retry_relays(box);
        if (box->deadline_ms != 0 && now_ms() >= box->deadline_ms)
            on_deadline(box);
        else if (box->look_again_ms != 0 && now_ms() >= box->look_again_ms)
            look_again(box);
        else if (count == 0 && !box->settled)
            settle(box);
        if (core_health_due(box) != 0 && now_ms() >= core_health_due(box))
            core_health_look(box);
        if (box->grace_ms != 0 && now_ms() >= box->grace_ms) {
            box->grace_ms = 0;
            core_kill_box(box);
        }
    }
    catch_up(box); /* what was sent before the end, and whether the command was executed */
    if (box->executed && box->worker_lost[0] != '\0') /* else it is an error, and said as one */
        kern_warn(box, "the worker of plugin %s ended, and the box with it", box->worker_lost);
    core_execs_finish(box);
    core_terminal_stop(&box->terminal);
}
