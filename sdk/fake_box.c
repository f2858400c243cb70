/* The fake box of kern/plugin_test.h: every function of kern/plugin.h, for unit tests of plugins. Options go through kern's own
 * parser; what a plugin asks for is written down as a line of text and not done. Runs in a test program, never in kern. */
#include "fake_box.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- What was asked for ---- */

void fake_line(kern_box *box, const char *format, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, format);
    int length = vasprintf(&text, format, args);
    va_end(args);
    char **grown = length < 0 ? NULL : realloc(box->line, (box->line_count + 1) * sizeof(*grown));
    if (grown == NULL) {
        (void)fputs("fake box: no memory\n", stderr); /* a test cannot go on without */
        abort();
    }
    box->line = grown;
    box->line[box->line_count++] = text;
}

static int begins(const char *line, const char *beginning)
{
    return strncmp(line, beginning, strlen(beginning)) == 0;
}

uint32_t kern_fake_count(const kern_box *box, const char *beginning)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < box->line_count; i++)
        count += begins(box->line[i], beginning);
    return count;
}

int kern_fake_asked(const kern_box *box, const char *line)
{
    return kern_fake_count(box, line) > 0;
}

const char *kern_fake_line(const kern_box *box, uint32_t index)
{
    return index < box->line_count ? box->line[index] : NULL;
}

/* ---- Failures that a test wants ---- */

void kern_fake_fail(kern_box *box, const char *function, uint32_t nth, int code)
{
    if (box->wish_count == sizeof(box->wish) / sizeof(box->wish[0])) {
        (void)fputs("fake box: too many failures wanted\n", stderr); /* a mistake of the test */
        abort();
    }
    box->wish[box->wish_count++] = (struct fake_wish){.function = function, .nth = nth, .code = code};
}

int fake_fails(kern_box *box, const char *function, struct kern_error *err)
{
    int result = 0;
    for (uint32_t i = 0; i < box->wish_count; i++) {
        struct fake_wish *wish = &box->wish[i];
        if (strcmp(wish->function, function) == 0 && ++wish->seen == wish->nth)
            result = kern_fail(err, wish->code, "%s: the test wants it to fail", function);
    }
    return result;
}

/* ---- A box and its options ---- */

kern_box *kern_fake_new(const struct kern_plugin *plugin)
{
    struct kern_error err = {0};
    kern_box *box = calloc(1, sizeof(*box));
    if (box == NULL)
        return NULL;
    (void)setenv("KERN_DEBUG", "plugins", 0); /* options that are not there are named */
    box->plugin = plugin;
    box->name = "fake";
    box->root_fd = -1;
    box->state = calloc(1, plugin->state_size > 0 ? plugin->state_size : 1);
    if (box->state != NULL &&
        core_values_add(&box->options, plugin->options, KERN_OPT_FLAG | KERN_OPT_PLUGIN, &err) == 0)
        return box;
    (void)fprintf(stderr, "fake box: %s\n", err.message); /* for whoever runs the test */
    kern_fake_free(box);
    return NULL;
}

void kern_fake_free(kern_box *box)
{
    if (box == NULL)
        return;
    for (uint32_t i = 0; i < box->line_count; i++)
        free(box->line[i]);
    free(box->line);
    for (uint32_t i = 0; i < box->profile_count; i++) {
        core_values_clear(&box->profile[i].values);
        free(box->profile[i].name);
    }
    core_values_clear(&box->options);
    if (box->root_fd >= 0)
        (void)close(box->root_fd); /* nothing was written through it */
    free(box->state);
    free(box);
}

static int set(struct kern_values *values, const char *key, const char *text, int32_t source,
               const char *where, struct kern_error *err)
{
    struct core_value *value = core_values_find(values, key);
    return value == NULL ? kern_refuse(err, ENOENT, "%s: unknown option \"%s\"", where, key)
                         : core_value_set(value, text, source, where, err);
}

int kern_fake_option(kern_box *box, const char *key, const char *text, struct kern_error *err)
{
    return set(&box->options, key, text, KERN_FROM_FLAG, "option", err);
}

static int check_required(const kern_box *box, const struct kern_values *values, struct kern_error *err)
{
    const struct kern_option *option = box->plugin->options;
    for (; option != NULL && option->name != NULL; option++)
        if ((option->flags & KERN_OPT_PROFILE) != 0 && (option->flags & KERN_OPT_REQUIRED) != 0 &&
            kern_get_string(values, option->name) == NULL && strcmp(option->name, "name") != 0)
            return kern_refuse(err, 0, "profile: the key \"%s\" is missing", option->name);
    return 0;
}

int kern_fake_profile(kern_box *box, const char *name, ...)
{
    if (box->profile_count == FAKE_PROFILES)
        return -ENOSPC;
    struct fake_profile *profile = &box->profile[box->profile_count];
    *profile = (struct fake_profile){.name = strdup(name)};
    struct kern_error *err = &box->err;
    *err = (struct kern_error){0};
    int result = core_values_add(&profile->values, box->plugin->options, KERN_OPT_PROFILE, err);
    if (result == 0 && core_values_find(&profile->values, "name") != NULL)
        result = set(&profile->values, "name", name, KERN_FROM_PROFILE, "profile", err);
    va_list args;
    va_start(args, name);
    for (const char *key = va_arg(args, const char *); result == 0 && key != NULL;
         key = va_arg(args, const char *))
        result = set(&profile->values, key, va_arg(args, const char *), KERN_FROM_PROFILE, "profile", err);
    va_end(args);
    if (result == 0)
        result = check_required(box, &profile->values, err);
    if (result == 0 && box->plugin->check != NULL)
        result = box->plugin->check(&profile->values, NULL, err);
    if (result == 0) {
        box->profile_count++;
        return 0;
    }
    core_values_clear(&profile->values);
    free(profile->name);
    return result;
}

const struct kern_error *kern_fake_error(const kern_box *box)
{
    return &box->err;
}

int kern_fake_root(kern_box *box, const char *path)
{
    box->root_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return box->root_fd < 0 ? -errno : 0;
}

void kern_fake_name(kern_box *box, const char *name, int32_t strict)
{
    box->name = name;
    box->strict = strict;
}

void kern_fake_bare(kern_box *box, int32_t bare)
{
    box->bare = bare;
}

void *kern_fake_state(kern_box *box)
{
    return box->state;
}

/* ---- The hooks, and what kern would call ---- */

int kern_fake_prepare(kern_box *box, struct kern_error *err)
{
    return box->plugin->prepare != NULL ? box->plugin->prepare(box, box->state, err) : 0;
}

int kern_fake_enter(kern_box *box, struct kern_error *err)
{
    return box->plugin->enter != NULL ? box->plugin->enter(box, box->state, err) : 0;
}

void kern_fake_teardown(kern_box *box, const struct kern_outcome *outcome)
{
    const struct kern_outcome well = {.struct_size = sizeof(well), .started = 1};
    if (box->plugin->teardown != NULL)
        box->plugin->teardown(box, box->state, outcome != NULL ? outcome : &well);
}

int kern_fake_wake(kern_box *box, int32_t fd, uint32_t events)
{
    for (uint32_t i = 0; i < box->watch_count; i++) {
        if (box->watch[i].fd != fd)
            continue;
        box->watch[i].fn(box, box->state, fd, events);
        return 0;
    }
    return -1;
}

int kern_fake_work(kern_box *box)
{
    if (box->worker == NULL)
        return -1;
    return box->worker(box, box->state, box->worker_fd, box->worker_fd_count);
}

int kern_fake_call(kern_box *box, struct kern_call *call)
{
    for (uint32_t i = 0; i < box->handler_count; i++)
        if (box->handler[i].call == call->call)
            return box->handler[i].fn(box, box->state, call);
    return -1;
}

int kern_fake_event(kern_box *box, const struct kern_event *event)
{
    if (box->on_event == NULL)
        return -1;
    box->on_event(box, box->state, event);
    return 0;
}
