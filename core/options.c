/* A set of options and their values: defaults from the tables, then what the file, the profiles and the
 * command line say, by rank. Host side; the getters that plugins call are in values.c. */
#include "options.h"

#include "cleanup.h"
#include "option_check.h"

#include <stdlib.h>
#include <string.h>

/* The texts of one setting, before anybody owns them. */
struct texts {
    char **item;
    uint32_t count;
};

static void clear_texts(struct texts *texts)
{
    for (uint32_t i = 0; i < texts->count; i++)
        free(texts->item[i]);
    free(texts->item);
    *texts = (struct texts){0};
}

static void clear_value(struct core_value *value)
{
    struct texts items = {value->item, value->item_count};
    clear_texts(&items);
    free(value->text);
    value->text = NULL;
    value->item = NULL;
    value->item_count = 0;
}

void core_values_clear(struct kern_values *values)
{
    if (values == NULL)
        return;
    for (size_t i = 0; i < values->count; i++)
        clear_value(&values->value[i]);
    free(values->value);
    *values = (struct kern_values){0};
}

struct core_value *core_values_find(const struct kern_values *values, const char *name)
{
    for (size_t i = 0; i < values->count; i++)
        if (strcmp(values->value[i].def->name, name) == 0)
            return &values->value[i];
    return NULL;
}

static int add_one(struct core_value *value, const struct kern_option *def, struct kern_error *err)
{
    *value = (struct core_value){.def = def, .source = KERN_FROM_DEFAULT, .where = "default"};
    if (def->fallback == NULL)
        return 0;
    return core_value_set(value, def->fallback, KERN_FROM_DEFAULT, "default", err);
}

int core_values_add(struct kern_values *values, const struct kern_option *table, uint32_t mask,
                    struct kern_error *err)
{
    size_t wanted = 0;
    for (const struct kern_option *def = table; def != NULL && def->name != NULL; def++)
        wanted += (def->flags & mask) != 0;
    if (wanted == 0)
        return 0;
    struct core_value *grown = reallocarray(values->value, values->count + wanted, sizeof(*grown));
    if (grown == NULL)
        return kern_fail(err, ENOMEM, "cannot keep %zu options", wanted);
    values->value = grown;
    size_t before = values->count;
    for (const struct kern_option *def = table; def->name != NULL; def++) {
        if ((def->flags & mask) == 0)
            continue;
        int r = add_one(&grown[values->count], def, err);
        if (r < 0) {
            clear_value(&grown[values->count]);
            while (values->count > before)
                clear_value(&grown[--values->count]);
            return r;
        }
        values->count++;
    }
    return 0;
}

/* A flag names itself; a place in a file or a profile needs the key beside it. */
static void name_place(char *prefix, size_t size, const struct kern_option *def, const char *where)
{
    (void)snprintf(prefix, size, "%s%s%s", where, where[0] == '-' ? "" : ": ",
                   where[0] == '-' ? "" : def->name); /* a cut place still leads there */
}

static const char *text_when_missing(const struct kern_option *def)
{
    if ((def->flags & KERN_OPT_OPTIONAL) != 0)
        return def->implied;
    return def->type == KERN_BOOL ? "true" : NULL;
}

static int push_text(struct texts *texts, const char *text, size_t length)
{
    char **grown = reallocarray(texts->item, texts->count + 1u, sizeof(*grown));
    if (grown == NULL)
        return -ENOMEM;
    texts->item = grown;
    grown[texts->count] = strndup(text, length);
    if (grown[texts->count] == NULL)
        return -ENOMEM;
    texts->count++;
    return 0;
}

/* "A,B" into its items for the options that say so, else the text as the only item. */
static int split(const struct kern_option *def, const char *text, struct texts *texts)
{
    bool commas = (def->flags & KERN_OPT_COMMAS) != 0;
    for (;;) {
        size_t length = commas ? strcspn(text, ",") : strlen(text);
        int r = push_text(texts, text, length);
        if (r < 0 || text[length] == '\0')
            return r;
        text += length + 1;
    }
}

static int refuse_empty(const char *prefix, struct kern_error *err)
{
    kern_refuse(err, 0, "%s: an item of the list is empty", prefix);
    kern_hint(err, "write A,B with something on both sides of each comma, or leave the option out");
    return -EINVAL;
}

static int parse_items(const struct kern_option *def, const struct texts *texts, const char *prefix,
                       struct core_parsed *ret_parsed, struct kern_error *err)
{
    for (uint32_t i = 0; i < texts->count; i++) {
        if (texts->item[i][0] == '\0' && (def->flags & KERN_OPT_COMMAS) != 0)
            return refuse_empty(prefix, err);
        int r = core_option_parse(def, texts->item[i], prefix, ret_parsed, err);
        if (r < 0)
            return r;
    }
    return 0;
}

/* Why a text that cannot be a value is none. Apart, because the words are only wanted then. */
static int refuse(const struct core_value *value, const struct texts *texts, const char *where,
                  struct kern_error *err)
{
    const struct kern_option *def = value->def;
    struct core_parsed parsed;
    char prefix[400];
    name_place(prefix, sizeof(prefix), def, where);
    if ((def->flags & KERN_OPT_LATER) != 0)
        return kern_refuse(err, 0, "%s is not available in this build", prefix);
    if (texts == NULL)
        return kern_refuse(err, 0, "%s needs a value: %s", prefix, core_option_wanted(def));
    return parse_items(def, texts, prefix, &parsed, err);
}

/* Takes the new items behind the old ones. The array is made first, so that a failure leaves both as they
 * were. */
static int append_items(struct core_value *value, struct texts *texts)
{
    size_t total = (size_t)value->item_count + texts->count;
    char **grown = reallocarray(value->item, total, sizeof(*grown));
    if (grown == NULL)
        return -ENOMEM;
    memcpy(grown + value->item_count, texts->item, texts->count * sizeof(*grown));
    value->item = grown;
    value->item_count = (uint32_t)total;
    free(texts->item);
    *texts = (struct texts){0};
    return 0;
}

/* Of a long path the end is kept: it has the name and the line. */
static void keep_place(struct core_value *value, const char *where)
{
    size_t length = strlen(where), room = sizeof(value->where) - 1;
    memcpy(value->where, length > room ? where + length - room : where,
           length > room ? room + 1 : length + 1);
    if (length > room)
        memcpy(value->where, "...", 3);
}

static int store(struct core_value *value, struct texts *texts, const struct core_parsed *parsed,
                 int32_t source, const char *where)
{
    bool list = (value->def->flags & KERN_OPT_LIST) != 0;
    const char *last = texts->item[texts->count - 1];
    char *text = strdup(value->def->type == KERN_BOOL ? (parsed->number != 0 ? "true" : "false") : last);
    if (text == NULL)
        return -ENOMEM;
    if (!list || source > value->source)
        clear_value(value);
    if (list && append_items(value, texts) < 0) {
        free(text);
        return -ENOMEM;
    }
    free(value->text);
    value->text = text;
    value->number = parsed->number;
    value->real = parsed->real;
    value->source = source;
    keep_place(value, where);
    return 0;
}

int core_value_set(struct core_value *value, const char *text, int32_t source, const char *where,
                   struct kern_error *err)
{
    const struct kern_option *def = value->def;
    if (text == NULL)
        text = text_when_missing(def);
    if (text == NULL || (def->flags & KERN_OPT_LATER) != 0)
        return refuse(value, NULL, where, err);

    cleanup(clear_texts) struct texts texts = {0};
    struct core_parsed parsed = {0};
    bool list = (def->flags & KERN_OPT_LIST) != 0;
    int r = list ? split(def, text, &texts) : push_text(&texts, text, strlen(text));
    if (r < 0)
        return kern_fail(err, -r, "cannot keep the value of %s", where);
    if (parse_items(def, &texts, "", &parsed, NULL) < 0)
        return refuse(value, &texts, where, err);
    if (source < value->source)
        return 0;
    r = store(value, &texts, &parsed, source, where);
    return r < 0 ? kern_fail(err, -r, "cannot keep the value of %s", where) : 0;
}
