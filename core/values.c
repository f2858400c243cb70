/* What a plugin reads its options with. Runs on both sides of the clone, in the box's first process too,
 * whose memory is the supervisor's: so look-ups only, no allocation, no locale, nothing written. */
#include "options.h"

#include "option_check.h"

int32_t kern_get_source(const kern_values *values, const char *name)
{
    const struct core_value *value = values != NULL ? core_values_find(values, name) : NULL;
    return value != NULL ? value->source : KERN_FROM_DEFAULT;
}

const char *kern_get_string(const kern_values *values, const char *name)
{
    const struct core_value *value = values != NULL ? core_values_find(values, name) : NULL;
    return value != NULL ? value->text : NULL;
}

int64_t kern_get_int(const kern_values *values, const char *name)
{
    const struct core_value *value = values != NULL ? core_values_find(values, name) : NULL;
    return value != NULL ? value->number : 0;
}

double kern_get_float(const kern_values *values, const char *name)
{
    const struct core_value *value = values != NULL ? core_values_find(values, name) : NULL;
    if (value == NULL)
        return 0.0;
    return value->def->type == KERN_FLOAT ? value->real : (double)value->number;
}

uint32_t kern_get_count(const kern_values *values, const char *name)
{
    const struct core_value *value = values != NULL ? core_values_find(values, name) : NULL;
    if (value == NULL)
        return 0;
    if ((value->def->flags & KERN_OPT_LIST) != 0)
        return value->item_count;
    return value->text != NULL ? 1 : 0;
}

const char *kern_get_item(const kern_values *values, const char *name, uint32_t index)
{
    const struct core_value *value = values != NULL ? core_values_find(values, name) : NULL;
    if (value == NULL)
        return NULL;
    if ((value->def->flags & KERN_OPT_LIST) != 0)
        return index < value->item_count ? value->item[index] : NULL;
    return index == 0 ? value->text : NULL;
}

/* Items are kept as text, which was judged when it was read. */
static struct core_parsed parse_item(const kern_values *values, const char *name, uint32_t index)
{
    const struct core_value *value = values != NULL ? core_values_find(values, name) : NULL;
    const char *text = kern_get_item(values, name, index);
    struct core_parsed parsed = {0};
    if (text == NULL || core_option_parse(value->def, text, "", &parsed, NULL) != 0)
        return (struct core_parsed){0};
    return parsed;
}

int64_t kern_get_item_int(const kern_values *values, const char *name, uint32_t index)
{
    return parse_item(values, name, index).number;
}

double kern_get_item_float(const kern_values *values, const char *name, uint32_t index)
{
    return parse_item(values, name, index).real;
}
