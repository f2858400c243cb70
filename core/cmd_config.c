/* `kern config list`: what kern.toml says, resolved. `kern config parse`: any TOML document as JSON. Host
 * side. */
#include "cmd.h"

#include "args.h"
#include "cleanup.h"
#include "config_internal.h"
#include "help.h"
#include "json.h"
#include "log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void drop_config(struct core_config **config)
{
    core_config_free(*config);
}

static void print_note(void *data, const char *text)
{
    (void)data; /* nothing to remember */
    core_log_note("%s", text);
}

/* ---- list --------------------------------------------------------------------------------------------- */

static const char *trust_word(int trust)
{
    return trust == CORE_CONFIG_OWN ? "own" : trust == CORE_CONFIG_FOREIGN ? "foreign" : "compiled";
}

struct listing {
    const struct core_config *config;
    struct core_json *json; /* NULL: lines for people */
};

static void print_text(const char *text)
{
    char clean[512];
    core_escape(text, clean, sizeof(clean));
    (void)fputs(clean, stdout); /* found when standard output is closed */
}

/* What was said, not what holds by default: `kern box --show-config` has that. */
static bool is_said(const struct core_value *value)
{
    return value->source != KERN_FROM_DEFAULT && strcmp(value->def->name, "name") != 0;
}

static void print_values(const struct kern_values *values)
{
    const char *comma = "";
    for (size_t i = 0; i < values->count; i++) {
        const struct core_value *value = &values->value[i];
        if (!is_said(value))
            continue;
        (void)printf("%s%s = ", comma, value->def->name); /* found when standard output is closed */
        comma = ", ";
        for (uint32_t item = 0; item < value->item_count; item++) {
            (void)fputs(item > 0 ? " " : "", stdout); /* the same */
            print_text(value->item[item]);
        }
        if (value->item_count == 0)
            print_text(value->text);
    }
}

static void add_values(struct core_json *json, const char *key, const struct kern_values *values)
{
    core_json_open(json, key, '{');
    for (size_t i = 0; values != NULL && i < values->count; i++) {
        const struct core_value *value = &values->value[i];
        if (!is_said(value))
            continue;
        if ((value->def->flags & KERN_OPT_LIST) == 0) {
            core_json_string(json, value->def->name, value->text);
            continue;
        }
        core_json_open(json, value->def->name, '[');
        for (uint32_t item = 0; item < value->item_count; item++)
            core_json_string(json, NULL, value->item[item]);
        core_json_close(json, ']');
    }
    core_json_close(json, '}');
}

/* `profile` is NULL for one whose plugin is not there. */
static void print_profile(struct listing *listing, const char *kind, const char *name,
                          const struct core_profile *profile)
{
    if (listing->json != NULL) {
        core_json_open(listing->json, NULL, '{');
        core_json_string(listing->json, "kind", kind);
        core_json_string(listing->json, "name", name);
        core_json_bool(listing->json, "available", profile != NULL);
        add_values(listing->json, "options", profile != NULL ? &profile->values : NULL);
        core_json_close(listing->json, '}');
        return;
    }
    char token[128], clean[160];
    (void)snprintf(token, sizeof(token), name[0] != '\0' ? "%s:%s" : "[%s]%s", kind,
                   name); /* a cut name is still recognised */
    core_escape(token, clean, sizeof(clean));
    (void)printf("%-20s ", clean); /* found when standard output is closed */
    if (profile != NULL)
        print_values(&profile->values);
    (void)puts(profile != NULL ? "" : "(its plugin is not in this build)"); /* the same */
}

static int print_kind(struct listing *listing, const struct kern_plugin *plugin, struct kern_error *err)
{
    const struct config_kind *kind;
    int r = config_kind_open(listing->config, plugin, &kind, err);
    for (size_t i = 0; r == 0 && i < kind->profile_count; i++) {
        cleanup(config_profile_clear) struct core_profile profile = {0};
        r = config_kind_resolve(listing->config, kind, i, plugin, &profile, err);
        if (r == 0)
            print_profile(listing, kind->name, profile.name, &profile);
    }
    return r;
}

static int print_profiles(struct listing *listing, const struct core_catalog *catalog, struct kern_error *err)
{
    for (size_t i = 0; i < catalog->count; i++) {
        int r = catalog->plugin[i].table->profile != NULL ? print_kind(listing, catalog->plugin[i].table, err)
                                                          : 0;
        if (r < 0)
            return r;
    }
    return 0;
}

static void print_plugins(struct listing *listing)
{
    const struct core_plugin_entry *entries;
    size_t count = core_config_plugins(listing->config, &entries);
    for (size_t i = 0; i < count; i++) {
        const struct core_plugin_entry *entry = &entries[i];
        if (listing->json == NULL) {
            (void)fputs("[[plugin]]           ", stdout); /* found when standard output is closed */
            print_text(entry->name != NULL ? entry->name : entry->path);
            (void)puts(entry->enabled ? "" : " (not enabled)"); /* the same */
            continue;
        }
        core_json_open(listing->json, NULL, '{');
        core_json_string(listing->json, "name", entry->name);
        core_json_string(listing->json, "path", entry->path);
        core_json_bool(listing->json, "enabled", entry->enabled);
        core_json_int(listing->json, "line", entry->line);
        core_json_close(listing->json, '}');
    }
}

static int resolve_box(const struct core_config *config, const struct core_catalog *catalog,
                       struct kern_values *values, struct kern_error *err)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < catalog->count; i++)
        if (catalog->plugin[i].builtin)
            r = core_values_add(values, catalog->plugin[i].table->options, KERN_OPT_BOX, err);
    return r < 0 ? r : core_config_box(config, values, err);
}

static int print_lines(struct listing *listing, const struct kern_values *box,
                       const struct core_catalog *catalog, struct kern_error *err)
{
    const struct core_config *config = listing->config;
    print_text(core_config_path(config));
    if (core_config_trust(config) != CORE_CONFIG_COMPILED)
        (void)printf(" (%s)", trust_word(core_config_trust(config))); /* found when it is closed */
    (void)fputs("\n[box]                ", stdout);                   /* the same */
    print_values(box);
    (void)puts(""); /* the same */
    int r = print_profiles(listing, catalog, err);
    print_plugins(listing);
    return r;
}

static int print_object(struct listing *listing, const struct kern_values *box,
                        const struct core_catalog *catalog, struct kern_error *err)
{
    const struct core_config *config = listing->config;
    struct core_json *json = listing->json;
    bool compiled = core_config_trust(config) == CORE_CONFIG_COMPILED;
    core_json_open(json, NULL, '{');
    core_json_string(json, "file", compiled ? NULL : core_config_path(config));
    core_json_string(json, "trust", trust_word(core_config_trust(config)));
    add_values(json, "box", box);
    core_json_open(json, "profiles", '[');
    int r = print_profiles(listing, catalog, err);
    core_json_close(json, ']');
    core_json_open(json, "plugins", '[');
    print_plugins(listing);
    core_json_close(json, ']');
    core_json_close(json, '}');
    if (r == 0 && json->failed)
        return kern_fail(err, ENOMEM, "cannot list \"%s\"", core_config_path(config));
    if (r == 0)
        (void)puts(json->text); /* found when standard output is closed */
    return r;
}

static void drop_json(struct core_json *json)
{
    core_json_free(json);
}

static int list(const struct kern_values *flags, struct kern_error *err)
{
    cleanup(core_catalog_clear) struct core_catalog catalog = {0};
    cleanup(drop_config) struct core_config *config = NULL;
    cleanup(core_values_clear) struct kern_values box = {0};
    cleanup(drop_json) struct core_json json = {0};
    int r = core_catalog_builtin(&catalog, err);
    r = r < 0 ? r
              : core_config_load(kern_get_string(flags, "config"), &catalog, &config, print_note, NULL, err);
    /* All faults before the first line: half an answer helps nobody. */
    r = r < 0 ? r : core_config_check_all(config, &catalog, err);
    r = r < 0 ? r : resolve_box(config, &catalog, &box, err);
    if (r < 0)
        return r;
    struct listing listing = {.config = config, .json = kern_get_int(flags, "json") != 0 ? &json : NULL};
    return listing.json != NULL ? print_object(&listing, &box, &catalog, err)
                                : print_lines(&listing, &box, &catalog, err);
}

/* ---- parse -------------------------------------------------------------------------------------------- */

static int read_stream(FILE *in, const char *name, char **ret_text, size_t *ret_length,
                       struct kern_error *err)
{
    size_t room = 64 * 1024, used = 0;
    auto_free char *text = malloc(room);
    while (text != NULL) {
        used += fread(text + used, 1, room - used, in);
        if (ferror(in))
            return kern_refuse(err, errno, "cannot read \"%s\"", name);
        /* One byte past the bound is enough for the reader to refuse it. */
        if (used < room || room > CORE_TOML_MAX_SIZE)
            break;
        room *= 2;
        char *grown = realloc(text, room);
        if (grown == NULL)
            return kern_fail(err, ENOMEM, "cannot read \"%s\"", name);
        text = grown;
    }
    if (text == NULL)
        return kern_fail(err, ENOMEM, "cannot read \"%s\"", name);
    *ret_text = steal_ptr(text);
    *ret_length = used;
    return 0;
}

static void drop_doc(struct toml_doc **doc)
{
    core_toml_free(*doc);
}

static int parse(const char *path, bool tagged, struct kern_error *err)
{
    bool from_stdin = strcmp(path, "-") == 0;
    const char *name = from_stdin ? "(standard input)" : path;
    auto_file file = from_stdin ? NULL : fopen(path, "re");
    if (!from_stdin && file == NULL)
        return kern_refuse(err, errno, "cannot open \"%s\"", path);
    auto_free char *text = NULL;
    size_t length = 0;
    int r = read_stream(from_stdin ? stdin : file, name, &text, &length, err);
    cleanup(drop_doc) struct toml_doc *doc = NULL;
    r = r < 0 ? r : core_toml_parse(text, length, name, &doc, err);
    if (r < 0)
        return r;
    /* What fails here is found when standard output is closed. */
    (void)core_toml_print_json(core_toml_root(doc), stdout, tagged);
    (void)fputc('\n', stdout);
    return 0;
}

static bool changes(const char *word)
{
    static const char *const words[] = {"setup", "add", "rm", "edit"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcmp(words[i], word) == 0)
            return true;
    return false;
}

int core_cmd_config(struct core_call *call, struct kern_error *err)
{
    char **word = call->word;
    bool help = call->argc > 2 && strcmp(call->argv[2], "--help") == 0;
    if (call->argc > 1 && changes(word[0]) && !help)
        return core_cmd_config_write(call, err);
    int r = core_args_verb(call->argc, call->argv, call->verb->options, &call->flags, 2, &call->words, &help,
                           err);
    if (r == 0 && help)
        return core_help_print(call->verb);
    if (r == 0 && call->words == 1 && strcmp(word[0], "list") == 0)
        r = list(&call->flags, err);
    else if (r == 0 && call->words == 2 && strcmp(word[0], "parse") == 0)
        r = parse(word[1], kern_get_int(&call->flags, "tagged") != 0, err);
    else if (r == 0) {
        r = kern_refuse(err, 0,
                        "kern config needs \"list\", \"parse\" and a file, or one of setup, add, rm, edit");
        kern_hint(err, "kern config --help");
    }
    return core_log_close_stdout() != 0 && r == 0 ? 1 : r;
}
