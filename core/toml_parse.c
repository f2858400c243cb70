/* The grammar of TOML: statements, headers, arrays, inline tables, and the rules on who may add to a table
 * that exists already. Runs in the supervisor's process before the box exists. */
#include "cleanup.h"
#include "toml_parser.h"

#include <errno.h>
#include <string.h>

static int read_value(struct toml_parser *p, struct toml_node *node, unsigned depth);

static void place_node(struct toml_parser *p, struct toml_node *node, const char *at)
{
    struct toml_place place = core_toml_locate(p, at);
    node->line = place.line;
    node->column = place.column;
    node->value_line = place.line;
    node->value_column = place.column;
}

/* Makes `node` an empty table or array; `depth` counts what it lies in. Whoever walks the tree later may
 * recurse, because no document gets past this bound. */
static int make_container(struct toml_parser *p, struct toml_node *node, enum toml_type type,
                          enum toml_origin origin, unsigned depth, const char *at)
{
    if (depth > CORE_TOML_MAX_DEPTH)
        return core_toml_refuse(p, at, "tables and arrays are nested more than %u deep", CORE_TOML_MAX_DEPTH);
    struct toml_items *items = core_toml_new_items(p->doc, origin, depth);
    if (items == NULL)
        return core_toml_refuse_memory(p);
    node->type = type;
    node->as.items = items;
    return 0;
}

static int add_container(struct toml_parser *p, struct toml_items *parent, const struct toml_key *key,
                         const char *at, enum toml_type type, enum toml_origin origin,
                         struct toml_node **ret_node)
{
    struct toml_node *node = core_toml_add(p->doc, parent, key);
    if (node == NULL)
        return core_toml_refuse_memory(p);
    place_node(p, node, at);
    int r = make_container(p, node, type, origin, parent->depth + 1u, at);
    if (r == 0)
        *ret_node = node;
    return r;
}

static int refuse_taken(struct toml_parser *p, const struct toml_key *key, const struct toml_node *owner,
                        const char *why)
{
    return core_toml_refuse(p, key->at, "the key %s %s (line %u, column %u)",
                            core_toml_quote(key->bytes, key->length).text, why, owner->line, owner->column);
}

/* Follows one part of a dotted key before its last: `a` in `a.b = 1`. */
static int enter_dotted(struct toml_parser *p, const struct toml_key *key, struct toml_node **table)
{
    struct toml_node *node = core_toml_lookup(*table, key->bytes, key->length);
    if (node == NULL)
        return add_container(p, (*table)->as.items, key, key->at, TOML_TABLE, TOML_BY_DOTS, table);
    if (node->type == TOML_ARRAY)
        return refuse_taken(p, key, node, "is an array, a dotted key cannot add to it");
    if (node->type != TOML_TABLE)
        return refuse_taken(p, key, node, "has a value already, it is no table");
    if (node->as.items->origin == TOML_BY_VALUE)
        return refuse_taken(p, key, node, "is an inline table, nothing can be added to it");
    if (node->as.items->origin == TOML_BY_HEADER)
        return refuse_taken(p, key, node, "is a table with a header of its own, add to it there");
    node->as.items->origin = TOML_BY_DOTS;
    *table = node;
    return 0;
}

/* Follows one part of a header before its last: `a` in `[a.b]`. */
static int enter_header(struct toml_parser *p, const struct toml_key *key, struct toml_node **table)
{
    struct toml_node *node = core_toml_lookup(*table, key->bytes, key->length);
    if (node == NULL)
        return add_container(p, (*table)->as.items, key, key->at, TOML_TABLE, TOML_BY_PATH, table);
    if (node->type != TOML_TABLE && node->type != TOML_ARRAY)
        return refuse_taken(p, key, node, "has a value already, it is no table");
    struct toml_items *items = node->as.items;
    if (items->origin == TOML_BY_VALUE)
        return refuse_taken(p, key, node,
                            node->type == TOML_ARRAY ? "is an inline array, nothing can be added to it"
                                                     : "is an inline table, nothing can be added to it");
    *table = node->type == TOML_ARRAY ? items->nodes[items->count - 1] : node;
    return 0;
}

/* The last part of [header]. */
static int open_table(struct toml_parser *p, const struct toml_key *key, struct toml_node **table)
{
    struct toml_node *node = core_toml_lookup(*table, key->bytes, key->length);
    if (node == NULL)
        return add_container(p, (*table)->as.items, key, key->at, TOML_TABLE, TOML_BY_HEADER, table);
    if (core_toml_is_array_of_tables(node))
        return refuse_taken(p, key, node, "is an array of tables, its header needs [[ and ]]");
    if (node->type != TOML_TABLE)
        return refuse_taken(p, key, node, "has a value already");
    if (node->as.items->origin != TOML_BY_PATH)
        return refuse_taken(p, key, node, "is defined already");
    node->as.items->origin = TOML_BY_HEADER;
    place_node(p, node, key->at);
    *table = node;
    return 0;
}

/* The last part of [[header]]: a new table at the end of the array. */
static int open_element(struct toml_parser *p, const struct toml_key *key, struct toml_node **table)
{
    struct toml_node *array = core_toml_lookup(*table, key->bytes, key->length);
    int r = 0;
    if (array == NULL)
        r = add_container(p, (*table)->as.items, key, key->at, TOML_ARRAY, TOML_BY_HEADER, &array);
    else if (!core_toml_is_array_of_tables(array))
        r = refuse_taken(p, key, array,
                         array->type == TOML_TABLE   ? "is a table already, not an array of tables"
                         : array->type == TOML_ARRAY ? "is an inline array, nothing can be added to it"
                                                     : "has a value already");
    if (r < 0)
        return r;
    return add_container(p, array->as.items, NULL, key->at, TOML_TABLE, TOML_BY_HEADER, table);
}

/* Reads a key of one part or several, enters each part but the last through `enter`. */
static int read_path(struct toml_parser *p, struct toml_node **table, struct toml_key *ret_last,
                     int (*enter)(struct toml_parser *, const struct toml_key *, struct toml_node **))
{
    for (;;) {
        struct toml_key key;
        core_toml_skip_space(p);
        int r = core_toml_read_key(p, &key);
        if (r < 0)
            return r;
        core_toml_skip_space(p);
        if (!core_toml_next_is(p, '.')) {
            *ret_last = key;
            return 0;
        }
        p->at++;
        r = enter(p, &key, table);
        if (r < 0)
            return r;
    }
}

static int read_header(struct toml_parser *p, struct toml_node **ret_section)
{
    p->at++;
    bool is_array = core_toml_next_is(p, '[');
    if (is_array)
        p->at++;
    struct toml_node *table = core_toml_mutable_root(p->doc);
    struct toml_key key;
    int r = read_path(p, &table, &key, enter_header);
    if (r < 0)
        return r;
    const char *closing = is_array ? "]]" : "]";
    if ((size_t)(p->end - p->at) < strlen(closing) || memcmp(p->at, closing, strlen(closing)) != 0)
        return core_toml_refuse(p, p->at, "expected \"%s\" after the name of the table, found %s", closing,
                                core_toml_found(p, p->at).text);
    p->at += strlen(closing);
    r = is_array ? open_element(p, &key, &table) : open_table(p, &key, &table);
    if (r == 0)
        *ret_section = table;
    return r;
}

static int read_key_value(struct toml_parser *p, struct toml_node *table)
{
    struct toml_key key;
    int r = read_path(p, &table, &key, enter_dotted);
    if (r < 0)
        return r;
    if (!core_toml_next_is(p, '='))
        return core_toml_refuse(p, p->at, "expected \"=\" after the key %s, found %s",
                                core_toml_quote(key.bytes, key.length).text, core_toml_found(p, p->at).text);
    struct toml_node *node = core_toml_lookup(table, key.bytes, key.length);
    if (node != NULL)
        return refuse_taken(p, &key, node, "is defined already");
    node = core_toml_add(p->doc, table->as.items, &key);
    if (node == NULL)
        return core_toml_refuse_memory(p);
    place_node(p, node, key.at);
    p->at++;
    core_toml_skip_space(p);
    struct toml_place place = core_toml_locate(p, p->at);
    node->value_line = place.line;
    node->value_column = place.column;
    return read_value(p, node, table->as.items->depth);
}

static int read_array(struct toml_parser *p, struct toml_node *array)
{
    const char *start = p->at++;
    struct toml_items *items = array->as.items;
    for (;;) {
        core_toml_skip_blank(p);
        if (core_toml_next_is(p, ']'))
            break;
        if (p->at == p->end)
            return core_toml_refuse(p, start, "the array has no closing \"]\"");
        struct toml_node *node = core_toml_add(p->doc, items, NULL);
        if (node == NULL)
            return core_toml_refuse_memory(p);
        place_node(p, node, p->at);
        int r = read_value(p, node, items->depth);
        if (r < 0)
            return r;
        core_toml_skip_blank(p);
        if (core_toml_next_is(p, ',')) {
            p->at++;
            continue;
        }
        if (p->at < p->end && *p->at != ']')
            return core_toml_refuse(p, p->at, "expected \",\" or \"]\" in the array, found %s",
                                    core_toml_found(p, p->at).text);
    }
    p->at++;
    return 0;
}

/* TOML 1.0 keeps an inline table on one line; only a value inside it may go over several. */
static int skip_space_in_line(struct toml_parser *p)
{
    core_toml_skip_space(p);
    if (p->at < p->end && (*p->at == '\n' || *p->at == '\r' || *p->at == '#'))
        return core_toml_refuse(p, p->at, "an inline table must end on its line, found %s; use a [table]",
                                core_toml_found(p, p->at).text);
    return 0;
}

static int read_inline_table(struct toml_parser *p, struct toml_node *table)
{
    p->at++;
    int r = skip_space_in_line(p);
    bool more = !core_toml_next_is(p, '}');
    while (r == 0 && more) {
        r = read_key_value(p, table);
        if (r == 0)
            r = skip_space_in_line(p);
        if (r < 0 || core_toml_next_is(p, '}'))
            break;
        if (!core_toml_next_is(p, ','))
            return core_toml_refuse(p, p->at, "expected \",\" or \"}\" in the inline table, found %s",
                                    core_toml_found(p, p->at).text);
        p->at++;
        r = skip_space_in_line(p);
        if (r == 0 && core_toml_next_is(p, '}'))
            return core_toml_refuse(p, p->at, "an inline table cannot end in a comma");
    }
    if (r == 0)
        p->at++;
    return r;
}

/* `depth` is that of the table or array which holds the value. Only this function recurses, through the two
 * kinds of value that open a level, which make_container() bounds. */
static int read_value(struct toml_parser *p, struct toml_node *node, unsigned depth)
{
    char first = p->at < p->end ? *p->at : '\0';
    if (first == '"' || first == '\'')
        return core_toml_read_string(p, node);
    if (first != '[' && first != '{')
        return core_toml_read_scalar(p, node);
    int r = make_container(p, node, first == '[' ? TOML_ARRAY : TOML_TABLE, TOML_BY_VALUE, depth + 1, p->at);
    if (r < 0)
        return r;
    return first == '[' ? read_array(p, node) : read_inline_table(p, node);
}

static int read_document(struct toml_parser *p)
{
    struct toml_node *section = core_toml_mutable_root(p->doc);
    for (;;) {
        core_toml_skip_blank(p);
        if (p->at == p->end)
            return 0;
        bool is_header = *p->at == '[';
        int r = is_header ? read_header(p, &section) : read_key_value(p, section);
        if (r == 0)
            r = core_toml_end_line(p, is_header ? "the header" : "the value");
        if (r < 0)
            return r;
    }
}

static void free_doc(struct toml_doc **doc)
{
    core_toml_free(*doc);
}

int core_toml_parse(const char *text, size_t length, const char *file_name, struct toml_doc **ret_doc,
                    struct kern_error *err)
{
    static const char byte_order_mark[] = "\xEF\xBB\xBF";
    size_t mark = strlen(byte_order_mark);
    if (length == 0)
        text = ""; /* an empty file may come as NULL, from which no pointer may be derived */
    if (length >= mark && memcmp(text, byte_order_mark, mark) == 0) {
        text += mark;
        length -= mark;
    }
    struct toml_parser p = {
        .start = text,
        .at = text,
        .end = text + length,
        .file_name = file_name,
        .err = err,
        .place = {.at = text, .line = 1, .column = 1},
    };
    if (length > CORE_TOML_MAX_SIZE)
        return core_toml_refuse(&p, text, "the document has %zu bytes, at most %u are read", length,
                                CORE_TOML_MAX_SIZE);
    int r = core_toml_check_characters(&p);
    if (r < 0)
        return r;
    cleanup(free_doc) struct toml_doc *doc = core_toml_new(length, &p.text);
    if (doc == NULL)
        return core_toml_refuse_memory(&p);
    p.doc = doc;
    r = read_document(&p);
    if (r == 0)
        *ret_doc = steal_ptr(doc);
    return r;
}
