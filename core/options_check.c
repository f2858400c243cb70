/* One text against one table entry: type, bounds, choices, and what to say when it does not fit. Pure but for
 * KERN_OPT_MUST_EXIST, which looks at the file system; host side. */
#include "option_check.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

struct bound {
    char text[32];
};

static struct bound describe_size(int64_t bytes)
{
    static const char units[] = {'t', 'g', 'm', 'k'};
    struct bound bound;
    for (unsigned i = 0; i < sizeof(units); i++) {
        int64_t unit = INT64_C(1) << (40 - 10 * i);
        if (bytes >= unit && bytes % unit == 0) {
            (void)snprintf(bound.text, sizeof(bound.text), "%lld%c", (long long)(bytes / unit),
                           units[i]); /* 32 bytes hold any 64-bit number */
            return bound;
        }
    }
    (void)snprintf(bound.text, sizeof(bound.text), "%lld byte%s", (long long)bytes,
                   bytes == 1 ? "" : "s"); /* the same */
    return bound;
}

static struct bound describe(const struct kern_option *def, int64_t number)
{
    struct bound bound;
    if (def->type == KERN_SIZE)
        return describe_size(number);
    /* 32 bytes hold each of these */
    if (def->type == KERN_FLOAT)
        (void)snprintf(bound.text, sizeof(bound.text), "%.10g", (double)number / 1000.0);
    else if (def->type == KERN_DURATION && number % 1000 == 0)
        (void)snprintf(bound.text, sizeof(bound.text), "%lld seconds", (long long)(number / 1000));
    else
        (void)snprintf(bound.text, sizeof(bound.text), "%lld%s", (long long)number,
                       def->type == KERN_DURATION ? " ms" : "");
    return bound;
}

static int refuse_range(const struct kern_option *def, const char *shown, const char *prefix,
                        struct kern_error *err)
{
    if (def->max == INT64_MAX)
        return kern_refuse(err, 0, "%s: %s is out of range: it must be at least %s", prefix,
                           core_option_quote(shown).text, describe(def, def->min).text);
    return kern_refuse(err, 0, "%s: %s is out of range: it must be from %s to %s", prefix,
                       core_option_quote(shown).text, describe(def, def->min).text,
                       describe(def, def->max).text);
}

static bool is_bounded(const struct kern_option *def)
{
    return def->min != 0 || def->max != 0;
}

int core_option_check_number(const struct kern_option *def, int64_t number, const char *shown,
                             const char *prefix, struct kern_error *err)
{
    if (is_bounded(def) && (number < def->min || number > def->max))
        return refuse_range(def, shown, prefix, err);
    return 0;
}

int core_option_check_real(const struct kern_option *def, double real, const char *shown, const char *prefix,
                           struct kern_error *err)
{
    if (real != real)
        return kern_refuse(err, 0, "%s: %s is not a number", prefix, core_option_quote(shown).text);
    /* Infinity falls to the bounds; an option without bounds still wants a number that can be written down. */
    if (is_bounded(def) ? !(real * 1000.0 >= (double)def->min && real * 1000.0 <= (double)def->max)
                        : real - real != 0.0)
        return refuse_range(def, shown, prefix, err);
    return 0;
}

static int parse_size(const struct kern_option *def, const char *text, const char *prefix,
                      int64_t *ret_number, struct kern_error *err)
{
    uint64_t bytes;
    int r = core_parse_size(text, prefix, &bytes, err);
    if (r < 0)
        return r;
    if (bytes > INT64_MAX)
        return kern_refuse(err, 0, "%s: %s is larger than any limit the kernel knows", prefix,
                           core_option_quote(text).text);
    *ret_number = (int64_t)bytes;
    return core_option_check_number(def, *ret_number, text, prefix, err);
}

static int parse_bool(const char *text, const char *prefix, int64_t *ret_number, struct kern_error *err)
{
    static const char *const words[] = {"false", "true", "no", "yes", "off", "on", "0", "1"};
    for (unsigned i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcasecmp(text, words[i]) == 0) {
            *ret_number = i % 2;
            return 0;
        }
    return kern_refuse(err, 0, "%s: %s is neither true nor false", prefix, core_option_quote(text).text);
}

static int check_choice(const struct kern_option *def, const char *text, const char *prefix,
                        struct kern_error *err)
{
    char list[200] = "";
    size_t used = 0;
    for (const char *const *choice = def->choices; *choice != NULL; choice++) {
        if (strcmp(text, *choice) == 0)
            return 0;
        int n = snprintf(list + used, sizeof(list) - used, "%s%s", used == 0 ? "" : ", ", *choice);
        used += n > 0 && (size_t)n < sizeof(list) - used ? (size_t)n : 0;
    }
    int r =
        kern_refuse(err, 0, "%s: %s is not known; it can be: %s", prefix, core_option_quote(text).text, list);
    const char *near = core_nearest(text, def->choices);
    if (near != NULL)
        kern_hint(err, "did you mean \"%s\"?", near);
    return r;
}

static int check_path(const struct kern_option *def, const char *text, const char *prefix,
                      struct kern_error *err)
{
    if (*text == '\0')
        return kern_refuse(err, 0, "%s: the path is empty", prefix);
    if ((def->flags & KERN_OPT_MUST_EXIST) != 0 && access(text, F_OK) != 0)
        return kern_refuse(err, errno, "%s: cannot find %s", prefix, core_option_quote(text).text);
    return 0;
}

int core_option_parse(const struct kern_option *def, const char *text, const char *prefix,
                      struct core_parsed *ret_parsed, struct kern_error *err)
{
    struct core_parsed parsed = {0};
    int r = 0;
    switch (def->type) {
    case KERN_INT:
        r = core_parse_int(text, prefix, &parsed.number, err);
        r = r < 0 ? r : core_option_check_number(def, parsed.number, text, prefix, err);
        break;
    case KERN_FLOAT:
        r = core_parse_float(text, prefix, &parsed.real, err);
        r = r < 0 ? r : core_option_check_real(def, parsed.real, text, prefix, err);
        break;
    case KERN_BOOL:
        r = parse_bool(text, prefix, &parsed.number, err);
        break;
    case KERN_SIZE:
        r = parse_size(def, text, prefix, &parsed.number, err);
        break;
    case KERN_DURATION:
        r = core_parse_duration(text, prefix, &parsed.number, err);
        r = r < 0 ? r : core_option_check_number(def, parsed.number, text, prefix, err);
        break;
    case KERN_ENUM:
        r = check_choice(def, text, prefix, err);
        break;
    case KERN_PATH:
        r = check_path(def, text, prefix, err);
        break;
    default: /* KERN_STRING, KERN_TABLE and KERN_ANY are judged by their plugin */
        break;
    }
    if (r == 0)
        *ret_parsed = parsed;
    return r;
}

const char *core_option_wanted(const struct kern_option *def)
{
    switch (def->type) {
    case KERN_INT:
        return "a whole number";
    case KERN_FLOAT:
        return "a number";
    case KERN_BOOL:
        return "true or false";
    case KERN_SIZE:
        return "a size such as \"512m\", or bytes";
    case KERN_DURATION:
        return "a duration such as 1.5 (seconds) or \"500ms\"";
    case KERN_TABLE:
        return "an inline table";
    case KERN_ANY:
        return "a string, a whole number or an inline table";
    default:
        return "a string";
    }
}

bool core_option_is_named(const char *name, const char *typed, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (name[i] == '\0' || (name[i] != typed[i] && !(name[i] == '-' && typed[i] == '_')))
            return false;
    return name[length] == '\0';
}
