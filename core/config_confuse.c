/* The bridge from the TOML tree to libconfuse: each key is put into a cfg_t through libconfuse's setters,
 * whose validation callback holds it against the option table, and is read back from there as a value of
 * kern's. Host side. libconfuse never sees text to parse: its own syntax expands ${VAR} and lets a duplicate
 * win silently. */
#include "config_internal.h"

#include "cleanup.h"
#include "error.h"
#include "option_check.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One key on its way into libconfuse, as the callbacks need it. */
struct fill {
    const struct core_config *config;
    const struct config_schema *schema;
    cfg_t *cfg;
    const struct kern_option *def;
    const struct toml_node *node; /* the value, or one item of it */
    char prefix[400];             /* room for point_at(): "kern.toml:12:3: memory" */
    struct kern_error *err;
};

static struct fill *fill_of(cfg_t *cfg)
{
    return cfg_getptr(cfg, CONFIG_CONTEXT);
}

static const char *point_at(struct fill *fill)
{
    (void)snprintf(fill->prefix, sizeof(fill->prefix), "%s: %s",
                   config_at(fill->config, fill->node->value_line, fill->node->value_column).text,
                   fill->def->name); /* a cut place still leads there */
    return fill->prefix;
}

/* ---- What libconfuse calls ---------------------------------------------------------------------------- */

/* `err` is NULL while only the verdict is wanted. */
static int judge(const struct fill *fill, const cfg_opt_t *opt, const void *value, const char *prefix,
                 struct kern_error *err)
{
    struct core_parsed parsed;
    char shown[40] = "";
    switch (opt->type) {
    case CFGT_INT: {
        long number = *(const long *)value;
        if (err != NULL)
            (void)snprintf(shown, sizeof(shown), "%ld", number); /* fits */
        return core_option_check_number(fill->def, number, shown, prefix, err);
    }
    case CFGT_FLOAT: {
        double real = *(const double *)value;
        if (err != NULL)
            (void)snprintf(shown, sizeof(shown), "%.15g", real); /* fits */
        return core_option_check_real(fill->def, real, shown, prefix, err);
    }
    case CFGT_STR:
        return core_option_parse(fill->def, value, prefix, &parsed, err);
    default:
        return 0;
    }
}

/* Nearly every value is right, so the place is put into words only for those that are not. */
static int validate(cfg_t *cfg, cfg_opt_t *opt, void *value)
{
    struct fill *fill = fill_of(cfg);
    if (judge(fill, opt, value, "", NULL) == 0)
        return 0;
    return judge(fill, opt, value, point_at(fill), fill->err);
}

/* libconfuse's own complaints (memory, above all) would go to stderr. */
KERN_PRINTF(2, 0) static void complain(cfg_t *cfg, const char *format, va_list args)
{
    struct fill *fill = fill_of(cfg);
    char text[200];
    (void)vsnprintf(text, sizeof(text), format, args); /* a cut reason is still a reason */
    if (fill != NULL)
        kern_refuse(fill->err, 0, "%s: %s", point_at(fill), text);
}

/* ---- One value ---------------------------------------------------------------------------------------- */

static int put_text(struct fill *fill, const char *text, unsigned index)
{
    auto_free char *resolved = NULL;
    if (config_path_is_one(fill->def)) {
        int r = config_path_resolve(fill->config, fill->def, text, point_at(fill), &resolved, fill->err);
        if (r < 0)
            return r;
    }
    return cfg_setnstr(fill->cfg, fill->def->name, resolved != NULL ? resolved : text, index);
}

static int put_number(struct fill *fill, int64_t number, unsigned index)
{
    char text[32];
    switch (fill->def->type) {
    case KERN_INT:
        return cfg_setnint(fill->cfg, fill->def->name, (long)number, index);
    case KERN_FLOAT:
        return cfg_setnfloat(fill->cfg, fill->def->name, (double)number, index);
    default:                                                           /* bytes, seconds, any */
        (void)snprintf(text, sizeof(text), "%lld", (long long)number); /* fits */
        return put_text(fill, text, index);
    }
}

/* A decimal is no whole number and no count of bytes, but it can be seconds. */
static int put_real(struct fill *fill, double real, unsigned index)
{
    if (fill->def->type == KERN_FLOAT)
        return cfg_setnfloat(fill->cfg, fill->def->name, real, index);
    char text[400]; /* the longest double without an exponent has 309 digits before the point */
    if (!isfinite(real))
        return kern_refuse(fill->err, 0, "%s: %s", point_at(fill),
                           isnan(real) ? "it is not a number" : "it is infinite");
    (void)snprintf(text, sizeof(text), "%.9f", real); /* fits */
    return put_text(fill, text, index);
}

/* "2" where 2 is wanted: files of the reference runtime write it so. */
static int put_string(struct fill *fill, const struct toml_node *node, unsigned index)
{
    const char *text = node->as.text.bytes;
    struct core_parsed parsed;
    if (strlen(text) != node->as.text.length)
        return kern_refuse(fill->err, 0, "%s: a string for kern cannot hold U+0000", point_at(fill));
    if (fill->def->type != KERN_INT && fill->def->type != KERN_FLOAT && fill->def->type != KERN_BOOL)
        return put_text(fill, text, index);
    int r = core_option_parse(fill->def, text, point_at(fill), &parsed, fill->err);
    if (r < 0)
        return r;
    switch (fill->def->type) {
    case KERN_INT:
        return cfg_setnint(fill->cfg, fill->def->name, (long)parsed.number, index);
    case KERN_FLOAT:
        return cfg_setnfloat(fill->cfg, fill->def->name, parsed.real, index);
    default:
        return cfg_setnbool(fill->cfg, fill->def->name, parsed.number != 0 ? cfg_true : cfg_false, index);
    }
}

static int put_table(struct fill *fill, const struct toml_node *node, unsigned index)
{
    auto_free char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    if (out == NULL)
        return -ENOMEM;
    int r = core_toml_print_json(node, out, 0);
    if (fclose(out) != 0 || r < 0)
        return -ENOMEM;
    return put_text(fill, text, index);
}

static int refuse_type(struct fill *fill, const struct toml_node *node)
{
    const char *type = core_toml_type_name(node->type);
    int r = kern_refuse(fill->err, 0, "%s is %s %s, but must be %s", point_at(fill),
                        strchr("aeio", type[0]) != NULL ? "an" : "a", type, core_option_wanted(fill->def));
    if (node->type == TOML_INTEGER && fill->def->type != KERN_BOOL && fill->def->type != KERN_TABLE)
        kern_hint(fill->err, "write it in quotes: %s = \"%lld\"", fill->def->name,
                  (long long)node->as.integer);
    return r;
}

static bool takes_numbers(const struct kern_option *def)
{
    return def->type == KERN_INT || def->type == KERN_FLOAT || def->type == KERN_SIZE ||
           def->type == KERN_DURATION;
}

static int put_item(struct fill *fill, const struct toml_node *node, unsigned index)
{
    uint32_t type = fill->def->type;
    fill->node = node;
    switch (node->type) {
    case TOML_STRING:
        return type == KERN_TABLE ? refuse_type(fill, node) : put_string(fill, node, index);
    case TOML_INTEGER:
        return takes_numbers(fill->def) || type == KERN_ANY ? put_number(fill, node->as.integer, index)
                                                            : refuse_type(fill, node);
    case TOML_FLOAT:
        return type == KERN_FLOAT || type == KERN_DURATION ? put_real(fill, node->as.real, index)
                                                           : refuse_type(fill, node);
    case TOML_BOOLEAN:
        if (type != KERN_BOOL)
            return refuse_type(fill, node);
        return cfg_setnbool(fill->cfg, fill->def->name, node->as.boolean ? cfg_true : cfg_false, index);
    case TOML_TABLE:
        return type == KERN_TABLE || type == KERN_ANY ? put_table(fill, node, index)
                                                      : refuse_type(fill, node);
    default:
        return refuse_type(fill, node);
    }
}

/* ---- One table ---------------------------------------------------------------------------------------- */

static int refuse_key(const struct fill *fill, const struct toml_node *key)
{
    auto_free const char **words = calloc(fill->schema->count + 1, sizeof(*words));
    for (size_t i = 0; words != NULL && i < fill->schema->count; i++)
        words[i] = fill->schema->def[i]->name;
    int r = kern_refuse(fill->err, 0, "%s: unknown key %s in %s",
                        config_at(fill->config, key->line, key->column).text,
                        core_option_quote(key->key).text, fill->schema->title);
    const char *near = words != NULL ? core_nearest(key->key, words) : NULL;
    if (near != NULL)
        kern_hint(fill->err, "did you mean \"%s\"?", near);
    return r;
}

/* TOML sees two keys in pids-limit and pids_limit; kern sees one. */
static int refuse_twice(const struct fill *fill, const struct config_table *table,
                        const struct toml_node *key)
{
    for (size_t i = 0; i < table->key_count; i++)
        if (table->key[i].def == fill->def)
            return kern_refuse(fill->err, 0, "%s: key %s is the same as %s in line %u",
                               config_at(fill->config, key->line, key->column).text,
                               core_option_quote(key->key).text,
                               core_option_quote(table->key[i].node->key).text, table->key[i].node->line);
    return 0;
}

static int put_items(struct fill *fill, const struct toml_node *node)
{
    if (node->type != TOML_ARRAY || (fill->def->flags & KERN_OPT_LIST) == 0)
        return put_item(fill, node, 0);
    const struct toml_node *item;
    for (unsigned i = 0; (item = core_toml_at(node, i)) != NULL; i++) {
        int r = put_item(fill, item, i);
        if (r != 0)
            return r;
    }
    return 0;
}

/* Which option the key sets, and whether this file may set it. */
static int match_key(struct fill *fill, struct config_table *table, const struct toml_node *key)
{
    fill->def = config_schema_find(fill->schema, key);
    if (fill->def == NULL)
        return fill->schema->open ? 0 : refuse_key(fill, key);
    if ((fill->def->flags & KERN_OPT_LATER) != 0)
        return kern_refuse(fill->err, 0, "%s: \"%s\" is not available in this build",
                           config_at(fill->config, key->line, key->column).text, fill->def->name);
    int r = refuse_twice(fill, table, key);
    r = r < 0 ? r : config_guard(fill->config, fill->def, key, fill->err);
    if (r < 0)
        return r;
    table->key[table->key_count++] = (struct config_key){key, fill->def};
    return 0;
}

static int match_keys(struct fill *fill, struct config_table *table)
{
    size_t count = core_toml_count(table->node);
    if (count > fill->schema->count) /* the first that is one too many is refused before it is kept */
        count = fill->schema->count;
    table->key = calloc(count + 1, sizeof(*table->key));
    if (table->key == NULL)
        return kern_fail(fill->err, ENOMEM, "cannot keep %s", fill->schema->title);
    const struct toml_node *key;
    for (size_t i = 0; (key = core_toml_at(table->node, i)) != NULL; i++) {
        int r = match_key(fill, table, key);
        if (r < 0)
            return r;
    }
    return 0;
}

static bool is_there(const struct config_table *table, const struct kern_option *def)
{
    for (size_t i = 0; i < table->key_count; i++)
        if (table->key[i].def == def)
            return true;
    return false;
}

/* A cfg_t of the keys that are there and of those that have a default: libconfuse copies every option that
 * it is given, and [box] knows a hundred. */
static int init_cfg(struct fill *fill, struct config_table *table)
{
    const struct config_schema *schema = fill->schema;
    auto_free cfg_opt_t *opt = calloc(schema->count + 2, sizeof(*opt));
    size_t used = 0;
    for (size_t i = 0; opt != NULL && i < schema->count; i++)
        if (schema->def[i]->fallback != NULL || is_there(table, schema->def[i]))
            opt[used++] = schema->opt[i];
    if (opt != NULL) {
        opt[used++] = schema->opt[schema->count]; /* CONFIG_CONTEXT */
        table->cfg = fill->cfg = cfg_init(opt, CFGF_NONE);
    }
    cfg_opt_t *context = fill->cfg != NULL ? cfg_getopt(fill->cfg, CONFIG_CONTEXT) : NULL;
    if (context == NULL || cfg_setopt(fill->cfg, context, (const char *)fill) == NULL)
        return kern_fail(fill->err, ENOMEM, "cannot keep %s", schema->title);
    (void)cfg_set_error_function(fill->cfg, complain); /* returns the previous one: none */
    return 0;
}

static int put_key(struct fill *fill, const struct config_key *key)
{
    fill->def = key->def;
    fill->node = key->node;
    (void)cfg_set_validate_func2(fill->cfg, fill->def->name, validate); /* returns the previous one: none */
    /* libconfuse says no more than "failed"; the callback has recorded why, unless memory ran out. */
    int r = put_items(fill, key->node);
    if (r != 0 && core_error_is_set(fill->err))
        return fill->err->code > 0 ? -fill->err->code : -EINVAL;
    return r != 0 ? kern_fail(fill->err, ENOMEM, "%s: cannot keep the value", point_at(fill)) : 0;
}

int config_table_fill(const struct core_config *config, const struct config_schema *schema,
                      const struct toml_node *node, struct config_table *ret_table, struct kern_error *err)
{
    cleanup(config_table_clear) struct config_table table = {.node = node, .schema = schema};
    struct kern_error local = {0}; /* put_key() looks at it, whether or not the caller cares */
    struct fill fill = {.config = config, .schema = schema, .err = err != NULL ? err : &local};
    int r = match_keys(&fill, &table);
    r = r < 0 ? r : init_cfg(&fill, &table);
    for (size_t i = 0; r == 0 && i < table.key_count; i++)
        r = put_key(&fill, &table.key[i]);
    if (r < 0)
        return r;
    /* `fill` ends here, and libconfuse must not keep its address. */
    if (cfg_setopt(fill.cfg, cfg_getopt(fill.cfg, CONFIG_CONTEXT), NULL) == NULL)
        return kern_fail(err, ENOMEM, "cannot keep %s", schema->title);
    *ret_table = table;
    table = (struct config_table){0};
    return 0;
}

void config_table_clear(struct config_table *table)
{
    if (table == NULL)
        return;
    if (table->cfg != NULL)
        (void)cfg_free(table->cfg); /* always succeeds on what cfg_init() made */
    free(table->key);
    *table = (struct config_table){0};
}

const char *config_table_text(const struct config_table *table, const char *name)
{
    for (size_t i = 0; i < table->key_count; i++)
        if (strcmp(table->key[i].def->name, name) == 0)
            return cfg_getstr(table->cfg, name);
    return NULL;
}

bool config_table_is_true(const struct config_table *table, const char *name)
{
    for (size_t i = 0; i < table->key_count; i++)
        if (strcmp(table->key[i].def->name, name) == 0)
            return cfg_getbool(table->cfg, name) == cfg_true;
    return false;
}

/* ---- Out of libconfuse again -------------------------------------------------------------------------- */

/* The shortest decimal that reads back as the same double: 0.1 stays 0.1. */
static void print_real(double real, char *ret_text, size_t size)
{
    for (int digits = 15; digits <= 17; digits++) {
        (void)snprintf(ret_text, size, "%.*g", digits, real); /* the caller's 32 bytes hold 17 digits */
        if (strtod(ret_text, NULL) == real)
            return;
    }
}

static const char *text_of(cfg_opt_t *opt, unsigned index, char *buffer, size_t size)
{
    switch (opt->type) {
    case CFGT_INT:
        (void)snprintf(buffer, size, "%ld", cfg_opt_getnint(opt, index)); /* fits */
        return buffer;
    case CFGT_FLOAT:
        print_real(cfg_opt_getnfloat(opt, index), buffer, size);
        return buffer;
    case CFGT_BOOL:
        return cfg_opt_getnbool(opt, index) ? "true" : "false";
    default:
        return cfg_opt_getnstr(opt, index);
    }
}

/* One key, read back from libconfuse, into its value. */
static int apply_key(const struct core_config *config, const struct config_table *table,
                     const struct config_key *key, struct core_value *value, struct kern_error *err)
{
    cfg_opt_t *opt = cfg_getopt(table->cfg, key->def->name);
    struct config_place place = config_at(config, key->node->line, key->node->column);
    for (unsigned item = 0; item < cfg_opt_size(opt); item++) {
        char buffer[32];
        const char *text = text_of(opt, item, buffer, sizeof(buffer));
        int r = core_value_set(value, text, KERN_FROM_CONFIG, place.text, err);
        if (r < 0)
            return r;
    }
    return 0;
}

int config_table_apply(const struct core_config *config, const struct config_table *table,
                       struct kern_values *values, bool only_unset, struct kern_error *err)
{
    for (size_t i = 0; i < table->key_count; i++) {
        struct core_value *value = core_values_find(values, table->key[i].def->name);
        if (value == NULL || (only_unset && value->source != KERN_FROM_DEFAULT))
            continue;
        int r = apply_key(config, table, &table->key[i], value, err);
        if (r < 0)
            return r;
    }
    return 0;
}
