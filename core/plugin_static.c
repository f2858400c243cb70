/* The plugins of a build with -DKERN_BUILTIN_PLUGINS=ON: compiled in, and no others. Stands in for plugin.c. Host side. */
#include "plugin.h"

#include "builtin_list.h"
#include "error.h"
#include "vgpio/vgpio_probe.h"

#include <errno.h>
#include <linux/filter.h>
#include <string.h>

#define TABLE(name) extern const struct kern_plugin kern_builtin_##name;
KERN_BUILTIN_LIST(TABLE)
#undef TABLE

#define TABLE(name) &kern_builtin_##name,
static const struct kern_plugin *const builtin_tables[] = {KERN_BUILTIN_LIST(TABLE)};
#undef TABLE

int core_plugin_directory(char *ret_path, size_t size, struct kern_error *err)
{
    (void)err; /* the other build can fail here */
    if (size > 0)
        ret_path[0] = '\0';
    return 0;
}

static const struct kern_plugin *find_table(const char *name)
{
    for (size_t i = 0; i < sizeof(builtin_tables) / sizeof(builtin_tables[0]); i++)
        if (strcmp(builtin_tables[i]->name, name) == 0)
            return builtin_tables[i];
    return NULL;
}

int core_plugin_load_wanted(struct core_catalog *catalog, struct kern_error *err)
{
    for (size_t i = 0; i < catalog->count; i++) {
        struct core_plugin *plugin = &catalog->plugin[i];
        if (!plugin->wanted || plugin->loaded || !plugin->builtin || plugin->table->stage == 0)
            continue;
        const struct kern_plugin *table = find_table(plugin->name);
        if (table == NULL)
            return kern_fail(err, ENOENT, "plugin \"%s\" is not compiled in", plugin->name);
        plugin->table = table;
        plugin->loaded = true;
    }
    return 0;
}

static int refuse_external(const char *which, struct kern_error *err)
{
    kern_refuse(err, 0, "cannot load plugin \"%s\": this kern was built with its plugins compiled in", which);
    kern_hint(err, "use a kern built without -DKERN_BUILTIN_PLUGINS=ON");
    return -ENOSYS;
}

extern int seccomp_json_compile(const char *text, size_t len, const char *file, uint64_t caps,
                                struct sock_filter **ret_prog, size_t *ret_len, uint32_t *ret_skipped,
                                struct kern_error *err);
extern int image_tool(const char *verb, int count, char **words, const kern_values *values,
                      struct kern_error *err);
extern int image_tool_has(const char *text);
struct image_fill;
extern int image_tool_fill(const struct image_fill *fill, struct kern_error *err);
extern int image_tool_remove(int folder, const char *name);
extern int image_tool_repair(const char *full, int want_range, struct kern_error *err);

bool core_plugin_is_foundation(const char *function)
{
    (void)function; /* nobody from outside calls one */
    return false;
}

void *core_plugin_companion(const char *object, const char *function, struct kern_error *err)
{
    if (strcmp(function, "seccomp_json_compile") == 0)
        return (void *)seccomp_json_compile;
    if (strcmp(function, "vgpio_probe") == 0)
        return (void *)vgpio_probe;
    if (strcmp(function, "image_tool") == 0)
        return (void *)image_tool;
    if (strcmp(function, "image_tool_has") == 0)
        return (void *)image_tool_has;
    if (strcmp(function, "image_tool_fill") == 0)
        return (void *)image_tool_fill;
    if (strcmp(function, "image_tool_remove") == 0)
        return (void *)image_tool_remove;
    if (strcmp(function, "image_tool_repair") == 0)
        return (void *)image_tool_repair;
    if (strcmp(object, "image_registry") == 0) {
        kern_refuse(err, 0, "cannot ask a registry: this kern was built with its plugins compiled in");
        kern_hint(err, "use an installed kern (cmake --install build; for the clients: "
                       "KERN_BIN=/usr/local/bin/kern), or: "
                       "kern load -i FILE");
        return NULL;
    }
    kern_refuse(err, ENOENT, "cannot load \"%s\"", object);
    return NULL;
}

int core_plugin_add_path(struct core_catalog *catalog, const char *path, struct core_plugin **ret_plugin,
                         struct kern_error *err)
{
    (void)catalog, (void)ret_plugin; /* same signature as the build that can */
    return refuse_external(path, err);
}

int core_plugin_add_named(struct core_catalog *catalog, const char *name, bool trusted_path,
                          struct core_plugin **ret_plugin, struct kern_error *err)
{
    (void)catalog, (void)trusted_path, (void)ret_plugin; /* same signature as the build that can */
    return refuse_external(name, err);
}
