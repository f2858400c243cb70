/* What the files of the TOML reader share and nobody else includes: the state of one parse, the tree that
 * it grows, and the pieces of the grammar. Runs where toml.h says. */
#ifndef CORE_TOML_PARSER_H
#define CORE_TOML_PARSER_H

#include "toml.h"

/* Who made a table or an array decides who may add to it later. */
enum toml_origin {
    TOML_BY_PATH,   /* a table that [a.b] implied for `a`: may still get a header or dotted keys of its own */
    TOML_BY_HEADER, /* [table], an element of [[array]], the [[array]] itself, the root */
    TOML_BY_DOTS,   /* a.b = 1 made `a`: more dotted keys or sub-tables, but no header of its own */
    TOML_BY_VALUE,  /* {...} and [...]: closed for good */
};

/* A node that the parser hands on always has its final address: `nodes` may move, what it lists does not. */
struct toml_items {
    struct toml_node **nodes;
    uint32_t count, room;
    struct toml_slot *slots; /* the index of a table that has outgrown a linear search */
    uint32_t slot_mask;
    uint16_t depth;
    uint16_t origin;
};

/* A point of the text whose line and column are known; counting goes on from there. */
struct toml_place {
    const char *at;
    uint32_t line, column;
};

struct toml_parser {
    const char *start, *at, *end;
    const char *file_name;
    struct kern_error *err;
    struct toml_doc *doc;
    struct toml_place place;
    /* Where the next decoded key or string goes. One buffer of length + 1 bytes holds them all: no token
     * decodes to more bytes than it has, and the delimiter after it (or the end) pays for its NUL. */
    char *text;
};

struct toml_key {
    const char *bytes;
    size_t length;
    const char *at; /* where it stands */
};

/* toml.c: the document and its tree. NULL means out of memory. */
struct toml_doc *core_toml_new(size_t length, char **ret_text);
struct toml_node *core_toml_mutable_root(struct toml_doc *doc);
struct toml_node *core_toml_lookup(const struct toml_node *table, const char *key, size_t length);
struct toml_items *core_toml_new_items(struct toml_doc *doc, enum toml_origin origin, unsigned depth);
struct toml_node *core_toml_add(struct toml_doc *doc, struct toml_items *items, const struct toml_key *key);

/* toml_place.c: positions and messages. */
struct toml_place core_toml_locate(struct toml_parser *p, const char *at);
int core_toml_refuse(struct toml_parser *p, const char *at, const char *format, ...) KERN_PRINTF(3, 4);
int core_toml_refuse_memory(struct toml_parser *p);
/* A quoted, escaped and shortened copy of text for a message, so that no document can write to a terminal. */
struct toml_quoted {
    char text[96];
};
struct toml_quoted core_toml_quote(const char *bytes, size_t length);
/* What stands at `at`: a quoted word or character, "the end of the line" or "the end of the file". */
struct toml_quoted core_toml_found(const struct toml_parser *p, const char *at);

/* toml_lex.c: characters, white space, keys and strings. */
size_t core_toml_decode(const char *at, const char *end, uint32_t *ret_character);
int core_toml_check_characters(struct toml_parser *p);
void core_toml_skip_space(struct toml_parser *p);
void core_toml_skip_blank(struct toml_parser *p);
int core_toml_end_line(struct toml_parser *p, const char *after);
int core_toml_read_key(struct toml_parser *p, struct toml_key *ret_key);
int core_toml_read_string(struct toml_parser *p, struct toml_node *node);

/* toml_scalar.c: booleans, numbers, dates and times. */
int core_toml_read_scalar(struct toml_parser *p, struct toml_node *node);
/* toml_time.c */
bool core_toml_looks_like_time(const char *word, size_t length);
int core_toml_read_time(struct toml_parser *p, const char *end, struct toml_node *node);

static inline bool core_toml_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static inline bool core_toml_next_is(const struct toml_parser *p, char c)
{
    return p->at < p->end && *p->at == c;
}

#endif
