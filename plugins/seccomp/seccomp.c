/* The system call filter: chosen and merged in prepare, installed in enter as the last thing before the command, its
 * notifications answered in kern. A call that the design kills is turned into a notification, because SECCOMP_RET_KILL
 * tells nobody which call it was: kern records call and program, then kills the caller itself. */
#include "seccomp_filter.h"
#include "seccomp_manifest.h"
#include "seccomp_merge.h"
#include "seccomp_names.h"

#include "kern/cleanup.h"
#include "kern/foundation.h"
#include "kern/sys.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/keyctl.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#define TAG_LISTENER 0x5ec0u

#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5) /* since 5.19 */
#endif

struct seccomp_state {
    const struct sock_filter *program;
    size_t length;
    struct sock_filter *owned; /* merged or compiled; program points here then */
    uint32_t mode;
    int listens;     /* 0: inside another sandbox */
    int own_keyring; /* 1: the filter may let the calls of keys through, which no built-in one does */
    int listener;
};

/* ---- prepare ---- */

static int choose_mode(kern_box *box, uint32_t *ret_mode, struct kern_error *err)
{
    const char *word = getenv("KERN_SECCOMP");
    *ret_mode = SECCOMP_MODE_ALLOWLIST;
    if (word == NULL || word[0] == '\0')
        return 0;
    struct kern_error ignored = {0};
    uint32_t mode = SECCOMP_MODE_ALLOWLIST;
    if (seccomp_parse_mode(word, &mode, &ignored) == 0) {
        *ret_mode = kern_untrusted(box) != 0 ? SECCOMP_MODE_ALLOWLIST : mode;
        return 0;
    }
    return kern_refuse(err, 0, "cannot use KERN_SECCOMP=\"%s\": it is allowlist, denylist or allowlist-audit",
                       word);
}

static uint32_t action_of(const struct kern_rule *rule)
{
    switch (rule->action) {
    case KERN_RULE_ALLOW:
        return SECCOMP_RET_ALLOW;
    case KERN_RULE_ERRNO:
        return SECCOMP_RET_ERRNO | (rule->value & SECCOMP_RET_DATA);
    default:
        return SECCOMP_RET_USER_NOTIF;
    }
}

static struct seccomp_rule translate(const struct kern_rule *rule)
{
    struct seccomp_rule translated = {
        .nr = rule->call, .arg_count = rule->arg_count, .action = action_of(rule)};
    for (uint32_t i = 0; i < rule->arg_count; i++)
        translated.arg[i] = (struct seccomp_condition){
            .index = rule->arg[i].index,
            .op = rule->arg[i].op == KERN_ARG_EQUAL ? SECCOMP_OP_MASKED_EQ : SECCOMP_OP_MASKED_NE,
            .mask = rule->arg[i].mask,
            .value = rule->arg[i].value};
    return translated;
}

#define SETID_BITS 06000u

/* `opens`: the mode only counts when the call creates something, which the argument before it says. */
static int deny_setid(kern_box *box, int call, uint32_t index, int opens, struct kern_error *err)
{
    struct kern_rule rule = {
        .struct_size = sizeof(rule),
        .call = call,
        .action = KERN_RULE_ERRNO,
        .value = EPERM,
        .arg_count = opens ? 2 : 1,
        .arg = {
            {.index = index, .op = KERN_ARG_NOT_EQUAL, .mask = SETID_BITS},
            {.index = index - 1, .op = KERN_ARG_NOT_EQUAL, .mask = O_CREAT | (O_TMPFILE & ~O_DIRECTORY)}}};
    return kern_add_rule(box, &rule, err);
}

/* openat2 and the modes of System V objects aside, these are all the calls that set a mode. openat2 takes it in memory, which a
 * filter cannot see; libc does without it. */
static int guard_setuid(kern_box *box, struct kern_error *err)
{
    static const struct {
        int call;
        uint32_t index;
        int opens;
    } modes[] = {
#ifdef SYS_chmod
        {SYS_chmod, 1, 0},  {SYS_creat, 1, 0},    {SYS_open, 2, 1},
        {SYS_mknod, 1, 0},  {SYS_mkdir, 1, 0},
#endif
        {SYS_fchmod, 1, 0}, {SYS_fchmodat, 2, 0}, {452 /* fchmodat2 */, 2, 0},
        {SYS_openat, 3, 1}, {SYS_mknodat, 2, 0},  {SYS_mkdirat, 2, 0},
    };
    if (kern_guards_setuid(box) == 0)
        return 0;
    int failed = 0;
    for (size_t i = 0; failed == 0 && i < sizeof(modes) / sizeof(modes[0]); i++)
        failed = deny_setid(box, modes[i].call, modes[i].index, modes[i].opens, err);
    struct kern_rule in_memory = {
        .struct_size = sizeof(in_memory), .call = SYS_openat2, .action = KERN_RULE_ERRNO, .value = ENOSYS};
    return failed == 0 ? kern_add_rule(box, &in_memory, err) : failed;
}

static int merge_rules(kern_box *box, struct seccomp_state *state, struct kern_error *err)
{
    uint64_t count = 0;
    const struct kern_rule *rules = kern_rules(box, &count);
    if (count == 0)
        return 0;
    if (count > SECCOMP_RULES_MAX)
        return kern_fail(err, E2BIG, "cannot merge %llu filter rules", (unsigned long long)count);
    struct seccomp_rule translated[SECCOMP_RULES_MAX];
    for (uint64_t i = 0; i < count; i++) {
        translated[i] = translate(&rules[i]);
        int call = rules[i].call;
        state->own_keyring |= call == SYS_keyctl || call == SYS_add_key || call == SYS_request_key;
    }
    auto_free struct sock_filter *merged = calloc(BPF_MAXINSNS, sizeof(*merged));
    if (merged == NULL)
        return kern_fail(err, ENOMEM, "cannot merge the filter rules");
    size_t length = 0;
    int failed = seccomp_merge_rules(state->program, state->length, translated, (size_t)count, merged,
                                     BPF_MAXINSNS, &length, err);
    if (failed != 0)
        return failed;
    free(state->owned);
    state->owned = steal_ptr(merged);
    state->program = state->owned;
    state->length = length;
    return 0;
}

static char *read_profile(const char *path, size_t *ret_length, struct kern_error *err)
{
    auto_fd fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0) {
        kern_refuse(err, errno, "cannot open seccomp profile \"%s\"", path);
        return NULL;
    }
    if (!S_ISREG(st.st_mode) || st.st_size > 1 << 20) {
        kern_refuse(err, 0, "cannot use seccomp profile \"%s\": not a regular file of at most 1 MiB", path);
        return NULL;
    }
    char *text = calloc(1, (size_t)st.st_size + 1);
    ssize_t length = text != NULL ? read(fd, text, (size_t)st.st_size) : -1;
    if (length < 0) {
        kern_refuse(err, errno, "cannot read seccomp profile \"%s\"", path);
        free(text);
        return NULL;
    }
    *ret_length = (size_t)length;
    return text;
}

typedef int (*compile_fn)(const char *text, size_t len, const char *file, uint64_t caps,
                          struct sock_filter **ret_prog, size_t *ret_len, uint32_t *ret_skipped,
                          struct kern_error *err);

static int compile_profile(kern_box *box, struct seccomp_state *state, const char *path,
                           struct kern_error *err)
{
    size_t length = 0;
    auto_free char *text = read_profile(path, &length, err);
    if (text == NULL)
        return -EINVAL;
    /* libseccomp and a JSON reader cost a millisecond to load: only here, and through the core's own checks. */
    compile_fn compile = (compile_fn)kern_companion(box, "seccomp_json", "seccomp_json_compile", err);
    if (compile == NULL)
        return -ENOENT;
    uint32_t skipped = 0;
    int failed = compile(text, length, path, 0, &state->owned, &state->length, &skipped, err);
    if (failed != 0)
        return failed;
    state->program = state->owned;
    if (skipped > 0)
        kern_note(box, "seccomp profile %s names %u calls that this machine does not know", path, skipped);
    return 0;
}

static void on_listener(kern_box *box, void *block, uint32_t tag, int32_t fd);

static int prepare(kern_box *box, void *block, struct kern_error *err)
{
    struct seccomp_state *state = block;
    state->listener = -1;
    const char *profile = kern_get_string(kern_options(box), "seccomp");
    if (profile != NULL && kern_untrusted(box) != 0)
        return kern_refuse(
            err, 0,
            "cannot use --seccomp with --security-profile untrusted: its filter is part of the profile");
    int failed =
        profile != NULL ? compile_profile(box, state, profile, err) : choose_mode(box, &state->mode, err);
    state->own_keyring = profile != NULL;
    /* A chain of filters has room for one listener, and the outer sandbox may have taken it: then what would notify kills. */
    state->listens = !kern_nested(box);
    if (failed == 0 && profile == NULL)
        state->program = seccomp_program(state->mode, kern_privileged(box), state->listens, &state->length);
    if (failed == 0)
        failed = guard_setuid(box, err);
    if (failed == 0)
        failed = merge_rules(box, state, err);
    return failed != 0 ? failed : kern_receive_fd(box, TAG_LISTENER, on_listener, err);
}

/* ---- enter ---- */

static int install(const struct seccomp_state *state, unsigned long flags)
{
    struct sock_fprog program = {.len = (unsigned short)state->length,
                                 .filter = (struct sock_filter *)(uintptr_t)state->program};
    return (int)sys_call(SYS_seccomp, SECCOMP_SET_MODE_FILTER, (long)flags, SYS_P(&program), 0, 0, 0);
}

/* The session keyring is inherited, whatever namespaces and ids come between, and whoever has it may read what is in it: the
 * caller's tickets and the keys of file systems. A new one is empty. */
static int leave_keyring(struct kern_error *err)
{
    int failed = (int)sys_call(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0, 0);
    /* A kernel without keys, or the filter of an outer sandbox, which is upon the box as well. */
    if (failed >= 0 || failed == -ENOSYS || failed == -EPERM)
        return 0;
    return kern_fail(err, -failed, "cannot give the box a session keyring of its own");
}

/* Needs no_new_privs, set by the plugin of the stage before; the filter must let sendmsg and execve pass. */
static int enter(kern_box *box, void *block, struct kern_error *err)
{
    const struct seccomp_state *state = block;
    int failed = state->own_keyring ? leave_keyring(err) : 0;
    if (failed != 0)
        return failed;
    if (state->listens == 0) {
        failed = install(state, 0);
        return failed == 0 ? 0 : kern_fail(err, -failed, "cannot install the system call filter");
    }
    int listener = install(state, SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV);
    if (listener ==
        -EINVAL) /* before 5.19: an interrupted caller may see its call twice, still never let through */
        listener = install(state, SECCOMP_FILTER_FLAG_NEW_LISTENER);
    if (listener < 0)
        return kern_fail(err, -listener, "cannot install the system call filter");
    failed = kern_send_fd(box, TAG_LISTENER, listener, err);
    (void)sys_close(listener); /* kern has it now, and the command must not */
    return failed;
}

/* ---- Notifications, in kern ---- */

static void read_program_name(uint32_t pid, char *ret_name, size_t size)
{
    char path[48];
    (void)snprintf(path, sizeof(path), "/proc/%u/comm", pid); /* fits: a number is short */
    (void)snprintf(ret_name, size, "?");
    auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read(fd, ret_name, size - 1);
    if (length <= 0)
        return;
    ret_name[length] = '\0';
    ret_name[strcspn(ret_name, "\n")] = '\0';
}

/* What decides how a caller can be ended, from /proc/TID/status. */
struct caller {
    int group;        /* thread group: threads have no pidfd before 6.9, and all of it dies anyway */
    int is_init;      /* PID 1 of the box */
    uint64_t signals; /* caught, ignored or blocked */
};

static uint64_t mask_in(const char *text, const char *field)
{
    const char *at = strstr(text, field);
    return at != NULL ? strtoull(at + strlen(field), NULL, 16) : 0;
}

static int look_at_caller(uint32_t tid, struct caller *ret_caller)
{
    char path[48], text[4096];
    (void)snprintf(path, sizeof(path), "/proc/%u/status", tid); /* fits: a number is short */
    auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (length <= 0)
        return -ESRCH;
    text[length] = '\0';
    const char *group = strstr(text, "\nTgid:"), *inner = strstr(text, "\nNStgid:");
    if (group == NULL)
        return -ESRCH;
    /* Thousands of groups push the rest of the file out of the buffer: then only SIGKILL is certain. */
    if (inner == NULL || strstr(text, "\nSigCgt:") == NULL) {
        *ret_caller = (struct caller){.group = atoi(group + sizeof("\nTgid:") - 1), .signals = UINT64_MAX};
        return 0;
    }
    size_t line = strcspn(inner + 1, "\n");
    const char *last = inner + 1 + line;
    while (last > inner && last[-1] != '\t')
        last--;
    *ret_caller = (struct caller){.group = atoi(group + sizeof("\nTgid:") - 1),
                                  .is_init = atoi(last) == 1,
                                  .signals = mask_in(text, "\nSigCgt:") | mask_in(text, "\nSigIgn:") |
                                             mask_in(text, "\nSigBlk:")};
    return 0;
}

static int is_still_there(int listener, uint64_t id)
{
    return ioctl(listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &id) == 0;
}

/* SIGSYS, so that whoever waits for the caller sees what it died of; SIGKILL where that could be shrugged off. The signal is
 * acted on when the call returns, which is why it is sent before the answer. While the notification is valid the caller
 * cannot have been replaced. */
static void kill_caller(int listener, const struct seccomp_notif *notification, const struct caller *caller)
{
    auto_fd pidfd = (int)sys_call(SYS_pidfd_open, caller->group, 0, 0, 0, 0, 0);
    if (pidfd < 0 || !is_still_there(listener, notification->id))
        return;
    uint64_t sigsys = UINT64_C(1) << (SIGSYS - 1);
    int signal = caller->is_init || (caller->signals & sigsys) != 0 ? SIGKILL : SIGSYS;
    (void)sys_call(SYS_pidfd_send_signal, pidfd, signal, 0, 0, 0, 0); /* gone already is as good */
}

static void respond(int listener, const struct seccomp_notif *notification, int error, int64_t value,
                    uint32_t flags)
{
    struct seccomp_notif_resp response = {
        .id = notification->id, .error = -error, .val = error == 0 ? value : 0, .flags = flags};
    (void)ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &response); /* ENOENT: the caller is gone */
}

static void block_call(kern_box *box, int listener, const struct seccomp_notif *notification)
{
    char program[17];
    struct caller caller = {0};
    const char *name = seccomp_call_name(notification->data.nr);
    bool known = look_at_caller(notification->pid, &caller) == 0;
    read_program_name(notification->pid, program, sizeof(program));
    if (!is_still_there(listener, notification->id))
        return; /* what was read may be about somebody else */
    kern_report_call(box, name != NULL ? name : "unknown", program, (int32_t)notification->pid,
                     caller.is_init ? 2 : 1);
    if (known)
        kill_caller(listener, notification, &caller);
    respond(listener, notification, EPERM, 0, 0);
}

static void audit_call(kern_box *box, int listener, const struct seccomp_notif *notification)
{
    char program[17], number[24];
    const char *name = seccomp_call_name(notification->data.nr);
    (void)snprintf(number, sizeof(number), "call %d", notification->data.nr); /* fits */
    read_program_name(notification->pid, program, sizeof(program));
    kern_report_call(box, name != NULL ? name : number, program, (int32_t)notification->pid, 0);
    respond(listener, notification, 0, 0, SECCOMP_USER_NOTIF_FLAG_CONTINUE);
}

static void judge(kern_box *box, const struct seccomp_state *state, int listener,
                  const struct seccomp_notif *notification)
{
    struct kern_call call = {.struct_size = sizeof(call),
                             .call = notification->data.nr,
                             .cookie = notification->id,
                             .listener = listener,
                             .pid = (int32_t)notification->pid};
    for (int i = 0; i < 6; i++)
        call.arg[i] = notification->data.args[i];
    int32_t answer = kern_dispatch_call(box, &call);
    if (answer == KERN_CALL_DONE)
        respond(listener, notification, call.error, call.result, 0);
    else if (answer == KERN_CALL_LATER)
        return;
    else if (answer == KERN_CALL_KERNEL)
        respond(listener, notification, 0, 0, SECCOMP_USER_NOTIF_FLAG_CONTINUE);
    else if (answer != -ENOENT || seccomp_is_killing(notification->data.nr) ||
             state->mode != SECCOMP_MODE_ALLOWLIST_AUDIT)
        block_call(box, listener, notification);
    else
        audit_call(box, listener, notification);
}

static void on_notification(kern_box *box, void *block, int32_t fd, uint32_t events)
{
    struct seccomp_state *state = block;
    if ((events & EPOLLIN) == 0) { /* EPOLLHUP: nobody is left under this filter */
        kern_unwatch(box, fd);
        (void)sys_close(fd); /* a box may see many: each kern exec has one of its own */
        state->listener = state->listener == fd ? -1 : state->listener;
        return;
    }
    struct seccomp_notif notification = {0};
    if (ioctl(fd, SECCOMP_IOCTL_NOTIF_RECV, &notification) == 0)
        judge(box, state, fd, &notification);
}

static void on_listener(kern_box *box, void *block, uint32_t tag, int32_t fd)
{
    struct seccomp_state *state = block;
    struct kern_error failure = {0};
    (void)tag; /* we asked for one only */
    /* Without a watch every notifying call would hang: closing the listener makes them fail with ENOSYS instead. */
    if (kern_watch(box, fd, EPOLLIN, on_notification, &failure) != 0)
        (void)sys_close(fd); /* that is the message */
    else if (state->listener < 0)
        state->listener = fd;
}

static void teardown(kern_box *box, void *block, const struct kern_outcome *outcome)
{
    struct seccomp_state *state = block;
    (void)box, (void)outcome; /* nothing to tell */
    kern_close_fd(&state->listener);
    free(state->owned);
}

KERN_PLUGIN(SECCOMP_MANIFEST, .state_size = sizeof(struct seccomp_state), .prepare = prepare, .enter = enter,
            .teardown = teardown);
