/* Where in a TOML text something stands, and how a refusal says so. Runs in the supervisor's process before
 * the box exists. */
#include "error.h"
#include "toml_parser.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define FILE_NAME_SHOWN 160u
#define CHARACTER_SHOWN 12u /* the longest escape and its NUL */

/* Counts on from the last place asked for: the parser asks in the order of the text, so all its questions
 * together read the text once. Only an error looks back. */
struct toml_place core_toml_locate(struct toml_parser *p, const char *at)
{
    if (p->place.at > at)
        p->place = (struct toml_place){.at = p->start, .line = 1, .column = 1};
    struct toml_place place = p->place;
    for (; place.at < at; place.at++) {
        if (*place.at == '\n') {
            place.line++;
            place.column = 1;
        } else if (((unsigned char)*place.at & 0xC0) != 0x80) {
            place.column++; /* bytes that continue a character do not count */
        }
    }
    p->place = place;
    return place;
}

int core_toml_refuse(struct toml_parser *p, const char *at, const char *format, ...)
{
    struct toml_place place = core_toml_locate(p, at);
    char message[sizeof(((struct kern_error *)NULL)->message)];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(message, sizeof(message), format, args); /* a cut message still tells the place */
    va_end(args);
    size_t length = strlen(p->file_name);
    bool whole = length <= FILE_NAME_SHOWN; /* a long path must not push the cause out of the message */
    return kern_refuse(p->err, 0, "%s%s:%u:%u: %s", whole ? "" : "...",
                       whole ? p->file_name : p->file_name + length - FILE_NAME_SHOWN, place.line,
                       place.column, message);
}

int core_toml_refuse_memory(struct toml_parser *p)
{
    return kern_refuse(p->err, ENOMEM, "cannot read \"%.*s\"", (int)FILE_NAME_SHOWN, p->file_name);
}

/* What a terminal would obey or reorder instead of show. */
static bool is_unseen(uint32_t character)
{
    return character < 0x20 || (character >= 0x7F && character < 0xA0) ||
           (character >= 0x200B && character <= 0x200F) || (character >= 0x2028 && character <= 0x202E) ||
           (character >= 0x2060 && character <= 0x206F) || character == 0xFEFF;
}

static size_t show_character(const char *at, const char *end, char shown[static CHARACTER_SHOWN])
{
    uint32_t character;
    size_t size = core_toml_decode(at, end, &character);
    if (size == 0) {
        (void)snprintf(shown, CHARACTER_SHOWN, "\\x%02X", (unsigned char)*at); /* always fits */
        return 1;
    }
    if (character == '"' || character == '\\')
        (void)snprintf(shown, CHARACTER_SHOWN, "\\%c", (char)character); /* always fits */
    else if (is_unseen(character))
        (void)snprintf(shown, CHARACTER_SHOWN, "\\u%04X", character); /* always fits */
    else
        (void)snprintf(shown, CHARACTER_SHOWN, "%.*s", (int)size, at); /* always fits */
    return size;
}

struct toml_quoted core_toml_quote(const char *bytes, size_t length)
{
    struct toml_quoted quoted = {.text = "\""};
    size_t used = 1;
    const char *end = bytes + length;
    const char *closing = "\"";
    while (bytes < end) {
        char shown[CHARACTER_SHOWN];
        bytes += show_character(bytes, end, shown);
        size_t more = strlen(shown);
        if (used + more + sizeof("...\"") > sizeof(quoted.text)) {
            closing = "...\"";
            break;
        }
        memcpy(quoted.text + used, shown, more);
        used += more;
    }
    memcpy(quoted.text + used, closing, strlen(closing) + 1);
    return quoted;
}

static bool is_word(char c)
{
    return core_toml_is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c != '\0' && strchr("_-+.:/", c) != NULL);
}

struct toml_quoted core_toml_found(const struct toml_parser *p, const char *at)
{
    if (at >= p->end)
        return (struct toml_quoted){.text = "the end of the file"};
    if (*at == '\n' || *at == '\r')
        return (struct toml_quoted){.text = "the end of the line"};
    const char *end = at;
    while (end < p->end && is_word(*end))
        end++;
    if (end > at)
        return core_toml_quote(at, (size_t)(end - at));
    uint32_t character;
    size_t size = core_toml_decode(at, p->end, &character);
    return core_toml_quote(at, size > 0 ? size : 1);
}
