/* `kern validate [FILE] [--json]`: says whether a kern.toml is right, without running anything. Host side. */
#include "cmd.h"

#include "cleanup.h"
#include "config_internal.h"
#include "declared.h"
#include "json.h"
#include "log.h"

#include <stdio.h>
#include <string.h>

struct report {
    const char *path; /* NULL: the file that a box would use */
    bool json;
    struct core_json notes; /* an array that is still open */
    struct kern_error err;
};

static void take_note(void *data, const char *text)
{
    struct report *report = data;
    if (report->json)
        core_json_string(&report->notes, NULL, text);
    else
        core_log_note("%s", text);
}

static void clear_report(struct report *report)
{
    core_json_free(&report->notes);
}

static void drop_config(struct core_config **config)
{
    core_config_free(*config);
}

/* The same file given with --config may say less; whoever checks it should learn that here. */
static void try_as_foreign(struct report *report, const struct core_catalog *catalog)
{
    cleanup(drop_config) struct core_config *config = NULL;
    struct kern_error err = {0};
    if (config_load_as(report->path, CORE_CONFIG_FOREIGN, catalog, &config, NULL, NULL, &err) == 0)
        return;
    char text[640];
    (void)snprintf(text, sizeof(text), "given with --config or KERN_CONFIG it would be refused: %s",
                   err.message); /* a cut reason is still a reason */
    take_note(report, text);
}

static void note_plugins(struct report *report, const struct core_config *config,
                         const struct core_catalog *catalog)
{
    const struct core_plugin_entry *entries;
    size_t count = core_config_plugins(config, &entries);
    for (size_t i = 0; i < count; i++) {
        const char *which = entries[i].name != NULL ? entries[i].name : entries[i].path;
        if (!entries[i].enabled ||
            (entries[i].name != NULL && core_catalog_find(catalog, entries[i].name) != NULL))
            continue;
        char text[400];
        (void)snprintf(
            text, sizeof(text),
            "the keys and tables of plugin \"%.200s\" are checked where this is your own kern.toml",
            which); /* fits */
        take_note(report, text);
    }
}

/* A file without a word about a profile's plugin is still checked for it: that costs nothing and needs no
 * plugin. */
static int check(struct report *report, char *ret_path, size_t size)
{
    cleanup(core_catalog_clear) struct core_catalog catalog = {0};
    cleanup(drop_config) struct core_config *config = NULL;
    int r = core_catalog_builtin(&catalog, &report->err);
    if (r == 0 && report->path != NULL)
        r = config_load_as(report->path, CORE_CONFIG_OWN, &catalog, &config, take_note, report, &report->err);
    else if (r == 0)
        r = core_config_load(NULL, &catalog, &config, take_note, report, &report->err);
    /* A plugin is code: a file that is only looked at does not get to run any. */
    bool usual = report->path == NULL && r == 0 && core_config_trust(config) == CORE_CONFIG_OWN;
    if (usual)
        r = core_declared_add(&catalog, config, &report->err);
    if (r == 0 && usual)
        r = core_config_bind(config, &catalog, take_note, report, &report->err);
    else if (r == 0)
        r = core_config_check_all(config, &catalog, &report->err);
    if (r < 0)
        return r;
    (void)snprintf(ret_path, size, "%s", core_config_path(config)); /* a cut path is still recognised */
    note_plugins(report, config, &catalog);
    if (report->path != NULL)
        try_as_foreign(report, &catalog);
    return 0;
}

static void drop_json(struct core_json *json)
{
    core_json_free(json);
}

static void print_json(struct report *report, const char *path, bool valid)
{
    cleanup(drop_json) struct core_json json = {0};
    core_json_open(&json, NULL, '{');
    core_json_string(&json, "file", path[0] != '\0' ? path : NULL);
    core_json_bool(&json, "valid", valid);
    core_json_string(&json, "error", valid ? NULL : report->err.message);
    core_json_string(&json, "hint", report->err.hint[0] != '\0' ? report->err.hint : NULL);
    core_json_close(&report->notes, ']');
    /* What fails to be printed is found when standard output is closed. */
    (void)printf("%s, \"notes\": %s}\n", json.text != NULL ? json.text : "{}",
                 report->notes.text != NULL ? report->notes.text : "[]");
}

static void print_line(const char *path)
{
    char clean[1024];
    core_escape(path, clean, sizeof(clean));
    (void)printf("%s is valid\n", clean); /* found when standard output is closed */
}

int core_cmd_validate(struct core_call *call, struct kern_error *err)
{
    cleanup(clear_report) struct report report = {0};
    report.path = call->words > 0 ? call->word[0] : NULL;
    report.json = kern_get_int(&call->flags, "json") != 0;
    core_json_open(&report.notes, NULL, '[');
    char path[512] = "";
    if (report.path != NULL)
        (void)snprintf(path, sizeof(path), "%s", report.path); /* a cut path is still recognised */
    int r = check(&report, path, sizeof(path));
    if (report.json)
        print_json(&report, path, r == 0);
    else if (r == 0)
        print_line(path);
    *err = report.err;
    bool told = report.json && r < 0;
    return core_log_close_stdout() != 0 || told ? 1 : r;
}
