/* The functions of plugin.h by which plugins tell something (notes, fields of the report, denials) and are told (events). In kern. */
#include "box.h"

#include "execs.h"
#include "guard.h"
#include "log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Notes ---- */

#define NOTES_MOST 256u /* a box that runs again and again keeps no more in mind */

static void remember(kern_box *box, const char *text)
{
    if (box->notes.count >= NOTES_MOST)
        return;
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
    if (is_new(box, text) && (!box->holds_notes || core_list_add(&box->held_notes, text) != 0))
        core_log_note("%s", text);
    remember(box, text);
}

void core_notes_release(kern_box *box, bool wanted)
{
    for (size_t i = 0; wanted && i < box->held_notes.count; i++)
        core_log_note("%s", box->held_notes.item[i]);
    core_list_clear(&box->held_notes);
    box->holds_notes = false;
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

struct denial {
    const char *kind, *what, *reason;
    uint32_t port;
    uint64_t count;
};

static struct core_denied *count_denied(kern_box *box, const struct denial *denial)
{
    bool host = strcmp(denial->kind, "hosts") == 0; /* one may be denied for several reasons */
    for (size_t i = 0; i < box->denied_count; i++) {
        struct core_denied *row = &box->denied[i];
        if (strcmp(row->kind, denial->kind) == 0 && strcmp(row->what, denial->what) == 0 &&
            row->port == denial->port && (!host || strcmp(row->reason, denial->reason) == 0)) {
            row->count += denial->count;
            return row;
        }
    }
    /* A box that is denied a million different things must not fill kern's memory. */
    if (box->denied_count >= 1024)
        return NULL;
    struct core_denied *row = core_grow(&box->denied, &box->denied_count, sizeof(*row));
    if (row == NULL)
        return NULL;
    (void)snprintf(row->kind, sizeof(row->kind), "%s", denial->kind); /* the three kinds fit */
    row->what = strdup(denial->what);
    row->reason = strdup(denial->reason);
    row->port = denial->port;
    row->count = denial->count;
    if (row->what != NULL && row->reason != NULL)
        return row;
    free(row->what);
    free(row->reason);
    box->denied_count--;
    return NULL;
}

static uint64_t to_next_ten(uint64_t count)
{
    uint64_t ten = 1;
    while (ten <= count && ten < UINT64_MAX / 10)
        ten *= 10;
    return ten > count ? ten - count : UINT64_MAX;
}

/* Returns the row for this denial, counted; NULL without memory. Many that come at once are told in steps, so that whoever looks out for
 * the 1st, the 10th, the 100th of them misses none. */
static struct core_denied *deny(kern_box *box, const struct denial *denial)
{
    char name[320];
    struct denial part = *denial;
    struct core_denied *row = NULL;
    (void)snprintf(name, sizeof(name), "%.300s:%u", denial->what, denial->port); /* fits */
    for (uint64_t left = denial->count; left > 0; left -= part.count) {
        uint64_t most = row != NULL ? to_next_ten(row->count) : 1;
        part.count = left < most ? left : most;
        row = count_denied(box, &part);
        const struct kern_event event = {.struct_size = sizeof(event),
                                         .event = KERN_EVENT_DENIED,
                                         .count = row != NULL ? row->count : 0,
                                         .kind = denial->kind,
                                         .what = denial->port != 0 ? name : denial->what,
                                         .reason = denial->reason};
        core_event(box, &event);
        if (row == NULL)
            break;
    }
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
        if (event->event >= KERN_EVENT_ENDED && !box->listener[i].owner->builtin)
            continue; /* those of others know what plugin.h names */
        struct telling telling = {.box = box, .listener = &box->listener[i], .event = event};
        core_guard_callback(box, box->listener[i].owner, tell, &telling);
    }
}

void kern_report_denied(kern_box *box, const char *kind, const char *what, const char *reason)
{
    const struct denial denial = {.kind = kind, .what = what, .reason = reason, .count = 1};
    const struct core_denied *row = deny(box, &denial);
    if (row != NULL && row->count == 1)
        kern_note(box, "denied %s: %s (%s)", kind, what, reason);
}

#define HOSTS_TOLD 10u /* a box that tries many names must not fill its caller's terminal */

void kern_report_denied_host(kern_box *box, const char *name, uint32_t port, const char *reason,
                             uint64_t count)
{
    const struct denial denial = {
        .kind = "hosts", .what = name, .reason = reason, .port = port, .count = count};
    const struct core_denied *row = deny(box, &denial);
    if (row == NULL || row->count != count || box->denied_hosts_told > HOSTS_TOLD)
        return;
    if (box->denied_hosts_told++ == HOSTS_TOLD)
        kern_note(box, "denied more hosts than %u: --report FILE has them all", HOSTS_TOLD);
    else if (port != 0)
        kern_note(box, "denied host %s, port %u: %s", name, port, reason);
    else
        kern_note(box, "denied host %s: %s", name, reason);
}

void kern_report_call(kern_box *box, const char *name, const char *program, int32_t pid, uint32_t fatal)
{
    const struct denial denial = {.kind = "syscalls", .what = name, .reason = program, .count = 1};
    const struct core_denied *row = deny(box, &denial);
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
