/* The values of TOML that are one word: booleans, integers, floats; dates and times go to toml_time.c. Runs
 * in the supervisor's process before the box exists. */
#include "toml_parser.h"

#include <errno.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

struct word {
    const char *at, *end; /* what has not been read yet */
    const char *start;
    bool negative;
};

static bool is_word_character(char c)
{
    return core_toml_is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '+' ||
           c == '-' || c == '_' || c == '.' || c == ':';
}

static struct toml_quoted quote_word(const struct word *word)
{
    return core_toml_quote(word->start, (size_t)(word->end - word->start));
}

static bool rest_is(const struct word *word, const char *text)
{
    size_t length = strlen(text);
    return (size_t)(word->end - word->at) == length && memcmp(word->at, text, length) == 0;
}

static unsigned digit_value(char c)
{
    if (core_toml_is_digit(c))
        return (unsigned)(c - '0');
    if (c >= 'a' && c <= 'f')
        return (unsigned)(c - 'a') + 10;
    return c >= 'A' && c <= 'F' ? (unsigned)(c - 'A') + 10 : 99;
}

/* Moves past at least one digit; each underscore must stand between two. */
static int take_digits(struct toml_parser *p, struct word *word, unsigned base)
{
    const char *start = word->at;
    for (; word->at < word->end; word->at++) {
        if (*word->at == '_') {
            bool between = word->at > start && word->at + 1 < word->end && digit_value(word->at[1]) < base;
            if (!between)
                return core_toml_refuse(p, word->at,
                                        "an underscore in the number %s must stand between digits",
                                        quote_word(word).text);
        } else if (digit_value(*word->at) >= base) {
            break;
        }
    }
    if (word->at == start)
        return core_toml_refuse(p, word->at, "expected a digit in the number %s", quote_word(word).text);
    return 0;
}

static int read_integer(struct toml_parser *p, struct word *word, unsigned base, struct toml_node *node)
{
    const char *digits = word->at;
    int r = take_digits(p, word, base);
    if (r < 0)
        return r;
    if (word->at < word->end)
        return core_toml_refuse(p, word->at, "unexpected %s in the number %s; text needs \"quotes\"",
                                core_toml_quote(word->at, 1).text, quote_word(word).text);
    uint64_t limit = (uint64_t)INT64_MAX + (word->negative ? 1 : 0);
    uint64_t value = 0;
    for (const char *at = digits; at < word->end; at++) {
        if (*at == '_')
            continue;
        unsigned digit = digit_value(*at);
        if (value > (limit - digit) / base)
            return core_toml_refuse(p, word->start, "the integer %s does not fit into 64 bits",
                                    quote_word(word).text);
        value = value * base + digit;
    }
    node->type = TOML_INTEGER;
    node->as.integer = word->negative ? (int64_t)(0 - value) : (int64_t)value;
    return 0;
}

/* Checks FRACTION and EXPONENT by hand, because strtod() takes much that TOML does not. */
static int check_float(struct toml_parser *p, struct word *word)
{
    int r = 0;
    if (word->at < word->end && *word->at == '.') {
        word->at++;
        r = take_digits(p, word, 10);
    }
    if (r == 0 && word->at < word->end && (*word->at == 'e' || *word->at == 'E')) {
        word->at++;
        if (word->at < word->end && (*word->at == '+' || *word->at == '-'))
            word->at++;
        r = take_digits(p, word, 10);
    }
    if (r == 0 && word->at < word->end)
        r = core_toml_refuse(p, word->at, "unexpected %s in the number %s; text needs \"quotes\"",
                             core_toml_quote(word->at, 1).text, quote_word(word).text);
    return r;
}

/* The digits without underscores pass through the free end of the text buffer, which is long enough for any
 * word that is still to be read. The "C" locale is constant data of libc: it costs no allocation, and a
 * decimal comma of the user's locale must not change what a file means. */
static int read_float(struct toml_parser *p, struct word *word, struct toml_node *node)
{
    int r = check_float(p, word);
    if (r < 0)
        return r;
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (c == (locale_t)0)
        return core_toml_refuse_memory(p);
    char *copy = p->text;
    for (const char *at = word->start; at < word->end; at++)
        if (*at != '_')
            *copy++ = *at;
    *copy = '\0';
    node->type = TOML_FLOAT;
    locale_t before = uselocale(c);
    node->as.real = strtod(p->text, NULL);
    (void)uselocale(before); /* it was in use a moment ago, so it is valid */
    freelocale(c);
    return 0;
}

static unsigned base_of(const struct word *word)
{
    if (word->end - word->at < 2 || word->at[0] != '0')
        return 10;
    switch (word->at[1]) {
    case 'x':
        return 16;
    case 'o':
        return 8;
    case 'b':
        return 2;
    default:
        return 10;
    }
}

static int read_number(struct toml_parser *p, struct word *word, struct toml_node *node)
{
    unsigned base = base_of(word);
    if (base != 10) {
        if (word->at > word->start)
            return core_toml_refuse(p, word->start, "the number %s has a prefix and so cannot have a sign",
                                    quote_word(word).text);
        word->at += 2;
        return read_integer(p, word, base, node);
    }
    struct word whole = *word;
    int r = take_digits(p, &whole, 10);
    if (r < 0)
        return r;
    if (*word->at == '0' && whole.at - word->at > 1)
        return core_toml_refuse(p, word->at, "the number %s starts with a zero", quote_word(word).text);
    if (whole.at < whole.end && (*whole.at == '.' || *whole.at == 'e' || *whole.at == 'E'))
        return read_float(p, &whole, node);
    return read_integer(p, word, 10, node);
}

static int read_word(struct toml_parser *p, struct word *word, struct toml_node *node)
{
    if (rest_is(word, "true") || rest_is(word, "false")) {
        node->type = TOML_BOOLEAN;
        node->as.boolean = *word->at == 't';
        return 0;
    }
    if (*word->at == '+' || *word->at == '-')
        word->negative = *word->at++ == '-';
    if (rest_is(word, "inf") || rest_is(word, "nan")) {
        node->type = TOML_FLOAT;
        node->as.real = *word->at == 'i' ? __builtin_inf() : __builtin_nan("");
        if (word->negative)
            node->as.real = -node->as.real;
        return 0;
    }
    if (word->at < word->end && core_toml_is_digit(*word->at))
        return read_number(p, word, node);
    return core_toml_refuse(p, word->start, "%s is not a value; text needs \"quotes\"",
                            quote_word(word).text);
}

static const char *end_of_word(const struct toml_parser *p, const char *at)
{
    while (at < p->end && is_word_character(*at))
        at++;
    return at;
}

int core_toml_read_scalar(struct toml_parser *p, struct toml_node *node)
{
    const char *end = end_of_word(p, p->at);
    size_t length = (size_t)(end - p->at);
    if (length == 0)
        return core_toml_refuse(p, p->at, "expected a value, found %s", core_toml_found(p, p->at).text);
    if (core_toml_looks_like_time(p->at, length)) {
        /* One space may part date and time; then what follows it belongs to the value. */
        if (length == strlen("1979-05-27") && p->end - end >= 2 && *end == ' ' && core_toml_is_digit(end[1]))
            end = end_of_word(p, end + 1);
        return core_toml_read_time(p, end, node);
    }
    struct word word = {.at = p->at, .end = end, .start = p->at};
    int r = read_word(p, &word, node);
    if (r == 0)
        p->at = end;
    return r;
}
