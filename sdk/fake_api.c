/* The second half of the fake box: the functions of kern/plugin.h as a plugin calls them. (Errors and the getters of options are
 * kern's own.) In a test program. */
#include "fake_box.h"

#include "known.h"

#include <errno.h>
#include <linux/sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void write_down(kern_box *box, const char *kind, const char *format, va_list args)
{
    char text[512];
    (void)vsnprintf(text, sizeof(text), format, args); /* cut as kern's own lines are */
    fake_line(box, "%s %s", kind, text);
}

void kern_note(kern_box *box, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    write_down(box, "note", format, args);
    va_end(args);
}

void kern_warn(kern_box *box, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    write_down(box, "warning", format, args);
    va_end(args);
}

/* ---- Options and facts ---- */

const kern_values *kern_options(const kern_box *box)
{
    return &box->options;
}

uint32_t kern_profile_count(const kern_box *box)
{
    return box->profile_count;
}

const kern_values *kern_profile(const kern_box *box, uint32_t index)
{
    return index < box->profile_count ? &box->profile[index].values : NULL;
}

const char *kern_profile_name(const kern_box *box, uint32_t index)
{
    return index < box->profile_count ? box->profile[index].name : NULL;
}

const kern_values *kern_profile_pool(const kern_box *box, uint32_t index)
{
    (void)box, (void)index; /* a fake box has no pools */
    return NULL;
}

int kern_set_option(kern_box *box, const char *name, const char *text, struct kern_error *err)
{
    int failed = fake_fails(box, __func__, err);
    if (failed == 0)
        fake_line(box, "option %s=%s", name, text);
    return failed;
}

int kern_parse_size(const char *text, const char *where, uint64_t *ret_bytes, struct kern_error *err)
{
    return core_parse_size(text, where, ret_bytes, err);
}

const char *kern_box_name(const kern_box *box)
{
    return box->name;
}

int32_t kern_box_strict(const kern_box *box)
{
    return box->strict;
}

const char *kern_box_command(const kern_box *box, uint32_t index)
{
    (void)box; /* every fake box runs the same */
    return index == 0 ? "true" : NULL;
}

int32_t kern_box_bare(const kern_box *box)
{
    return box->bare;
}

int32_t kern_box_root(const kern_box *box)
{
    return box->root_fd;
}

/* ---- What stands in the box ---- */

int kern_set_env(kern_box *box, const char *name, const char *value, struct kern_error *err)
{
    int failed = fake_fails(box, __func__, err);
    if (failed == 0 && (name[0] == '\0' || strchr(name, '=') != NULL))
        failed = kern_fail(err, 0, "cannot set environment variable \"%s\": not a name", name);
    if (failed == 0)
        fake_line(box, "env %s=%s", name, value);
    return failed;
}

static int needs_box(const kern_box *box, const char *what, struct kern_error *err)
{
    return box->bare ? kern_refuse(err, ENOTSUP, "cannot add %s: \"kern run\" makes no box", what) : 0;
}

static int check_target(const kern_box *box, const char *target, struct kern_error *err)
{
    if (box->bare)
        return needs_box(box, "a mount", err);
    return target[0] == '/' && target[strspn(target, "/")] != '\0' && strstr(target, "/../") == NULL
               ? 0
               : kern_refuse(err, 0, "cannot mount onto \"%s\": a target is an absolute path", target);
}

int kern_add_bind(kern_box *box, int32_t fd, const char *target, uint32_t flags, struct kern_error *err)
{
    int failed = fake_fails(box, __func__, err);
    if (failed == 0)
        failed = core_known_mount(target, flags, err);
    if (failed == 0)
        failed = check_target(box, target, err);
    char link[40], source[512];
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd); /* fits: a number is short */
    ssize_t length = readlink(link, source, sizeof(source) - 1);
    if (failed == 0 && length < 0)
        failed = kern_fail(err, errno, "cannot learn the path of a mount source");
    if (failed == 0)
        fake_line(box, "bind %.*s %s 0x%x", (int)length, source, target, flags);
    return failed;
}

int kern_add_tmpfs(kern_box *box, const char *target, uint64_t size, uint32_t mode, uint32_t flags,
                   struct kern_error *err)
{
    int failed = fake_fails(box, __func__, err);
    if (failed == 0)
        failed = core_known_mount(target, flags, err);
    if (failed == 0)
        failed = check_target(box, target, err);
    if (failed == 0)
        fake_line(box, "tmpfs %s %llu 0%o 0x%x", target, (unsigned long long)size, mode, flags);
    return failed;
}

int kern_add_file(kern_box *box, const char *target, uint32_t mode, const void *bytes, size_t length,
                  struct kern_error *err)
{
    int failed = fake_fails(box, __func__, err);
    if (failed == 0)
        failed = check_target(box, target, err);
    if (failed == 0)
        fake_line(box, "file %s 0%o %.*s", target, mode, (int)length, (const char *)bytes);
    return failed;
}

int kern_add_link(kern_box *box, const char *target, const char *to, struct kern_error *err)
{
    int failed = fake_fails(box, __func__, err);
    if (failed == 0)
        failed = check_target(box, target, err);
    if (failed == 0)
        fake_line(box, "link %s %s", target, to);
    return failed;
}

int kern_add_namespace(kern_box *box, uint64_t flag, struct kern_error *err)
{
    int failed = fake_fails(box, __func__, err);
    if (failed == 0 && flag != CLONE_NEWTIME)
        failed = kern_fail(err, EINVAL,
                           "cannot add namespace flag 0x%llx: the box has it already, or there is none",
                           (unsigned long long)flag);
    if (failed == 0)
        failed = needs_box(box, "a namespace", err);
    if (failed == 0)
        fake_line(box, "namespace 0x%llx", (unsigned long long)flag);
    return failed;
}

/* ---- Descriptors and processes ---- */

static int no_room(struct kern_error *err)
{
    return kern_fail(err, ENOSPC, "a fake box has no room for more");
}

int kern_receive_fd(kern_box *box, uint32_t tag, kern_fd_fn fn, struct kern_error *err)
{
    int failed = fake_fails(box, __func__, err);
    if (failed == 0 && box->receiver_count == FAKE_MANY)
        failed = no_room(err);
    if (failed != 0)
        return failed;
    box->receiver[box->receiver_count].tag = tag;
    box->receiver[box->receiver_count++].fn = fn;
    fake_line(box, "receive %u", tag);
    return 0;
}

/* The receiver owns what it gets, as it does in kern: so it gets a copy. */
int kern_send_fd(kern_box *box, uint32_t tag, int32_t fd, struct kern_error *err)
{
    int failed = fake_fails(box, __func__, err);
    if (failed != 0)
        return failed;
    fake_line(box, "send %u", tag);
    for (uint32_t i = 0; i < box->receiver_count; i++)
        if (box->receiver[i].tag == tag)
            box->receiver[i].fn(box, box->state, tag, dup(fd));
    return 0;
}

int kern_watch(kern_box *box, int32_t fd, uint32_t events, kern_watch_fn fn, struct kern_error *err)
{
    (void)events; /* the test says which come */
    int failed = fake_fails(box, __func__, err);
    if (failed == 0 && box->watch_count == FAKE_MANY)
        failed = no_room(err);
    if (failed != 0)
        return failed;
    box->watch[box->watch_count].fd = fd;
    box->watch[box->watch_count++].fn = fn;
    fake_line(box, "watch %d", fd);
    return 0;
}

void kern_unwatch(kern_box *box, int32_t fd)
{
    fake_line(box, "unwatch %d", fd);
    for (uint32_t i = 0; i < box->watch_count; i++) {
        if (box->watch[i].fd != fd)
            continue;
        box->watch[i] = box->watch[--box->watch_count];
        return;
    }
}

int kern_add_worker(kern_box *box, kern_worker_fn fn, const int32_t *fds, uint32_t count,
                    struct kern_error *err)
{
    int failed = fake_fails(box, __func__, err);
    if (failed == 0 && count > sizeof(box->worker_fd) / sizeof(box->worker_fd[0]))
        failed = kern_fail(err, E2BIG, "cannot give a worker %u descriptors", count);
    if (failed != 0)
        return failed;
    if (box->worker == NULL) {
        box->worker = fn;
        box->worker_fd_count = count;
        memcpy(box->worker_fd, fds, count * sizeof(fds[0]));
    }
    fake_line(box, "worker %u", count);
    return 0;
}

/* ---- System calls ---- */

int kern_add_rule(kern_box *box, const struct kern_rule *rule, struct kern_error *err)
{
    int failed = fake_fails(box, __func__, err);
    if (failed == 0)
        failed = core_known_rule(rule, err);
    if (failed == 0)
        failed = needs_box(box, "a filter rule", err);
    if (failed != 0)
        return failed;
    if (rule->action == KERN_RULE_ERRNO)
        fake_line(box, "rule %d errno %u", rule->call, rule->value);
    else
        fake_line(box, "rule %d %s", rule->call, rule->action == KERN_RULE_ALLOW ? "allow" : "notify");
    return 0;
}

int kern_on_call(kern_box *box, int32_t call, kern_call_fn fn, struct kern_error *err)
{
    int failed = fake_fails(box, __func__, err);
    if (failed == 0)
        failed = needs_box(box, "a handler of system calls", err);
    if (failed == 0 && box->handler_count == FAKE_MANY)
        failed = no_room(err);
    if (failed != 0)
        return failed;
    box->handler[box->handler_count].call = call;
    box->handler[box->handler_count++].fn = fn;
    fake_line(box, "handler %d", call);
    return 0;
}

void kern_finish_call(kern_box *box, const struct kern_call *call)
{
    fake_line(box, "finish %d", call->call);
}

/* ---- Report ---- */

void kern_report_string(kern_box *box, const char *key, const char *value)
{
    fake_line(box, "report %s=%s", key, value);
}

void kern_report_int(kern_box *box, const char *key, int64_t value)
{
    fake_line(box, "report %s=%lld", key, (long long)value);
}

void kern_report_denied(kern_box *box, const char *kind, const char *what, const char *reason)
{
    fake_line(box, "denied %s %s (%s)", kind, what, reason);
}

void kern_report_denied_host(kern_box *box, const char *name, uint32_t port, const char *reason,
                             uint64_t count)
{
    fake_line(box, "denied host %s %u (%s) %llu", name, port, reason, (unsigned long long)count);
}

int kern_on_event(kern_box *box, kern_event_fn fn, struct kern_error *err)
{
    int failed = fake_fails(box, __func__, err);
    if (failed == 0)
        box->on_event = fn;
    if (failed == 0)
        fake_line(box, "event");
    return failed;
}
