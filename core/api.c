/* The functions of plugin.h and provide.h that only touch the box structure: what prepare asks for, what enter may look up.
 * prepare, teardown and callbacks run in kern; those marked [enter] run in the box's first process and allocate nothing. */
#include "box.h"

#include "cleanup.h"
#include "guard.h"
#include "known.h"
#include "mounts.h"
#include "registry.h"
#include "supervise.h"

#include <linux/seccomp.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

/* ---- Small growing arrays ---- */

/* One more zeroed element at the end of *array, or NULL. */
void *core_grow(void *array, size_t *count, size_t size)
{
    void **where = array;
    char *grown = realloc(*where, (*count + 1) * size);
    if (grown == NULL)
        return NULL;
    *where = grown;
    void *element = grown + *count * size;
    memset(element, 0, size);
    (*count)++;
    return element;
}

int core_list_add(struct core_list *list, const char *text)
{
    char *copy = strdup(text);
    char **grown = realloc(list->item, (list->count + 2) * sizeof(*grown));
    if (grown != NULL)
        list->item = grown;
    if (copy == NULL || grown == NULL) {
        free(copy);
        return -ENOMEM;
    }
    grown[list->count++] = copy;
    grown[list->count] = NULL;
    return 0;
}

void core_list_clear(struct core_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->item[i]);
    free(list->item);
    *list = (struct core_list){0};
}

static int no_memory(struct kern_error *err)
{
    return kern_fail(err, ENOMEM, "cannot keep what a plugin asked for");
}

/* ---- Facts [enter] ---- */

const char *kern_box_name(const kern_box *box)
{
    return box->name;
}

const char *kern_box_command(const kern_box *box, uint32_t index)
{
    for (uint32_t i = 0; box->command != NULL && box->command[i] != NULL; i++)
        if (i == index)
            return box->command[i];
    return NULL;
}

int32_t kern_box_strict(const kern_box *box)
{
    return box->strict;
}

int32_t kern_box_root(const kern_box *box)
{
    return box->root_fd;
}

int32_t kern_privileged(const kern_box *box)
{
    return box->privileged;
}

int32_t kern_box_bare(const kern_box *box)
{
    return box->bare;
}

int32_t kern_untrusted(const kern_box *box)
{
    return box->untrusted;
}

int32_t kern_own_terminal(const kern_box *box)
{
    return box->own_terminal;
}

uint64_t kern_memory_cap(const kern_box *box)
{
    return box->memory_cap;
}

int32_t kern_has_egress(const kern_box *box)
{
    const struct core_plugin *egress = core_catalog_find(box->catalog, "egress");
    return kern_get_source(&box->options, "egress-allow") != KERN_FROM_DEFAULT ||
           kern_get_source(&box->options, "egress-deny") != KERN_FROM_DEFAULT ||
           (egress != NULL && egress->profile_count > 0);
}

/* Whose hook asks. kern and the box's first process may run hooks at one time on one memory: their stacks tell them apart. */
static struct core_plugin *caller(const kern_box *box)
{
    const char here = 0;
    uintptr_t at = (uintptr_t)&here, low = (uintptr_t)box->inner_stack;
    bool inside =
        box->fork_style ? box->entering != NULL : low != 0 && at >= low && at - low < box->stack_size;
    return inside ? box->entering : box->current;
}

const kern_values *kern_options(const kern_box *box)
{
    const struct core_plugin *plugin = caller(box);
    return plugin != NULL && !plugin->builtin ? &plugin->own : &box->options;
}

uint32_t kern_profile_count(const kern_box *box)
{
    const struct core_plugin *plugin = caller(box);
    return plugin != NULL ? plugin->profile_count : 0;
}

static const struct core_profile *profile_at(const kern_box *box, uint32_t index)
{
    const struct core_plugin *plugin = caller(box);
    return plugin != NULL && index < plugin->profile_count ? &plugin->profile[index] : NULL;
}

const kern_values *kern_profile(const kern_box *box, uint32_t index)
{
    const struct core_profile *profile = profile_at(box, index);
    return profile != NULL ? &profile->values : NULL;
}

const char *kern_profile_name(const kern_box *box, uint32_t index)
{
    const struct core_profile *profile = profile_at(box, index);
    return profile != NULL ? profile->name : NULL;
}

const kern_values *kern_profile_pool(const kern_box *box, uint32_t index)
{
    const struct core_profile *profile = profile_at(box, index);
    return profile != NULL && profile->has_pool ? &profile->pool : NULL;
}

int kern_set_option(kern_box *box, const char *name, const char *text, struct kern_error *err)
{
    struct core_value *value = core_values_find(&box->options, name);
    if (value == NULL)
        return kern_fail(err, ENOENT, "cannot set option \"%s\"", name);
    bool chosen = box->current != NULL && (box->current->table->flags & KERN_PLUGIN_FIRST) == 0;
    if (chosen && (strcmp(name, "userns") == 0 || strcmp(name, "uid-range") == 0))
        return kern_fail(err, 0, "cannot set option \"%s\": the ids of the box are chosen already", name);
    char where[64];
    (void)snprintf(where, sizeof(where), "%s",
                   box->current != NULL ? box->current->name : "kern"); /* names are short */
    return core_value_set(value, text, KERN_FROM_PROFILE, where, err);
}

int kern_parse_size(const char *text, const char *where, uint64_t *ret_bytes, struct kern_error *err)
{
    return core_parse_size(text, where, ret_bytes, err);
}

/* ---- What prepare asks for ---- */

int core_needs_box(const kern_box *box, const char *what, struct kern_error *err)
{
    if (!box->bare)
        return 0;
    kern_refuse(err, 0, "cannot add %s: \"kern run\" makes no box", what);
    kern_hint(err, "use: kern box");
    return -ENOTSUP;
}

int kern_set_env(kern_box *box, const char *name, const char *value, struct kern_error *err)
{
    if (name[0] == '\0' || strchr(name, '=') != NULL)
        return kern_fail(err, 0, "cannot set environment variable \"%s\": not a name", name);
    char *text = NULL;
    if (asprintf(&text, "%s=%s", name, value) < 0)
        return no_memory(err);
    int failed = core_list_add(&box->env, text);
    free(text);
    return failed != 0 ? no_memory(err) : 0;
}

int kern_add_namespace(kern_box *box, uint64_t flag, struct kern_error *err)
{
    if (flag != CLONE_NEWTIME)
        return kern_fail(err, EINVAL,
                         "cannot add namespace flag 0x%llx: the box has it already, or there is none",
                         (unsigned long long)flag);
    if (core_needs_box(box, "a namespace", err) != 0)
        return -ENOTSUP;
    box->extra_namespaces |= flag;
    return 0;
}

int kern_receive_fd(kern_box *box, uint32_t tag, kern_fd_fn fn, struct kern_error *err)
{
    struct core_receiver *receiver = core_grow(&box->receiver, &box->receiver_count, sizeof(*receiver));
    if (receiver == NULL)
        return no_memory(err);
    *receiver = (struct core_receiver){.tag = tag, .fn = fn, .owner = box->current};
    return 0;
}

int kern_add_worker(kern_box *box, kern_worker_fn fn, const int32_t *fds, uint32_t count,
                    struct kern_error *err)
{
    struct core_worker *worker = NULL;
    if (count > sizeof(worker->fd) / sizeof(worker->fd[0]))
        return kern_fail(err, E2BIG, "cannot give a worker %u descriptors", count);
    worker = core_grow(&box->worker, &box->worker_count, sizeof(*worker));
    if (worker == NULL)
        return no_memory(err);
    worker->fn = fn;
    worker->owner = box->current;
    worker->count = count;
    worker->pidfd = -1;
    memcpy(worker->fd, fds, count * sizeof(fds[0]));
    return 0;
}

int kern_add_numbered_worker(kern_box *box, const struct kern_worker *asked, uint32_t *ret_number,
                             struct kern_error *err)
{
    int failed = kern_add_worker(box, asked->fn, asked->fds, asked->count, err);
    if (failed != 0)
        return failed;
    *ret_number = (uint32_t)box->worker_count - 1;
    box->worker[*ret_number].late = asked->late != 0;
    return 0;
}

void kern_call_worker(kern_box *box, uint32_t number)
{
    struct core_worker *worker = &box->worker[number];
    worker->called = worker->late && worker->pid == 0;
}

void kern_let_worker_end(kern_box *box, uint32_t number, uint32_t ms)
{
    box->worker[number].end_ms = box->timed_out ? 0 : ms;
}

int kern_add_rule(kern_box *box, const struct kern_rule *rule, struct kern_error *err)
{
    int failed = core_known_rule(rule, err);
    if (failed != 0)
        return failed;
    if (core_needs_box(box, "a filter rule", err) != 0)
        return -ENOTSUP;
    struct kern_rule *copy = core_grow(&box->rule, &box->rule_count, sizeof(*copy));
    if (copy == NULL)
        return no_memory(err);
    memcpy(copy, rule, rule->struct_size); /* zeroed where an older one ends */
    return 0;
}

int kern_on_call(kern_box *box, int32_t call, kern_call_fn fn, struct kern_error *err)
{
    if (core_needs_box(box, "a handler of system calls", err) != 0)
        return -ENOTSUP;
    for (size_t i = 0; i < box->handler_count; i++)
        if (box->handler[i].call == call)
            return kern_fail(err, EEXIST, "cannot handle system call %d: plugin \"%s\" does already", call,
                             box->handler[i].owner->name);
    struct core_handler *handler = core_grow(&box->handler, &box->handler_count, sizeof(*handler));
    if (handler == NULL)
        return no_memory(err);
    *handler = (struct core_handler){.call = call, .fn = fn, .owner = box->current};
    return 0;
}

void kern_finish_call(kern_box *box, const struct kern_call *call)
{
    (void)box; /* the call knows its listener */
    struct seccomp_notif_resp response = {
        .id = call->cookie, .error = -call->error, .val = call->error == 0 ? call->result : 0};
    (void)ioctl(call->listener, SECCOMP_IOCTL_NOTIF_SEND, &response); /* ENOENT: the caller is gone */
}

const struct kern_rule *kern_rules(const kern_box *box, uint64_t *ret_count)
{
    *ret_count = box->rule_count;
    return box->rule;
}

struct handling {
    kern_box *box;
    const struct core_handler *handler;
    struct kern_call *call;
    int32_t answer;
};

static void call_handler(void *arg)
{
    struct handling *handling = arg;
    const struct core_handler *handler = handling->handler;
    handling->answer = handler->fn(handling->box, handler->owner->state, handling->call);
}

int32_t kern_dispatch_call(kern_box *box, struct kern_call *call)
{
    for (size_t i = 0; i < box->handler_count; i++) {
        const struct core_handler *handler = &box->handler[i];
        if (handler->call != call->call)
            continue;
        struct handling handling = {.box = box, .handler = handler, .call = call, .answer = -EFAULT};
        core_guard_callback(box, handler->owner, call_handler, &handling);
        return handling.answer;
    }
    return -ENOENT;
}

/* ---- For the plugins that ship with kern ---- */

void kern_set_ids(kern_box *box, const struct kern_ids *ids)
{
    box->ids = *ids;
}

const struct kern_ids *kern_get_ids(const kern_box *box)
{
    return &box->ids;
}

void kern_root_is_private(kern_box *box)
{
    box->root_private = true;
}

void kern_child_root(kern_box *box, int32_t fd)
{
    box->root_fd = fd;
}

int32_t kern_child_scratch(const kern_box *box, int32_t *ret_parent, const char **ret_name)
{
    *ret_parent = box->scratch_parent_fd;
    *ret_name = strrchr(box->run_path, '/') + 1;
    return box->scratch_fd;
}

void kern_child_tmpfs(kern_box *box, int32_t fd)
{
    struct stat st;
    if (fstat(fd, &st) == 0 && box->tmpfs_count < sizeof(box->tmpfs_dev) / sizeof(box->tmpfs_dev[0]))
        box->tmpfs_dev[box->tmpfs_count++] = st.st_dev;
}

void kern_child_sys(kern_box *box, int32_t fd)
{
    box->sys_fd = fd;
    box->sys_sealed = false; /* of an earlier run of a box that is restarted */
}

int32_t kern_child_get_sys(const kern_box *box)
{
    return box->sys_fd;
}

int32_t kern_mounts_below(const kern_box *box, const char *prefix)
{
    for (size_t i = 0; i < box->mount_count; i++)
        if (strncmp(box->mount[i].target, prefix, strlen(prefix)) == 0)
            return 1;
    return 0;
}

int32_t kern_child_disk(const kern_box *box)
{
    return box->disk_path[0] != '\0' ? box->child_disk_fd : -1;
}

void kern_child_proc(kern_box *box, int32_t fd)
{
    box->proc_fd = fd;
}

int32_t kern_child_get_proc(const kern_box *box)
{
    return box->proc_fd;
}

/* The environment was built before the clone with HOME in a buffer of the box, so that it can still be set. */
void kern_child_home(kern_box *box, const char *home)
{
    if (!box->home_is_fixed)
        (void)snprintf(box->home, sizeof(box->home), "HOME=%s",
                       home); /* a path that long is cut, not trusted */
}

/* ---- limits.h ---- */

const char *kern_box_id(const kern_box *box)
{
    return box->id;
}

void kern_limit_set(kern_box *box, const struct kern_limit *limit)
{
    for (uint32_t i = 0; i < box->limit_count; i++) {
        if (strcmp(box->limit[i].name, limit->name) == 0) {
            box->limit[i] = *limit;
            return;
        }
    }
    if (box->limit_count < CORE_MAX_LIMIT)
        box->limit[box->limit_count++] = *limit;
}

int32_t kern_limit_binds(const kern_box *box, const char *name)
{
    for (uint32_t i = 0; i < box->limit_count; i++)
        if (strcmp(box->limit[i].name, name) == 0)
            return box->limit[i].enforced;
    return KERN_LIMIT_UNKNOWN;
}

void kern_end_box(kern_box *box, const char *fault, const char *format, ...)
{
    va_list args;
    if (box->end_fault != NULL)
        return;
    box->end_fault = fault;
    va_start(args, format);
    (void)vsnprintf(box->end_message, sizeof(box->end_message), format, args); /* cut rather than lost */
    va_end(args);
    kern_note(box, "the box is ended: %s", box->end_message);
    core_kill_box(box);
}

int32_t kern_outer_pidfd(const kern_box *box)
{
    return box->outer_pidfd;
}

int kern_box_record_group(kern_box *box, const char *path, struct kern_error *err)
{
    return core_registry_record(box, "group", path, err);
}

int kern_box_record_project(kern_box *box, uint32_t id, const char *path, struct kern_error *err)
{
    char value[480];
    int length = snprintf(value, sizeof(value), "%u %s", id, path);
    if (length >= (int)sizeof(value) || strchr(path, '\n') != NULL)
        return -ENAMETOOLONG;
    return core_registry_record(box, "project", value, err);
}

int kern_box_record_device(kern_box *box, const char *line, struct kern_error *err)
{
    if (!box->swept_devices)
        core_registry_sweep_now(box);
    box->swept_devices = true;
    return core_registry_record(box, "device", line, err);
}

void kern_box_cgroup2(kern_box *box, int32_t fd)
{
    box->cgroup_fd = fd;
}

/* By path, because a descriptor opened out here cannot be bound in the box's mount namespace. */
void kern_box_bind_cgroup(kern_box *box, int32_t fd, const char *controller)
{
    size_t room = sizeof(box->group_view) / sizeof(box->group_view[0]);
    if (box->group_view_count == room)
        return;
    struct core_group_view *view = &box->group_view[box->group_view_count];
    char link[40];
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd); /* fits: a number is short */
    ssize_t length = readlink(link, view->path, sizeof(view->path) - 1);
    if (length <= 0)
        return;
    view->path[length] = '\0';
    view->controller = controller;
    box->group_view_count++;
}

int32_t kern_group_view(const kern_box *box, uint32_t index, const char **ret_path,
                        const char **ret_controller)
{
    if (index >= box->group_view_count)
        return 0;
    *ret_path = box->group_view[index].path;
    *ret_controller = box->group_view[index].controller;
    return 1;
}

void kern_box_group_hooks(kern_box *box, const struct kern_group_hooks *hooks, void *state,
                          uint64_t memory_cap)
{
    box->group_hooks = hooks;
    box->group_state = state;
    box->memory_cap = memory_cap;
}

int32_t kern_need_io_group(kern_box *box, char *ret_why, size_t size, struct kern_error *err)
{
    if (box->group_hooks != NULL)
        return box->group_hooks->need_io(box, box->group_state, ret_why, size, err);
    (void)snprintf(ret_why, size, "the box has no control groups"); /* callers leave room */
    return 0;
}

/* ---- exec ---- */

int32_t kern_reentered(const kern_box *box)
{
    return box->reentered;
}

int kern_child_account(kern_box *box, uint32_t uid, uint32_t gid, const char *home, struct kern_error *err)
{
    size_t length = strlen(home);
    if (length >= sizeof(box->shared->account.home))
        length = 0;
    memcpy(box->shared->account.home, home, length);
    box->shared->account.home[length] = '\0';
    box->shared->account.uid = uid;
    box->shared->account.gid = gid;
    box->shared->account.known = 1;
    return core_give_files(box, uid, gid, err);
}

int32_t kern_known_account(const kern_box *box, uint32_t *ret_uid, uint32_t *ret_gid, const char **ret_home)
{
    if (box->shared->account.known == 0)
        return 0;
    *ret_uid = box->shared->account.uid;
    *ret_gid = box->shared->account.gid;
    *ret_home = box->shared->account.home;
    return 1;
}
