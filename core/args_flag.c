/* Flags: from their spelling to the option tables and to the values; see args_flag.h. Pure, in kern itself. */
#include "args_flag.h"

#include "cleanup.h"

#include <string.h>

/* --PLUGIN-OPTION is the longest spelling: 31 + 1 + what an option may be called. */
#define SPELLING 128

static bool is_flag(const struct kern_option *def)
{
    return (def->flags & KERN_OPT_FLAG) != 0;
}

static bool spells(const char *name, const char *typed, size_t length)
{
    return name != NULL && strncmp(name, typed, length) == 0 && name[length] == '\0';
}

static bool find_long(struct core_plugin *plugin, const char *typed, size_t length,
                      struct core_flag *ret_flag)
{
    const struct kern_option *def = plugin->table->options;
    for (; def != NULL && def->name != NULL; def++) {
        bool alias = spells(def->alias, typed, length);
        if (!is_flag(def) || (!alias && !spells(def->name, typed, length)))
            continue;
        *ret_flag = (struct core_flag){.def = def, .plugin = plugin, .alias = alias};
        return true;
    }
    return false;
}

/* Flags of third-party plugins carry the plugin's name, so that no plugin can take a flag from another. */
static bool find_prefixed(struct core_plugin *plugin, const char *typed, size_t length,
                          struct core_flag *ret_flag)
{
    size_t prefix = strlen(plugin->name);
    if (length <= prefix + 1 || strncmp(typed, plugin->name, prefix) != 0 || typed[prefix] != '-')
        return false;
    return find_long(plugin, typed + prefix + 1, length - prefix - 1, ret_flag);
}

bool core_flag_long(const struct core_catalog *catalog, const char *word, size_t length,
                    struct core_flag *ret_flag)
{
    for (size_t i = 0; i < catalog->count; i++) {
        struct core_plugin *plugin = &catalog->plugin[i];
        struct core_flag flag;
        bool found = plugin->builtin ? find_long(plugin, word + 2, length - 2, &flag)
                                     : find_prefixed(plugin, word + 2, length - 2, &flag);
        if (!found)
            continue;
        (void)snprintf(flag.where, sizeof(flag.where), "%.*s", (int)length, word); /* a cut name is a name */
        *ret_flag = flag;
        return true;
    }
    return false;
}

bool core_flag_letter(const struct core_catalog *catalog, char letter, struct core_flag *ret_flag)
{
    for (size_t i = 0; i < catalog->count; i++) {
        struct core_plugin *plugin = &catalog->plugin[i];
        const struct kern_option *def = plugin->builtin ? plugin->table->options : NULL;
        for (; def != NULL && def->name != NULL; def++) {
            if (!is_flag(def) || def->letter == NULL || def->letter[0] != letter)
                continue;
            *ret_flag = (struct core_flag){.def = def, .plugin = plugin};
            (void)snprintf(ret_flag->where, sizeof(ret_flag->where), "--%s", def->name); /* as above */
            return true;
        }
    }
    return false;
}

int core_flag_set(const struct core_flag *flag, struct kern_values *box, const char *text,
                  struct kern_error *err)
{
    const struct kern_values *values = flag->plugin->builtin ? box : &flag->plugin->own;
    struct core_value *value = core_values_find(values, flag->def->name);
    if (value == NULL)
        return kern_refuse(err, 0, "%s has a flag but no value: a fault of the option table of \"%s\"",
                           flag->where, flag->plugin->name);
    return core_value_set(value, text, KERN_FROM_FLAG, flag->where, err);
}

/* ---- The nearest flag: only on the way to an error, so clarity comes before speed -------------------- */

struct spellings {
    char (*text)[SPELLING];
    const char **word;
    size_t count;
};

static void add_spelling(struct spellings *all, const struct core_plugin *plugin, const char *name)
{
    if (name == NULL)
        return;
    char *text = all->text[all->count];
    (void)snprintf(text, SPELLING, "%s%s%s", plugin->builtin ? "" : plugin->name, plugin->builtin ? "" : "-",
                   name); /* a cut spelling is only not suggested */
    all->word[all->count++] = text;
}

static size_t count_options(const struct core_catalog *catalog)
{
    size_t count = 0;
    for (size_t i = 0; i < catalog->count; i++) {
        const struct kern_option *def = catalog->plugin[i].table->options;
        for (; def != NULL && def->name != NULL; def++)
            count++;
    }
    return count;
}

static void collect(const struct core_catalog *catalog, struct spellings *all)
{
    for (size_t i = 0; i < catalog->count; i++) {
        const struct core_plugin *plugin = &catalog->plugin[i];
        const struct kern_option *def = plugin->table->options;
        for (; def != NULL && def->name != NULL; def++) {
            /* Naming a flag that would be refused in turn helps nobody. */
            if (!is_flag(def) || (def->flags & KERN_OPT_LATER) != 0)
                continue;
            add_spelling(all, plugin, def->name);
            add_spelling(all, plugin, def->alias);
        }
    }
    all->word[all->count] = NULL;
}

int core_flag_unknown(const struct core_catalog *catalog, const char *verb, const char *word,
                      struct kern_error *err)
{
    int length = (int)strcspn(word, "=");
    int result = kern_refuse(err, 0, "unknown option \"%.*s\"", length, word);

    size_t room = 2 * count_options(catalog) + 1;
    auto_free char(*text)[SPELLING] = calloc(room, sizeof(*text));
    auto_free const char **list = calloc(room, sizeof(*list));
    const char *nearest = NULL;
    char typed[SPELLING];
    (void)snprintf(typed, sizeof(typed), "%.*s", length, word); /* nothing is near a name this long */
    if (text != NULL && list != NULL) {
        struct spellings all = {.text = text, .word = list};
        collect(catalog, &all);
        nearest = core_nearest(typed + strspn(typed, "-"), list);
    }
    if (nearest != NULL)
        kern_hint(err, "did you mean --%s? All options: kern %s --help", nearest, verb);
    else
        kern_hint(err, "all options: kern %s --help", verb);
    return result;
}
