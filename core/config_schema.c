/* The option tables as libconfuse wants them: one cfg_opt_t for each option that a sort of table may hold.
 * Host side. libconfuse owns types and defaults; its checks call back into config_confuse.c. */
#include "config_internal.h"

#include "cleanup.h"
#include "option_check.h"

#include <stdlib.h>
#include <string.h>

void config_schema_clear(struct config_schema *schema)
{
    if (schema == NULL)
        return;
    free(schema->def);
    free(schema->opt);
    *schema = (struct config_schema){0};
}

/* What came first keeps its name: libconfuse would complain about a second. */
int config_schema_add(struct config_schema *schema, const struct kern_option *table, uint32_t mask,
                      struct kern_error *err)
{
    size_t more = 0;
    for (const struct kern_option *def = table; def != NULL && def->name != NULL; def++)
        more += (def->flags & mask) != 0;
    if (more == 0)
        return 0;
    const struct kern_option **grown = reallocarray(schema->def, schema->count + more, sizeof(*grown));
    if (grown == NULL)
        return kern_fail(err, ENOMEM, "cannot list the keys of %s", schema->title);
    schema->def = grown;
    for (const struct kern_option *def = table; def->name != NULL; def++)
        if ((def->flags & mask) != 0 && config_schema_option(schema, def->name) == NULL)
            grown[schema->count++] = def;
    return 0;
}

const struct kern_option *config_schema_option(const struct config_schema *schema, const char *name)
{
    for (size_t i = 0; i < schema->count; i++)
        if (strcmp(schema->def[i]->name, name) == 0)
            return schema->def[i];
    return NULL;
}

const struct kern_option *config_schema_find(const struct config_schema *schema, const struct toml_node *key)
{
    for (size_t i = 0; i < schema->count; i++)
        if (core_option_is_named(schema->def[i]->name, key->key, key->key_length))
            return schema->def[i];
    return NULL;
}

/* Lists start empty: libconfuse would read a list's default with its own text parser. */
static void make_option(const struct kern_option *def, const struct core_parsed *fallback, cfg_opt_t *ret_opt)
{
    cfg_flag_t flags = (def->flags & KERN_OPT_LIST) != 0 ? CFGF_LIST | CFGF_NODEFAULT
                       : def->fallback == NULL           ? CFGF_NODEFAULT
                                                         : CFGF_NONE;
    switch (def->type) {
    case KERN_INT:
        *ret_opt = (cfg_opt_t)CFG_INT(def->name, (long)fallback->number, flags);
        break;
    case KERN_FLOAT:
        *ret_opt = (cfg_opt_t)CFG_FLOAT(def->name, fallback->real, flags);
        break;
    case KERN_BOOL:
        *ret_opt = (cfg_opt_t)CFG_BOOL(def->name, fallback->number != 0 ? cfg_true : cfg_false, flags);
        break;
    default: /* sizes and durations stay text, so that --show-config can repeat what the user wrote */
        *ret_opt = (cfg_opt_t)CFG_STR(def->name, (flags & CFGF_NODEFAULT) != 0 ? NULL : def->fallback, flags);
        break;
    }
}

/* The pointer that is stored is the "text" itself: libconfuse has no setter for its pointer type. */
static int take_pointer(cfg_t *cfg, cfg_opt_t *opt, const char *value, void *result)
{
    (void)cfg, (void)opt; /* the callback's signature */
    memcpy(result, &value, sizeof(value));
    return 0;
}

int config_schema_finish(struct config_schema *schema, struct kern_error *err)
{
    cfg_opt_t *opt = calloc(schema->count + 2, sizeof(*opt));
    if (opt == NULL)
        return kern_fail(err, ENOMEM, "cannot list the keys of %s", schema->title);
    free(schema->opt);
    schema->opt = opt;
    for (size_t i = 0; i < schema->count; i++) {
        const struct kern_option *def = schema->def[i];
        struct core_parsed fallback = {0};
        int r = def->fallback != NULL ? core_option_parse(def, def->fallback, def->name, &fallback, err) : 0;
        if (r < 0)
            return r;
        make_option(def, &fallback, &opt[i]);
    }
    opt[schema->count] = (cfg_opt_t)CFG_PTR_CB(CONFIG_CONTEXT, NULL, CFGF_NODEFAULT, take_pointer, NULL);
    opt[schema->count + 1] = (cfg_opt_t)CFG_END();
    return 0;
}
