/* The syntax of sizes, durations and numbers: text in, number out, or a message that quotes the text. Pure
 * and without locale, so that a value means the same in every shell; used on the host side. */
#include "option_check.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* The kernel's figures are 64 bits wide; the product with a unit needs more before it is judged. */
__extension__ typedef unsigned __int128 wide;

/* "12.5 GB" up to its unit: whole and fraction apart, because a double has too few digits for bytes. */
struct decimal {
    uint64_t whole;
    uint64_t fraction, scale; /* fraction / scale */
    const char *rest;
};

struct unit {
    const char *name;
    uint64_t factor;
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

struct core_quoted core_option_quote(const char *text)
{
    struct core_quoted quoted;
    size_t used = 0;
    quoted.text[used++] = '"';
    for (; *text != '\0' && used < sizeof(quoted.text) - 5; text++)
        quoted.text[used++] = (unsigned char)*text < 0x20 || *text == 0x7f ? '?' : *text;
    if (*text != '\0') {
        memcpy(quoted.text + used, "...", 3);
        used += 3;
    }
    quoted.text[used++] = '"';
    quoted.text[used] = '\0';
    return quoted;
}

/* Digits past the eighteenth place are checked and ignored: they are below a billionth of a byte. */
static const char *read_fraction(const char *at, struct decimal *number)
{
    for (; is_digit(*at); at++) {
        if (number->scale >= UINT64_C(1000000000000000000))
            continue;
        number->fraction = number->fraction * 10 + (uint64_t)(*at - '0');
        number->scale *= 10;
    }
    return at;
}

static int read_decimal(const char *text, struct decimal *ret_number)
{
    struct decimal number = {.scale = 1};
    const char *at = text;
    if (!is_digit(*at) && *at != '.') /* .5 is 0.5 */
        return -EINVAL;
    for (; is_digit(*at); at++)
        if (__builtin_mul_overflow(number.whole, 10u, &number.whole) ||
            __builtin_add_overflow(number.whole, (uint64_t)(*at - '0'), &number.whole))
            return -ERANGE;
    if (*at == '.') {
        if (!is_digit(at[1]))
            return -EINVAL;
        at = read_fraction(at + 1, &number);
    }
    number.rest = at;
    *ret_number = number;
    return 0;
}

static int in_units(const struct decimal *number, const struct unit *units, uint64_t *ret_value)
{
    const char *rest = number->rest;
    while (*rest == ' ')
        rest++;
    if (*rest == '\0' && *number->rest != '\0')
        return -EINVAL;
    for (const struct unit *unit = units; unit->name != NULL; unit++) {
        if (strcasecmp(rest, unit->name) != 0)
            continue;
        wide value =
            (wide)number->whole * unit->factor + (wide)number->fraction * unit->factor / number->scale;
        if (value > UINT64_MAX)
            return -ERANGE;
        *ret_value = (uint64_t)value;
        return 0;
    }
    return -EINVAL;
}

int core_parse_size(const char *text, const char *where, uint64_t *ret_bytes, struct kern_error *err)
{
    static const struct unit units[] = {
        {"", 1},
        {"b", 1},
        {"k", UINT64_C(1) << 10},
        {"kb", UINT64_C(1) << 10},
        {"kib", UINT64_C(1) << 10},
        {"m", UINT64_C(1) << 20},
        {"mb", UINT64_C(1) << 20},
        {"mib", UINT64_C(1) << 20},
        {"g", UINT64_C(1) << 30},
        {"gb", UINT64_C(1) << 30},
        {"gib", UINT64_C(1) << 30},
        {"t", UINT64_C(1) << 40},
        {"tb", UINT64_C(1) << 40},
        {"tib", UINT64_C(1) << 40},
        {NULL, 0},
    };
    struct decimal number;
    int r = read_decimal(text, &number);
    if (r == 0)
        r = in_units(&number, units, ret_bytes);
    if (r == -ERANGE)
        return kern_refuse(err, 0, "%s: %s is more than 64 bits of bytes can say", where,
                           core_option_quote(text).text);
    if (r < 0)
        return kern_refuse(
            err, 0, "%s: %s is not a size; write bytes, or a number with k, m, g or t such as \"512m\"",
            where, core_option_quote(text).text);
    return 0;
}

int core_parse_duration(const char *text, const char *where, int64_t *ret_ms, struct kern_error *err)
{
    static const struct unit units[] = {
        {"", 1000}, {"s", 1000}, {"ms", 1}, {"m", 60000}, {"h", 3600000}, {NULL, 0},
    };
    struct decimal number;
    uint64_t ms = 0;
    int r = read_decimal(text, &number);
    if (r == 0)
        r = in_units(&number, units, &ms);
    if (r == 0 && ms > INT64_MAX)
        r = -ERANGE;
    if (r == -ERANGE)
        return kern_refuse(err, 0, "%s: %s is longer than kern can count", where,
                           core_option_quote(text).text);
    if (r < 0)
        return kern_refuse(err, 0,
                           "%s: %s is not a duration; write seconds such as \"1.5\", or use ms, s, m or h",
                           where, core_option_quote(text).text);
    *ret_ms = (int64_t)ms;
    return 0;
}

int core_parse_int(const char *text, const char *where, int64_t *ret_number, struct kern_error *err)
{
    const char *at = text;
    bool negative = *at == '-';
    if (*at == '-' || *at == '+')
        at++;
    int64_t number = 0;
    bool overflow = false;
    if (!is_digit(*at))
        return kern_refuse(err, 0, "%s: %s is not a whole number", where, core_option_quote(text).text);
    for (; is_digit(*at); at++) {
        int64_t digit = negative ? -(int64_t)(*at - '0') : (int64_t)(*at - '0');
        overflow = overflow || __builtin_mul_overflow(number, 10, &number) ||
                   __builtin_add_overflow(number, digit, &number);
    }
    if (*at != '\0')
        return kern_refuse(err, 0, "%s: %s is not a whole number", where, core_option_quote(text).text);
    if (overflow)
        return kern_refuse(err, 0, "%s: %s is more than 64 bits can say", where,
                           core_option_quote(text).text);
    *ret_number = number;
    return 0;
}

/* strtod alone would take "nan", "inf", "0x1p3" and leading blanks. */
static bool looks_like_float(const char *text)
{
    const char *at = text;
    if (*at == '-' || *at == '+')
        at++;
    if (!is_digit(*at) && !(*at == '.' && is_digit(at[1])))
        return false;
    return at[strspn(at, "0123456789.eE+-")] == '\0';
}

int core_parse_float(const char *text, const char *where, double *ret_number, struct kern_error *err)
{
    char *end = NULL;
    double number = looks_like_float(text) ? strtod(text, &end) : 0.0;
    if (end == NULL || end == text || *end != '\0')
        return kern_refuse(err, 0, "%s: %s is not a number", where, core_option_quote(text).text);
    if (!isfinite(number))
        return kern_refuse(err, 0, "%s: %s is larger than any number", where, core_option_quote(text).text);
    *ret_number = number;
    return 0;
}
