/* Dates and times of TOML: RFC 3339 as TOML 1.0 narrows and widens it. Checked and kept as text: kern has no
 * use for an instant, and text loses nothing. Runs in the supervisor's process before the box exists. */
#include "toml_parser.h"

struct reading {
    struct toml_parser *parser;
    const char *at, *end;
    const char *start;
};

static int refuse_form(struct reading *r, const char *expected)
{
    return core_toml_refuse(r->parser, r->at, "expected %s in the date or time %s", expected,
                            core_toml_quote(r->start, (size_t)(r->end - r->start)).text);
}

/* Digits and then a dash or a colon: no number has these. */
bool core_toml_looks_like_time(const char *word, size_t length)
{
    size_t digits = 0;
    while (digits < length && core_toml_is_digit(word[digits]))
        digits++;
    return digits > 0 && digits < length && (word[digits] == '-' || word[digits] == ':');
}

static bool next_is(const struct reading *r, char c)
{
    return r->at < r->end && *r->at == c;
}

/* Exactly `digits` digits, and a value in the range that the calendar or the clock has. */
static int take_field(struct reading *r, const char *name, int digits, int low, int high, int *ret_value)
{
    const char *start = r->at;
    int value = 0;
    for (int i = 0; i < digits; i++, r->at++) {
        if (r->at == r->end || !core_toml_is_digit(*r->at))
            return refuse_form(r, digits == 4 ? "a digit (years have four)" : "a digit (fields have two)");
        value = value * 10 + (*r->at - '0');
    }
    if (value < low || value > high)
        return core_toml_refuse(r->parser, start, "the %s %.*s is not in the range %02d to %02d", name,
                                digits, start, low, high);
    *ret_value = value;
    return 0;
}

static int take_mark(struct reading *r, char mark, const char *expected)
{
    if (!next_is(r, mark))
        return refuse_form(r, expected);
    r->at++;
    return 0;
}

static int days_of(int year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return month == 2 && leap ? 29 : days[month - 1];
}

static int take_date(struct reading *r)
{
    int year, month, day;
    int result = take_field(r, "year", 4, 0, 9999, &year);
    if (result == 0)
        result = take_mark(r, '-', "\"-\"");
    if (result == 0)
        result = take_field(r, "month", 2, 1, 12, &month);
    if (result == 0)
        result = take_mark(r, '-', "\"-\"");
    if (result == 0)
        result = take_field(r, "day", 2, 1, days_of(year, month), &day);
    return result;
}

/* 60 is the leap second of RFC 3339: no local time tells whether there was one. */
static int take_time(struct reading *r)
{
    int unused;
    int result = take_field(r, "hour", 2, 0, 23, &unused);
    if (result == 0)
        result = take_mark(r, ':', "\":\"");
    if (result == 0)
        result = take_field(r, "minute", 2, 0, 59, &unused);
    if (result == 0)
        result = take_mark(r, ':', "\":\" and the seconds");
    if (result == 0)
        result = take_field(r, "second", 2, 0, 60, &unused);
    if (result < 0 || !next_is(r, '.'))
        return result;
    r->at++;
    if (r->at == r->end || !core_toml_is_digit(*r->at))
        return refuse_form(r, "a digit after the point");
    while (r->at < r->end && core_toml_is_digit(*r->at))
        r->at++;
    return 0;
}

static int take_offset(struct reading *r)
{
    if (next_is(r, 'Z') || next_is(r, 'z')) {
        r->at++;
        return 0;
    }
    r->at++; /* the sign */
    int unused;
    int result = take_field(r, "offset hour", 2, 0, 23, &unused);
    if (result == 0)
        result = take_mark(r, ':', "\":\"");
    if (result == 0)
        result = take_field(r, "offset minute", 2, 0, 59, &unused);
    return result;
}

static int take_date_and_time(struct reading *r, enum toml_type *ret_type)
{
    int result = take_date(r);
    if (result < 0)
        return result;
    *ret_type = TOML_LOCAL_DATE;
    if (!next_is(r, 'T') && !next_is(r, 't') && !next_is(r, ' '))
        return 0;
    r->at++;
    *ret_type = TOML_LOCAL_DATETIME;
    result = take_time(r);
    if (result < 0)
        return result;
    if (next_is(r, 'Z') || next_is(r, 'z') || next_is(r, '+') || next_is(r, '-')) {
        *ret_type = TOML_OFFSET_DATETIME;
        result = take_offset(r);
    }
    return result;
}

static char normalised(char c)
{
    return c == ' ' || c == 't' ? 'T' : c == 'z' ? 'Z' : c;
}

/* Reads the date, the time or both that reach from the parser's place to `end`. */
int core_toml_read_time(struct toml_parser *p, const char *end, struct toml_node *node)
{
    struct reading r = {.parser = p, .at = p->at, .end = end, .start = p->at};
    enum toml_type type = TOML_LOCAL_TIME;
    const char *mark = p->at;
    while (core_toml_is_digit(*mark))
        mark++;
    int result = *mark == ':' ? take_time(&r) : take_date_and_time(&r, &type);
    if (result < 0)
        return result;
    if (r.at < r.end)
        return core_toml_refuse(p, r.at, "unexpected %s after the %s", core_toml_quote(r.at, 1).text,
                                core_toml_type_name(type));
    node->type = type;
    node->as.text.bytes = p->text;
    node->as.text.length = (size_t)(end - p->at);
    for (; p->at < end; p->at++)
        *p->text++ = normalised(*p->at);
    *p->text++ = '\0';
    return 0;
}
