/* A TOML value printed as JSON: what `kern config parse` shows. Runs in the verb's own process; it recurses
 * no deeper than the reader allows a document to nest. */
#include "toml.h"

#include <errno.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

struct printer {
    FILE *out;
    bool tagged;
};

/* What goes wrong in writing stays recorded in the stream; core_toml_print_json() asks it at the end. */
static void print_text(const struct printer *p, const char *text)
{
    (void)fputs(text, p->out);
}

static void print_string(const struct printer *p, const char *bytes, size_t length)
{
    static const char special[] = "\"\\\b\f\n\r\t";
    static const char letters[] = "\"\\bfnrt";
    (void)fputc('"', p->out); /* see print_text() */
    const char *end = bytes + length;
    for (const char *plain = bytes;; bytes++) {
        unsigned char byte = bytes < end ? (unsigned char)*bytes : 0;
        if (byte >= 0x20 && byte != '"' && byte != '\\' && byte != 0x7F)
            continue;
        (void)fwrite(plain, 1, (size_t)(bytes - plain), p->out); /* see print_text() */
        if (bytes == end)
            break;
        const char *found = memchr(special, byte, sizeof(special) - 1);
        if (found != NULL)
            (void)fprintf(p->out, "\\%c", letters[found - special]); /* see print_text() */
        else
            (void)fprintf(p->out, "\\u%04x", byte); /* see print_text() */
        plain = bytes + 1;
    }
    (void)fputc('"', p->out); /* see print_text() */
}

/* The fewest digits that read back as the same number, always with a mark that it is no integer. */
static void format_float(double value, char *text, size_t size)
{
    if (__builtin_isnan(value) || __builtin_isinf(value)) {
        const char *name = __builtin_isnan(value) ? "nan" : value < 0 ? "-inf" : "inf";
        (void)snprintf(text, size, "%s", name); /* fits: the buffer holds 17 digits */
        return;
    }
    for (int digits = 15; digits <= 17; digits++) {
        (void)snprintf(text, size, "%.*g", digits, value); /* fits: 17 digits, sign, point, exponent */
        double back = strtod(text, NULL);
        if (memcmp(&back, &value, sizeof(value)) == 0)
            break;
    }
    if (strpbrk(text, ".e") == NULL)
        (void)strncat(text, ".0", size - strlen(text) - 1); /* fits: see above */
}

static const char *tag_of(enum toml_type type)
{
    switch (type) {
    case TOML_STRING:
        return "string";
    case TOML_INTEGER:
        return "integer";
    case TOML_FLOAT:
        return "float";
    case TOML_BOOLEAN:
        return "bool";
    case TOML_OFFSET_DATETIME:
        return "datetime";
    case TOML_LOCAL_DATETIME:
        return "datetime-local";
    case TOML_LOCAL_DATE:
        return "date-local";
    case TOML_LOCAL_TIME:
        return "time-local";
    case TOML_ARRAY:
    case TOML_TABLE:
        break;
    }
    return "";
}

static void print_scalar(const struct printer *p, const struct toml_node *node)
{
    char text[40];
    bool quoted = p->tagged;
    switch (node->type) {
    case TOML_INTEGER:
        (void)snprintf(text, sizeof(text), "%lld", (long long)node->as.integer); /* 20 characters at most */
        break;
    case TOML_FLOAT:
        format_float(node->as.real, text, sizeof(text));
        quoted = quoted || !__builtin_isfinite(node->as.real);
        break;
    case TOML_BOOLEAN:
        (void)snprintf(text, sizeof(text), "%s", node->as.boolean ? "true" : "false"); /* fits */
        break;
    default:
        print_string(p, node->as.text.bytes, node->as.text.length);
        return;
    }
    if (quoted)
        print_string(p, text, strlen(text));
    else
        print_text(p, text);
}

static void print_node(const struct printer *p, const struct toml_node *node)
{
    bool is_table = node->type == TOML_TABLE;
    if (!is_table && node->type != TOML_ARRAY) {
        if (p->tagged)
            (void)fprintf(p->out, "{\"type\":\"%s\",\"value\":", tag_of(node->type)); /* see print_text() */
        print_scalar(p, node);
        print_text(p, p->tagged ? "}" : "");
        return;
    }
    print_text(p, is_table ? "{" : "[");
    for (size_t i = 0; i < core_toml_count(node); i++) {
        const struct toml_node *item = core_toml_at(node, i);
        print_text(p, i > 0 ? "," : "");
        if (is_table) {
            print_string(p, item->key, item->key_length);
            print_text(p, ":");
        }
        print_node(p, item);
    }
    print_text(p, is_table ? "}" : "]");
}

int core_toml_print_json(const struct toml_node *node, FILE *out, int tagged)
{
    /* JSON has a decimal point in every country. The "C" locale is constant data of libc. */
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    locale_t before = c != (locale_t)0 ? uselocale(c) : (locale_t)0;
    struct printer p = {.out = out, .tagged = tagged != 0};
    print_node(&p, node);
    if (before != (locale_t)0)
        (void)uselocale(before); /* it was in use a moment ago, so it is valid */
    if (c != (locale_t)0)
        freelocale(c);
    return ferror(out) ? -EIO : 0;
}
