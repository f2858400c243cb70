/* KIND:NAME on the command line: the profile it names, resolved and attached to its plugin, and its limits
 * handed to the box. Host side, before the box exists. */
#include "config_internal.h"

#include "cleanup.h"
#include "option_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The answer to core_config_names() for one kind, kept because its caller does not free it. */
struct config_names {
    char *kind;
    const char **name;
    struct config_names *next;
};

void config_names_free(struct config_names *names)
{
    while (names != NULL) {
        struct config_names *next = names->next;
        free(names->name);
        free(names->kind);
        free(names);
        names = next;
    }
}

/* Straight from the tree: the plugin that serves the kind need not be there to list its profiles. */
static struct config_names *collect(const struct toml_node *array, const char *kind)
{
    struct config_names *names = calloc(1, sizeof(*names));
    size_t count = 0;
    if (names == NULL)
        return NULL;
    names->kind = strdup(kind);
    names->name = calloc(core_toml_count(array) + 1, sizeof(*names->name));
    if (names->kind == NULL || names->name == NULL) {
        config_names_free(names);
        return NULL;
    }
    const struct toml_node *item;
    for (size_t i = 0; (item = core_toml_at(array, i)) != NULL; i++) {
        const struct toml_node *name = core_toml_get(item, "name");
        if (name != NULL && name->type == TOML_STRING)
            names->name[count++] = name->as.text.bytes;
    }
    return names;
}

const char *const *core_config_names(const struct core_config *config, const char *kind)
{
    static const char *const none[] = {NULL};
    for (const struct config_names *known = config->lazy->names; known != NULL; known = known->next)
        if (strcmp(known->kind, kind) == 0)
            return known->name;
    const struct toml_node *root;
    const struct toml_node *array = config_root(config, &root, NULL) == 0 ? config_find(root, kind) : NULL;
    struct config_names *names = array != NULL ? collect(array, kind) : NULL;
    if (names == NULL)
        return none;
    names->next = config->lazy->names;
    config->lazy->names = names;
    return names->name;
}

/* Only a name that a shell reads as itself goes into a command to copy. */
static bool is_plain(const char *name)
{
    return name[0] != '\0' &&
           name[strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")] == '\0' &&
           strlen(name) < 64;
}

static void hint_new_profile(const struct core_config *config, const char *kind, const char *name,
                             struct kern_error *err)
{
    const char *shown = is_plain(name) ? name : "NAME";
    char own[200];
    if (config->trust != CORE_CONFIG_COMPILED)
        kern_hint(err, "to make one: printf '\\n[[%s]]\\nname = \"%s\"\\n' >> '%s'", kind, shown,
                  config->path);
    else if (config_source_own_path(own, sizeof(own)) == 0)
        kern_hint(err,
                  "to make one: mkdir -p \"$(dirname '%s')\" && { kern examples; printf '\\n[[%s]]\\nname = "
                  "\"%s\"\\n'; } > '%s'",
                  own, kind, shown, own);
}

static int refuse_unknown(const struct core_config *config, const char *kind, const char *name,
                          struct kern_error *err)
{
    const char *const *names = core_config_names(config, kind);
    char list[160] = "";
    size_t used = 0;
    for (size_t i = 0; names[i] != NULL && used < sizeof(list); i++) {
        int n = snprintf(list + used, sizeof(list) - used, "%s%s", i == 0 ? "" : ", ", names[i]);
        used += n > 0 ? (size_t)n : 0; /* past the end: the list is cut, and the loop ends */
    }
    char near[96] = "";
    const char *word = core_nearest(name, names);
    if (word != NULL)
        (void)snprintf(near, sizeof(near), " (did you mean %s:%.60s?)", kind,
                       word); /* a cut hint still helps */
    char token[160];
    (void)snprintf(token, sizeof(token), "%s:%s", kind, name); /* a cut name is still recognised */
    int r = kern_refuse(err, 0, "there is no profile %s in \"%.120s\"%s; %s%s", core_option_quote(token).text,
                        config->path, near, used > 0 ? "there are: " : "it has none of this kind", list);
    hint_new_profile(config, kind, name, err);
    return r;
}

static int attach(struct core_plugin *plugin, struct core_profile *profile, struct kern_error *err)
{
    struct core_profile *grown = reallocarray(plugin->profile, plugin->profile_count + 1u, sizeof(*grown));
    if (grown == NULL)
        return kern_fail(err, ENOMEM, "cannot keep the profile \"%s\"", profile->name);
    plugin->profile = grown;
    grown[plugin->profile_count++] = *profile;
    *profile = (struct core_profile){0};
    return 0;
}

int core_config_profile(const struct core_config *config, struct core_plugin *plugin, const char *name,
                        struct kern_error *err)
{
    const struct config_kind *kind;
    int r = config_kind_open(config, plugin->table, &kind, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < kind->profile_count; i++) {
        if (kind->stands || strcmp(config_table_text(&kind->profile[i], "name"), name) != 0)
            continue;
        cleanup(config_profile_clear) struct core_profile profile = {0};
        r = config_kind_resolve(config, kind, i, plugin->table, &profile, err);
        return r < 0 ? r : attach(plugin, &profile, err);
    }
    if (!kind->stands)
        return refuse_unknown(config, plugin->table->profile, name, err);
    r = kern_refuse(err, 0,
                    "there is no profile \"%s:%.100s\" in \"%.200s\": its table [%s] is for every box",
                    kind->name, name, config->path, kind->name);
    kern_hint(err, "write [[%s]] and a name in place of [%s] for what is attached by name", kind->name,
              kind->name);
    return r;
}

int core_config_standing(const struct core_config *config, struct core_plugin *plugin, struct kern_error *err)
{
    const struct config_kind *kind;
    cleanup(config_profile_clear) struct core_profile profile = {0};
    if (config->trust == CORE_CONFIG_COMPILED || plugin->table->profile == NULL ||
        (plugin->table->flags & KERN_PLUGIN_STANDING) == 0)
        return 0; /* the compiled default has none, and need not be read for that */
    int r = config_kind_open(config, plugin->table, &kind, err);
    if (r < 0 || !kind->stands)
        return r;
    r = config_kind_resolve(config, kind, 0, plugin->table, &profile, err);
    r = r < 0 ? r : attach(plugin, &profile, err);
    return r < 0 ? r : 1;
}

static int apply_value(const struct core_value *from, const char *where, struct core_value *to,
                       struct kern_error *err)
{
    if ((from->def->flags & KERN_OPT_LIST) == 0)
        return core_value_set(to, from->text, KERN_FROM_PROFILE, where, err);
    for (uint32_t i = 0; i < from->item_count; i++) {
        int r = core_value_set(to, from->item[i], KERN_FROM_PROFILE, where, err);
        if (r < 0)
            return r;
    }
    return 0;
}

/* A limit that two profiles set. Lists grow instead, so nothing is lost there. */
static bool is_replaced(const struct core_value *value, const char *where)
{
    return value->source == KERN_FROM_PROFILE && (value->def->flags & KERN_OPT_LIST) == 0 &&
           strcmp(value->where, where) != 0;
}

int core_config_apply_profile(const struct core_profile *profile, const char *kind, struct kern_values *box,
                              void (*note)(void *data, const char *text), void *data, struct kern_error *err)
{
    char where[96], text[320];
    (void)snprintf(where, sizeof(where), profile->name[0] != '\0' ? "%s:%s" : "[%s]%s", kind,
                   profile->name); /* a cut name is still recognised */
    for (size_t i = 0; i < profile->values.count; i++) {
        const struct core_value *from = &profile->values.value[i];
        struct core_value *to = core_values_find(box, from->def->name);
        /* A default of the profile's table says nothing about the box. */
        if (to == NULL || (to->def->flags & KERN_OPT_BOX) == 0 || (from->def->flags & KERN_OPT_APART) != 0 ||
            from->source == KERN_FROM_DEFAULT)
            continue;
        bool replaced = is_replaced(to, where);
        if (replaced)
            (void)snprintf(text, sizeof(text), "%s and %s both set %s; the later, %s, wins", to->where, where,
                           to->def->name, from->text); /* a cut note is still a note */
        int r = apply_value(from, where, to, err);
        if (r < 0)
            return r;
        if (replaced && note != NULL)
            note(data, text);
    }
    return 0;
}
