/* See declared.h. Host side. */
#include "declared.h"

#include "cleanup.h"
#include "plugin.h"

static int add_entry(struct core_catalog *catalog, const struct core_config *config,
                     const struct core_plugin_entry *entry, size_t index, struct kern_error *err)
{
    bool trusted = core_config_trust(config) != CORE_CONFIG_FOREIGN;
    struct core_plugin *plugin = entry->name != NULL ? core_catalog_find(catalog, entry->name) : NULL;
    if (plugin != NULL && plugin->always && !entry->enabled)
        return kern_refuse(err, 0, "%s:%d: plugin \"%s\" cannot be left out: it takes part in every box",
                           core_config_path(config), entry->line, plugin->name);
    if (!entry->enabled)
        return 0;
    if (plugin != NULL) {
        plugin->wanted = true;
        return 0;
    }
    int failed = entry->path != NULL ? core_plugin_add_path(catalog, entry->path, &plugin, err)
                                     : core_plugin_add_named(catalog, entry->name, trusted, &plugin, err);
    if (failed == 0)
        failed = core_config_plugin_values(config, index, plugin, err);
    if (failed == 0)
        plugin->wanted = true;
    return failed;
}

int core_declared_add(struct core_catalog *catalog, const struct core_config *config, struct kern_error *err)
{
    const struct core_plugin_entry *entry = NULL;
    size_t count = core_config_plugins(config, &entry);
    int failed = 0;
    for (size_t i = 0; failed == 0 && i < count; i++)
        failed = add_entry(catalog, config, &entry[i], i, err);
    return failed;
}

void core_declared_show(struct core_catalog *catalog)
{
    struct core_config *config = NULL;
    const struct core_plugin_entry *entry = NULL;
    struct kern_error ignored = {0};
    if (core_config_load(NULL, catalog, &config, NULL, NULL, &ignored) == 0 &&
        core_config_trust(config) == CORE_CONFIG_OWN) {
        size_t count = core_config_plugins(config, &entry);
        for (size_t i = 0; i < count; i++) {
            struct kern_error each = {0};
            (void)add_entry(catalog, config, &entry[i], i, &each); /* a box will say it */
        }
    }
    core_config_free(config);
}
