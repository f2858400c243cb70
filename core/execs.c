/* The supervisor's side of `kern exec`; see execs.h. Requests come from the same user and are checked for shape; the wait for the
 * helper is short and on nothing that the box holds: it joins namespaces and clones, outside the box's groups. */
#include "execs.h"

#include "cleanup.h"
#include "clone.h"
#include "groupview.h"
#include "launch.h"
#include "restart.h"
#include "supervise.h"
#include "sys.h"

#include <linux/magic.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>

#define WORDS_MOST ((uint32_t)4 << 20)
#define COUNT_MOST 65536u
#define STACK_SIZE ((size_t)64 * 1024)
#define GUARD_SIZE ((size_t)4096)

/* ---- Telling the client ---- */

static void tell(int client, const struct core_exec_told *told, int fd)
{
    (void)sys_send_fds(client, told, sizeof(*told), &fd, fd >= 0,
                       MSG_DONTWAIT); /* a client that went away is told nothing */
}

static void refuse(int client, const struct kern_error *err)
{
    struct core_exec_told told = {.news = CORE_EXEC_REFUSED, .error = *err};
    tell(client, &told, -1);
}

/* ---- One execution ---- */

static void release(struct core_execution *execution)
{
    kern_box *box = execution->box;
    int *const watched[] = {&execution->client, &execution->channel, &execution->pidfd};
    for (size_t i = 0; i < sizeof(watched) / sizeof(watched[0]); i++) {
        if (*watched[i] >= 0 && box != NULL)
            kern_unwatch(box, *watched[i]);
        kern_close_fd(watched[i]);
    }
    kern_close_fd(&execution->child_channel);
    for (int i = 0; i < 3; i++)
        kern_close_fd(&execution->stream[i]);
    if (execution->shared != NULL)
        (void)munmap(execution->shared, sizeof(*execution->shared)); /* was mapped with this size */
    if (execution->stack != NULL)
        (void)munmap(execution->stack, STACK_SIZE + GUARD_SIZE); /* as above */
    free(execution->words);
    free(execution->command);
    free(execution->env);
    free(execution);
}

static void drop(kern_box *box, struct core_execution *execution)
{
    for (size_t i = 0; i < CORE_MAX_EXEC; i++)
        if (box->execution[i] == execution)
            box->execution[i] = NULL;
    release(execution);
}

static struct core_execution *find(const kern_box *box, int fd)
{
    for (size_t i = 0; i < CORE_MAX_EXEC; i++) {
        struct core_execution *one = box->execution[i];
        if (one != NULL && (one->client == fd || one->channel == fd || one->pidfd == fd))
            return one;
    }
    return NULL;
}

struct core_execution *core_exec_of_listener(const kern_box *box, int fd)
{
    for (size_t i = 0; fd >= 0 && i < CORE_MAX_EXEC; i++)
        if (box->execution[i] != NULL && box->execution[i]->listener == fd)
            return box->execution[i];
    return NULL;
}

/* The command and what it started in its own session; what went elsewhere lives on in the box. */
void core_exec_signal_all(const struct core_execution *execution, int signal)
{
    if (execution->pidfd < 0)
        return;
    if (kill(-execution->pid, signal) != 0) /* not reaped yet, so the number is still its own */
        (void)sys_call(SYS_pidfd_send_signal, execution->pidfd, signal, 0, 0, 0, 0); /* before its setsid */
}

static bool is_watched(const kern_box *box, int fd)
{
    for (uint32_t i = 0; i < box->watch_count; i++)
        if (box->watch[i].fd == fd)
            return true;
    return false;
}

/* Descriptors from before the exec: the filter's listener, the terminal. */
static void deliver(struct core_execution *execution, uint32_t tag, int fd)
{
    kern_box *box = execution->box;
    if (tag == CORE_TAG_TERMINAL) {
        const struct core_exec_told told = {.news = CORE_EXEC_MASTER};
        tell(execution->client, &told, fd);
        (void)sys_close(fd); /* the client has it now */
        return;
    }
    execution->listener = fd;
    core_deliver(box, tag, fd);
}

static void settle(struct core_execution *execution)
{
    const struct core_shared *shared = execution->shared;
    kern_unwatch(execution->box, execution->channel);
    kern_close_fd(&execution->channel);
    if (atomic_load(&shared->exec_failed) != 0 || atomic_load(&shared->progress) != CORE_EXECUTING)
        return; /* its end says the rest */
    execution->started = true;
    const struct core_exec_told told = {.news = CORE_EXEC_STARTED};
    tell(execution->client, &told, -1);
}

static void drain(struct core_execution *execution)
{
    uint32_t tag = 0;
    int fd = -1;
    enum core_received got = CORE_CHANNEL_MORE;
    bool any = false;
    while (execution->channel >= 0 && got == CORE_CHANNEL_MORE) {
        got = core_channel_receive(execution->channel, &tag, &fd);
        if (got == CORE_CHANNEL_MORE && fd >= 0)
            deliver(execution, tag, fd);
        any = any || (got == CORE_CHANNEL_MORE && tag != CORE_TAG_TERMINAL);
    }
    if (any) /* the filter's listener, or nothing that this process waits for */
        core_signal_word(&execution->shared->go, is_watched(execution->box, execution->listener) ? 1 : 2);
    if (got == CORE_CHANNEL_ENDED)
        settle(execution);
}

static void on_channel(kern_box *box, void *state, int32_t fd, uint32_t events)
{
    (void)state, (void)events; /* reading tells */
    struct core_execution *execution = find(box, fd);
    if (execution != NULL)
        drain(execution);
}

static void on_client(kern_box *box, void *state, int32_t fd, uint32_t events)
{
    (void)state, (void)events; /* reading tells */
    struct core_execution *execution = find(box, fd);
    struct core_exec_signal asked;
    ssize_t got = recv(fd, &asked, sizeof(asked), MSG_DONTWAIT);
    if (execution == NULL || (got < 0 && errno == EAGAIN))
        return;
    if (got == (ssize_t)sizeof(asked) && asked.signal > 0 && asked.signal < 65) {
        core_exec_signal_all(execution, (int)asked.signal);
        return;
    }
    core_exec_signal_all(execution, SIGKILL); /* nobody waits for it any more */
    kern_unwatch(box, fd);
    kern_close_fd(&execution->client);
}

static int memory_cap(const kern_box *box)
{
    for (uint32_t i = 0; i < box->limit_count; i++)
        if (strcmp(box->limit[i].name, "memory") == 0)
            return box->limit[i].enforced < 0 ? 0 : box->limit[i].enforced != 0 ? 1 : 2;
    return 0;
}

/* The first time ends the box, and its groups are there until then: a command that was killed met the cap if anybody did. The kernel
 * counts, not we. */
static bool was_out_of_memory(const kern_box *box, int status)
{
    struct core_record record = {0};
    struct kern_error ignored = {0};
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL ||
        core_record_find(box->name, &record, &ignored) != 0)
        return false;
    bool struck = core_group_oom_kills(&record) > 0;
    core_record_clear(&record);
    return struck;
}

static void reap(struct core_execution *execution)
{
    kern_box *box = execution->box;
    struct rusage usage = {0};
    int status = 0;
    drain(execution); /* whether it was executed */
    while (wait4(execution->pid, &status, __WALL, &usage) < 0 && errno == EINTR)
        continue;
    struct core_exec_told told = {
        .news = CORE_EXEC_ENDED,
        .status = status,
        .exec_failed = (int32_t)atomic_load(&execution->shared->exec_failed),
        .memory_cap = memory_cap(box),
        .oom = was_out_of_memory(box, status),
        .cpu_usec = (int64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 +
                    usage.ru_utime.tv_usec + usage.ru_stime.tv_usec,
        .error = execution->shared->error,
    };
    memcpy(told.blocked_call, execution->blocked_call, sizeof(told.blocked_call));
    memcpy(told.blocked_program, execution->blocked_program, sizeof(told.blocked_program));
    tell(execution->client, &told, -1);
    bool check = execution->is_check;
    drop(box, execution);
    if (check)
        core_health_result(box, status);
}

static void on_end(kern_box *box, void *state, int32_t fd, uint32_t events)
{
    (void)state, (void)events; /* a pidfd says one thing only */
    struct core_execution *execution = find(box, fd);
    if (execution != NULL)
        reap(execution);
}

/* ---- Starting one ---- */

static int read_words(struct core_execution *execution, const struct core_exec_ask *ask, int fd,
                      struct kern_error *err)
{
    int seals = fcntl(fd, F_GET_SEALS);
    uint64_t count = (uint64_t)ask->arguments + ask->variables + 1;
    /* Sealed memory never makes us wait and is not changed while we look at it. */
    if (seals < 0 || (seals & (F_SEAL_WRITE | F_SEAL_SHRINK)) != (F_SEAL_WRITE | F_SEAL_SHRINK) ||
        ask->size == 0 || ask->size > WORDS_MOST || count > COUNT_MOST || ask->arguments == 0)
        return kern_refuse(err, 0, "cannot run a command in box \"%s\": the request makes no sense",
                           execution->box->name);
    execution->words = malloc(ask->size);
    execution->command = calloc(ask->arguments + 1, sizeof(char *));
    execution->env = calloc(ask->variables + 4096u + 2, sizeof(char *));
    if (execution->words == NULL || execution->command == NULL || execution->env == NULL)
        return kern_fail(err, ENOMEM, "cannot run a command in box \"%s\"", execution->box->name);
    if (pread(fd, execution->words, ask->size, 0) != (ssize_t)ask->size ||
        execution->words[ask->size - 1] != '\0')
        return kern_refuse(err, 0, "cannot run a command in box \"%s\": the request is cut",
                           execution->box->name);
    return 0;
}

static bool same_name(const char *a, const char *b)
{
    size_t length = strcspn(a, "=");
    return strncmp(a, b, length) == 0 && b[length] == '=';
}

/* The box's variables, those of the request over them. */
static void merge_env(struct core_execution *execution, char **given, uint32_t given_count)
{
    size_t count = 0;
    for (char **env = execution->box->child_env; *env != NULL && count < 4096; env++)
        execution->env[count++] = *env;
    for (uint32_t i = 0; i < given_count; i++) {
        size_t at = 0;
        while (at < count && !same_name(given[i], execution->env[at]))
            at++;
        execution->env[at] = given[i];
        count += at == count;
    }
}

static int cut_words(struct core_execution *execution, const struct core_exec_ask *ask,
                     struct kern_error *err)
{
    auto_free char **given = calloc(ask->variables + 1, sizeof(char *));
    char *at = execution->words, *end = at + ask->size;
    uint32_t total = ask->arguments + ask->variables + 1;
    for (uint32_t i = 0; given != NULL && i < total && at < end; i++) {
        if (i < ask->arguments)
            execution->command[i] = at;
        else if (i + 1 < total)
            given[i - ask->arguments] = at;
        else
            execution->workdir = at;
        at += strlen(at) + 1;
    }
    if (execution->workdir == NULL || at != end)
        return kern_refuse(err, 0, "cannot run a command in box \"%s\": the request is cut",
                           execution->box->name);
    const char *own = kern_get_string(&execution->box->options, "workdir");
    if (execution->workdir[0] == '\0')
        execution->workdir = own != NULL ? own : "/";
    merge_env(execution, given, ask->variables);
    return 0;
}

static int map_pages(struct core_execution *execution, struct kern_error *err)
{
    struct core_shared *shared =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    char *stack = mmap(NULL, STACK_SIZE + GUARD_SIZE, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
    execution->shared = shared != MAP_FAILED ? shared : NULL;
    execution->stack = stack != MAP_FAILED ? stack : NULL;
    if (execution->shared == NULL || execution->stack == NULL || mprotect(stack, GUARD_SIZE, PROT_NONE) != 0)
        return kern_fail(err, ENOMEM, "cannot map memory for another command");
    shared->inner_pidfd = shared->init_status = -1;
    shared->account = execution->box->shared->account;
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
        return kern_fail(err, errno, "cannot make a channel to another command");
    execution->channel = pair[0];
    execution->child_channel = pair[1];
    return 0;
}

/* See launch.c: /dev/stdout opens the pipe anew. */
static void give_pipes(const struct core_execution *execution)
{
    const struct kern_ids *ids = &execution->box->ids;
    for (int i = 0; ids->shifted != 0 && i < 3; i++) {
        struct statfs fs;
        if (fstatfs(execution->stream[i], &fs) == 0 && fs.f_type == PIPEFS_MAGIC)
            (void)!fchown(execution->stream[i], ids->base,
                          ids->gid_base); /* the stream itself works as it is */
    }
}

static int clone_helper(struct core_execution *execution, struct kern_error *err)
{
    kern_box *box = execution->box;
    struct clone_args args = {.flags = CLONE_FILES, .exit_signal = SIGCHLD};
    bool share = !box->fork_style && box->space_fd[CORE_SPACE_TIME] < 0;
    if (share) {
        args.flags |= CLONE_VM;
        args.stack = (uint64_t)(uintptr_t)(execution->stack + GUARD_SIZE);
        args.stack_size = STACK_SIZE;
    }
    long pid = core_clone(&args, core_exec_helper, execution);
    if (pid < 0)
        return kern_fail(err, (int)-pid, "cannot start another command");
    while (sys_call(SYS_wait4, pid, 0, __WALL, 0, 0, 0) == -EINTR)
        continue;
    (void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0); /* the helper hid our memory from the box while it was copied */
    execution->pidfd = execution->shared->inner_pidfd;
    execution->pid = execution->shared->pid;
    kern_close_fd(&execution->child_channel);
    if (execution->pidfd >= 0 && execution->pid > 0)
        return 0;
    *err = execution->shared->error;
    return kern_fail(err, ESRCH, "another command could not be started in box \"%s\"", box->name);
}

static int watch(struct core_execution *execution, struct kern_error *err)
{
    kern_box *box = execution->box;
    box->current = &box->catalog->plugin[0]; /* the core's own row */
    int failed = kern_watch(box, execution->pidfd, EPOLLIN, on_end, err);
    if (failed == 0)
        failed = kern_watch(box, execution->channel, EPOLLIN, on_channel, err);
    if (failed == 0 && execution->client >= 0)
        failed = kern_watch(box, execution->client, EPOLLIN, on_client, err);
    box->current = NULL;
    return failed;
}

static int check(const kern_box *box, const struct core_exec_ask *ask, size_t *ret_slot,
                 struct kern_error *err)
{
    if (strncmp(ask->version, KERN_VERSION, sizeof(ask->version)) != 0)
        return kern_refuse(err, 0, "box \"%s\" was started by kern %s, this is another version", box->name,
                           KERN_VERSION);
    if (box->resting)
        return kern_refuse(err, 0, "box \"%s\" is between two runs", box->name);
    if (box->stopping || box->timed_out || box->stop_signal != 0)
        return kern_refuse(err, 0, "box \"%s\" is being stopped", box->name);
    if (!box->executed)
        return kern_refuse(err, 0, "box \"%s\" is still being built", box->name);
    if (box->paused) {
        kern_refuse(err, 0, "box \"%s\" is paused", box->name);
        kern_hint(err, "kern unpause %s", box->name);
        return -EBUSY;
    }
    bool whole = box->space_fd[CORE_SPACE_PID] >= 0 && box->space_fd[CORE_SPACE_GROUP] >= 0 &&
                 (box->space_fd[CORE_SPACE_USER] >= 0 || box->ids.inner_uid_map[0] == '\0');
    if (!whole)
        return kern_refuse(err, 0, "the namespaces of box \"%s\" cannot be joined on this machine",
                           box->name);
    for (size_t i = 0; i < CORE_MAX_EXEC; i++) {
        if (box->execution[i] == NULL) {
            *ret_slot = i;
            return 0;
        }
    }
    return kern_refuse(err, 0, "box \"%s\" runs %d other commands already, which is the most", box->name,
                       CORE_MAX_EXEC);
}

static int start(struct core_execution *execution, struct kern_error *err)
{
    int failed = map_pages(execution, err);
    if (failed == 0) {
        give_pipes(execution);
        failed = clone_helper(execution, err);
    }
    for (int i = 0; i < 3; i++)
        kern_close_fd(&execution->stream[i]); /* the command has them */
    if (failed != 0)
        return failed;
    failed = watch(execution, err);
    if (failed != 0) { /* nobody would see its end */
        core_exec_signal_all(execution, SIGKILL);
        (void)waitpid(execution->pid, NULL, __WALL);
    }
    return failed;
}

void core_exec_request(kern_box *box, int client, const struct core_exec_ask *ask, int fds[CORE_EXEC_FDS])
{
    struct kern_error err = {0};
    size_t slot = 0;
    auto_fd words = fds[3];
    struct core_execution *execution = calloc(1, sizeof(*execution));
    int failed = execution == NULL ? kern_fail(&err, ENOMEM, "cannot run a command in box \"%s\"", box->name)
                                   : check(box, ask, &slot, &err);
    if (execution == NULL) {
        for (int i = 0; i < 3; i++)
            kern_close_fd(&fds[i]);
        refuse(client, &err);
        kern_close_fd(&client);
        return;
    }
    *execution = (struct core_execution){.box = box,
                                         .client = client,
                                         .channel = -1,
                                         .child_channel = -1,
                                         .pidfd = -1,
                                         .listener = -1,
                                         .stream = {fds[0], fds[1], fds[2]},
                                         .flags = ask->flags,
                                         .window = {.ws_row = ask->rows, .ws_col = ask->columns}};
    if (failed == 0)
        failed = read_words(execution, ask, words, &err);
    if (failed == 0)
        failed = cut_words(execution, ask, &err);
    if (failed == 0)
        failed = start(execution, &err);
    if (failed != 0) {
        refuse(client, &err);
        release(execution);
        return;
    }
    box->execution[slot] = execution;
}

static int shell_words(struct core_execution *execution, const char *text)
{
    const char *own = kern_get_string(&execution->box->options, "workdir");
    static const char head[] = "/bin/sh\0-c";
    execution->words = malloc(sizeof(head) + strlen(text) + 1);
    execution->command = calloc(4, sizeof(char *));
    execution->env = calloc(4096 + 2, sizeof(char *));
    if (execution->words == NULL || execution->command == NULL || execution->env == NULL)
        return -ENOMEM;
    memcpy(execution->words, head, sizeof(head));
    memcpy(execution->words + sizeof(head), text, strlen(text) + 1);
    execution->command[0] = execution->words;
    execution->command[1] = execution->words + strlen(head) + 1;
    execution->command[2] = execution->words + sizeof(head);
    execution->workdir = own != NULL ? own : "/";
    merge_env(execution, NULL, 0);
    return 0;
}

int core_exec_check(kern_box *box, const char *text, struct core_execution **ret_execution,
                    struct kern_error *err)
{
    const struct core_exec_ask ask = {.version = KERN_VERSION};
    struct core_execution *execution = calloc(1, sizeof(*execution));
    size_t slot = 0;
    if (execution == NULL)
        return kern_fail(err, ENOMEM, "cannot run a check in box \"%s\"", box->name);
    *execution = (struct core_execution){.box = box,
                                         .client = -1,
                                         .channel = -1,
                                         .child_channel = -1,
                                         .pidfd = -1,
                                         .listener = -1,
                                         .is_check = true};
    for (int i = 0; i < 3; i++)
        execution->stream[i] = open("/dev/null", i == 0 ? O_RDONLY | O_CLOEXEC : O_WRONLY | O_CLOEXEC);
    int failed = check(box, &ask, &slot, err);
    if (failed == 0 && shell_words(execution, text) != 0)
        failed = kern_fail(err, ENOMEM, "cannot run a check in box \"%s\"", box->name);
    if (failed == 0)
        failed = start(execution, err);
    if (failed != 0) {
        release(execution);
        return failed;
    }
    box->execution[slot] = execution;
    *ret_execution = execution;
    return 0;
}

void core_execs_finish(kern_box *box)
{
    for (size_t i = 0; i < CORE_MAX_EXEC; i++)
        if (box->execution[i] != NULL) {
            core_exec_signal_all(box->execution[i], SIGKILL); /* the box has gone, and it with it */
            reap(box->execution[i]);
        }
}
