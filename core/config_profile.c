/* Profiles: the [[KIND]] tables of a plugin, the chains that `extends` makes and the pools that `backend`
 * names. Host side. The key names below are the contract's and mean the same for every plugin whose table
 * has them. */
#include "config_internal.h"

#include "cleanup.h"
#include "guard.h"
#include "option_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* For a plugin whose table leaves it out: a profile cannot be named without it. */
static const struct kern_option implied_name[] = {
    {.name = "name", .type = KERN_STRING, .flags = KERN_OPT_PROFILE | KERN_OPT_REQUIRED, .help = "its name"},
    {.name = NULL},
};

void config_profile_clear(struct core_profile *profile)
{
    if (profile == NULL)
        return;
    free(profile->name);
    core_values_clear(&profile->values);
    core_values_clear(&profile->pool);
    *profile = (struct core_profile){0};
}

static void free_rows(struct config_table *rows, size_t count)
{
    for (size_t i = 0; i < count; i++)
        config_table_clear(&rows[i]);
    free(rows);
}

void config_kind_free(struct config_kind *kind)
{
    if (kind == NULL)
        return;
    free_rows(kind->profile, kind->profile_count);
    free_rows(kind->pool, kind->pool_count);
    config_schema_clear(&kind->profile_schema);
    config_schema_clear(&kind->pool_schema);
    free(kind);
}

static void drop_kind(struct config_kind **kind)
{
    config_kind_free(*kind);
}

static struct config_place at_node(const struct core_config *config, const struct toml_node *node)
{
    return config_at(config, node->line, node->column);
}

static struct config_place at_key(const struct core_config *config, const struct config_table *row,
                                  const char *key)
{
    const struct toml_node *node = config_find(row->node, key);
    return at_node(config, node != NULL ? node : row->node);
}

/* The name that `KIND:NAME` has; "" for the one table that every box has. */
static const char *name_of(const struct config_kind *kind, const struct config_table *row)
{
    return kind->stands ? "" : config_table_text(row, "name");
}

/* ---- Reading ------------------------------------------------------------------------------------------ */

static int check_shape(const struct core_config *config, const struct toml_node *array, const char *name,
                       struct kern_error *err)
{
    bool good = array->type == TOML_ARRAY;
    const struct toml_node *item;
    for (size_t i = 0; good && (item = core_toml_at(array, i)) != NULL; i++)
        good = item->type == TOML_TABLE;
    if (good)
        return 0;
    return kern_refuse(err, 0, "%s: \"%s\" must be written as tables, each under a line [[%s]]",
                       at_node(config, array).text, name, name);
}

static int read_rows(const struct core_config *config, const char *name, const struct config_schema *schema,
                     struct config_table **rows, size_t *count, struct kern_error *err)
{
    const struct toml_node *root;
    int r = config_root(config, &root, err);
    const struct toml_node *array = r == 0 ? config_find(root, name) : NULL;
    if (r < 0 || array == NULL)
        return r;
    r = check_shape(config, array, name, err);
    if (r < 0)
        return r;
    size_t total = core_toml_count(array);
    *rows = calloc(total + 1, sizeof(**rows)); /* one more: an empty array is no lack of memory */
    if (*rows == NULL)
        return kern_fail(err, ENOMEM, "cannot keep the tables [[%s]]", name);
    for (size_t i = 0; r == 0 && i < total; i++) {
        r = config_table_fill(config, schema, core_toml_at(array, i), &(*rows)[i], err);
        *count += r == 0;
    }
    return r;
}

static const struct config_table *find_row(const struct config_table *rows, size_t count, const char *key,
                                           const char *wanted)
{
    for (size_t i = 0; i < count; i++) {
        const char *text = config_table_text(&rows[i], key);
        if (text != NULL && strcmp(text, wanted) == 0)
            return &rows[i];
    }
    return NULL;
}

/* [KIND], where the plugin says that it may be. */
static int read_standing(const struct core_config *config, struct config_kind *kind,
                         const struct toml_node *table, struct kern_error *err)
{
    (void)snprintf(kind->profile_schema.title, sizeof(kind->profile_schema.title), "[%s]",
                   kind->name); /* a cut title is still known */
    kind->stands = true;
    kind->profile = calloc(1, sizeof(*kind->profile));
    if (kind->profile == NULL)
        return kern_fail(err, ENOMEM, "cannot keep the table [%s]", kind->name);
    int r = config_table_fill(config, &kind->profile_schema, table, kind->profile, err);
    if (r < 0)
        return r;
    kind->profile_count = 1;
    static const char *const of_profiles[] = {"name", "extends"};
    for (size_t i = 0; i < sizeof(of_profiles) / sizeof(of_profiles[0]); i++) {
        if (config_table_text(kind->profile, of_profiles[i]) == NULL)
            continue;
        r = kern_refuse(err, 0, "%s: [%s] is for every box: it has no \"%s\"",
                        at_key(config, kind->profile, of_profiles[i]).text, kind->name, of_profiles[i]);
        kern_hint(err, "a profile that is attached by name stands under a line [[%s]]", kind->name);
        return r;
    }
    return 0;
}

static int read_profiles(const struct core_config *config, struct config_kind *kind, struct kern_error *err)
{
    const struct toml_node *root;
    int r = config_root(config, &root, err);
    const struct toml_node *node = r == 0 ? config_find(root, kind->name) : NULL;
    if (r < 0 || node == NULL)
        return r;
    if (kind->may_stand && node->type == TOML_TABLE)
        return read_standing(config, kind, node, err);
    return read_rows(config, kind->name, &kind->profile_schema, &kind->profile, &kind->profile_count, err);
}

/* Each row has a name of its own. */
static int check_names(const struct core_config *config, const struct config_table *rows, size_t count,
                       const char *key, struct kern_error *err)
{
    for (size_t i = 0; i < count; i++) {
        const char *name = config_table_text(&rows[i], key);
        if (name == NULL || name[0] == '\0')
            return kern_refuse(err, 0, "%s: this %s needs a key \"%s\"", at_node(config, rows[i].node).text,
                               rows[i].schema->title, key);
        const struct config_table *first = find_row(rows, i, key, name);
        if (first != NULL)
            return kern_refuse(err, 0, "%s: there is a %s called %s already, in line %u",
                               at_key(config, &rows[i], key).text, rows[i].schema->title,
                               core_option_quote(name).text, first->node->line);
    }
    return 0;
}

static void list_names(const struct config_table *rows, size_t count, const char *key, char *ret_list,
                       size_t size)
{
    size_t used = 0;
    ret_list[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        const char *name = config_table_text(&rows[i], key);
        int n = snprintf(ret_list + used, size - used, "%s%s", i == 0 ? "" : ", ", name != NULL ? name : "?");
        if (n < 0 || (size_t)n >= size - used) {
            ret_list[used] = '\0'; /* whole names only */
            return;
        }
        used += (size_t)n;
    }
}

/* NULL for a profile that needs no pool: the default of `backend` is the word for that ("host", "ram"). */
static const char *pool_of(const struct config_kind *kind, const struct config_table *row)
{
    const struct kern_option *def = config_schema_option(&kind->profile_schema, "backend");
    const char *backend = def != NULL ? config_table_text(row, "backend") : NULL;
    if (backend == NULL || (def->fallback != NULL && strcmp(backend, def->fallback) == 0))
        return NULL;
    return backend;
}

/* By its id; "disk:pool" means the pool "pool", too: files of the reference runtime write it so. */
static const struct config_table *find_pool(const struct config_kind *kind, const char *backend)
{
    const struct config_table *row = find_row(kind->pool, kind->pool_count, "id", backend);
    size_t length = strlen(kind->pool_name);
    if (row == NULL && strncmp(backend, kind->pool_name, length) == 0 && backend[length] == ':')
        row = find_row(kind->pool, kind->pool_count, "id", backend + length + 1);
    return row;
}

static int check_backends(const struct core_config *config, const struct config_kind *kind,
                          struct kern_error *err)
{
    if (kind->pool_name == NULL)
        return 0;
    for (size_t i = 0; i < kind->profile_count; i++) {
        const struct config_table *row = &kind->profile[i];
        const char *pool = pool_of(kind, row);
        if (pool == NULL || find_pool(kind, pool) != NULL)
            continue;
        char pools[200];
        list_names(kind->pool, kind->pool_count, "id", pools, sizeof(pools));
        const struct kern_option *def = config_schema_option(&kind->profile_schema, "backend");
        int r = kern_refuse(err, 0, "%s: backend %s of profile \"%s\" is no [[%s]] pool; %s%s",
                            at_key(config, row, "backend").text, core_option_quote(pool).text,
                            config_table_text(row, "name"), kind->pool_name,
                            kind->pool_count == 0 ? "none is declared" : "the pools are: ", pools);
        kern_hint(err, "declare it with [[%s]] and id = %s, or write backend = \"%s\"", kind->pool_name,
                  core_option_quote(pool).text, def->fallback != NULL ? def->fallback : "");
        return r;
    }
    return 0;
}

/* ---- extends ------------------------------------------------------------------------------------------ */

static const struct config_table *parent_of(const struct config_kind *kind, const struct config_table *row)
{
    if (config_schema_option(&kind->profile_schema, "extends") == NULL)
        return NULL;
    const char *parent = config_table_text(row, "extends");
    return parent != NULL ? find_row(kind->profile, kind->profile_count, "name", parent) : NULL;
}

static int refuse_circle(const struct core_config *config, const struct config_kind *kind,
                         const struct config_table *first, struct kern_error *err)
{
    char circle[300];
    int used = snprintf(circle, sizeof(circle), "%s", config_table_text(first, "name"));
    const struct config_table *row = first;
    do {
        row = parent_of(kind, row);
        size_t room = used < (int)sizeof(circle) ? sizeof(circle) - (size_t)used : 0;
        used += room > 0 ? snprintf(circle + used, room, " -> %s", config_table_text(row, "name")) : 0;
    } while (row != first);
    return kern_refuse(err, 0, "%s: profiles extend each other in a circle: %s",
                       at_key(config, first, "extends").text, circle);
}

/* A chain longer than there are profiles has met one of them twice; but only one that is part of the circle
 * names it, so a profile that merely leads into it is passed over. */
static int check_chain(const struct core_config *config, const struct config_kind *kind,
                       const struct config_table *row, struct kern_error *err)
{
    const char *wanted = config_table_text(row, "extends");
    if (wanted != NULL && parent_of(kind, row) == NULL) {
        char names[200];
        list_names(kind->profile, kind->profile_count, "name", names, sizeof(names));
        return kern_refuse(err, 0, "%s: profile \"%s\" extends %s, which is not there; there are: %s",
                           at_key(config, row, "extends").text, config_table_text(row, "name"),
                           core_option_quote(wanted).text, names);
    }
    const struct config_table *at = row;
    for (size_t steps = 0; steps <= kind->profile_count; steps++) {
        at = parent_of(kind, at);
        if (at == NULL)
            return 0;
        if (at == row)
            return refuse_circle(config, kind, row, err);
    }
    return 0;
}

static int check_chains(const struct core_config *config, const struct config_kind *kind,
                        struct kern_error *err)
{
    if (config_schema_option(&kind->profile_schema, "extends") == NULL)
        return 0;
    for (size_t i = 0; i < kind->profile_count; i++) {
        int r = check_chain(config, kind, &kind->profile[i], err);
        if (r < 0)
            return r;
    }
    return 0;
}

/* ---- A kind ------------------------------------------------------------------------------------------- */

static int make_schema(struct config_schema *schema, const char *name, const struct kern_option *options,
                       uint32_t mask, struct kern_error *err)
{
    (void)snprintf(schema->title, sizeof(schema->title), "[[%s]]", name); /* a cut title is still known */
    int r = config_schema_add(schema, options, mask, err);
    r = r < 0 ? r : config_schema_add(schema, implied_name, mask, err);
    return r < 0 ? r : config_schema_finish(schema, err);
}

/* A pool with the id "ram" could not be told from memory, which backend = "ram" means. */
static int check_pool_ids(const struct core_config *config, const struct config_kind *kind,
                          struct kern_error *err)
{
    const struct kern_option *def = config_schema_option(&kind->profile_schema, "backend");
    const struct config_table *pool = def != NULL && def->fallback != NULL
                                          ? find_row(kind->pool, kind->pool_count, "id", def->fallback)
                                          : NULL;
    if (pool == NULL)
        return 0;
    int r = kern_refuse(err, 0, "%s: a [[%s]] pool cannot be called \"%s\"", at_key(config, pool, "id").text,
                        kind->pool_name, def->fallback);
    kern_hint(err, "backend = \"%s\" means that a profile has no pool; choose another id", def->fallback);
    return r;
}

static int check_defaults(const struct core_config *config, const struct config_kind *kind,
                          struct kern_error *err)
{
    const struct config_table *first = NULL;
    if (config_schema_option(&kind->pool_schema, "default") == NULL)
        return 0;
    for (size_t i = 0; i < kind->pool_count; i++) {
        const struct config_table *pool = &kind->pool[i];
        if (!config_table_is_true(pool, "default"))
            continue;
        if (first != NULL)
            return kern_refuse(err, 0, "%s: pool \"%s\" cannot be the default: pool \"%s\" is",
                               at_node(config, pool->node).text, config_table_text(pool, "id"),
                               config_table_text(first, "id"));
        first = pool;
    }
    return 0;
}

static int fill_kind(const struct core_config *config, struct config_kind *kind, struct kern_error *err)
{
    int r = make_schema(&kind->profile_schema, kind->name, kind->options, KERN_OPT_PROFILE, err);
    if (r == 0)
        r = read_profiles(config, kind, err);
    if (r == 0 && kind->pool_name != NULL)
        r = make_schema(&kind->pool_schema, kind->pool_name, kind->options, KERN_OPT_POOL, err);
    if (r == 0 && kind->pool_name != NULL)
        r = read_rows(config, kind->pool_name, &kind->pool_schema, &kind->pool, &kind->pool_count, err);
    if (r == 0 && !kind->stands)
        r = check_names(config, kind->profile, kind->profile_count, "name", err);
    if (r == 0)
        r = check_names(config, kind->pool, kind->pool_count, "id", err);
    if (r == 0)
        r = check_defaults(config, kind, err);
    r = r < 0 ? r : check_pool_ids(config, kind, err);
    if (r == 0)
        r = check_backends(config, kind, err);
    return r < 0 ? r : check_chains(config, kind, err);
}

int config_kind_open(const struct core_config *config, const struct kern_plugin *plugin,
                     const struct config_kind **ret_kind, struct kern_error *err)
{
    for (const struct config_kind *known = config->lazy->kind; known != NULL; known = known->next)
        if (strcmp(known->name, plugin->profile) == 0) {
            *ret_kind = known;
            return 0;
        }
    cleanup(drop_kind) struct config_kind *kind = calloc(1, sizeof(*kind));
    if (kind == NULL)
        return kern_fail(err, ENOMEM, "cannot keep the profiles of \"%s\"", plugin->name);
    kind->name = plugin->profile;
    kind->pool_name = plugin->pool;
    kind->may_stand = (plugin->flags & KERN_PLUGIN_STANDING) != 0;
    kind->options = plugin->options;
    int r = fill_kind(config, kind, err);
    if (r < 0)
        return r;
    kind->next = config->lazy->kind;
    config->lazy->kind = kind;
    *ret_kind = steal_ptr(kind);
    return 0;
}

/* ---- One profile -------------------------------------------------------------------------------------- */

static int check_required(const struct core_config *config, const struct config_table *row,
                          const struct kern_values *values, bool nameless, struct kern_error *err)
{
    for (size_t i = 0; i < values->count; i++) {
        const struct core_value *value = &values->value[i];
        if (nameless && strcmp(value->def->name, "name") == 0)
            continue;
        if ((value->def->flags & KERN_OPT_REQUIRED) != 0 && value->text == NULL)
            return kern_refuse(err, 0, "%s: this %s needs a key \"%s\"", at_node(config, row->node).text,
                               row->schema->title, value->def->name);
    }
    return 0;
}

/* A profile that names no backend has the pool that says default = true, where the kind knows such a key. */
static const char *default_pool(const struct config_kind *kind, const char *otherwise)
{
    if (config_schema_option(&kind->pool_schema, "default") == NULL)
        return otherwise;
    for (size_t i = 0; i < kind->pool_count; i++)
        if (config_table_is_true(&kind->pool[i], "default"))
            return config_table_text(&kind->pool[i], "id");
    return otherwise;
}

static int resolve_pool(const struct core_config *config, const struct config_kind *kind, const char *backend,
                        struct core_profile *profile, struct kern_error *err)
{
    const struct config_table *row = find_pool(kind, backend);
    if (row == NULL)
        return 0;
    int r = core_values_add(&profile->pool, kind->options, KERN_OPT_POOL, err);
    r = r < 0 ? r : config_table_apply(config, row, &profile->pool, false, err);
    r = r < 0 ? r : check_required(config, row, &profile->pool, false, err);
    profile->has_pool = r == 0;
    return r;
}

struct judging {
    const struct kern_plugin *plugin;
    const struct core_profile *profile;
    struct kern_error *err;
    int result;
};

static void call_check(void *arg)
{
    struct judging *judging = arg;
    const struct core_profile *profile = judging->profile;
    judging->result =
        judging->plugin->check(&profile->values, profile->has_pool ? &profile->pool : NULL, judging->err);
}

/* A third party's judgement may crash, or end the process and so pass for a good one. */
static int call_guarded(struct judging *judging)
{
    int ended = core_guard_alone(call_check, judging);
    if (ended == 0)
        return judging->result;
    *judging->err = (struct kern_error){0}; /* half a message, perhaps */
    if (ended == CORE_GUARD_LEFT)
        return kern_fail(judging->err, 0, "plugin %s ended the process in check", judging->plugin->name);
    if (ended == CORE_GUARD_HUNG)
        return kern_fail(judging->err, 0, "plugin %s did not end in check", judging->plugin->name);
    return kern_fail(judging->err, 0, "plugin %s crashed in check: %s (signal %d)", judging->plugin->name,
                     sigdescr_np(ended), ended);
}

static int judge(const struct core_config *config, const struct config_kind *kind,
                 const struct config_table *row, const struct kern_plugin *plugin,
                 const struct core_profile *profile, struct kern_error *err)
{
    if (plugin->check == NULL)
        return 0;
    struct judging judging = {.plugin = plugin, .profile = profile, .err = err};
    if (core_catalog_is_manifest(plugin))
        call_check(&judging);
    int r = core_catalog_is_manifest(plugin) ? judging.result : call_guarded(&judging);
    if (r >= 0)
        return 0;
    kern_refuse(err, 0, "its plugin refuses it"); /* unless the plugin said why */
    if (kind->stands)
        kern_wrap(err, "%s: [%s]", at_node(config, row->node).text, kind->name);
    else
        kern_wrap(err, "%s: %s:%s", at_node(config, row->node).text, kind->name, profile->name);
    return r;
}

/* The nearest table wins, so the chain is walked upwards and only fills what is still open. */
static int walk_chain(const struct core_config *config, const struct config_kind *kind,
                      const struct config_table *row, struct kern_values *values, struct kern_error *err)
{
    for (; row != NULL; row = parent_of(kind, row)) {
        int r = config_table_apply(config, row, values, true, err);
        if (r < 0)
            return r;
    }
    return 0;
}

int config_kind_resolve(const struct core_config *config, const struct config_kind *kind, size_t index,
                        const struct kern_plugin *plugin, struct core_profile *ret_profile,
                        struct kern_error *err)
{
    const struct config_table *row = &kind->profile[index];
    cleanup(config_profile_clear) struct core_profile profile = {0};
    profile.name = strdup(name_of(kind, row));
    if (profile.name == NULL)
        return kern_fail(err, ENOMEM, "cannot keep a profile of \"%s\"", kind->name);
    int r = core_values_add(&profile.values, kind->options, KERN_OPT_PROFILE, err);
    r = r < 0 ? r : walk_chain(config, kind, row, &profile.values, err);
    r = r < 0 ? r : check_required(config, row, &profile.values, kind->stands, err);
    const struct core_value *backend = core_values_find(&profile.values, "backend");
    if (r == 0 && kind->pool_name != NULL && backend != NULL && backend->text != NULL)
        r = resolve_pool(config, kind,
                         backend->source == KERN_FROM_DEFAULT ? default_pool(kind, backend->text)
                                                              : backend->text,
                         &profile, err);
    r = r < 0 ? r : judge(config, kind, row, plugin, &profile, err);
    if (r < 0)
        return r;
    *ret_profile = profile;
    profile = (struct core_profile){0};
    return 0;
}

int config_kind_check(const struct core_config *config, const struct kern_plugin *plugin,
                      struct kern_error *err)
{
    const struct config_kind *kind;
    int r = config_kind_open(config, plugin, &kind, err);
    for (size_t i = 0; r == 0 && i < kind->profile_count; i++) {
        cleanup(config_profile_clear) struct core_profile profile = {0};
        r = config_kind_resolve(config, kind, i, plugin, &profile, err);
    }
    return r;
}
