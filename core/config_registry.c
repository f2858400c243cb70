/* [registry] of kern.toml: its keys checked when the file is read, its values for the registry client. Host side. Who is
 * asked for images, and where secrets go, is nothing that somebody else's file may decide. */
#include "config_internal.h"

#include "image/registry_manifest.h"

#include "cleanup.h"

#include <kern/foundation.h>

#include <stdio.h>
#include <stdlib.h>

static int make_schema(struct config_schema *schema, struct kern_error *err)
{
    (void)snprintf(schema->title, sizeof(schema->title), "[registry]"); /* fits */
    int r = config_schema_add(schema, registry_option_table, KERN_OPT_PLUGIN, err);
    return r < 0 ? r : config_schema_finish(schema, err);
}

static int fill(const struct core_config *config, const struct toml_node *node, struct config_schema *schema,
                struct config_table *ret_table, struct kern_error *err)
{
    if (node->type != TOML_TABLE)
        return kern_refuse(err, 0, "%s: \"registry\" must be one table, under a line [registry]",
                           config_at(config, node->line, node->column).text);
    int r = make_schema(schema, err);
    return r < 0 ? r : config_table_fill(config, schema, node, ret_table, err);
}

int config_registry_check(const struct core_config *config, struct kern_error *err)
{
    const struct toml_node *node = config_find(core_toml_root(config->lazy->doc), "registry");
    if (node == NULL)
        return 0;
    cleanup(config_schema_clear) struct config_schema schema = {0};
    cleanup(config_table_clear) struct config_table table = {0};
    if (config->trust == CORE_CONFIG_FOREIGN) {
        int r = kern_refuse(err, 0,
                            "%s: [registry] is not accepted from a file that --config or KERN_CONFIG names",
                            config_at(config, node->line, node->column).text);
        kern_hint(err, "put it in your own kern.toml");
        return r;
    }
    return fill(config, node, &schema, &table, err);
}

static void drop_config(struct core_config **config)
{
    core_config_free(*config);
}

/* The file as a whole is read as for a box: what makes it unfit there makes it unfit here. */
static int read_own(kern_values *values, struct kern_error *err)
{
    cleanup(core_catalog_clear) struct core_catalog catalog = {0};
    cleanup(drop_config) struct core_config *config = NULL;
    cleanup(config_source_clear) struct config_source source = {0};
    cleanup(config_schema_clear) struct config_schema schema = {0};
    cleanup(config_table_clear) struct config_table table = {0};
    int r = core_catalog_builtin(&catalog, err);
    r = r < 0 ? r : config_source_read_own(&source, err);
    if (r < 0 || source.text == NULL)
        return r;
    r = config_parse(&source, &catalog, &config, NULL, NULL, err);
    if (r < 0)
        return r;
    const struct toml_node *root;
    r = config_root(config, &root, err);
    const struct toml_node *node = r == 0 ? config_find(root, "registry") : NULL;
    if (node == NULL)
        return r;
    r = fill(config, node, &schema, &table, err);
    return r < 0 ? r : config_table_apply(config, &table, values, false, err);
}

/* A file that KERN_CONFIG names decides nothing here, and is not passed over silently: it is refused for [registry] as a box
 * would refuse it. */
static int check_chosen(struct kern_error *err)
{
    cleanup(core_catalog_clear) struct core_catalog catalog = {0};
    cleanup(drop_config) struct core_config *config = NULL;
    cleanup(config_source_clear) struct config_source source = {0};
    int r = config_source_read(NULL, &source, err);
    if (r < 0 || source.trust != CORE_CONFIG_FOREIGN)
        return r;
    r = core_catalog_builtin(&catalog, err);
    return r < 0 ? r : config_parse(&source, &catalog, &config, NULL, NULL, err);
}

void kern_registry_close(kern_values *settings)
{
    if (settings == NULL)
        return;
    core_values_clear(settings);
    free(settings);
}

static void drop_values(kern_values **values)
{
    kern_registry_close(*values);
}

int kern_registry_open(kern_values **ret_settings, struct kern_error *err)
{
    cleanup(drop_values) kern_values *values = calloc(1, sizeof(*values));
    if (values == NULL)
        return kern_fail(err, ENOMEM, "cannot keep [registry] of kern.toml");
    int r = core_values_add(values, registry_option_table, KERN_OPT_PLUGIN, err);
    r = r < 0 ? r : check_chosen(err);
    r = r < 0 ? r : read_own(values, err);
    if (r < 0)
        return r;
    *ret_settings = steal_ptr(values);
    return 0;
}
