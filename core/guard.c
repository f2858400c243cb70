/* See guard.h. A signal handler has no argument of its own and the house has no variables at file scope, so the guard stands
 * at the foot of the stack that its handlers run on, where they find it by their own address. Host side. */
#include "guard.h"

#include "cleanup.h"
#include "engine.h"
#include "log.h"
#include "supervise.h"
#include "sys.h"

#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#define GUARD_SIZE ((size_t)1 << 16) /* and its alignment */
/* A hook that was asked to end may use this long to notice. */
#define GRACE_MS 500
/* A teardown may use this long; with a deadline what is left of it, but at least the second. */
#define TEARDOWN_MS       10000
#define TEARDOWN_LEAST_MS 1000
#define ALONE_MS          10000 /* and what runs of a plugin without a box */
#define EXIT_BUILD        125

/* What a second request tears off: any hook of others; one of kern's own only when the grace is over, which it has for what it
 * made; and never its teardown, for nobody else removes all that so well. */
enum { HOLD_NOT, HOLD_GRACE, HOLD_TO_THE_END };

struct core_guard {
    sigjmp_buf back;
    void *mapping;
    pid_t owner; /* handlers are inherited: a child that a plugin made must not come back as a second kern */
    volatile sig_atomic_t alone; /* there is no box: between two plugins signals do what they always do */
    volatile sig_atomic_t armed, asked, struck, again, shaken, left_code, hold;
    const char *volatile left; /* the function by which a hook meant to end the process */
    uintptr_t frame;           /* of whoever called the hook: the way back leads there */
    const char *name;          /* of the plugin, while its hook runs */
    int exit_code;             /* of kern, should there be no way back */
    sigset_t stops;            /* what is handled of the signals that end kern */
    sigset_t mask;             /* while there is no box */
    bool debug;
};

static const int crashes[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
static const int stops[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};
static const int alone_stops[] = {SIGALRM, SIGTERM, SIGINT};

static struct core_guard *guard_here(void)
{
    char here;
    return (struct core_guard *)((uintptr_t)&here & ~(uintptr_t)(GUARD_SIZE - 1));
}

static void set_timer(int64_t ms)
{
    struct itimerval timer = {.it_value = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000}};
    (void)setitimer(ITIMER_REAL, &timer, NULL); /* valid by its making */
}

static void on_crash(int signal_number)
{
    struct core_guard *guard = guard_here();
    if (guard->owner == getpid() && guard->armed) {
        guard->armed = 0;
        guard->shaken = 1;
        guard->struck = signal_number;
        siglongjmp(guard->back, 1);
    }
    static const char words[] = "kern: it crashed itself after a plugin did\n";
    if (guard->owner == getpid() && guard->shaken) {
        (void)!write(STDERR_FILENO, words, sizeof(words) - 1); /* nothing can be done about a failure here */
        sys_exit(EXIT_BUILD);
    }
    struct sigaction plain = {.sa_handler = SIG_DFL};
    (void)sigaction(signal_number, &plain, NULL); /* valid; the instruction is tried again */
}

/* The first request gives the hook a moment: a system call that it waits in returns EINTR, and perhaps it is about to end. */
static void on_stop(int signal_number)
{
    struct core_guard *guard = guard_here();
    bool own = guard->owner == getpid();
    if (guard->alone && (!own || (!guard->armed && signal_number != SIGALRM))) {
        struct sigaction plain = {.sa_handler = SIG_DFL};
        (void)sigaction(signal_number, &plain, NULL); /* valid */
        (void)raise(signal_number);                   /* strikes when this handler has returned */
        return;
    }
    if (!own)
        return;
    if (signal_number != SIGALRM && guard->asked == 0) {
        guard->asked = signal_number;
        set_timer(GRACE_MS);
        return;
    }
    if (!guard->armed || guard->hold == HOLD_TO_THE_END ||
        (guard->hold == HOLD_GRACE && signal_number != SIGALRM))
        return;
    guard->armed = 0;
    guard->again = 1;
    siglongjmp(guard->back, 1);
}

static void set_handlers(struct core_guard *guard, bool on)
{
    struct sigaction crash = {.sa_handler = on ? on_crash : SIG_DFL, .sa_flags = SA_ONSTACK | SA_NODEFER};
    struct sigaction stop = {.sa_handler = on ? on_stop : SIG_DFL, .sa_flags = SA_ONSTACK};
    for (size_t i = 0; i < sizeof(crashes) / sizeof(crashes[0]); i++)
        (void)sigaction(crashes[i], &crash, NULL); /* valid signals */
    (void)sigaction(SIGALRM, &stop, NULL);
    for (size_t i = 0; i < sizeof(stops) / sizeof(stops[0]); i++)
        if (sigismember(&guard->stops, stops[i]) == 1)
            (void)sigaction(stops[i], &stop, NULL); /* a valid signal */
}

/* On the foot of the stack that the handlers will run on; NULL without memory. */
static struct core_guard *make_guard(void)
{
    char *mapping = mmap(NULL, 2 * GUARD_SIZE, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED)
        return NULL;
    size_t off = (GUARD_SIZE - (uintptr_t)mapping % GUARD_SIZE) % GUARD_SIZE;
    struct core_guard *guard = (struct core_guard *)(void *)(mapping + off);
    guard->mapping = mapping;
    guard->owner = getpid();
    guard->exit_code = EXIT_BUILD;
    (void)sigemptyset(&guard->stops); /* valid */
    /* The handlers' frames grow down from the top; the guard itself lies at the foot. */
    stack_t stack = {.ss_sp = guard, .ss_size = GUARD_SIZE};
    if (sigaltstack(&stack, NULL) == 0)
        return guard;
    (void)munmap(mapping, 2 * GUARD_SIZE); /* was mapped with this size */
    return NULL;
}

static void drop_guard(struct core_guard *guard)
{
    stack_t none = {.ss_flags = SS_DISABLE};
    (void)sigaltstack(&none, NULL);               /* no handler runs on it */
    (void)munmap(guard->mapping, 2 * GUARD_SIZE); /* was mapped with this size */
}

/* The guard whose stack the handlers of this thread run on. A child has a copy of it, and ends as it likes. */
static struct core_guard *guard_of_thread(void)
{
    stack_t stack;
    if (sigaltstack(NULL, &stack) != 0 || (stack.ss_flags & SS_DISABLE) != 0 || stack.ss_size != GUARD_SIZE ||
        (uintptr_t)stack.ss_sp % GUARD_SIZE != 0)
        return NULL;
    struct core_guard *guard = stack.ss_sp;
    return guard->owner == getpid() ? guard : NULL;
}

void core_guard_leaving(const char *function, int code)
{
    struct core_guard *guard = guard_of_thread();
    if (guard == NULL || !guard->armed)
        return;
    guard->armed = 0;
    guard->left = function;
    guard->left_code = code;
    /* pthread_exit() unwinds the stack before it comes here: then there is nothing to go back to. */
    if ((uintptr_t)__builtin_frame_address(0) < guard->frame)
        siglongjmp(guard->back, 1);
    core_log_failure("%s: the plugin ended kern's thread in a hook",
                     guard->name != NULL ? guard->name : "a plugin of kern.toml");
    sys_exit(guard->exit_code);
}

/* What libc itself does for err(3) and the like. No lock of libc's is held here, or one that this thread may take again. */
static void on_exit_of(int code, void *unused)
{
    (void)unused; /* the guard is found by the thread */
    core_guard_leaving("exit", code);
}

/* A signal that came while nobody waited for it was meant for kern. */
static void pass_on(struct core_guard *guard)
{
    int asked = guard->asked;
    guard->asked = 0;
    if (asked != 0 && sigismember(&guard->stops, asked) == 1)
        (void)raise(asked); /* does what it does without a guard: ends kern */
}

/* Stays until the box takes it over or the process ends: each further plugin finds its handlers set. */
static struct core_guard *make_alone(void)
{
    struct sigaction crash = {.sa_handler = on_crash, .sa_flags = SA_ONSTACK | SA_NODEFER};
    struct sigaction stop = {.sa_handler = on_stop, .sa_flags = SA_ONSTACK}, before;
    struct core_guard *guard = make_guard();
    if (guard == NULL)
        return NULL;
    for (size_t i = 0; i < sizeof(crashes) / sizeof(crashes[0]); i++)
        (void)sigaction(crashes[i], &crash, NULL); /* valid signals */
    for (size_t i = 0; i < sizeof(alone_stops) / sizeof(alone_stops[0]); i++)
        if (sigaction(alone_stops[i], &stop, &before) == 0 && before.sa_handler == SIG_IGN)
            (void)sigaction(alone_stops[i], &before, NULL); /* what the caller ignores stays so */
        else
            (void)sigaddset(&guard->stops, alone_stops[i]); /* a valid signal */
    if (sigprocmask(SIG_BLOCK, NULL, &guard->mask) != 0)
        (void)sigemptyset(&guard->mask); /* it cannot fail with these words */
    guard->alone = 1;
    pass_on(guard); /* what came while it was not known whether it is ignored */
    return guard;
}

int core_guard_alone(void (*fn)(void *), void *arg)
{
    struct core_guard *found = guard_of_thread(), *guard = found != NULL ? found : make_alone();
    if (guard == NULL || !guard->alone) { /* without memory; or a box has its own */
        fn(arg);
        return 0;
    }
    guard->struck = guard->again = 0;
    guard->left = NULL;
    set_timer(ALONE_MS);
    guard->frame = (uintptr_t)__builtin_frame_address(0);
    bool whole = sigsetjmp(guard->back, 0) == 0;
    if (whole) {
        guard->armed = 1;
        fn(arg);
        guard->armed = 0;
    }
    set_timer(0);
    if (!whole)
        (void)sigprocmask(SIG_SETMASK, &guard->mask, NULL); /* the handler's own mask was left behind */
    if (guard->again)
        guard->asked = 0; /* that it was given up is the answer */
    pass_on(guard);
    return guard->left != NULL ? CORE_GUARD_LEFT : guard->again ? CORE_GUARD_HUNG : guard->struck;
}

int core_guard_opening(void (*fn)(void *), void *arg)
{
    (void)on_exit(on_exit_of, NULL); /* without memory for it, nobody is named */
    return core_guard_alone(fn, arg);
}

/* The guard that the opening of somebody's plugin left here. A start without such a plugin does not even ask. */
static struct core_guard *take_over(const kern_box *box)
{
    for (size_t i = 0; i < box->catalog->count; i++)
        if (!box->catalog->plugin[i].builtin)
            return guard_of_thread();
    return NULL;
}

void core_guard_open(kern_box *box)
{
    struct core_guard *alone = take_over(box), *guard = alone != NULL ? alone : make_guard();
    if (guard == NULL)
        return;
    guard->alone = 0;
    guard->debug = core_debug("plugins");
    for (size_t i = 0; i < sizeof(stops) / sizeof(stops[0]); i++) {
        struct sigaction now;
        /* What the caller ignores (nohup) stays ignored. */
        if (sigismember(&guard->stops, stops[i]) == 0 && sigaction(stops[i], NULL, &now) == 0 &&
            now.sa_handler != SIG_IGN)
            (void)sigaddset(&guard->stops, stops[i]); /* a valid signal */
    }
    (void)sigaddset(&guard->stops, SIGALRM); /* a valid signal */
    set_handlers(guard, true);
    box->guard = guard;
}

void core_guard_close(kern_box *box)
{
    struct core_guard *guard = box->guard;
    if (guard == NULL)
        return;
    set_timer(0);
    set_handlers(guard, false);
    box->guard = NULL;
    drop_guard(guard);
}

void core_guard_listen(kern_box *box, bool on)
{
    if (box->guard == NULL)
        return;
    (void)sigprocmask(on ? SIG_UNBLOCK : SIG_BLOCK, &box->guard->stops, NULL); /* valid */
    if (!on)
        set_timer(0);
}

int core_guard_asked(const kern_box *box)
{
    return box->guard != NULL ? box->guard->asked : 0;
}

/* fn(arg), and whether it came to its end. */
static bool run(kern_box *box, const char *phase, struct core_plugin *plugin, void (*fn)(void *), void *arg)
{
    struct core_guard *guard = box->guard;
    struct core_plugin *before = box->current;
    struct core_hook_state state;
    sigjmp_buf outer;
    sigset_t mask;
    if (guard == NULL) {
        box->current = plugin;
        fn(arg);
        box->current = before;
        return true;
    }
    sig_atomic_t was_armed = guard->armed,
                 held = guard->hold; /* one plugin's callback within another's hook */
    uintptr_t outer_frame = guard->frame;
    memcpy(&outer, &guard->back, sizeof(outer));
    guard->armed = 0;
    guard->struck = guard->again = 0;
    guard->left = NULL;
    if (guard->debug)
        core_hookcheck_before(-1, &state);
    if (sigprocmask(SIG_BLOCK, NULL, &mask) != 0)
        (void)sigemptyset(&mask); /* it cannot fail with these words */
    box->current = plugin;
    guard->name = plugin->name;
    guard->hold = !plugin->builtin ? HOLD_NOT : strcmp(phase, "teardown") == 0 ? HOLD_TO_THE_END : HOLD_GRACE;
    guard->frame = (uintptr_t)__builtin_frame_address(0);
    bool whole = sigsetjmp(guard->back, 0) == 0;
    if (whole) {
        guard->armed = 1;
        fn(arg);
    }
    memcpy(&guard->back, &outer, sizeof(outer));
    guard->frame = outer_frame;
    guard->name = before != NULL ? before->name : NULL;
    guard->armed = was_armed;
    guard->hold = held;
    box->current = before;
    box->torn = box->torn || (!whole && plugin->builtin);
    if (!whole)
        (void)sigprocmask(SIG_SETMASK, &mask, NULL); /* the handler's own mask was left behind */
    else if (guard->debug)
        core_hookcheck_tell(box, plugin->name, phase, core_hookcheck_differs(-1, &state));
    return whole;
}

/* ---- prepare ---- */

struct prepare_call {
    kern_box *box;
    struct core_plugin *plugin;
    struct kern_error *err;
    int result;
};

static void call_prepare(void *arg)
{
    struct prepare_call *call = arg;
    call->result = call->plugin->table->prepare(call->box, call->plugin->state, call->err);
}

static int give_up(kern_box *box, struct core_plugin *plugin, struct kern_error *err)
{
    const struct core_guard *guard = box->guard;
    plugin->entered = false;       /* in no state for its teardown */
    *err = (struct kern_error){0}; /* half a message, perhaps */
    if (guard->struck != 0) {
        kern_fail(err, 0, "the plugin crashed: %s (signal %d)", sigdescr_np(guard->struck),
                  (int)guard->struck);
        core_error_context(err, plugin->name, "prepare");
        return -EFAULT;
    }
    if (guard->left != NULL) {
        kern_fail(err, 0, "the hook called %s(%d)", guard->left, (int)guard->left_code);
        kern_hint(err, "a hook that fails says so with kern_fail() and returns what that returns");
        core_error_context(err, plugin->name, "prepare");
        return -EFAULT;
    }
    box->timed_out = guard->asked == 0;
    if (guard->asked != 0)
        kern_fail(err, 0, "the hook was still running after SIG%s", sigabbrev_np(guard->asked));
    else
        kern_fail(err, 0, "the hook was still running when the deadline struck");
    core_error_context(err, plugin->name, "prepare");
    return -EINTR;
}

int core_guard_prepare(kern_box *box, struct core_plugin *plugin, struct kern_error *err)
{
    struct prepare_call call = {.box = box, .plugin = plugin, .err = err};
    int64_t timeout = plugin->builtin ? 0 : kern_get_int(&box->options, "timeout");
    uint64_t held[16];
    bool debug = core_guard_debugs(box);
    if (debug)
        core_hookcheck_mark(held);
    if (timeout > 0 && core_guard_asked(box) == 0)
        set_timer(timeout);
    bool whole = run(box, "prepare", plugin, call_prepare, &call);
    if (timeout > 0 && core_guard_asked(box) == 0)
        set_timer(0);
    if (!whole)
        return give_up(box, plugin, err);
    if (debug)
        core_hookcheck_new(box, plugin, held, plugin->held);
    return call.result;
}

/* ---- teardown ---- */

struct teardown_call {
    kern_box *box;
    struct core_plugin *plugin;
    const struct kern_outcome *told;
};

static void call_teardown(void *arg)
{
    struct teardown_call *call = arg;
    call->plugin->table->teardown(call->box, call->plugin->state, call->told);
}

/* What became of the hook that did not come to its end. */
static void describe(const struct core_guard *guard, int64_t bound, const char *where, char *ret_text,
                     size_t size)
{
    if (guard->struck != 0)
        (void)snprintf(ret_text, size, "crashed in %s: %s (signal %d)", where, sigdescr_np(guard->struck),
                       (int)guard->struck); /* fits; so below */
    else if (guard->left != NULL)
        (void)snprintf(ret_text, size, "called %s(%d) in %s", guard->left, (int)guard->left_code, where);
    else if (guard->asked != 0)
        (void)snprintf(ret_text, size, "did not end in %s after SIG%s", where, sigabbrev_np(guard->asked));
    else if (bound > 0)
        (void)snprintf(ret_text, size, "did not end in %s within %.1f s", where, (double)bound / 1000.0);
    else
        (void)snprintf(ret_text, size, "did not end in %s by the deadline", where);
}

/* How long its teardown may take, in milliseconds; 0: kern's own know what they do. */
static int64_t teardown_bound(const kern_box *box, const struct core_plugin *plugin)
{
    if (plugin->builtin)
        return 0;
    if (core_guard_asked(box) != 0)
        return TEARDOWN_LEAST_MS;
    int64_t left = box->deadline_ms > 0 ? box->deadline_ms - core_now_ns() / 1000000 : TEARDOWN_MS;
    left = left < TEARDOWN_MS ? left : TEARDOWN_MS;
    return left > TEARDOWN_LEAST_MS ? left : TEARDOWN_LEAST_MS;
}

static void guarded_teardown(kern_box *box, struct core_plugin *plugin, const struct kern_outcome *told)
{
    struct teardown_call call = {.box = box, .plugin = plugin, .told = told};
    int64_t bound = teardown_bound(box, plugin);
    char what[120];
    if (box->guard != NULL)
        box->guard->exit_code = told->exit_code;
    if (box->guard != NULL && bound > 0)
        set_timer(bound);
    bool whole = run(box, "teardown", plugin, call_teardown, &call);
    if (box->guard != NULL && bound > 0)
        set_timer(0);
    if (whole)
        return;
    describe(box->guard, bound, "teardown", what, sizeof(what));
    kern_warn(box, "plugin %s %s", plugin->name, what);
}

void core_guard_teardown(kern_box *box, struct core_plugin *plugin, const struct kern_outcome *told)
{
    uint64_t held[16];
    bool debug = core_guard_debugs(box);
    if (debug)
        core_hookcheck_mark(held);
    if (plugin->table->teardown != NULL)
        guarded_teardown(box, plugin, told);
    if (!debug)
        return;
    core_hookcheck_closed(box, plugin, plugin->held);
    core_hookcheck_opened(box, plugin, "teardown", held);
}

bool core_guard_debugs(const kern_box *box)
{
    return box->guard != NULL && box->guard->debug;
}

int core_guard_enter(kern_box *box, struct core_plugin *plugin, struct kern_error *err)
{
    return !plugin->builtin && core_guard_debugs(box) ? core_hookcheck_enter(box, plugin, err)
                                                      : plugin->table->enter(box, plugin->state, err);
}

/* ---- Callbacks ---- */

void core_guard_callback(kern_box *box, struct core_plugin *plugin, void (*fn)(void *), void *arg)
{
    struct core_guard *guard = box->guard;
    bool listen = guard != NULL && !plugin->builtin;
    int64_t left = box->deadline_ms > 0 ? box->deadline_ms - core_now_ns() / 1000000 : 0;
    uint64_t held[16];
    char what[120] = "";
    if (listen) {
        guard->asked = 0;
        set_timer(box->deadline_ms > 0 ? (left > 0 ? left : 1) + GRACE_MS : 0);
        core_guard_listen(box, true);
    }
    if (core_guard_debugs(box))
        core_hookcheck_mark(held);
    bool whole = run(box, "callback", plugin, fn, arg);
    if (core_guard_debugs(box))
        core_hookcheck_keep(plugin, held);
    if (!whole)
        describe(guard, 0, "a callback", what, sizeof(what));
    if (listen) {
        core_guard_listen(box, false);
        if (guard->asked != 0)
            (void)raise(guard->asked); /* it waits for the loop now, as it would have */
        guard->asked = 0;
    }
    if (whole)
        return;
    (void)snprintf(box->plugin_lost, sizeof(box->plugin_lost), "%s", plugin->name); /* names are short */
    kern_warn(box, "plugin %s %s", plugin->name, what);
    core_kill_box(box);
}
