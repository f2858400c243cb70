/* What a plugin reads its options with. Runs on both sides of the clone, in the box's first process too,
 * whose memory is the supervisor's: so look-ups only, no allocation, no locale. */
#include "options.h"

#include "kern/sys.h"
#include "option_check.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A name that no table has is a slip of the pen, which whoever writes the plugin wants to hear of (KERN_DEBUG=plugins). */
static void missed(const char *name)
{
    static const char before[] = "kern: warning: plugin asks for the option \"";
    static const char after[] = "\", which its table does not have\n";
    const char *debug = getenv("KERN_DEBUG");
    if (debug == NULL || strstr(debug, "plugins") == NULL)
        return;
    (void)sys_write(STDERR_FILENO, before, sizeof(before) - 1); /* nothing can be done about a failure */
    (void)sys_write(STDERR_FILENO, name, strlen(name));         /* as above */
    (void)sys_write(STDERR_FILENO, after, sizeof(after) - 1);   /* as above */
}

static const struct core_value *look_up(const kern_values *values, const char *name)
{
    const struct core_value *value = values != NULL ? core_values_find(values, name) : NULL;
    if (value == NULL && values != NULL)
        missed(name);
    return value;
}

int32_t kern_get_source(const kern_values *values, const char *name)
{
    const struct core_value *value = look_up(values, name);
    return value != NULL ? value->source : KERN_FROM_DEFAULT;
}

const char *kern_get_string(const kern_values *values, const char *name)
{
    const struct core_value *value = look_up(values, name);
    return value != NULL ? value->text : NULL;
}

int64_t kern_get_int(const kern_values *values, const char *name)
{
    const struct core_value *value = look_up(values, name);
    return value != NULL ? value->number : 0;
}

double kern_get_float(const kern_values *values, const char *name)
{
    const struct core_value *value = look_up(values, name);
    if (value == NULL)
        return 0.0;
    return value->def->type == KERN_FLOAT ? value->real : (double)value->number;
}

uint32_t kern_get_count(const kern_values *values, const char *name)
{
    const struct core_value *value = look_up(values, name);
    if (value == NULL)
        return 0;
    if ((value->def->flags & KERN_OPT_LIST) != 0)
        return value->item_count;
    return value->text != NULL ? 1 : 0;
}

const char *kern_get_item(const kern_values *values, const char *name, uint32_t index)
{
    const struct core_value *value = look_up(values, name);
    if (value == NULL)
        return NULL;
    if ((value->def->flags & KERN_OPT_LIST) != 0)
        return index < value->item_count ? value->item[index] : NULL;
    return index == 0 ? value->text : NULL;
}

/* Items are kept as text, which was judged when it was read. */
static struct core_parsed parse_item(const kern_values *values, const char *name, uint32_t index)
{
    const struct core_value *value = look_up(values, name);
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
