/* The reader of kern.toml: TOML 1.0, whole and nothing else, as a tree that knows where each key stood.
 * Runs in the supervisor's process before the box exists; it touches no descriptor and keeps no state.
 *
 * Two rules hold for every document: what TOML 1.0 calls valid is read, anything else is refused with
 * `FILE:LINE:COLUMN: what is wrong` (lines and columns count from 1, columns in characters, a leading byte
 * order mark is none). Time and memory grow with the length of the text, also for hostile documents. */
#ifndef CORE_TOML_H
#define CORE_TOML_H

#include "kern/plugin.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Bounds of kern, not of TOML: far above any real configuration, low enough for a small stack. */
#define CORE_TOML_MAX_SIZE  (4u * 1024 * 1024)
#define CORE_TOML_MAX_DEPTH 128u

enum toml_type {
    TOML_STRING,
    TOML_INTEGER,
    TOML_FLOAT,
    TOML_BOOLEAN,
    TOML_OFFSET_DATETIME,
    TOML_LOCAL_DATETIME,
    TOML_LOCAL_DATE,
    TOML_LOCAL_TIME,
    TOML_ARRAY,
    TOML_TABLE,
};

struct toml_doc;
struct toml_items;

/* A value and where it came from. Strings and keys may hold U+0000, so they carry a length; a NUL follows
 * them all the same. Everything belongs to the document and dies with it. */
struct toml_node {
    const char *key; /* NULL for the root and for the elements of an array */
    uint32_t key_length;
    enum toml_type type;
    uint32_t line, column;             /* of the key; of the value where there is no key */
    uint32_t value_line, value_column; /* of the value; of the key in its header for [tables] */
    union {
        /* TOML_STRING: decoded, a CRLF in a multi-line string read as LF. Dates and times: the text as
         * written, with `T` between date and time and `Z` in upper case; checked, never converted. */
        struct {
            const char *bytes;
            size_t length;
        } text;
        int64_t integer;
        double real; /* may be infinite or not a number; what exceeds a double is infinite */
        bool boolean;
        struct toml_items *items; /* arrays and tables: use the functions below */
    } as;
};

/* Reads a document of `length` bytes, which need not end in NUL and is not referred to afterwards.
 * `file_name` only serves the messages. Returns 0, -EINVAL for an invalid document or -ENOMEM. */
int core_toml_parse(const char *text, size_t length, const char *file_name, struct toml_doc **ret_doc,
                    struct kern_error *err);
void core_toml_free(struct toml_doc *doc);
const struct toml_node *core_toml_root(const struct toml_doc *doc);

/* Arrays and tables hold their items in the order of the text; anything else holds none. core_toml_at()
 * gives NULL past the end. The text orders a table by where each key first appeared. */
size_t core_toml_count(const struct toml_node *node);
const struct toml_node *core_toml_at(const struct toml_node *node, size_t number);

/* The entry of a table, or NULL where there is none or `node` is no table. */
const struct toml_node *core_toml_get(const struct toml_node *node, const char *key);
const struct toml_node *core_toml_find(const struct toml_node *node, const char *key, size_t length);

/* True for an array that [[headers]] made, which is never empty and holds tables only. */
bool core_toml_is_array_of_tables(const struct toml_node *node);

/* "string", "offset date-time", "array" ...: for messages about a wrong type. */
const char *core_toml_type_name(enum toml_type type);

/* Prints a value as JSON on one line, with no newline after it. Untagged: dates and times become strings,
 * and so do the floats that JSON lacks ("inf", "-inf", "nan"); integers keep all their digits; other floats
 * always show a point or an exponent. Tagged: each value that is neither array nor table becomes
 * {"type":"integer","value":"1"}, the form of the public TOML suite. Returns 0 or -EIO. */
int core_toml_print_json(const struct toml_node *node, FILE *out, int tagged);

#endif
