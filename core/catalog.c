/* The catalog: the built-in plugins by their manifests, and the third-party ones that the loader adds. Host
 * side, before the box exists. */
#include "catalog.h"

#include "cleanup.h"
#include "core_manifest.h"

#include "audit/audit_manifest.h"
#include "cgroup/cgroup_manifest.h"
#include "creds/creds_manifest.h"
#include "egress/egress_manifest.h"
#include "egress/egress_rules.h"
#include "example/example_manifest.h"
#include "gpu/gpu_check.h"
#include "gpu/gpu_manifest.h"
#include "image/image_manifest.h"
#include "namespace/namespace_manifest.h"
#include "net/net_manifest.h"
#include "rootfs/rootfs_manifest.h"
#include "seccomp/seccomp_manifest.h"
#include "timens/timens_manifest.h"
#include "vcpu/vcpu_check.h"
#include "vcpu/vcpu_manifest.h"
#include "vdisk/vdisk_check.h"
#include "vdisk/vdisk_manifest.h"
#include "vgpio/vgpio_check.h"
#include "vgpio/vgpio_manifest.h"
#include "view/view_manifest.h"

#include <stdio.h>
#include <string.h>

#define TABLE(...) .table = {.struct_size = sizeof(struct kern_plugin), .abi = KERN_ABI, __VA_ARGS__}

struct builtin {
    struct kern_plugin table;
    bool always;
};

static const struct builtin builtins[] = {
    {TABLE(.name = "core", .version = KERN_VERSION, .summary = "the engine itself",
           .options = core_option_table),
     .always = true},
    {TABLE(NAMESPACE_MANIFEST), .always = true},
    {TABLE(ROOTFS_MANIFEST), .always = true},
    {TABLE(CGROUP_MANIFEST), .always = true},
    {TABLE(NET_MANIFEST), .always = true},
    {TABLE(EGRESS_MANIFEST, .check = egress_check_profile), .always = false}, /* wanted with its options */
    {TABLE(VIEW_MANIFEST), .always = true},
    {TABLE(CREDS_MANIFEST), .always = true},
    {TABLE(SECCOMP_MANIFEST), .always = true},
    /* Its judgement of a profile is pure and compiled into kern too, so that a kern.toml is refused when it
     * is read and without opening the plugin. */
    {TABLE(VCPU_MANIFEST, .check = vcpu_check), .always = false},
    {TABLE(VDISK_MANIFEST, .check = vdisk_check), .always = false},
    {TABLE(IMAGE_MANIFEST), .always = false}, /* wanted with --image */
    {TABLE(VGPIO_MANIFEST, .check = vgpio_check), .always = false},
    {TABLE(AUDIT_MANIFEST), .always = false}, /* wanted with --audit */
    {TABLE(TIMENS_MANIFEST), .always = false},
    {TABLE(GPU_MANIFEST, .check = gpu_check), .always = false},
    {TABLE(EXAMPLE_MANIFEST), .always = false},
};

/* Tables of kern.toml that no third party may serve. */
static const char *const reserved[] = {"box", "plugin", "registry", "host", NULL};

static struct core_plugin *push(struct core_catalog *catalog, const struct kern_plugin *table)
{
    struct core_plugin *grown = reallocarray(catalog->plugin, catalog->count + 1, sizeof(*grown));
    if (grown == NULL)
        return NULL;
    catalog->plugin = grown;
    struct core_plugin *plugin = &grown[catalog->count++];
    *plugin = (struct core_plugin){.table = table, .name = table->name};
    return plugin;
}

int core_catalog_builtin(struct core_catalog *ret_catalog, struct kern_error *err)
{
    cleanup(core_catalog_clear) struct core_catalog catalog = {0};
    for (size_t i = 0; i < sizeof(builtins) / sizeof(builtins[0]); i++) {
        struct core_plugin *plugin = push(&catalog, &builtins[i].table);
        if (plugin == NULL)
            return kern_fail(err, ENOMEM, "cannot list the plugins of kern");
        plugin->builtin = true;
        plugin->always = builtins[i].always;
        plugin->wanted = builtins[i].always;
        plugin->loaded = i == 0; /* the engine has no object to open */
    }
    *ret_catalog = catalog;
    catalog = (struct core_catalog){0};
    return 0;
}

/* The row that already serves this word, as a profile or as a pool. */
static const struct core_plugin *server_of(const struct core_catalog *catalog, const char *word)
{
    for (size_t i = 0; i < catalog->count; i++) {
        const struct kern_plugin *table = catalog->plugin[i].table;
        if ((table->profile != NULL && strcmp(table->profile, word) == 0) ||
            (table->pool != NULL && strcmp(table->pool, word) == 0))
            return &catalog->plugin[i];
    }
    return NULL;
}

static int check_word(const struct core_catalog *catalog, const struct kern_plugin *table, const char *word,
                      struct kern_error *err)
{
    if (word == NULL)
        return 0;
    for (const char *const *name = reserved; *name != NULL; name++)
        if (strcmp(*name, word) == 0)
            return kern_refuse(err, 0, "cannot add plugin \"%s\": the table \"%s\" belongs to kern itself",
                               table->name, word);
    const struct core_plugin *other = server_of(catalog, word);
    if (other != NULL)
        return kern_refuse(err, 0, "cannot add plugin \"%s\": plugin \"%s\" already serves \"%s\"",
                           table->name, other->name, word);
    return 0;
}

/* [[plugin]] has keys of its own, which would be taken for the plugin's. */
static int check_keys(const struct kern_plugin *table, struct kern_error *err)
{
    static const char *const taken[] = {"name", "path", "enabled"};
    for (const struct kern_option *option = table->options; option != NULL && option->name != NULL; option++)
        for (size_t i = 0; (option->flags & KERN_OPT_PLUGIN) != 0 && i < sizeof(taken) / sizeof(taken[0]);
             i++)
            if (strcmp(option->name, taken[i]) == 0)
                return kern_refuse(
                    err, 0,
                    "cannot add plugin \"%s\": its option \"%s\" is a key that every [[plugin]] has already",
                    table->name, option->name);
    return 0;
}

static bool is_flag(const struct kern_option *option)
{
    return (option->flags & KERN_OPT_FLAG) != 0;
}

/* The option of `other` whose flag is spelled like --NAME-OPTION, or NULL. */
static const struct kern_option *same_flag(const struct core_plugin *other, const char *name,
                                           const char *option)
{
    const char *prefix = other->builtin ? "" : other->name, *dash = other->builtin ? "" : "-";
    char mine[128], theirs[128];
    (void)snprintf(mine, sizeof(mine), "%s-%s", name,
                   option); /* what is longer cannot be typed: args_flag.c */
    for (const struct kern_option *def = other->table->options; def != NULL && def->name != NULL; def++) {
        const char *const spellings[] = {def->name, def->alias};
        for (size_t i = 0; is_flag(def) && i < 2 && spellings[i] != NULL; i++) {
            (void)snprintf(theirs, sizeof(theirs), "%s%s%s", prefix, dash, spellings[i]); /* as above */
            if (strcmp(mine, theirs) == 0)
                return def;
        }
    }
    return NULL;
}

/* Only a name that begins or continues another one can make the same flag: nothing is spelled out for the rest. */
static bool may_share_flags(const struct core_plugin *other, const char *name)
{
    size_t length = strlen(name), theirs = strlen(other->name);
    if (!other->builtin)
        return strncmp(other->name, name, theirs < length ? theirs : length) == 0;
    for (const struct kern_option *def = other->table->options; def != NULL && def->name != NULL; def++)
        if (is_flag(def) &&
            ((strncmp(def->name, name, length) == 0 && def->name[length] == '-') ||
             (def->alias != NULL && strncmp(def->alias, name, length) == 0 && def->alias[length] == '-')))
            return true;
    return false;
}

/* Whoever types the flag would set the option of the one that happens to be looked at first. */
static int check_flags(const struct core_catalog *catalog, const struct kern_plugin *table,
                       struct kern_error *err)
{
    for (size_t i = 0; i < catalog->count; i++) {
        const struct core_plugin *other = &catalog->plugin[i];
        if (!may_share_flags(other, table->name))
            continue;
        for (const struct kern_option *option = table->options; option != NULL && option->name != NULL;
             option++) {
            bool taken = is_flag(option) &&
                         (same_flag(other, table->name, option->name) != NULL ||
                          (option->alias != NULL && same_flag(other, table->name, option->alias) != NULL));
            if (!taken)
                continue;
            kern_refuse(err, 0, "cannot add plugin \"%s\": its flag --%s-%s is one of plugin \"%s\" already",
                        table->name, table->name, option->name, other->name);
            kern_hint(err, "take one of the two out of kern.toml; its author has to name the option, or the "
                           "plugin, otherwise");
            return -EEXIST;
        }
    }
    return 0;
}

int core_catalog_add(struct core_catalog *catalog, const struct kern_plugin *table, const char *path,
                     struct core_plugin **ret_plugin, struct kern_error *err)
{
    if (core_catalog_find(catalog, table->name) != NULL)
        return kern_refuse(err, 0, "cannot add plugin \"%s\" from \"%s\": there is one of that name already",
                           table->name, path != NULL ? path : "(built in)");
    int r = check_word(catalog, table, table->profile, err);
    if (r == 0)
        r = check_word(catalog, table, table->pool, err);
    if (r == 0)
        r = check_keys(table, err);
    if (r == 0)
        r = check_flags(catalog, table, err);
    cleanup(core_values_clear) struct kern_values own = {0};
    if (r == 0)
        r = core_values_add(&own, table->options, KERN_OPT_FLAG | KERN_OPT_PLUGIN, err);
    if (r < 0)
        return r;
    auto_free char *copy = path != NULL ? strdup(path) : NULL;
    struct core_plugin *plugin = path == NULL || copy != NULL ? push(catalog, table) : NULL;
    if (plugin == NULL)
        return kern_fail(err, ENOMEM, "cannot add plugin \"%s\"", table->name);
    plugin->path = steal_ptr(copy);
    plugin->loaded = true;
    plugin->own = own;
    own = (struct kern_values){0};
    *ret_plugin = plugin;
    return 0;
}

static void clear_plugin(struct core_plugin *plugin)
{
    if (plugin->completed)
        free((void *)(uintptr_t)plugin->table); /* made by calloc() */
    for (uint32_t i = 0; i < plugin->profile_count; i++) {
        free(plugin->profile[i].name);
        core_values_clear(&plugin->profile[i].values);
        core_values_clear(&plugin->profile[i].pool);
    }
    free(plugin->profile);
    core_values_clear(&plugin->own);
    free(plugin->path);
}

void core_catalog_clear(struct core_catalog *catalog)
{
    if (catalog == NULL)
        return;
    for (size_t i = 0; i < catalog->count; i++)
        clear_plugin(&catalog->plugin[i]);
    free(catalog->plugin);
    *catalog = (struct core_catalog){0};
}

struct core_plugin *core_catalog_find(const struct core_catalog *catalog, const char *name)
{
    for (size_t i = 0; i < catalog->count; i++)
        if (strcmp(catalog->plugin[i].name, name) == 0)
            return &catalog->plugin[i];
    return NULL;
}

struct core_plugin *core_catalog_kind(const struct core_catalog *catalog, const char *kind)
{
    for (size_t i = 0; i < catalog->count; i++) {
        const char *profile = catalog->plugin[i].table->profile;
        if (profile != NULL && strcmp(profile, kind) == 0)
            return &catalog->plugin[i];
    }
    return NULL;
}

bool core_catalog_is_manifest(const struct kern_plugin *table)
{
    for (size_t i = 0; i < sizeof(builtins) / sizeof(builtins[0]); i++)
        if (table == &builtins[i].table)
            return true;
    return false;
}

bool core_catalog_runs_bare(const struct core_plugin *plugin)
{
    if (plugin->builtin)
        return plugin->table->stage == KERN_STAGE_LIMIT;
    const struct kern_option *option = plugin->table->options;
    while (option != NULL && option->name != NULL && (option->flags & KERN_OPT_RUN) == 0)
        option++;
    return option != NULL && option->name != NULL;
}
