/* kern.toml as a value: reads it, checks all that the catalog knows, and answers questions about it. Host
 * side, before the box exists. The compiled default is read only when somebody asks for a profile: most
 * boxes never do. */
#include "config_internal.h"

#include "cleanup.h"
#include "option_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* `path` is a string here because it must be absolute: a plugin is not looked for beside the file. */
static const struct kern_option entry_options[] = {
    {.name = "name",
     .type = KERN_STRING,
     .flags = KERN_OPT_PLUGIN,
     .help = "a plugin of the plugin directories"},
    {.name = "path",
     .type = KERN_STRING,
     .flags = KERN_OPT_PLUGIN | KERN_OPT_GUARDED,
     .help = "or its file, absolute"},
    {.name = "enabled",
     .type = KERN_BOOL,
     .flags = KERN_OPT_PLUGIN,
     .fallback = "true",
     .help = "false: as if the table were not there"},
    {.name = NULL},
};

struct notes {
    void (*note)(void *data, const char *text);
    void *data;
};

static char *print_number(char *at, uint32_t number)
{
    char digits[10];
    size_t count = 0;
    do
        digits[count++] = (char)('0' + number % 10);
    while ((number /= 10) != 0);
    while (count > 0)
        *at++ = digits[--count];
    return at;
}

/* By hand, because each value keeps its place and printf was a third of the cost of reading a kern.toml. */
struct config_place config_at(const struct core_config *config, uint32_t line, uint32_t column)
{
    struct config_place place;
    const size_t room = sizeof(place.text) - 32; /* two numbers, two colons, "..." and the end */
    size_t length = strlen(config->path);
    bool cut = length > room;
    char *at = place.text;
    memcpy(at, "...", cut ? 3 : 0);
    at += cut ? 3 : 0;
    memcpy(at, config->path + (cut ? length - room : 0), cut ? room : length);
    at += cut ? room : length;
    *at++ = ':';
    at = print_number(at, line);
    *at++ = ':';
    *print_number(at, column) = '\0';
    return place;
}

const struct toml_node *config_find(const struct toml_node *table, const char *name)
{
    const struct toml_node *node;
    for (size_t i = 0; (node = core_toml_at(table, i)) != NULL; i++)
        if (node->key != NULL && core_option_is_named(name, node->key, node->key_length))
            return node;
    return NULL;
}

int config_root(const struct core_config *config, const struct toml_node **ret_root, struct kern_error *err)
{
    struct config_lazy *lazy = config->lazy;
    if (lazy->doc == NULL) {
        int r = core_toml_parse(core_config_example, core_config_example_size, config->path, &lazy->doc, err);
        if (r < 0)
            return r;
    }
    *ret_root = core_toml_root(lazy->doc);
    return 0;
}

/* ---- The tables of the file --------------------------------------------------------------------------- */

static bool is_in(const struct toml_node *key, const char *const *words)
{
    for (; *words != NULL; words++)
        if (core_option_is_named(*words, key->key, key->key_length))
            return true;
    return false;
}

static bool is_served(const struct toml_node *key, const struct core_catalog *catalog)
{
    for (size_t i = 0; i < catalog->count; i++) {
        const struct kern_plugin *table = catalog->plugin[i].table;
        const char *const words[] = {table->profile != NULL ? table->profile : table->pool, table->pool,
                                     NULL};
        if (is_in(key, words))
            return true;
    }
    return false;
}

static bool is_table(const struct toml_node *node)
{
    return node->type == TOML_TABLE || core_toml_is_array_of_tables(node);
}

static const char *nearest_table(const char *typed, const struct core_catalog *catalog)
{
    const char *words[64] = {"box", "plugin", "registry"};
    size_t count = 3;
    for (size_t i = 0; i < catalog->count && count + 2 < sizeof(words) / sizeof(words[0]); i++) {
        const struct kern_plugin *table = catalog->plugin[i].table;
        if (table->profile != NULL)
            words[count++] = table->profile;
        if (table->pool != NULL)
            words[count++] = table->pool;
    }
    return core_nearest(typed, words);
}

static int refuse_bare_key(const struct core_config *config, const struct toml_node *key,
                           struct kern_error *err)
{
    int r = kern_refuse(err, 0, "%s: key %s stands outside a table",
                        config_at(config, key->line, key->column).text, core_option_quote(key->key).text);
    if (config_schema_find(&config->box_schema, key) != NULL)
        kern_hint(err, "put it under a line [box]");
    return r;
}

static void tell(const struct notes *notes, const struct core_config *config, const struct toml_node *key,
                 const char *ending)
{
    bool array = key->type == TOML_ARRAY;
    char text[700];
    (void)snprintf(text, sizeof(text), "%s: table %s%.64s%s %s",
                   config_at(config, key->line, key->column).text, array ? "[[" : "[", key->key,
                   array ? "]]" : "]", ending); /* a cut note is still a note */
    if (notes->note != NULL)
        notes->note(notes->data, text);
}

static void tell_unknown(const struct notes *notes, const struct core_config *config,
                         const struct toml_node *key, const struct core_catalog *catalog)
{
    char ending[120] = "is unknown and does nothing";
    const char *near = nearest_table(key->key, catalog);
    if (near != NULL)
        (void)snprintf(ending, sizeof(ending), "is unknown and does nothing; did you mean \"%.60s\"?",
                       near); /* fits */
    tell(notes, config, key, ending);
}

/* One table of the file's top level that neither [box] nor [[plugin]] nor a known plugin claims. */
static int look_at_other(const struct core_config *config, const struct toml_node *key,
                         const struct core_catalog *catalog, const struct notes *notes,
                         struct kern_error *err)
{
    if (!is_table(key))
        return refuse_bare_key(config, key, err);
    if (config->entry_count == 0)
        tell_unknown(notes, config, key, catalog);
    return 0;
}

static bool is_known(const struct toml_node *key, const struct core_catalog *catalog)
{
    static const char *const own[] = {"box", "plugin", "registry", NULL};
    return is_in(key, own) || is_served(key, catalog);
}

static int look_at_others(const struct core_config *config, const struct core_catalog *catalog,
                          const struct notes *notes, struct kern_error *err)
{
    const struct toml_node *root = core_toml_root(config->lazy->doc), *key;
    for (size_t i = 0; (key = core_toml_at(root, i)) != NULL; i++) {
        int r = is_known(key, catalog) ? 0 : look_at_other(config, key, catalog, notes, err);
        if (r < 0)
            return r;
    }
    return 0;
}

int core_config_bind(const struct core_config *config, const struct core_catalog *catalog,
                     void (*note)(void *data, const char *text), void *data, struct kern_error *err)
{
    if (config->trust == CORE_CONFIG_COMPILED)
        return 0;
    int r = core_config_check_all(config, catalog, err);
    const struct toml_node *root = core_toml_root(config->lazy->doc), *key;
    const struct notes notes = {note, data};
    for (size_t i = 0; r == 0 && config->entry_count > 0 && (key = core_toml_at(root, i)) != NULL; i++)
        if (!is_known(key, catalog))
            tell_unknown(&notes, config, key, catalog);
    return r;
}

/* ---- [box] -------------------------------------------------------------------------------------------- */

static int read_box(struct core_config *config, const struct core_catalog *catalog, struct kern_error *err)
{
    struct config_schema *schema = &config->box_schema;
    (void)snprintf(schema->title, sizeof(schema->title), "[box]"); /* fits */
    int r = 0;
    for (size_t i = 0; r == 0 && i < catalog->count; i++)
        if (catalog->plugin[i].builtin)
            r = config_schema_add(schema, catalog->plugin[i].table->options, KERN_OPT_BOX | KERN_OPT_LATER,
                                  err);
    r = r < 0 ? r : config_schema_finish(schema, err);
    const struct toml_node *box = config_find(core_toml_root(config->lazy->doc), "box");
    if (r < 0 || box == NULL)
        return r;
    if (box->type != TOML_TABLE)
        return kern_refuse(err, 0, "%s: \"box\" must be one table, under a line [box]",
                           config_at(config, box->line, box->column).text);
    return config_table_fill(config, schema, box, &config->box, err);
}

int core_config_box(const struct core_config *config, struct kern_values *values, struct kern_error *err)
{
    if (config->box.cfg == NULL)
        return 0;
    return config_table_apply(config, &config->box, values, false, err);
}

/* ---- [[plugin]] --------------------------------------------------------------------------------------- */

static int check_entry(const struct core_config *config, size_t index, struct kern_error *err)
{
    const struct core_plugin_entry *entry = &config->entry[index];
    const struct toml_node *node = config->entry_node[index];
    struct config_place place = config_at(config, node->line, node->column);
    if (entry->name == NULL && entry->path == NULL)
        return kern_refuse(err, 0, "%s: this [[plugin]] needs a key \"name\" or \"path\"", place.text);
    if (entry->path != NULL && entry->path[0] != '/')
        return kern_refuse(err, 0, "%s: the path %s of a [[plugin]] must be absolute", place.text,
                           core_option_quote(entry->path).text);
    for (size_t i = 0; i < index && entry->name != NULL; i++)
        if (config->entry[i].name != NULL && strcmp(config->entry[i].name, entry->name) == 0)
            return kern_refuse(err, 0, "%s: plugin %s is declared in line %d already", place.text,
                               core_option_quote(entry->name).text, config->entry[i].line);
    return 0;
}

static int read_entry(struct core_config *config, const struct toml_node *node, struct kern_error *err)
{
    size_t index = config->entry_count;
    struct config_table *table = &config->entry_table[index];
    if (node->type != TOML_TABLE)
        return kern_refuse(err, 0, "%s: \"plugin\" must be written as tables, each under a line [[plugin]]",
                           config_at(config, node->line, node->column).text);
    int r = config_table_fill(config, &config->entry_schema, node, table, err);
    if (r < 0)
        return r;
    config->entry_node[index] = node;
    config->entry[index] =
        (struct core_plugin_entry){.name = config_table_text(table, "name"),
                                   .path = config_table_text(table, "path"),
                                   .enabled = cfg_getbool(table->cfg, "enabled") == cfg_true,
                                   .line = (int)node->line};
    config->entry_count++;
    return check_entry(config, index, err);
}

static int read_entries(struct core_config *config, struct kern_error *err)
{
    const struct toml_node *array = config_find(core_toml_root(config->lazy->doc), "plugin"), *node;
    if (array == NULL)
        return 0;
    if (array->type != TOML_ARRAY)
        return kern_refuse(err, 0, "%s: \"plugin\" must be written as tables, each under a line [[plugin]]",
                           config_at(config, array->line, array->column).text);
    struct config_schema *schema = &config->entry_schema;
    schema->open = true;
    (void)snprintf(schema->title, sizeof(schema->title), "[[plugin]]"); /* fits */
    int r = config_schema_add(schema, entry_options, KERN_OPT_PLUGIN, err);
    r = r < 0 ? r : config_schema_finish(schema, err);
    size_t count = core_toml_count(array) + 1; /* one more: an empty array is no lack of memory */
    config->entry = calloc(count, sizeof(*config->entry));
    config->entry_node = calloc(count, sizeof(*config->entry_node));
    config->entry_table = calloc(count, sizeof(*config->entry_table));
    if (r == 0 && (config->entry == NULL || config->entry_node == NULL || config->entry_table == NULL))
        return kern_fail(err, ENOMEM, "cannot keep the plugins of \"%s\"", config->path);
    for (size_t i = 0; r == 0 && (node = core_toml_at(array, i)) != NULL; i++)
        r = read_entry(config, node, err);
    return r;
}

size_t core_config_plugins(const struct core_config *config, const struct core_plugin_entry **ret_entries)
{
    *ret_entries = config->entry;
    return config->entry_count;
}

int core_config_plugin_values(const struct core_config *config, size_t index, struct core_plugin *plugin,
                              struct kern_error *err)
{
    cleanup(config_schema_clear) struct config_schema schema = {0};
    (void)snprintf(schema.title, sizeof(schema.title), "[[plugin]] \"%.30s\"", plugin->name); /* fits */
    int r = config_schema_add(&schema, entry_options, KERN_OPT_PLUGIN, err);
    r = r < 0 ? r : config_schema_add(&schema, plugin->table->options, KERN_OPT_PLUGIN, err);
    r = r < 0 ? r : config_schema_finish(&schema, err);
    cleanup(config_table_clear) struct config_table table = {0};
    r = r < 0 ? r : config_table_fill(config, &schema, config->entry_node[index], &table, err);
    return r < 0 ? r : config_table_apply(config, &table, &plugin->own, false, err);
}

/* ---- Loading ------------------------------------------------------------------------------------------ */

int core_config_check_all(const struct core_config *config, const struct core_catalog *catalog,
                          struct kern_error *err)
{
    for (size_t i = 0; i < catalog->count; i++) {
        const struct kern_plugin *table = catalog->plugin[i].table;
        int r = table->profile != NULL ? config_kind_check(config, table, err) : 0;
        if (r < 0)
            return r;
    }
    return 0;
}

static void drop_config(struct core_config **config)
{
    core_config_free(*config);
}

static int read_file(struct core_config *config, const struct config_source *source,
                     const struct core_catalog *catalog, const struct notes *notes, struct kern_error *err)
{
    int r = core_toml_parse(source->text, source->length, config->path, &config->lazy->doc, err);
    r = r < 0 ? r : read_box(config, catalog, err);
    r = r < 0 ? r : read_entries(config, err);
    r = r < 0 ? r : config_registry_check(config, err);
    r = r < 0 ? r : look_at_others(config, catalog, notes, err);
    return r < 0 ? r : core_config_check_all(config, catalog, err);
}

int config_parse(struct config_source *source, const struct core_catalog *catalog,
                 struct core_config **ret_config, void (*note)(void *data, const char *text), void *data,
                 struct kern_error *err)
{
    cleanup(drop_config) struct core_config *config = calloc(1, sizeof(*config));
    if (config != NULL)
        config->lazy = calloc(1, sizeof(*config->lazy));
    if (config == NULL || config->lazy == NULL)
        return kern_fail(err, ENOMEM, "cannot keep the configuration");
    config->path = steal_ptr(source->path);
    config->folder = steal_ptr(source->folder);
    config->trust = source->trust;
    const struct notes notes = {note, data};
    int r = source->text != NULL ? read_file(config, source, catalog, &notes, err) : 0;
    if (r < 0)
        return r;
    *ret_config = steal_ptr(config);
    return 0;
}

int core_config_load(const char *path, const struct core_catalog *catalog, struct core_config **ret_config,
                     void (*note)(void *data, const char *text), void *data, struct kern_error *err)
{
    cleanup(config_source_clear) struct config_source source = {0};
    int r = config_source_read(path, &source, err);
    return r < 0 ? r : config_parse(&source, catalog, ret_config, note, data, err);
}

int config_load_as(const char *path, int trust, const struct core_catalog *catalog,
                   struct core_config **ret_config, void (*note)(void *data, const char *text), void *data,
                   struct kern_error *err)
{
    cleanup(config_source_clear) struct config_source source = {0};
    int r = config_source_read(path, &source, err);
    if (r < 0)
        return r;
    source.trust = trust;
    return config_parse(&source, catalog, ret_config, note, data, err);
}

void core_config_free(struct core_config *config)
{
    if (config == NULL)
        return;
    if (config->lazy != NULL) {
        config_names_free(config->lazy->names);
        for (struct config_kind *kind = config->lazy->kind, *next; kind != NULL; kind = next) {
            next = kind->next;
            config_kind_free(kind);
        }
        core_toml_free(config->lazy->doc);
    }
    for (size_t i = 0; i < config->entry_count; i++)
        config_table_clear(&config->entry_table[i]);
    config_table_clear(&config->box);
    config_schema_clear(&config->box_schema);
    config_schema_clear(&config->entry_schema);
    free(config->entry);
    free(config->entry_node);
    free(config->entry_table);
    free(config->lazy);
    free(config->folder);
    free(config->path);
    free(config);
}

const char *core_config_path(const struct core_config *config)
{
    return config->path;
}

int core_config_trust(const struct core_config *config)
{
    return config->trust;
}
