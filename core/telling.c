/* The functions of plugin.h by which plugins tell something (notes, fields of the report, denials) and are told (events). In kern. */
#include "box.h"

#include "execs.h"
#include "guard.h"
#include "log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- Notes ---- */

static void remember(kern_box *box, const char *text)
{
    for (size_t i = 0; i < box->notes.count; i++)
        if (strcmp(box->notes.item[i], text) == 0)
            return;
    (void)core_list_add(&box->notes, text); /* the line itself is printed whatever the report holds */
}

static bool is_new(const kern_box *box, const char *text)
{
    for (size_t i = 0; i < box->notes.count; i++)
        if (strcmp(box->notes.item[i], text) == 0)
            return false;
    return true;
}

void kern_note(kern_box *box, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args); /* a cut note is still a note */
    va_end(args);
    if (is_new(box, text))
        core_log_note("%s", text);
    remember(box, text);
}

void kern_warn(kern_box *box, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args); /* a cut warning is still a warning */
    va_end(args);
    if (is_new(box, text))
        core_log_warning("%s", text);
    remember(box, text);
}

/* ---- Report ---- */

static struct core_field *new_field(kern_box *box, const char *key)
{
    struct core_field *field = core_grow(&box->field, &box->field_count, sizeof(*field));
    if (field == NULL)
        return NULL;
    field->owner = box->current;
    field->key = strdup(key);
    return field;
}

void kern_report_string(kern_box *box, const char *key, const char *value)
{
    struct core_field *field = new_field(box, key);
    if (field != NULL)
        field->text = strdup(value);
}

void kern_report_int(kern_box *box, const char *key, int64_t value)
{
    struct core_field *field = new_field(box, key);
    if (field != NULL)
        field->number = value;
}

static struct core_denied *count_denied(kern_box *box, const char *kind, const char *what, const char *reason)
{
    for (size_t i = 0; i < box->denied_count; i++) {
        struct core_denied *row = &box->denied[i];
        if (strcmp(row->kind, kind) == 0 && strcmp(row->what, what) == 0) {
            row->count++;
            return row;
        }
    }
    /* A box that is denied a million different things must not fill kern's memory. */
    if (box->denied_count >= 1024)
        return NULL;
    struct core_denied *row = core_grow(&box->denied, &box->denied_count, sizeof(*row));
    if (row == NULL)
        return NULL;
    (void)snprintf(row->kind, sizeof(row->kind), "%s", kind); /* the three kinds fit */
    row->what = strdup(what);
    row->reason = strdup(reason);
    row->count = 1;
    if (row->what == NULL || row->reason == NULL)
        box->denied_count--;
    return row->what != NULL && row->reason != NULL ? row : NULL;
}

/* Returns the row for this denial, counted once more; NULL without memory. */
struct core_denied *core_count_denied(kern_box *box, const char *kind, const char *what, const char *reason)
{
    struct core_denied *row = count_denied(box, kind, what, reason);
    const struct kern_event event = {.struct_size = sizeof(event),
                                     .event = KERN_EVENT_DENIED,
                                     .count = row != NULL ? row->count : 0,
                                     .kind = kind,
                                     .what = what,
                                     .reason = reason};
    core_event(box, &event);
    return row;
}

int kern_on_event(kern_box *box, kern_event_fn fn, struct kern_error *err)
{
    struct core_listener *listener = core_grow(&box->listener, &box->listener_count, sizeof(*listener));
    if (listener == NULL)
        return kern_fail(err, ENOMEM, "cannot keep what a plugin asked for");
    *listener = (struct core_listener){.fn = fn, .owner = box->current};
    return 0;
}

struct telling {
    kern_box *box;
    const struct core_listener *listener;
    const struct kern_event *event;
};

static void tell(void *arg)
{
    const struct telling *telling = arg;
    const struct core_listener *listener = telling->listener;
    listener->fn(telling->box, listener->owner->state, telling->event);
}

void core_event(kern_box *box, const struct kern_event *event)
{
    for (size_t i = 0; i < box->listener_count; i++) {
        struct telling telling = {.box = box, .listener = &box->listener[i], .event = event};
        core_guard_callback(box, box->listener[i].owner, tell, &telling);
    }
}

void kern_report_denied(kern_box *box, const char *kind, const char *what, const char *reason)
{
    const struct core_denied *row = core_count_denied(box, kind, what, reason);
    if (row != NULL && row->count == 1)
        kern_note(box, "denied %s: %s (%s)", kind, what, reason);
}

void kern_report_call(kern_box *box, const char *name, const char *program, int32_t pid, uint32_t fatal)
{
    const struct core_denied *row = core_count_denied(box, "syscalls", name, program);
    if (fatal == 0)
        return;
    if (row != NULL && row->count == 1)
        kern_note(box, "blocked system call %s of '%s': killed", name, program);
    struct core_execution *execution = core_exec_of_listener(box, box->watched_fd);
    if (execution != NULL) { /* not the box's own command: its end is explained to whoever waits for it */
        (void)snprintf(execution->blocked_call, sizeof(execution->blocked_call), "%s", name); /* as below */
        (void)snprintf(execution->blocked_program, sizeof(execution->blocked_program), "%s",
                       program); /* as below */
        return;
    }
    box->blocked_init = box->blocked_init || fatal == 2;
    (void)snprintf(box->blocked_call, sizeof(box->blocked_call), "%s", name); /* names of calls are short */
    (void)snprintf(box->blocked_program, sizeof(box->blocked_program), "%s",
                   program); /* at most 15 bytes: comm */
    (void)pid;               /* the outcome follows from how the command itself ended */
}
