/* --format; see format.h. Only JSON of kern's own making is read here. */
#include "format.h"

#include "cleanup.h"
#include "log.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define FIELD_MOST 40

/* The word between {{ and }}, lower case and without its dot and _; "json ." is "json". Returns what follows it, or NULL. */
static const char *read_field(const char *at, char ret_field[FIELD_MOST])
{
    const char *end = strstr(at, "}}");
    size_t used = 0;
    bool dot = false;
    if (end == NULL)
        return NULL;
    for (; at < end; at++) {
        dot = dot || *at == '.';
        if (*at == '.' || *at == ' ' || *at == '_')
            continue;
        if (used + 1 == FIELD_MOST || isalnum((unsigned char)*at) == 0)
            return NULL;
        ret_field[used++] = (char)tolower((unsigned char)*at);
    }
    ret_field[used] = '\0';
    return dot && used > 0 ? end + 2 : NULL;
}

static bool is_field(const char *field, const char *key, size_t length)
{
    size_t at = 0;
    for (size_t i = 0; i < length; i++) {
        if (key[i] == '_')
            continue;
        if (field[at] == '\0' || field[at] != key[i])
            return false;
        at++;
    }
    return field[at] == '\0';
}

static int refuse_field(const char *field, const char *const *fields, struct kern_error *err)
{
    char list[400] = "";
    for (size_t i = 0; fields[i] != NULL; i++) {
        size_t used = strlen(list);
        (void)snprintf(list + used, sizeof(list) - used, "%s%s", i > 0 ? ", " : "",
                       fields[i]); /* a cut list helps */
    }
    kern_refuse(err, 0, "--format: there is no field \"%s\"", field);
    kern_hint(err, "the fields are: %s", list);
    return -EINVAL;
}

int core_format_check(const char *template, const char *const *fields, struct kern_error *err)
{
    for (const char *at = strstr(template, "{{"); at != NULL; at = strstr(at, "{{")) {
        char field[FIELD_MOST];
        bool known = false;
        at = read_field(at + 2, field);
        if (at == NULL) {
            kern_refuse(err, 0, "--format \"%s\": not a template", template);
            kern_hint(err, "fields are written as in '{{.name}} {{.status}}'; '{{json .}}' is all of them");
            return -EINVAL;
        }
        known = strcmp(field, "json") == 0;
        for (size_t i = 0; fields[i] != NULL; i++)
            known = known || is_field(field, fields[i], strlen(fields[i]));
        if (!known)
            return refuse_field(field, fields, err);
    }
    return 0;
}

/* Behind the value that begins at `at`: a text, a number or word, a list or an object. */
static const char *skip_value(const char *at)
{
    int depth = 0;
    bool quoted = false;
    for (; *at != '\0'; at++) {
        if (quoted && *at == '\\' && at[1] != '\0')
            at++;
        else if (*at == '"')
            quoted = !quoted;
        else if (!quoted && (*at == '{' || *at == '['))
            depth++;
        else if (!quoted && depth > 0 && (*at == '}' || *at == ']'))
            depth--;
        else if (!quoted && depth == 0 && (*at == ',' || *at == '}'))
            return at;
    }
    return at;
}

/* \uXXXX is what core_json writes for control characters, and stays as it is. */
static void print_text(const char *from, const char *end)
{
    auto_free char *plain = calloc(1, (size_t)(end - from) + 1);
    auto_free char *clean = malloc(4 * (size_t)(end - from) + 8);
    size_t used = 0;
    if (plain == NULL || clean == NULL)
        return;
    for (; from < end; from++) {
        if (*from == '\\' && from + 1 < end && (from[1] == '"' || from[1] == '\\' || from[1] == '/'))
            from++;
        plain[used++] = *from;
    }
    core_escape(plain, clean, 4 * used + 8);
    (void)fputs(clean, stdout); /* checked when standard output is closed */
}

static void print_field(const char *field, const char *row)
{
    const char *at = strchr(row, '{');
    while (at != NULL && (at = strchr(at, '"')) != NULL) {
        const char *key = at + 1, *key_end = strchr(key, '"'); /* kern's own keys need no escapes */
        const char *value = key_end != NULL ? key_end + 1 + strspn(key_end + 1, ": ") : NULL;
        if (value == NULL)
            return;
        const char *end = skip_value(value);
        if (!is_field(field, key, (size_t)(key_end - key))) {
            at = *end == ',' ? end + 1 : NULL;
            continue;
        }
        if (*value == '"')
            print_text(value + 1, end - 1);
        else if (strncmp(value, "null", 4) != 0)
            (void)printf("%.*s", (int)(end - value), value); /* checked when standard output is closed */
        return;
    }
}

void core_format_print(const char *template, const char *row)
{
    for (const char *at = template; *at != '\0';) {
        char field[FIELD_MOST];
        const char *after = strncmp(at, "{{", 2) == 0 ? read_field(at + 2, field) : NULL;
        if (after != NULL && strcmp(field, "json") == 0)
            (void)fputs(row, stdout); /* checked when standard output is closed */
        else if (after != NULL)
            print_field(field, row);
        else if (at[0] == '\\' && (at[1] == 't' || at[1] == 'n'))
            (void)putchar(at[1] == 't' ? '\t' : '\n'); /* as above */
        else
            (void)putchar(*at); /* as above */
        at = after != NULL ? after : at + (at[0] == '\\' && (at[1] == 't' || at[1] == 'n') ? 2 : 1);
    }
    (void)putchar('\n'); /* as above */
}
