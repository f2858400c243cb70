/* The characters of TOML: which may appear at all, what may stand between tokens, keys and strings. Runs in
 * the supervisor's process before the box exists. */
#include "toml_parser.h"

#include <errno.h>
#include <string.h>

/* Decodes one character of UTF-8 and returns its size, or 0 for bytes that are none: a stray or missing
 * continuation, more bytes than needed, a surrogate, a value past U+10FFFF. */
size_t core_toml_decode(const char *at, const char *end, uint32_t *ret_character)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    unsigned char first = (unsigned char)*at;
    if (first < 0x80) {
        *ret_character = first;
        return 1;
    }
    size_t size = first < 0xC0 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF8 ? 4 : 0;
    if (size == 0 || (size_t)(end - at) < size)
        return 0;
    uint32_t character = first & (0x7Fu >> size);
    for (size_t i = 1; i < size; i++) {
        unsigned char byte = (unsigned char)at[i];
        if ((byte & 0xC0) != 0x80)
            return 0;
        character = character << 6 | (byte & 0x3F);
    }
    if (character < least[size] || character > 0x10FFFF || (character >= 0xD800 && character <= 0xDFFF))
        return 0;
    *ret_character = character;
    return size;
}

static int refuse_control(struct toml_parser *p, const char *at)
{
    if (*at == '\r')
        return core_toml_refuse(p, at, "a carriage return must be followed by a line feed");
    return core_toml_refuse(p, at, "the control character %s is not allowed, escape it in a \"string\"",
                            core_toml_quote(at, 1).text);
}

/* These rules hold everywhere in a document, in comments and strings too. Checking them first leaves the
 * rest of the parser with sound UTF-8 whose only control characters are tab, LF and CR before LF. */
int core_toml_check_characters(struct toml_parser *p)
{
    for (const char *at = p->at; at < p->end;) {
        unsigned char byte = (unsigned char)*at;
        if (byte >= 0x80) {
            uint32_t character;
            size_t size = core_toml_decode(at, p->end, &character);
            if (size == 0)
                return core_toml_refuse(p, at, "the byte 0x%02X is not valid UTF-8 here", byte);
            at += size;
            continue;
        }
        bool fine = (byte >= 0x20 && byte != 0x7F) || byte == '\n' || byte == '\t' ||
                    (byte == '\r' && at + 1 < p->end && at[1] == '\n');
        if (!fine)
            return refuse_control(p, at);
        at++;
    }
    return 0;
}

void core_toml_skip_space(struct toml_parser *p)
{
    while (p->at < p->end && (*p->at == ' ' || *p->at == '\t'))
        p->at++;
}

static void skip_comment(struct toml_parser *p)
{
    if (!core_toml_next_is(p, '#'))
        return;
    const char *newline = memchr(p->at, '\n', (size_t)(p->end - p->at));
    p->at = newline != NULL ? newline : p->end;
}

/* Skips what may stand between statements and inside an array: space, comments and line ends. */
void core_toml_skip_blank(struct toml_parser *p)
{
    for (;;) {
        core_toml_skip_space(p);
        skip_comment(p);
        if (!core_toml_next_is(p, '\n') && !core_toml_next_is(p, '\r'))
            return;
        p->at++;
    }
}

/* After a statement only a comment may share its line. */
int core_toml_end_line(struct toml_parser *p, const char *after)
{
    core_toml_skip_space(p);
    skip_comment(p);
    if (p->at == p->end || *p->at == '\n' || *p->at == '\r')
        return 0;
    return core_toml_refuse(p, p->at, "expected the end of the line after %s, found %s", after,
                            core_toml_found(p, p->at).text);
}

static bool is_bare(char c)
{
    return core_toml_is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-';
}

static void put_character(struct toml_parser *p, uint32_t character)
{
    if (character < 0x80) {
        *p->text++ = (char)character;
        return;
    }
    if (character < 0x800) {
        *p->text++ = (char)(0xC0 | character >> 6);
    } else {
        if (character < 0x10000) {
            *p->text++ = (char)(0xE0 | character >> 12);
        } else {
            *p->text++ = (char)(0xF0 | character >> 18);
            *p->text++ = (char)(0x80 | (character >> 12 & 0x3F));
        }
        *p->text++ = (char)(0x80 | (character >> 6 & 0x3F));
    }
    *p->text++ = (char)(0x80 | (character & 0x3F));
}

static int hex_value(char c)
{
    if (core_toml_is_digit(c))
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* `p->at` stands at the u or U after the backslash. */
static int read_unicode_escape(struct toml_parser *p)
{
    const char *backslash = p->at - 1;
    int digits = *p->at++ == 'u' ? 4 : 8;
    uint32_t character = 0;
    for (int i = 0; i < digits; i++, p->at++) {
        int value = p->at < p->end ? hex_value(*p->at) : -1;
        if (value < 0)
            return core_toml_refuse(p, backslash, "the escape \\%c needs %d hexadecimal digits", backslash[1],
                                    digits);
        character = character << 4 | (uint32_t)value;
    }
    if (character > 0x10FFFF || (character >= 0xD800 && character <= 0xDFFF))
        return core_toml_refuse(p, backslash, "the escape %.*s is not a Unicode character",
                                (int)(p->at - backslash), backslash);
    put_character(p, character);
    return 0;
}

static int read_escape(struct toml_parser *p)
{
    static const char letters[] = "btnfr\"\\";
    static const char meaning[] = "\b\t\n\f\r\"\\";
    const char *backslash = p->at++;
    if (p->at == p->end)
        return core_toml_refuse(p, backslash, "the file ends inside an escape");
    if (*p->at == 'u' || *p->at == 'U')
        return read_unicode_escape(p);
    const char *letter = memchr(letters, *p->at, sizeof(letters) - 1);
    if (letter != NULL) {
        *p->text++ = meaning[letter - letters];
        p->at++;
        return 0;
    }
    return core_toml_refuse(
        p, backslash, "a backslash before %s is no escape of TOML 1.0; write \\\\, or use 'single quotes'",
        core_toml_found(p, p->at).text);
}

/* A backslash at the end of a line takes the line end and all space up to the next character with it. */
static bool skip_line_ending_backslash(struct toml_parser *p)
{
    const char *at = p->at + 1;
    while (at < p->end && (*at == ' ' || *at == '\t'))
        at++;
    if (at == p->end || (*at != '\n' && *at != '\r'))
        return false;
    while (at < p->end && (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r'))
        at++;
    p->at = at;
    return true;
}

static int read_line_string(struct toml_parser *p)
{
    const char *start = p->at;
    char quote = *p->at++;
    for (;;) {
        if (p->at == p->end || *p->at == '\n' || *p->at == '\r')
            return core_toml_refuse(p, start, "the string has no closing %s on its line",
                                    quote == '"' ? "\"" : "'");
        if (*p->at == quote)
            break;
        if (*p->at == '\\' && quote == '"') {
            int r = read_escape(p);
            if (r < 0)
                return r;
            continue;
        }
        *p->text++ = *p->at++;
    }
    p->at++;
    return 0;
}

/* A run of quotes inside a multi-line string: three close it, and up to two before these are content.
 * Returns true once it is closed. */
static bool take_quotes(struct toml_parser *p, char quote)
{
    size_t run = 0;
    while (run < 5 && p->at < p->end && *p->at == quote) {
        run++;
        p->at++;
    }
    bool closed = run >= 3;
    for (size_t content = closed ? run - 3 : run; content > 0; content--)
        *p->text++ = quote;
    return closed;
}

static int read_multiline_string(struct toml_parser *p)
{
    const char *start = p->at;
    char quote = *start;
    p->at += 3;
    if (core_toml_next_is(p, '\r'))
        p->at++;
    if (core_toml_next_is(p, '\n'))
        p->at++;
    while (p->at < p->end) {
        if (*p->at == quote) {
            if (take_quotes(p, quote))
                return 0;
        } else if (*p->at == '\\' && quote == '"') {
            int r = skip_line_ending_backslash(p) ? 0 : read_escape(p);
            if (r < 0)
                return r;
        } else if (*p->at == '\r') {
            p->at++; /* a line end is LF here, whatever editor wrote the file */
        } else {
            *p->text++ = *p->at++;
        }
    }
    return core_toml_refuse(p, start, "the multi-line string has no closing %s",
                            quote == '"' ? "\"\"\"" : "'''");
}

static bool opens_multiline(const struct toml_parser *p)
{
    return p->end - p->at >= 3 && p->at[1] == p->at[0] && p->at[2] == p->at[0];
}

int core_toml_read_string(struct toml_parser *p, struct toml_node *node)
{
    char *bytes = p->text;
    int r = opens_multiline(p) ? read_multiline_string(p) : read_line_string(p);
    if (r < 0)
        return r;
    node->type = TOML_STRING;
    node->as.text.bytes = bytes;
    node->as.text.length = (size_t)(p->text - bytes);
    *p->text++ = '\0';
    return 0;
}

/* Reads one part of a key: bare, "basic" or 'literal'. */
int core_toml_read_key(struct toml_parser *p, struct toml_key *ret_key)
{
    struct toml_key key = {.bytes = p->text, .at = p->at};
    if (core_toml_next_is(p, '"') || core_toml_next_is(p, '\'')) {
        if (opens_multiline(p))
            return core_toml_refuse(p, p->at, "a multi-line string cannot be a key");
        int r = read_line_string(p);
        if (r < 0)
            return r;
    } else {
        while (p->at < p->end && is_bare(*p->at))
            *p->text++ = *p->at++;
        if (p->at == key.at)
            return core_toml_refuse(p, p->at, "expected a key, found %s", core_toml_found(p, p->at).text);
    }
    key.length = (size_t)(p->text - key.bytes);
    *p->text++ = '\0';
    *ret_key = key;
    return 0;
}
