/* leaker: a plugin of a third party that does not put back what it changed, for KERN_DEBUG=plugins, and one that crashes or hangs
 * where its profile says. It serves leaker:NAME. Runs in kern, and in the box's first process for "enter-hang". */
#include <kern/plugin.h>

#include <fcntl.h>
#include <locale.h>
#include <pthread.h>
#include <signal.h>
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
    {.name = NULL},
};

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
    abort();
}
#endif

static void misbehave(const struct leaker_state *state)
{
    pthread_t thread;
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGUSR1);
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
    else if (is(state, "umask"))
        (void)umask(077);
    else if (is(state, "folder"))
        (void)!chdir("/tmp");
    else if (is(state, "locale"))
        (void)setlocale(LC_ALL, "C.UTF-8");
}

static void on_event(kern_box *box, void *block, int32_t fd, uint32_t events)
{
    const struct leaker_state *state = block;
    (void)events;
    kern_unwatch(box, fd);
    if (is(state, "callback-crash"))
        crash();
    else
        hang();
}

static int prepare(kern_box *box, void *block, struct kern_error *err)
{
    struct leaker_state *state = block;
    state->event = -1;
    if (kern_profile_count(box) == 0)
        return 0;
    state->does = kern_get_string(kern_profile(box, 0), "does");
    misbehave(state);
    if (is(state, "prepare-crash"))
        crash();
    if (is(state, "prepare-exit"))
        exit(0);
    if (is(state, "atexit-crash"))
        (void)atexit(crash);
    if (is(state, "prepare-hang"))
        hang();
    if (is(state, "prepare-slow") && usleep(60000000) != 0) /* ends when a signal comes */
        return kern_fail(err, 0, "interrupted");
    if (strncmp(state->does, "callback", 8) != 0)
        return 0;
    state->event = eventfd(1, EFD_CLOEXEC);
    return kern_watch(box, state->event, EPOLLIN, on_event, err);
}

static int enter(kern_box *box, void *block, struct kern_error *err)
{
    (void)box, (void)err;
    if (is(block, "enter-hang"))
        hang();
    return 0;
}

static void teardown(kern_box *box, void *block, const struct kern_outcome *outcome)
{
    const struct leaker_state *state = block;
    (void)box, (void)outcome;
    if (is(state, "teardown-crash"))
        crash();
    if (is(state, "teardown-hang"))
        hang();
    if (state->event >= 0)
        (void)close(state->event);
}

KERN_PLUGIN(.name = "leaker", .version = "1", .summary = "leaves things behind", .stage = KERN_STAGE_MOUNT,
            .flags = KERN_PLUGIN_LEAN, .profile = "leaker", .options = options,
            .state_size = sizeof(struct leaker_state), .prepare = prepare, .enter = enter,
            .teardown = teardown);
