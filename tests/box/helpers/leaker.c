/* leaker: a plugin of a third party that does not put back what it changed, for KERN_DEBUG=plugins, and one that crashes or hangs
 * where its profile says: what begins with "enter-" or "teardown-" there. It serves leaker:NAME. Runs in kern, and in the box's first
 * process. */
#include <kern/plugin.h>

#include <err.h>
#include <fcntl.h>
#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

struct leaker_state {
    const char *does;
    int event;
};

static const struct kern_option options[] = {
    {.name = "name", .type = KERN_STRING, .flags = KERN_OPT_PROFILE | KERN_OPT_REQUIRED, .help = "its name"},
    {.name = "does",
     .type = KERN_STRING,
     .flags = KERN_OPT_PROFILE | KERN_OPT_REQUIRED,
     .help = "what goes wrong"},
#if defined(ON_HOST)
    {.name = "here",
     .type = KERN_STRING,
     .flags = KERN_OPT_FLAG | KERN_OPT_RUN,
     .help = "takes part in kern run"},
#endif
    {.name = NULL},
};

static int check(const kern_values *profile, const kern_values *pool, struct kern_error *err)
{
    (void)pool, (void)err;
    const char *does = kern_get_string(profile, "does");
    if (does != NULL && strcmp(does, "check-exit") == 0)
        exit(0);
    if (does != NULL && strcmp(does, "check-crash") == 0)
        abort();
    if (does != NULL && strcmp(does, "check-hang") == 0)
        raise(SIGALRM); /* as if the time were over */
    return 0;
}

static int is(const struct leaker_state *state, const char *does)
{
    return state->does != NULL && strcmp(state->does, does) == 0;
}

static void hang(void)
{
    for (;;)
        (void)usleep(100000);
}

static void crash(void)
{
    *(volatile int *)(uintptr_t)8 = 1;
}

static void *idle(void *unused)
{
    hang();
    return unused;
}

static void leave_child(void)
{
    if (fork() == 0) {
        (void)close(0), (void)close(1), (void)close(2);
        (void)usleep(300000);
        _exit(0);
    }
}

#if defined(EARLY_CRASH)
__attribute__((constructor)) static void early(void)
{
#if EARLY_CRASH == 2
    _exit(0);
#elif EARLY_CRASH == 3
    raise(SIGALRM);
#else
    abort();
#endif
}
#endif

static void unwind(void)
{
    pthread_exit(NULL);
}

static void misbehave(const char *does)
{
    const struct leaker_state made = {.does = does}, *state = &made;
    pthread_t thread;
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGURG);
    if (is(state, "fd"))
        (void)!open("/dev/null", O_RDONLY | O_CLOEXEC);
    else if (is(state, "no-cloexec"))
        (void)!open("/dev/null", O_RDONLY);
    else if (is(state, "thread"))
        (void)pthread_create(&thread, NULL, idle, NULL);
    else if (is(state, "child"))
        leave_child();
    else if (is(state, "mask"))
        (void)sigprocmask(SIG_BLOCK, &set, NULL);
    else if (is(state, "signals"))
        (void)signal(SIGUSR2, SIG_IGN);
    else if (is(state, "crashes"))
        (void)signal(SIGFPE, (void (*)(int))(uintptr_t)_exit);
    else if (is(state, "umask"))
        (void)umask(077);
    else if (is(state, "folder"))
        (void)!chdir("/tmp");
    else if (is(state, "locale"))
        (void)setlocale(LC_ALL, "C.UTF-8");
    else if (is(state, "exit"))
        exit(0);
    else if (is(state, "_exit"))
        _exit(0);
    else if (is(state, "quick-exit"))
        quick_exit(0);
    else if (is(state, "errx"))
        errx(0, "not an error");
    else if (is(state, "pthread-exit"))
        unwind();
    else if (is(state, "crash"))
        crash();
    else if (is(state, "abort"))
        abort();
    else if (is(state, "hang") && dprintf(STDERR_FILENO, "leaker: here\n") > 0)
        hang();
}

static void on_event(kern_box *box, void *block, int32_t fd, uint32_t events)
{
    const struct leaker_state *state = block;
    (void)events;
    kern_unwatch(box, fd);
    misbehave(state->does + strlen("callback-"));
}

static int prepare(kern_box *box, void *block, struct kern_error *err)
{
    struct leaker_state *state = block;
    state->event = -1;
    if (kern_profile_count(box) == 0)
        return 0;
    state->does = kern_get_string(kern_profile(box, 0), "does");
    misbehave(strncmp(state->does, "prepare-", 8) == 0 ? state->does + 8 : state->does);
    if (is(state, "atexit-crash"))
        (void)atexit(crash);
    if (is(state, "prepare-slow") && dprintf(STDERR_FILENO, "leaker: here\n") > 0 &&
        usleep(60000000) != 0) /* ends when a signal comes */
        return kern_fail(err, 0, "interrupted");
    if (strncmp(state->does, "callback", 8) != 0)
        return 0;
    state->event = eventfd(1, EFD_CLOEXEC);
    return kern_watch(box, state->event, EPOLLIN, on_event, err);
}

static int enter(kern_box *box, void *block, struct kern_error *err)
{
    const struct leaker_state *state = block;
    (void)box, (void)err;
    if (state->does != NULL && strncmp(state->does, "enter-", 6) == 0)
        misbehave(state->does + 6);
    return 0;
}

static void teardown(kern_box *box, void *block, const struct kern_outcome *outcome)
{
    const struct leaker_state *state = block;
    (void)box, (void)outcome;
    if (state->does != NULL && strncmp(state->does, "teardown-", 9) == 0)
        misbehave(state->does + 9);
    if (state->event >= 0)
        (void)close(state->event);
}

KERN_PLUGIN(.name = "leaker", .version = "1", .summary = "leaves things behind", .stage = KERN_STAGE_MOUNT,
            .flags = KERN_PLUGIN_LEAN, .profile = "leaker", .options = options,
            .state_size = sizeof(struct leaker_state), .prepare = prepare, .enter = enter,
            .teardown = teardown, .check = check);
