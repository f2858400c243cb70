/* `kern inspect`, `stats`, `pause` and `unpause`: one box looked at closely, what boxes use, and holding them still. Host side. */
#include "cmd.h"

#include "cleanup.h"
#include "client.h"
#include "format.h"
#include "groupview.h"
#include "json.h"
#include "log.h"
#include "records.h"
#include "report.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* The living boxes that the words name, or all of them. */
static int find_targets(const struct core_call *call, struct core_records *target, struct kern_error *err)
{
    if (call->words == 0)
        return core_records_read(false, target, err);
    target->item = calloc((size_t)call->words, sizeof(*target->item));
    int failed = target->item != NULL ? 0 : kern_refuse(err, ENOMEM, "cannot look at the boxes");
    for (int i = 0; failed == 0 && i < call->words; i++) {
        failed = core_record_find(call->word[i], &target->item[target->count], err);
        target->count += failed == 0;
    }
    return failed;
}

/* ---- inspect ---- */

static void write_limit(const struct core_record *record, const char *key, const char *name,
                        struct core_json *json)
{
    core_json_known(json, name, core_record_number(record, key, -1));
}

/* "NAME ENFORCED BY ASKED", as core/records_write.c puts it. */
static void write_bound(const char *row, struct core_json *json)
{
    char name[32];
    struct kern_limit limit = {.name = name};
    if (sscanf(row, "%31s %d %15s %31[^\n]", name, &limit.enforced, limit.by, limit.asked) >= 3)
        core_report_limit(json, &limit);
}

static void write_limits(const struct core_record *record, struct core_json *json)
{
    const char *row;
    core_json_open(json, "limits", '{');
    for (unsigned i = 0; (row = core_record_nth(record, "limit", i)) != NULL; i++)
        write_bound(row, json);
    core_json_close(json, '}');
}

static void write_box(const struct core_record *record, int pid1, struct core_json *json)
{
    struct core_group_figures figures;
    core_group_read(record, &figures);
    int64_t started = core_record_number(record, "started", -1);
    core_json_open(json, NULL, '{');
    core_json_string(json, "name", record->name);
    core_json_int(json, "pid", record->pid);
    core_json_known(json, "pid1", pid1 > 0 ? pid1 : -1);
    core_json_string(json, "rootfs", core_record_get(record, "rootfs"));
    core_json_string(json, "command", core_record_get(record, "command"));
    core_json_known(json, "started", started);
    core_json_known(json, "uptime", started >= 0 ? (int64_t)time(NULL) - started : -1);
    core_record_list(record, "port", "ports", json);
    core_json_string(json, "health", core_record_get(record, "health"));
    core_json_string(json, "status", core_record_get(record, "status"));
    core_json_known(json, "mem_bytes", figures.memory);
    core_json_known(json, "cpu_usec", figures.cpu_usec);
    core_json_known(json, "tasks", figures.tasks);
    core_json_null(json, "pod");
    core_record_list(record, "egress", "egress", json);
    core_record_list(record, "landlock-rw", "landlock_rw", json);
    write_limit(record, "limit-memory", "memory_max", json);
    write_limit(record, "limit-pids", "pids_max", json);
    write_limits(record, json);
    core_json_bool(json, "detached", core_record_get(record, "detached") != NULL);
    core_record_labels(record, json);
    core_json_close(json, '}');
}

/* JSON is the only form that shows all of it; for people each field stands in a line of its own. */
static void print_lines(const char *json)
{
    bool quoted = false;
    int depth = 0;
    for (const char *at = json; *at != '\0'; at++) {
        if (*at == '"' && (at == json || at[-1] != '\\'))
            quoted = !quoted;
        depth += quoted ? 0 : (*at == '{' || *at == '[') - (*at == '}' || *at == ']');
        bool last = !quoted && depth == 0 && *at == '}';
        (void)printf("%s%c%s", last ? "\n" : "", *at,
                     !quoted && depth == 1 && (*at == '{' || *at == ',')
                         ? *at == '{' ? "\n  " : "\n "
                         : ""); /* checked when standard output is closed */
    }
    (void)printf("\n"); /* as above */
}

/* A living box comes first; the name of an image may have characters that no box's has. */
static bool means_image(const char *word)
{
    if (strpbrk(word, "/:@") != NULL)
        return true;
    struct kern_error ignored = {0};
    struct core_record record = {0};
    bool is_box = core_record_find(word, &record, &ignored) == 0;
    core_record_clear(&record);
    return !is_box && core_image_is_here(word);
}

int core_cmd_inspect(struct core_call *call, struct kern_error *err)
{
    if (means_image(call->word[0]))
        return core_cmd_image(call, err);
    cleanup(core_records_clear) struct core_records target = {0};
    int failed = find_targets(call, &target, err);
    for (size_t i = 0; failed == 0 && i < target.count; i++) {
        struct kern_error ignored = {0};
        struct core_json json = {0};
        char pid1[128] = "";
        (void)core_client_ask(&target.item[i], "pid1", pid1, sizeof(pid1), &ignored); /* null otherwise */
        write_box(&target.item[i], atoi(pid1), &json);
        if (kern_get_int(&call->flags, "json") != 0)
            (void)printf("%s\n", json.text != NULL ? json.text : "{}"); /* checked below */
        else
            print_lines(json.text != NULL ? json.text : "{}");
        core_json_free(&json);
    }
    return failed != 0 ? failed : core_log_close_stdout();
}

/* ---- stats ---- */

static void write_stats(const struct core_record *record, struct core_json *json)
{
    struct core_group_figures figures;
    core_group_read(record, &figures);
    core_json_open(json, NULL, '{');
    core_json_string(json, "name", record->name);
    core_json_int(json, "pid", record->pid);
    core_json_known(json, "mem_bytes", figures.memory);
    core_json_known(json, "cpu_usec", figures.cpu_usec);
    core_json_known(json, "tasks", figures.tasks);
    core_json_known(json, "read_bytes", figures.read_bytes);
    core_json_known(json, "written_bytes", figures.written_bytes);
    core_json_close(json, '}');
}

static void print_stats_json(const struct core_records *records)
{
    struct core_json json = {0};
    core_json_open(&json, NULL, '[');
    for (size_t i = 0; i < records->count; i++)
        write_stats(&records->item[i], &json);
    core_json_close(&json, ']');
    (void)printf("%s\n", json.text != NULL ? json.text : "[]"); /* checked when standard output is closed */
    core_json_free(&json);
}

static int print_stats_formatted(const struct core_records *records, const char *template,
                                 struct kern_error *err)
{
    static const char *const fields[] = {"name",  "pid",        "mem_bytes",     "cpu_usec",
                                         "tasks", "read_bytes", "written_bytes", NULL};
    int failed = core_format_check(template, fields, err);
    if (failed != 0)
        return failed;
    for (size_t i = 0; i < records->count; i++) {
        struct core_json json = {0};
        write_stats(&records->item[i], &json);
        core_format_print(template, json.text != NULL ? json.text : "{}");
        core_json_free(&json);
    }
    return core_log_close_stdout();
}

static void print_mib(int64_t bytes)
{
    if (bytes < 0)
        (void)printf("  %9s", "-"); /* checked when standard output is closed */
    else
        (void)printf("  %8.1fM", (double)bytes / 1048576.0); /* as above */
}

static void print_stats_row(const struct core_record *record, int width)
{
    struct core_group_figures figures;
    core_group_read(record, &figures);
    (void)printf("%-*s", width, record->name); /* as above */
    print_mib(figures.memory);
    if (figures.cpu_usec < 0)
        (void)printf("  %9s", "-"); /* as above */
    else
        (void)printf("  %8.2fs", (double)figures.cpu_usec / 1e6); /* as above */
    if (figures.tasks >= 0)
        (void)printf("  %6" PRId64, figures.tasks); /* as above */
    else
        (void)printf("  %6s", "-"); /* as above */
    print_mib(figures.read_bytes);
    print_mib(figures.written_bytes);
    (void)printf("\n"); /* as above */
}

static void print_stats(const struct core_records *records)
{
    int width = 4;
    for (size_t i = 0; i < records->count; i++)
        if ((int)strlen(records->item[i].name) > width)
            width = (int)strlen(records->item[i].name);
    (void)printf("%-*s  %9s  %9s  %6s  %9s  %9s\n", width, "NAME", "MEMORY", "CPU", "TASKS", "READ",
                 "WRITTEN"); /* as above */
    for (size_t i = 0; i < records->count; i++)
        print_stats_row(&records->item[i], width);
}

static bool still_live(struct core_records *records)
{
    size_t kept = 0;
    for (size_t i = 0; i < records->count; i++) {
        struct core_record now = {0};
        struct kern_error gone = {0};
        if (core_record_find(records->item[i].name, &now, &gone) == 0)
            records->item[kept++] = records->item[i];
        else
            core_record_clear(&records->item[i]);
        core_record_clear(&now);
    }
    records->count = kept;
    return kept > 0;
}

int core_cmd_stats(struct core_call *call, struct kern_error *err)
{
    cleanup(core_records_clear) struct core_records target = {0};
    const char *template = kern_get_string(&call->flags, "format");
    int failed = find_targets(call, &target, err);
    if (failed != 0)
        return failed;
    if (kern_get_int(&call->flags, "json") != 0) {
        print_stats_json(&target);
        return core_log_close_stdout();
    }
    if (template != NULL)
        return print_stats_formatted(&target, template, err);
    bool live = isatty(STDOUT_FILENO) != 0 && kern_get_int(&call->flags, "no-stream") == 0;
    do {
        if (live)
            (void)printf("\033[H\033[2J"); /* the whole screen anew; checked at the end */
        print_stats(&target);
        (void)fflush(stdout); /* as above */
    } while (live && sleep(1) == 0 && still_live(&target));
    return core_log_close_stdout();
}

/* ---- pause ---- */

static int hold(const struct core_record *record, bool pause, struct kern_error *err)
{
    char answer[128];
    const char *status = core_record_get(record, "status");
    bool paused = status != NULL && strcmp(status, "paused") == 0;
    if (paused == pause)
        return kern_refuse(err, 0, "box '%s' is %s", record->name, pause ? "paused already" : "not paused");
    /* The supervisor learns of it first: it lets nothing into a box that stands still. */
    int failed = core_client_ask(record, pause ? "paused" : "unpaused", answer, sizeof(answer), err);
    if (failed != 0)
        return failed;
    failed = core_group_freeze(record, pause);
    if (failed == 0)
        return 0;
    struct kern_error ignored = {0};
    (void)core_client_ask(record, pause ? "unpaused" : "paused", answer, sizeof(answer),
                          &ignored); /* as it was */
    kern_refuse(err, failed == -EOPNOTSUPP ? 0 : -failed, "cannot %s box '%s'%s", pause ? "pause" : "unpause",
                record->name,
                failed == -EOPNOTSUPP ? ": it has no control group of version 2, which could do it" : "");
    if (failed == -EOPNOTSUPP)
        kern_hint(err, "kern kill --signal STOP %s stops its first process", record->name);
    return failed;
}

int core_cmd_pause(struct core_call *call, struct kern_error *err)
{
    cleanup(core_records_clear) struct core_records target = {0};
    bool pause = strcmp(call->verb->name, "pause") == 0;
    int code = find_targets(call, &target, err);
    if (code != 0)
        return code;
    for (size_t i = 0; i < target.count; i++) {
        struct kern_error failure = {0};
        if (hold(&target.item[i], pause, &failure) == 0) {
            (void)printf("%s '%s'\n", pause ? "paused" : "unpaused", target.item[i].name); /* below */
            continue;
        }
        core_log_error(&failure);
        code = 1;
    }
    return core_log_close_stdout() != 0 ? 1 : code;
}
