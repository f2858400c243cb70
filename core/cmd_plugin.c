/* `kern plugin list` and `kern plugin info NAME` (cmd_plugin_new.c and cmd_plugin_check.c have the others): what takes part in a box, where it comes from, what it can be told. Host
 * side. Plugins are opened for their true version; one that cannot be opened is listed all the same. */
#include "cmd.h"

#include "cleanup.h"
#include "cmd_plugin.h"
#include "config.h"
#include "declared.h"
#include "help.h"
#include "json.h"
#include "log.h"
#include "plugin.h"

#include <inttypes.h>
#include <string.h>

/* A plugin, or the reason why there is none to be had. */
struct row {
    const struct core_plugin *plugin; /* NULL: a third party's that could not be opened */
    const char *name;                 /* as far as it is known */
    const char *path;                 /* of a third party's; NULL where it could not be found */
    bool builtin;
    bool enabled;
    struct kern_error err; /* set: it cannot be opened */
};

struct world {
    struct core_catalog catalog;
    struct core_config *config;
    struct row *row;
    size_t count;
};

static void drop_world(struct world *world)
{
    free(world->row);
    core_config_free(world->config);
    core_catalog_clear(&world->catalog);
}

static void take_note(void *data, const char *text)
{
    (void)data; /* nothing to remember */
    core_log_note("%s", text);
}

/* ---- What there is ---- */

static void open_builtin(struct world *world, size_t index)
{
    struct core_plugin *plugin = &world->catalog.plugin[index];
    struct row *row = &world->row[world->count++];
    *row = (struct row){.name = plugin->name, .builtin = true, .enabled = plugin->always};
    plugin->wanted = true;
    (void)core_plugin_load_wanted(&world->catalog, &row->err); /* the row keeps why */
    plugin->wanted = false; /* one that failed would be tried again for each that follows */
}

/* One that is built in is only switched on by its entry. */
static bool switch_on(struct world *world, const struct core_plugin_entry *entry)
{
    for (size_t i = 0; entry->name != NULL && i < world->count; i++) {
        struct row *row = &world->row[i];
        if (!row->builtin || strcmp(row->name, entry->name) != 0)
            continue;
        row->enabled = row->enabled || entry->enabled;
        return true;
    }
    return false;
}

static void open_entry(struct world *world, const struct core_plugin_entry *entry)
{
    if (switch_on(world, entry))
        return;
    struct row *row = &world->row[world->count++];
    struct core_plugin *plugin = NULL;
    bool trusted = core_config_trust(world->config) != CORE_CONFIG_FOREIGN;
    *row = (struct row){.name = entry->name != NULL ? entry->name : entry->path, .enabled = entry->enabled};
    int result = entry->path != NULL
                     ? core_plugin_add_path(&world->catalog, entry->path, &plugin, &row->err)
                     : core_plugin_add_named(&world->catalog, entry->name, trusted, &plugin, &row->err);
    row->path = entry->path;
    if (result == 0) {
        row->name = plugin->name;
        row->path = plugin->path;
    }
}

/* Rows of the catalog move while plugins are added to it. */
static void connect(struct world *world)
{
    for (size_t i = 0; i < world->count; i++)
        world->row[i].plugin = core_catalog_find(&world->catalog, world->row[i].name);
}

static int open_world(struct world *world, const char *path, struct kern_error *err)
{
    const struct core_plugin_entry *entry = NULL;
    int result = core_catalog_builtin(&world->catalog, err);
    if (result == 0)
        result = core_config_load(path, &world->catalog, &world->config, take_note, NULL, err);
    if (result < 0)
        return result;
    size_t builtins = world->catalog.count, entries = core_config_plugins(world->config, &entry);
    world->row = calloc(builtins + entries, sizeof(*world->row));
    if (world->row == NULL)
        return kern_fail(err, ENOMEM, "cannot list the plugins");
    for (size_t i = 0; i < builtins; i++)
        world->catalog.plugin[i].wanted = false;
    for (size_t i = 0; i < builtins; i++)
        open_builtin(world, i);
    for (size_t i = 0; i < entries; i++)
        open_entry(world, &entry[i]);
    connect(world);
    return 0;
}

/* ---- Words ---- */

static const char *stage_name(const struct row *row)
{
    static const char *const names[] = {"engine", "limit",   "root",     "mount", "device",
                                        "pivot",  "network", "identity", "filter"};
    uint32_t index = row->plugin != NULL ? row->plugin->table->stage / 10 : UINT32_MAX;
    return index < sizeof(names) / sizeof(names[0]) ? names[index] : "?";
}

static bool is_open(const struct row *row)
{
    return row->plugin != NULL && row->err.category == KERN_ERROR_NONE;
}

/* The manifest of a built-in says what the file should have said. */
static const struct kern_plugin *table_of(const struct row *row)
{
    static const struct kern_plugin unknown = {.version = NULL};
    return row->plugin != NULL ? row->plugin->table : &unknown;
}

static const char *file_of(const struct row *row)
{
    return row->plugin != NULL ? row->plugin->path : row->path;
}

static const char *or_dash(const char *text)
{
    return text != NULL && text[0] != '\0' ? text : "-";
}

static const char *type_name(uint32_t type)
{
    static const char *const names[] = {"?",    "string",   "integer", "number", "boolean",
                                        "size", "duration", "enum",    "path",   "table"};
    return type < sizeof(names) / sizeof(names[0]) ? names[type] : "?";
}

static const char *from(const struct row *row)
{
    return row->builtin ? "built-in" : or_dash(row->path);
}

/* A third party's text goes to a terminal. What is lost is found when standard output is closed. */
static void print_cell(const char *text, int width)
{
    char clean[1024];
    core_escape(text, clean, sizeof(clean));
    (void)printf("%-*s ", width, clean); /* as above */
}

static void print_line(const char *label, const char *text)
{
    char clean[1024];
    core_escape(text, clean, sizeof(clean));
    (void)printf("%s%s\n", label, clean); /* as above */
}

/* ---- list ---- */

struct widths {
    int name, version, stage, profile, from;
};

static void widen(int *width, const char *text)
{
    int length = (int)strlen(text);
    *width = length > *width ? length : *width;
}

static void print_row(const struct row *row, const struct widths *widths)
{
    const struct kern_plugin *table = table_of(row);
    print_cell(row->name, widths->name);
    print_cell(is_open(row) ? or_dash(table->version) : "-", widths->version);
    print_cell(stage_name(row), widths->stage);
    print_cell(or_dash(table->profile), widths->profile);
    print_cell(from(row), widths->from);
    if (is_open(row)) {
        print_line(row->enabled || table->profile != NULL ? "" : "(not enabled) ", or_dash(table->summary));
        return;
    }
    print_line("cannot be opened: ", row->err.message);
    if (row->err.hint[0] != '\0')
        print_line("      hint: ", row->err.hint);
}

static void print_rows(const struct world *world)
{
    struct widths widths = {.name = 4, .version = 7, .stage = 8, .profile = 7, .from = 8};
    for (size_t i = 0; i < world->count; i++) {
        const struct row *row = &world->row[i];
        widen(&widths.name, row->name);
        widen(&widths.version, or_dash(table_of(row)->version));
        widen(&widths.profile, or_dash(table_of(row)->profile));
        widen(&widths.from, from(row));
    }
    print_cell("NAME", widths.name);
    print_cell("VERSION", widths.version);
    print_cell("STAGE", widths.stage);
    print_cell("PROFILE", widths.profile);
    print_cell("FROM", widths.from);
    print_line("SUMMARY", "");
    for (size_t i = 0; i < world->count; i++)
        print_row(&world->row[i], &widths);
}

static void put_bounds(struct core_json *json, const struct kern_option *option)
{
    if (option->min == 0 && option->max == 0)
        return;
    if (option->type == KERN_FLOAT) {
        core_json_double(json, "min", (double)option->min / 1000);
        core_json_double(json, "max", (double)option->max / 1000);
        return;
    }
    core_json_int(json, "min", option->min);
    core_json_int(json, "max", option->max);
}

static void add_option(struct core_json *json, const struct kern_option *option)
{
    static const struct {
        uint32_t flag;
        const char *place;
    } places[] = {{KERN_OPT_FLAG, "flag"},
                  {KERN_OPT_BOX, "box"},
                  {KERN_OPT_PROFILE, "profile"},
                  {KERN_OPT_POOL, "pool"},
                  {KERN_OPT_PLUGIN, "plugin"}};
    core_json_open(json, NULL, '{');
    core_json_string(json, "name", option->name);
    core_json_string(json, "type", type_name(option->type));
    core_json_string(json, "default", option->fallback);
    core_json_string(json, "arg", option->arg);
    core_json_string(json, "help", option->help);
    core_json_open(json, "places", '[');
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
        if ((option->flags & places[i].flag) != 0)
            core_json_string(json, NULL, places[i].place);
    core_json_close(json, ']');
    put_bounds(json, option);
    core_json_bool(json, "list", (option->flags & KERN_OPT_LIST) != 0);
    core_json_bool(json, "required", (option->flags & KERN_OPT_REQUIRED) != 0);
    core_json_bool(json, "available", (option->flags & KERN_OPT_LATER) == 0);
    core_json_open(json, "choices", '[');
    for (const char *const *choice = option->choices; choice != NULL && *choice != NULL; choice++)
        core_json_string(json, NULL, *choice);
    core_json_close(json, ']');
    core_json_close(json, '}');
}

static void add_row(struct core_json *json, const struct row *row, bool with_options)
{
    const struct kern_plugin *table = table_of(row);
    core_json_open(json, NULL, '{');
    core_json_string(json, "name", row->name);
    core_json_string(json, "version", is_open(row) ? table->version : NULL);
    core_json_string(json, "stage", row->plugin != NULL ? stage_name(row) : NULL);
    core_json_bool(json, "builtin", row->builtin);
    core_json_string(json, "path",
                     row->path != NULL     ? row->path
                     : row->plugin != NULL ? row->plugin->path
                                           : NULL);
    core_json_string(json, "profile", table->profile);
    core_json_string(json, "pool", table->pool);
    core_json_string(json, "summary", table->summary);
    core_json_bool(json, "enabled", row->enabled);
    core_json_string(json, "error", is_open(row) ? NULL : row->err.message);
    if (with_options) {
        core_json_open(json, "options", '[');
        for (const struct kern_option *option = table->options; option != NULL && option->name != NULL;
             option++)
            add_option(json, option);
        core_json_close(json, ']');
    }
    core_json_close(json, '}');
}

static int print_json(struct core_json *json, struct kern_error *err)
{
    if (json->failed)
        return kern_fail(err, ENOMEM, "cannot write what was found");
    (void)puts(json->text); /* found when standard output is closed */
    return 0;
}

static int list(const struct world *world, bool as_json, struct kern_error *err)
{
    cleanup(core_json_free) struct core_json json = {0};
    if (!as_json) {
        print_rows(world);
        return 0;
    }
    core_json_open(&json, NULL, '{');
    core_json_int(&json, "version", 1);
    core_json_open(&json, "plugins", '[');
    for (size_t i = 0; i < world->count; i++)
        add_row(&json, &world->row[i], false);
    core_json_close(&json, ']');
    core_json_close(&json, '}');
    return print_json(&json, err);
}

/* ---- info ---- */

static void number(const struct kern_option *option, int64_t value, char *ret_text, size_t size)
{
    if (option->type == KERN_FLOAT)
        (void)snprintf(ret_text, size, "%.3g", (double)value / 1000.0); /* fits, as a number does; so below */
    else if (option->type == KERN_DURATION)
        (void)snprintf(ret_text, size, "%.6g s", (double)value / 1000.0);
    else
        (void)snprintf(ret_text, size, "%" PRId64, value);
}

/* ", from 1 to 9" where there are bounds. */
static void add_bounds(const struct kern_option *option, char *line, size_t size)
{
    char least[40], most[40];
    size_t used = strlen(line);
    if (option->min == 0 && option->max == 0)
        return;
    number(option, option->min, least, sizeof(least));
    number(option, option->max, most, sizeof(most));
    if (option->max == INT64_MAX)
        (void)snprintf(line + used, size - used, ", at least %s",
                       least); /* a cut line still names the option; so below */
    else
        (void)snprintf(line + used, size - used, ", from %s to %s%s", least, most,
                       option->type == KERN_SIZE ? " bytes" : "");
}

static void print_option(const struct row *row, const struct kern_option *option, uint32_t place)
{
    bool flag = place == KERN_OPT_FLAG;
    char name[96], arg[64], line[512];
    core_help_arg(option, arg, sizeof(arg));
    core_help_line(option, line, sizeof(line));
    add_bounds(option, line, sizeof(line));
    if (flag && option->letter != NULL)
        (void)snprintf(name, sizeof(name), "-%s, --%s%s%s", option->letter, option->name, arg[0] ? " " : "",
                       arg);
    else if (flag)
        (void)snprintf(name, sizeof(name), "--%s%s%s%s%s", row->builtin ? "" : row->name,
                       row->builtin ? "" : "-", option->name, arg[0] ? " " : "", arg);
    else
        (void)snprintf(name, sizeof(name), "%s", option->name); /* cut where it would not fit; so above */
    (void)fputs("  ", stdout);                                  /* found when standard output is closed */
    print_cell(name, 26);
    print_cell(type_name(option->type), 9);
    print_line("", line);
}

static void print_options(const struct row *row, const char *title, uint32_t place)
{
    bool first = true;
    for (const struct kern_option *option = table_of(row)->options; option != NULL && option->name != NULL;
         option++) {
        if (!core_help_shows(option, place))
            continue;
        if (first)
            print_line("\n", title);
        first = false;
        print_option(row, option, place);
    }
}

static void print_info(const struct row *row)
{
    const struct kern_plugin *table = table_of(row);
    char title[128];
    print_line("name:     ", row->name);
    print_line("version:  ", is_open(row) ? or_dash(table->version) : "-");
    print_line("summary:  ", or_dash(table->summary));
    print_line("stage:    ", stage_name(row));
    print_line("from:     ", from(row));
    if (row->builtin)
        print_line("file:     ", or_dash(file_of(row)));
    print_line("enabled:  ", row->enabled ? "yes" : "where it is asked for");
    print_line("profile:  ", or_dash(table->profile));
    print_line("pool:     ", or_dash(table->pool));
    if (!is_open(row))
        print_line("fault:    cannot be opened: ", row->err.message);
    if (!is_open(row) && row->err.hint[0] != '\0')
        print_line("hint:     ", row->err.hint);
    print_options(row, "flags of kern box:", KERN_OPT_FLAG);
    print_options(row, "keys of [box]:", KERN_OPT_BOX);
    (void)snprintf(title, sizeof(title), "keys of [[%s]]:", or_dash(table->profile)); /* words are short */
    print_options(row, title, KERN_OPT_PROFILE);
    (void)snprintf(title, sizeof(title), "keys of [[%s]]:", or_dash(table->pool)); /* words are short */
    print_options(row, title, KERN_OPT_POOL);
    print_options(row, "keys of its [[plugin]] table:", KERN_OPT_PLUGIN);
}

static int refuse_name(const struct world *world, const char *name, struct kern_error *err)
{
    char names[320] = "";
    size_t used = 0;
    auto_free const char **words = calloc(world->count + 1, sizeof(*words));
    for (size_t i = 0; words != NULL && i < world->count; i++) {
        words[i] = world->row[i].name;
        int put = snprintf(names + used, sizeof(names) - used, "%s%s", i > 0 ? ", " : "", words[i]);
        if (put < 0 || used + (size_t)put >= sizeof(names))
            break;
        used += (size_t)put;
    }
    const char *nearest = words != NULL ? core_nearest(name, words) : NULL;
    (void)kern_refuse(err, 0, "unknown plugin \"%.64s\"", name); /* the code below says more */
    if (nearest != NULL)
        kern_hint(err, "did you mean \"%s\"? There are: %s", nearest, names);
    else
        kern_hint(err, "there are: %s", names);
    return -ENOENT;
}

static int info(const struct world *world, const char *name, bool as_json, struct kern_error *err)
{
    cleanup(core_json_free) struct core_json json = {0};
    for (size_t i = 0; i < world->count; i++) {
        const struct row *row = &world->row[i];
        if (strcmp(row->name, name) != 0)
            continue;
        if (row->plugin == NULL) { /* nothing is known of it but why */
            *err = row->err;
            return -ENOENT;
        }
        if (!as_json) {
            print_info(row);
            return 0;
        }
        add_row(&json, row, true);
        return print_json(&json, err);
    }
    return refuse_name(world, name, err);
}

/* For completions: a flag of `kern box` or `kern run` (`place`) and what it is for in each line. */
static int flags_of_others(uint32_t place, struct kern_error *err)
{
    cleanup(core_catalog_clear) struct core_catalog catalog = {0};
    int failed = core_catalog_builtin(&catalog, err);
    if (failed == 0)
        core_declared_show(&catalog);
    for (size_t i = 0; failed == 0 && i < catalog.count; i++) {
        const struct core_plugin *plugin = &catalog.plugin[i];
        const struct kern_option *option = plugin->builtin ? NULL : plugin->table->options;
        for (; option != NULL && option->name != NULL; option++) {
            if (!core_help_shows(option, KERN_OPT_FLAG) || !core_help_shows(option, place))
                continue;
            (void)printf("--%s-%s\t", plugin->name, option->name); /* found when standard output is closed */
            print_line("", option->help != NULL ? option->help : "");
        }
    }
    return failed;
}

static int run(const struct kern_values *flags, char **word, int words, struct kern_error *err)
{
    bool is_list = words == 1 && strcmp(word[0], "list") == 0;
    bool is_info = words == 2 && strcmp(word[0], "info") == 0;
    if (words == 2 && strcmp(word[0], "new") == 0)
        return core_plugin_new(word[1], kern_get_string(flags, "profile"), err);
    if (words == 2 && strcmp(word[0], "check") == 0)
        return core_plugin_check(word[1], err);
    if (words >= 1 && strcmp(word[0], "flags") == 0 && (words == 1 || strcmp(word[1], "box") == 0))
        return flags_of_others(KERN_OPT_FLAG, err);
    if (words == 2 && strcmp(word[0], "flags") == 0 && strcmp(word[1], "run") == 0)
        return flags_of_others(KERN_OPT_RUN, err);
    if (!is_list && !is_info) {
        (void)kern_refuse(err, 0,
                          "kern plugin needs \"list\", \"info NAME\", \"new NAME\", \"check FILE\" or "
                          "\"flags\""); /* the code below */
        kern_hint(err, "kern plugin --help");
        return -EINVAL;
    }
    cleanup(drop_world) struct world world = {0};
    bool as_json = kern_get_int(flags, "json") != 0;
    int result = open_world(&world, kern_get_string(flags, "config"), err);
    if (result < 0)
        return result;
    return is_list ? list(&world, as_json, err) : info(&world, word[1], as_json, err);
}

int core_cmd_plugin(struct core_call *call, struct kern_error *err)
{
    int r = run(&call->flags, call->word, call->words, err);
    return core_log_close_stdout() != 0 && r == 0 ? 1 : r;
}
