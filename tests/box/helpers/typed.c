/* typed: a plugin of a third party with an option of each type, alone and as a list, as keys, flags and profiles. It puts what it got
 * into the report. Runs in kern. */
#include <kern/plugin.h>

#include <stdio.h>

static const char *const colours[] = {"red", "green", NULL};

#define BOTH (KERN_OPT_PLUGIN | KERN_OPT_FLAG | KERN_OPT_RUN)
static const struct kern_option options[] = {
    {.name = "text", .type = KERN_STRING, .flags = BOTH, .fallback = "t", .help = "a text"},
    {.name = "number",
     .type = KERN_INT,
     .flags = BOTH,
     .fallback = "1",
     .min = 1,
     .max = 9,
     .help = "a number"},
    {.name = "ratio",
     .type = KERN_FLOAT,
     .flags = BOTH,
     .fallback = "0.5",
     .min = 1,
     .max = 1000,
     .help = "a ratio"},
    {.name = "loud", .type = KERN_BOOL, .flags = BOTH, .fallback = "false", .help = "a switch"},
    {.name = "room",
     .type = KERN_SIZE,
     .flags = BOTH,
     .fallback = "1k",
     .min = 1,
     .max = 1 << 30,
     .help = "a size"},
    {.name = "pause", .type = KERN_DURATION, .flags = BOTH, .fallback = "1", .help = "a duration"},
    {.name = "colour",
     .type = KERN_ENUM,
     .flags = BOTH,
     .fallback = "red",
     .choices = colours,
     .help = "a colour"},
    {.name = "place",
     .type = KERN_PATH,
     .flags = BOTH | KERN_OPT_MUST_EXIST,
     .fallback = "/",
     .help = "a path"},
    {.name = "table", .type = KERN_TABLE, .flags = KERN_OPT_PLUGIN, .help = "a table"},
    {.name = "texts", .type = KERN_STRING, .flags = BOTH | KERN_OPT_LIST, .help = "texts"},
    {.name = "numbers",
     .type = KERN_INT,
     .flags = BOTH | KERN_OPT_LIST | KERN_OPT_COMMAS,
     .max = 99,
     .help = "numbers"},
    {.name = "ratios", .type = KERN_FLOAT, .flags = BOTH | KERN_OPT_LIST, .help = "ratios"},
    {.name = "switches", .type = KERN_BOOL, .flags = KERN_OPT_PLUGIN | KERN_OPT_LIST, .help = "switches"},
    {.name = "rooms", .type = KERN_SIZE, .flags = BOTH | KERN_OPT_LIST, .help = "sizes"},
    {.name = "pauses", .type = KERN_DURATION, .flags = BOTH | KERN_OPT_LIST, .help = "durations"},
    {.name = "colours",
     .type = KERN_ENUM,
     .flags = BOTH | KERN_OPT_LIST,
     .choices = colours,
     .help = "colours"},
    {.name = "places",
     .type = KERN_PATH,
     .flags = BOTH | KERN_OPT_LIST | KERN_OPT_MUST_EXIST,
     .help = "paths"},
    {.name = "tables", .type = KERN_TABLE, .flags = KERN_OPT_PLUGIN | KERN_OPT_LIST, .help = "tables"},
    {.name = "name", .type = KERN_STRING, .flags = KERN_OPT_PROFILE | KERN_OPT_REQUIRED, .help = "its name"},
    {.name = "rows", .type = KERN_TABLE, .flags = KERN_OPT_PROFILE | KERN_OPT_LIST, .help = "tables"},
    {.name = "sizes", .type = KERN_SIZE, .flags = KERN_OPT_PROFILE | KERN_OPT_LIST, .help = "sizes"},
    {.name = NULL},
};

static void report_items(kern_box *box, const kern_values *values, const struct kern_option *option)
{
    char text[512] = "", key[64];
    size_t used = 0;
    for (uint32_t i = 0; i < kern_get_count(values, option->name); i++) {
        const char *item = kern_get_item(values, option->name, i);
        int put = option->type == KERN_FLOAT ? snprintf(text + used, sizeof(text) - used, "%g;",
                                                        kern_get_item_float(values, option->name, i))
                  : option->type == KERN_STRING || option->type == KERN_ENUM || option->type == KERN_PATH ||
                          option->type == KERN_TABLE
                      ? snprintf(text + used, sizeof(text) - used, "%s;", item)
                      : snprintf(text + used, sizeof(text) - used, "%lld;",
                                 (long long)kern_get_item_int(values, option->name, i));
        used += (size_t)put;
    }
    snprintf(key, sizeof(key), "%s", option->name);
    kern_report_string(box, key, text);
}

static void report_one(kern_box *box, const kern_values *values, const struct kern_option *option)
{
    char text[64];
    if ((option->flags & KERN_OPT_LIST) != 0) {
        report_items(box, values, option);
    } else if (option->type == KERN_FLOAT) {
        snprintf(text, sizeof(text), "%g", kern_get_float(values, option->name));
        kern_report_string(box, option->name, text);
    } else if (option->type == KERN_INT || option->type == KERN_BOOL || option->type == KERN_SIZE ||
               option->type == KERN_DURATION) {
        kern_report_int(box, option->name, kern_get_int(values, option->name));
    } else {
        const char *value = kern_get_string(values, option->name);
        kern_report_string(box, option->name, value != NULL ? value : "(none)");
    }
}

static int prepare(kern_box *box, void *state, struct kern_error *err)
{
    (void)state, (void)err;
    for (const struct kern_option *option = options; option->name != NULL; option++) {
        if ((option->flags & KERN_OPT_PLUGIN) != 0)
            report_one(box, kern_options(box), option);
        else if (kern_profile_count(box) > 0)
            report_one(box, kern_profile(box, 0), option);
    }
    return 0;
}

KERN_PLUGIN(.name = "typed", .version = "1", .summary = "has an option of each type",
            .stage = KERN_STAGE_MOUNT, .profile = "typed", .options = options, .prepare = prepare);
