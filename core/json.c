/* Writing JSON; see json.h. Pure. Bytes that are no valid UTF-8 are written as U+FFFD, so that the object is always valid. */
#include "json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void append(struct core_json *json, const char *bytes, size_t length)
{
    if (json->failed)
        return;
    if (json->length + length + 1 > json->room) {
        size_t room = (json->length + length + 1) * 2;
        char *grown = realloc(json->text, room);
        if (grown == NULL) {
            json->failed = true;
            return;
        }
        json->text = grown;
        json->room = room;
    }
    memcpy(json->text + json->length, bytes, length);
    json->length += length;
    json->text[json->length] = '\0';
}

static void put(struct core_json *json, const char *text)
{
    append(json, text, strlen(text));
}

/* Length of the valid UTF-8 sequence at `s`, or 0. */
static size_t sequence(const unsigned char *s)
{
    if (s[0] >= 0xc2 && s[0] <= 0xdf && (s[1] & 0xc0) == 0x80)
        return 2;
    bool cont = (s[0] >= 0xe0 && s[0] <= 0xf4) && (s[1] & 0xc0) == 0x80 && (s[2] & 0xc0) == 0x80;
    if (!cont)
        return 0;
    if (s[0] <= 0xef)
        return (s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ? 0 : 3;
    if ((s[3] & 0xc0) != 0x80 || (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
        return 0;
    return 4;
}

static void quote(struct core_json *json, const char *text)
{
    put(json, "\"");
    for (const unsigned char *c = (const unsigned char *)text; *c != '\0';) {
        char escape[8];
        size_t length = *c >= 0x80 ? sequence(c) : 1;
        if (*c == '"' || *c == '\\') {
            (void)snprintf(escape, sizeof(escape), "\\%c", *c); /* fits */
            put(json, escape);
        } else if (*c < 0x20 || *c == 0x7f) {
            (void)snprintf(escape, sizeof(escape), "\\u%04x", *c); /* fits */
            put(json, escape);
        } else if (length == 0) {
            put(json, "\\ufffd");
            length = 1;
        } else {
            append(json, (const char *)c, length);
        }
        c += length;
    }
    put(json, "\"");
}

static void start(struct core_json *json, const char *key)
{
    if (json->comma)
        put(json, ", ");
    json->comma = true;
    if (key == NULL)
        return;
    quote(json, key);
    put(json, ": ");
}

void core_json_open(struct core_json *json, const char *key, char bracket)
{
    start(json, key);
    append(json, &bracket, 1);
    json->comma = false;
}

void core_json_close(struct core_json *json, char bracket)
{
    append(json, &bracket, 1);
    json->comma = true;
}

void core_json_string(struct core_json *json, const char *key, const char *value)
{
    start(json, key);
    if (value != NULL)
        quote(json, value);
    else
        put(json, "null");
}

void core_json_int(struct core_json *json, const char *key, int64_t value)
{
    char text[32];
    (void)snprintf(text, sizeof(text), "%lld", (long long)value); /* fits */
    start(json, key);
    put(json, text);
}

void core_json_known(struct core_json *json, const char *key, int64_t value)
{
    if (value < 0)
        core_json_null(json, key);
    else
        core_json_int(json, key, value);
}

void core_json_double(struct core_json *json, const char *key, double value)
{
    char text[40];
    (void)snprintf(text, sizeof(text), "%.3f", value); /* kern never sets LC_NUMERIC: the point is a point */
    start(json, key);
    put(json, text);
}

void core_json_bool(struct core_json *json, const char *key, bool value)
{
    start(json, key);
    put(json, value ? "true" : "false");
}

void core_json_null(struct core_json *json, const char *key)
{
    start(json, key);
    put(json, "null");
}

void core_json_free(struct core_json *json)
{
    free(json->text);
    *json = (struct core_json){0};
}
