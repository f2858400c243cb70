/* asker: a plugin of a third party that asks for what the public header offers, built by the tests against that header alone.
 * It serves asker:NAME; the profile's `does` chooses what is asked for, and `log` is a file that tells the test what happened.
 * Runs in kern and in the box's first process as any plugin does, and with "worker" in a worker of its own. */
#define _GNU_SOURCE
#include <kern/plugin.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef STAGE
#define STAGE KERN_STAGE_MOUNT
#endif

#define TAG  7u
#define PORT 8080

struct asker_state {
    const char *does;
    int log;
    int secret; /* a descriptor that nobody is given */
    int event;
    int listener;
    int accepted;
    struct kern_call call; /* to be answered later */
};

static const struct kern_option options[] = {
    {.name = "name", .type = KERN_STRING, .flags = KERN_OPT_PROFILE | KERN_OPT_REQUIRED, .help = "its name"},
    {.name = "does", .type = KERN_STRING, .flags = KERN_OPT_PROFILE | KERN_OPT_REQUIRED, .help = "its wish"},
    {.name = "log",
     .type = KERN_STRING,
     .flags = KERN_OPT_PROFILE,
     .fallback = "/dev/null",
     .help = "a file"},
    {.name = NULL},
};

static int is(const struct asker_state *state, const char *does)
{
    return state->does != NULL && strcmp(state->does, does) == 0;
}

/* ---- The worker: says what it is, then stays until it is killed ---- */

static void copy_status(int log)
{
    char line[256];
    FILE *status = fopen("/proc/self/status", "re");
    while (status != NULL && fgets(line, sizeof(line), status) != NULL)
        if (strncmp(line, "Cap", 3) == 0 || strncmp(line, "NoNewPrivs", 10) == 0 ||
            strncmp(line, "Seccomp:", 8) == 0)
            dprintf(log, "%s", line);
    if (status != NULL)
        (void)fclose(status);
}

static int32_t work(kern_box *box, void *block, const int32_t *fds, uint32_t count)
{
    struct asker_state *state = block;
    int log = fds[count - 1];
    (void)box;
    if (is(state, "worker-ends"))
        return 0;
    copy_status(log);
    dprintf(log, "given");
    for (uint32_t i = 0; i < count; i++)
        dprintf(log, " %d", (int)fds[i]);
    dprintf(log, "\nopen");
    for (int fd = 3; fd < 4096; fd++)
        if (fcntl(fd, F_GETFD) >= 0)
            dprintf(log, " %d", fd);
    char *none[] = {NULL};
    (void)execve("/bin/true", none, none);
    int refused = errno;
    int local = socket(AF_UNIX, SOCK_STREAM, 0);
    dprintf(log, "\nexecve %s\nlocal-socket %s\npid %d\n", strerrorname_np(refused),
            local < 0 ? strerrorname_np(errno) : "made", (int)getpid());
    for (;;)
        pause();
}

/* ---- A listener that is made inside and served outside ---- */

static int make_listener(kern_box *box, struct kern_error *err)
{
    const struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(PORT), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (const struct sockaddr *)&address, sizeof(address)) != 0 || listen(fd, 4) != 0)
        return kern_fail(err, errno, "cannot listen in the box");
    return kern_send_fd(box, TAG, fd, err);
}

static void on_connection(kern_box *box, void *block, int32_t fd, uint32_t events)
{
    struct asker_state *state = block;
    (void)box, (void)events;
    int client = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
    if (client < 0)
        return;
    state->accepted++;
    dprintf(client, "served by %s\n", getpid() > 1 ? "kern" : "the box");
    (void)close(client);
}

static void on_listener(kern_box *box, void *block, uint32_t tag, int32_t fd)
{
    struct asker_state *state = block;
    struct kern_error failure = {0};
    state->listener = tag == TAG ? fd : -1;
    if (kern_watch(box, fd, EPOLLIN, on_connection, &failure) != 0)
        dprintf(state->log, "watch: %s\n", failure.message);
}

/* ---- System calls ---- */

static int32_t on_call(kern_box *box, void *block, struct kern_call *call)
{
    struct asker_state *state = block;
    const uint64_t one = 1;
    (void)box;
    dprintf(state->log, "call %s arg %d\n", call->call == SYS_getpid ? "getpid" : "another",
            (int)call->arg[0]);
    call->result = 4242;
    call->error = call->arg[0] == 33 ? EDOM : 0;
    if (!is(state, "later"))
        return KERN_CALL_DONE;
    state->call = *call;
    (void)!write(state->event, &one, sizeof(one));
    return KERN_CALL_LATER;
}

static void on_event(kern_box *box, void *block, int32_t fd, uint32_t events)
{
    struct asker_state *state = block;
    uint64_t count = 0;
    (void)events;
    (void)!read(fd, &count, sizeof(count));
    state->call.result += 101;
    kern_finish_call(box, &state->call);
}

static int handle_call(kern_box *box, struct asker_state *state, struct kern_error *err)
{
    const struct kern_rule rule = {
        .struct_size = sizeof(rule), .call = SYS_getpid, .action = KERN_RULE_NOTIFY};
    state->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int failed = kern_watch(box, state->event, EPOLLIN, on_event, err);
    if (failed == 0)
        failed = kern_add_rule(box, &rule, err);
    return failed == 0 ? kern_on_call(box, SYS_getpid, on_call, err) : failed;
}

/* personality(0) alone fails, and with an errno that the kernel would not give. */
static int forbid(kern_box *box, struct kern_error *err)
{
    const struct kern_rule rule = {
        .struct_size = sizeof(rule),
        .call = SYS_personality,
        .action = KERN_RULE_ERRNO,
        .value = EDOM,
        .arg_count = 1,
        .arg = {{.index = 0, .op = KERN_ARG_EQUAL, .mask = UINT32_MAX, .value = 0}}};
    return kern_add_rule(box, &rule, err);
}

static int open_up(kern_box *box, const char *call, struct kern_error *err)
{
    const struct kern_rule rule = {
        .struct_size = sizeof(rule),
        .call = strcmp(call, "open-bpf") == 0 ? SYS_bpf : SYS_mount,
        .action = KERN_RULE_ALLOW,
        .arg_count = 1,
        .arg = {{.index = 0, .op = KERN_ARG_EQUAL, .mask = UINT64_MAX, .value = 5}}};
    return kern_add_rule(box, &rule, err);
}

/* ---- Hooks ---- */

static void report(kern_box *box)
{
    kern_report_string(box, "text", "a \"quoted\" \xc3\xa9 \xff");
    kern_report_int(box, "number", INT64_C(-9007199254740993));
    kern_report_denied(box, "hosts", "evil.example", "not on the list");
    kern_report_denied(box, "hosts", "evil.example", "not on the list");
    kern_report_denied(box, "devices", "/dev/mem", "not a device of the box");
    kern_note(box, "said once");
    kern_note(box, "said once");
}

static void note_much(kern_box *box)
{
    char text[40];
    for (int i = 0; i < 2000; i++) {
        (void)snprintf(text, sizeof(text), "note %d", i); /* fits */
        kern_note(box, text);
    }
}

static int set_env(kern_box *box, struct kern_error *err)
{
    int failed = kern_set_env(box, "ASKED", "first", err);
    if (failed == 0)
        failed = kern_set_env(box, "ASKED", "a = \"b\"", err);
    return failed == 0 ? kern_set_env(box, "TERM", "asked", err) : failed;
}

static int ask(kern_box *box, struct asker_state *state, struct kern_error *err)
{
    if (is(state, "worker") || is(state, "worker-ends"))
        return kern_add_worker(box, work, &state->log, 1, err);
    if (is(state, "listener"))
        return kern_receive_fd(box, TAG, on_listener, err);
    if (is(state, "notify") || is(state, "later"))
        return handle_call(box, state, err);
    if (is(state, "errno"))
        return forbid(box, err);
    if (is(state, "open-bpf") || is(state, "open-mount"))
        return open_up(box, state->does, err);
    if (is(state, "tmpfs"))
        return kern_add_tmpfs(box, "/fresh", 1u << 20, 0711, 0, err);
    if (is(state, "file"))
        return kern_add_file(box, "/etc/asked", 0640, "generated\n", 10, err);
    if (is(state, "env"))
        return set_env(box, err);
    if (is(state, "host-name"))
        return kern_set_option(box, "hostname", "asked", err);
    if (is(state, "late-ids"))
        return kern_set_option(box, "uid-range", "true", err);
    if (is(state, "bad-env"))
        return kern_set_env(box, "A=B", "c", err);
    if (is(state, "report"))
        report(box);
    if (is(state, "notes"))
        note_much(box);
    return 0;
}

static int prepare(kern_box *box, void *block, struct kern_error *err)
{
    struct asker_state *state = block;
    if (kern_profile_count(box) == 0)
        return 0;
    const kern_values *profile = kern_profile(box, 0);
    state->does = kern_get_string(profile, "does");
    state->log = open(kern_get_string(profile, "log"), O_WRONLY | O_APPEND | O_CLOEXEC);
    state->secret = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return ask(box, state, err);
}

static int enter(kern_box *box, void *block, struct kern_error *err)
{
    struct asker_state *state = block;
    if (is(state, "segv"))
        *(volatile int *)(uintptr_t)8 = 1;
    return is(state, "listener") ? make_listener(box, err) : 0;
}

static void teardown(kern_box *box, void *block, const struct kern_outcome *outcome)
{
    struct asker_state *state = block;
    if (is(state, "listener"))
        kern_report_int(box, "accepted", state->accepted);
    dprintf(state->log, "teardown %d %d %s\n", (int)outcome->exit_code, (int)outcome->signal,
            outcome->fault != NULL ? outcome->fault : "-");
    if (is(state, "stop-in-teardown"))
        (void)raise(SIGTERM);
}

KERN_PLUGIN(.name = "asker", .version = "1", .summary = "asks as told", .stage = STAGE,
#if defined(LEAN)
            .flags = KERN_PLUGIN_LEAN,
#endif
            .profile = "asker", .options = options, .state_size = sizeof(struct asker_state),
            .prepare = prepare, .enter = enter, .teardown = teardown);
