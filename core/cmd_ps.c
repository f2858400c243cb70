/* `kern ps`: this user's boxes. Host side; reads records, asks nobody. */
#include "cmd.h"

#include "cleanup.h"
#include "format.h"
#include "json.h"
#include "log.h"
#include "option_check.h"
#include "records.h"
#include "registry.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>

struct filter {
    const kern_values *flags;
    time_t now;
};

static const char *status_of(const struct core_record *record)
{
    const char *status = core_record_get(record, "status");
    return record->exited ? "exited" : status != NULL ? status : "starting";
}

static const char *health_of(const struct core_record *record)
{
    return record->exited ? "exited" : core_record_get(record, "health");
}

static bool has_label(const struct core_record *record, const char *wanted)
{
    const char *label;
    size_t key = strcspn(wanted, "=");
    for (unsigned i = 0; (label = core_record_nth(record, "label", i)) != NULL; i++)
        if (strcmp(label, wanted) == 0 ||
            (wanted[key] == '\0' && strncmp(label, wanted, key) == 0 && label[key] == '='))
            return true;
    return false;
}

/* label=K[=V], name=N, status=S, health=H, and K=V for a label in short. */
static bool meets(const struct core_record *record, const char *filter)
{
    static const char *const fields[] = {"name=", "status=", "health=", "label="};
    const char *health = health_of(record);
    const char *value[] = {record->name, status_of(record), health != NULL ? health : ""};
    for (size_t i = 0; i < 4; i++) {
        size_t length = strlen(fields[i]);
        if (strncmp(filter, fields[i], length) != 0)
            continue;
        return i == 3 ? has_label(record, filter + length) : strcmp(value[i], filter + length) == 0;
    }
    return has_label(record, filter);
}

static int check_filters(const kern_values *flags, struct kern_error *err)
{
    for (uint32_t i = 0; i < kern_get_count(flags, "filter"); i++) {
        const char *filter = kern_get_item(flags, "filter", i);
        if (filter[0] != '=' && strchr(filter, '=') != NULL)
            continue;
        kern_refuse(err, 0, "cannot use --filter %s: write it as KEY=VALUE", core_option_quote(filter).text);
        kern_hint(err,
                  "name=, status=, health= and label=KEY or label=KEY=VALUE; any other key is a label's");
        return -EINVAL;
    }
    return 0;
}

static bool is_shown(const struct filter *filter, const struct core_record *record)
{
    for (uint32_t i = 0; i < kern_get_count(filter->flags, "filter"); i++)
        if (!meets(record, kern_get_item(filter->flags, "filter", i)))
            return false;
    return true;
}

/* ---- JSON ---- */

void core_record_labels(const struct core_record *record, struct core_json *json)
{
    const char *label;
    core_json_open(json, "labels", '{');
    for (unsigned i = 0; (label = core_record_nth(record, "label", i)) != NULL; i++) {
        char key[256];
        size_t length = strcspn(label, "=");
        (void)snprintf(key, sizeof(key), "%.*s", (int)length, label); /* a very long key is cut */
        core_json_string(json, key, label[length] == '=' ? label + length + 1 : "");
    }
    core_json_close(json, '}');
}

void core_record_list(const struct core_record *record, const char *key, const char *name,
                      struct core_json *json)
{
    const char *value;
    core_json_open(json, name, '[');
    for (unsigned i = 0; (value = core_record_nth(record, key, i)) != NULL; i++)
        core_json_string(json, NULL, value);
    core_json_close(json, ']');
}

static void write_row(const struct core_record *record, time_t now, struct core_json *json)
{
    core_json_open(json, NULL, '{');
    core_json_string(json, "name", record->name);
    core_json_int(json, "pid", record->pid);
    if (record->exited) {
        core_json_string(json, "command", core_record_get(record, "command"));
        core_json_int(json, "exit_code", core_record_number(record, "exit", -1));
        core_json_int(json, "exited_ago", (int64_t)now - core_record_number(record, "ended", now));
        core_json_string(json, "health", "exited");
        core_json_string(json, "status", "exited");
    } else {
        const char *command = core_record_get(record, "command"), *root = core_record_get(record, "rootfs");
        core_json_null(json, "pod");
        core_json_string(json, "rootfs", root != NULL ? root : "");
        core_json_string(json, "command", command != NULL ? command : "");
        core_json_known(json, "started", core_record_number(record, "started", -1));
        core_record_list(record, "port", "ports", json);
        core_json_string(json, "health", health_of(record));
        core_json_string(json, "status", status_of(record));
    }
    core_record_labels(record, json);
    core_json_close(json, '}');
}

static void print_json(const struct core_records *records, const struct filter *filter)
{
    struct core_json json = {0};
    core_json_open(&json, NULL, '[');
    for (size_t i = 0; i < records->count; i++)
        if (is_shown(filter, &records->item[i]))
            write_row(&records->item[i], filter->now, &json);
    core_json_close(&json, ']');
    (void)printf("%s\n", json.text != NULL ? json.text : "[]"); /* checked when standard output is closed */
    core_json_free(&json);
}

static const char *const fields[] = {"name",      "pid",        "pod",    "rootfs", "command",
                                     "started",   "ports",      "health", "status", "labels",
                                     "exit_code", "exited_ago", NULL};

static void print_formatted(const struct core_records *records, const struct filter *filter,
                            const char *template)
{
    for (size_t i = 0; i < records->count; i++) {
        struct core_json json = {0};
        if (!is_shown(filter, &records->item[i]))
            continue;
        write_row(&records->item[i], filter->now, &json);
        core_format_print(template, json.text != NULL ? json.text : "{}");
        core_json_free(&json);
    }
}

/* ---- The table ---- */

static void age_text(int64_t seconds, char *ret_text, size_t size)
{
    static const struct {
        int64_t span;
        const char *unit;
    } units[] = {{86400, "d"}, {3600, "h"}, {60, "m"}, {1, "s"}};
    size_t i = 0;
    while (i < 3 && seconds < units[i].span)
        i++;
    (void)snprintf(ret_text, size, "%lld%s", (long long)(seconds < 0 ? 0 : seconds / units[i].span),
                   units[i].unit); /* sized for it */
}

/* Of a script its first line: a table has one line for each box. */
static void command_text(const char *command, bool whole, char *ret_text, size_t size)
{
    char first[512];
    size_t length = strcspn(command, "\n");
    if (whole || command[length] == '\0') {
        core_escape(command, ret_text, size);
        return;
    }
    (void)snprintf(first, sizeof(first), "%.*s ...", (int)length, command); /* a very long line is cut */
    core_escape(first, ret_text, size);
}

static void print_row(const struct core_record *record, time_t now, int name_width, int room)
{
    char state[40], age[24], clean[4096];
    const char *command = core_record_get(record, "command"), *health = health_of(record);
    int64_t since = core_record_number(record, record->exited ? "ended" : "started", now);
    age_text((int64_t)now - since, age, sizeof(age));
    if (record->exited)
        (void)snprintf(state, sizeof(state), "exited (%d)",
                       (int)core_record_number(record, "exit", -1)); /* fits */
    else
        (void)snprintf(state, sizeof(state), "%s%s%s", status_of(record), health != NULL ? " " : "",
                       health != NULL ? health : ""); /* words are short */
    command_text(command != NULL ? command : "", room == 0, clean, sizeof(clean));
    if (room == 0)
        room = (int)sizeof(clean);
    (void)printf("%-*s  %7d  %-18s  %5s  %.*s\n", name_width, record->name, record->pid, state, age,
                 room > 10 ? room : 10, clean); /* checked when standard output is closed */
}

/* Fits the terminal; a pipe gets whole lines. */
static int line_width(void)
{
    struct winsize size;
    return isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0
               ? size.ws_col
               : 2000;
}

static void print_table(const struct core_records *records, const struct filter *filter)
{
    int width = 4, room;
    for (size_t i = 0; i < records->count; i++) {
        int length = (int)strlen(records->item[i].name);
        if (is_shown(filter, &records->item[i]) && length > width)
            width = length;
    }
    room = kern_get_int(filter->flags, "no-trunc") != 0 ? 0 : line_width() - width - 40;
    if (room < 0)
        room = 10;
    (void)printf("%-*s  %7s  %-18s  %5s  %s\n", width, "NAME", "PID", "STATUS", "AGE",
                 "COMMAND"); /* as above */
    for (size_t i = 0; i < records->count; i++)
        if (is_shown(filter, &records->item[i]))
            print_row(&records->item[i], filter->now, width, room);
}

static void print_names(const struct core_records *records, const struct filter *filter)
{
    for (size_t i = 0; i < records->count; i++)
        if (is_shown(filter, &records->item[i]))
            (void)printf("%s\n", records->item[i].name); /* as above */
}

int core_cmd_ps(struct core_call *call, struct kern_error *err)
{
    cleanup(core_records_clear) struct core_records records = {0};
    const char *template = kern_get_string(&call->flags, "format");
    int failed = template != NULL ? core_format_check(template, fields, err) : 0;
    if (failed == 0)
        failed = check_filters(&call->flags, err);
    if (failed == 0)
        failed = core_records_read(kern_get_int(&call->flags, "all") != 0, &records, err);
    if (failed != 0)
        return failed;
    const struct filter filter = {.flags = &call->flags, .now = time(NULL)};
    if (kern_get_int(&call->flags, "json") != 0)
        print_json(&records, &filter);
    else if (template != NULL)
        print_formatted(&records, &filter, template);
    else if (kern_get_int(&call->flags, "quiet") != 0)
        print_names(&records, &filter);
    else
        print_table(&records, &filter);
    int code = core_log_close_stdout();
    core_registry_sweep_all(); /* whoever looks next reaps what a killed kern left */
    return code;
}
