/* See audit_line.h. Names in a line come from a box, so every byte is judged. Pure; runs in kern. */
#include "audit_line.h"

#include <stdio.h>
#include <string.h>

/* What must still fit: `"cut":true]}` and the line end. */
#define TAIL 24

static void put(struct audit_line *line, const char *bytes, size_t length)
{
    if (line->cut || line->used + length > AUDIT_LINE_MOST - TAIL) {
        line->cut = 1;
        return;
    }
    memcpy(line->text + line->used, bytes, length);
    line->used += length;
    line->text[line->used] = '\0';
}

/* Length of the UTF-8 character that begins here, or 0. */
static size_t character(const unsigned char *at)
{
    size_t length = at[0] < 0x80                    ? 1
                    : at[0] >= 0xc2 && at[0] < 0xe0 ? 2
                    : at[0] >= 0xe0 && at[0] < 0xf0 ? 3
                    : at[0] >= 0xf0 && at[0] < 0xf5 ? 4
                                                    : 0;
    for (size_t i = 1; i < length; i++)
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    int bad = (at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xed && at[1] > 0x9f) ||
              (at[0] == 0xf0 && at[1] < 0x90) || (at[0] == 0xf4 && at[1] > 0x8f);
    return bad ? 0 : length;
}

static void put_string(struct audit_line *line, const char *text)
{
    if (text == NULL) {
        put(line, "null", 4);
        return;
    }
    put(line, "\"", 1);
    const unsigned char *at = (const unsigned char *)text;
    while (*at != '\0' && !line->cut) {
        char escaped[8];
        size_t length = character(at);
        if (length == 0) {
            put(line, "\\ufffd", 6);
            length = 1;
        } else if (*at == '"' || *at == '\\') {
            escaped[0] = '\\';
            escaped[1] = (char)*at;
            put(line, escaped, 2);
        } else if (*at < 0x20 || *at == 0x7f) {
            (void)snprintf(escaped, sizeof(escaped), "\\u%04x", *at); /* six characters */
            put(line, escaped, 6);
        } else {
            put(line, (const char *)at, length);
        }
        at += length;
    }
    /* A string that is cut is still closed: TAIL keeps the room. put() is all or nothing, so no escape is left half. */
    line->text[line->used++] = '"';
    line->text[line->used] = '\0';
}

static void put_key(struct audit_line *line, const char *key)
{
    put(line, ", \"", 3);
    put(line, key, strlen(key));
    put(line, "\": ", 3);
}

/* Whole or not at all: a key without its value would be no JSON. */
static int has_room(struct audit_line *line, const char *key)
{
    if (!line->cut && line->used + strlen(key) + 48 > AUDIT_LINE_MOST - TAIL)
        line->cut = 1;
    return !line->cut;
}

/* Days since the Epoch as a date of the Gregorian calendar, without libc's time zones. */
static void date_of(int64_t days, int64_t *ret_year, int *ret_month, int *ret_day)
{
    days += 719468;
    int64_t era = days / 146097, of_era = days - era * 146097;
    int64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    int64_t of_year = of_era - (365 * year + year / 4 - year / 100);
    int64_t month = (5 * of_year + 2) / 153;
    *ret_day = (int)(of_year - (153 * month + 2) / 5 + 1);
    *ret_month = (int)(month < 10 ? month + 3 : month - 9);
    *ret_year = year + era * 400 + (*ret_month <= 2);
}

void audit_line_begin(struct audit_line *line, int64_t seconds, int ms, const char *box, const char *event)
{
    char stamp[80];
    int64_t year = 0;
    int month = 0, day = 0;
    line->used = 0;
    line->cut = line->in_list = 0;
    if (seconds < 0)
        seconds = 0; /* a clock before the Epoch says nothing */
    date_of(seconds / 86400, &year, &month, &day);
    int length = snprintf(stamp, sizeof(stamp), "{\"time\": \"%04lld-%02d-%02dT%02d:%02d:%02d.%03dZ\"",
                          (long long)year, month, day, (int)(seconds / 3600 % 24), (int)(seconds / 60 % 60),
                          (int)(seconds % 60), ms);
    put(line, stamp, (size_t)length);
    audit_line_text(line, "box", box);
    audit_line_text(line, "event", event);
}

void audit_line_text(struct audit_line *line, const char *key, const char *value)
{
    if (!has_room(line, key))
        return;
    put_key(line, key);
    put_string(line, value);
}

void audit_line_number(struct audit_line *line, const char *key, int64_t value)
{
    char text[24];
    if (!has_room(line, key))
        return;
    put_key(line, key);
    put(line, text, (size_t)snprintf(text, sizeof(text), "%lld", (long long)value));
}

void audit_line_list(struct audit_line *line, const char *key)
{
    if (has_room(line, key)) {
        put_key(line, key);
        put(line, "[", 1);
        line->in_list = 1;
    }
}

void audit_line_item(struct audit_line *line, const char *value)
{
    if (!has_room(line, ""))
        return;
    if (line->text[line->used - 1] != '[')
        put(line, ", ", 2);
    put_string(line, value);
}

/* Also where the line was cut inside the list, but not where it was cut before. */
void audit_line_list_end(struct audit_line *line)
{
    if (!line->in_list)
        return;
    line->in_list = 0;
    line->text[line->used++] = ']';
    line->text[line->used] = '\0';
}

void audit_line_end(struct audit_line *line)
{
    static const char cut[] = ", \"cut\": true}\n", whole[] = "}\n";
    const char *tail = line->cut ? cut : whole;
    memcpy(line->text + line->used, tail, strlen(tail) + 1); /* TAIL keeps the room */
    line->used += strlen(tail);
}
