/* The TOML document: the arena that owns it, its tree of nodes, and look-up by key or number. Runs in the
 * supervisor's process before the box exists. */
#include "toml.h"
#include "toml_parser.h"

#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#define FIRST_CHUNK   8192u
#define LARGEST_CHUNK (1024u * 1024)
#define LINEAR_ITEMS  8u

struct chunk {
    struct chunk *older;
    size_t used, size;
    max_align_t memory[];
};

struct toml_doc {
    struct chunk *chunk;
    struct toml_node root;
};

/* Keeping the hash spares most comparisons, and rebuilding a larger index reads no key again. */
struct toml_slot {
    uint32_t hash;
    uint32_t number; /* of the item, from 1; 0 is free */
};

static struct chunk *add_chunk(struct chunk *older, size_t size)
{
    struct chunk *chunk = malloc(sizeof(*chunk) + size);
    if (chunk == NULL)
        return NULL;
    chunk->older = older;
    chunk->used = 0;
    chunk->size = size;
    return chunk;
}

static void *allocate(struct toml_doc *doc, size_t size)
{
    size = (size + sizeof(void *) - 1) & ~(sizeof(void *) - 1);
    struct chunk *chunk = doc->chunk;
    if (chunk->size - chunk->used < size) {
        size_t larger = chunk->size < LARGEST_CHUNK / 2 ? chunk->size * 2 : LARGEST_CHUNK;
        chunk = add_chunk(doc->chunk, larger > size ? larger : size);
        if (chunk == NULL)
            return NULL;
        doc->chunk = chunk;
    }
    void *memory = (char *)chunk->memory + chunk->used;
    chunk->used += size;
    return memory;
}

static void free_chunks(struct chunk *chunk)
{
    while (chunk != NULL) {
        struct chunk *older = chunk->older;
        free(chunk);
        chunk = older;
    }
}

/* The document lies in its own first chunk, together with the text buffer: a small file costs one or two
 * calls of malloc. */
struct toml_doc *core_toml_new(size_t length, char **ret_text)
{
    struct chunk *chunk = add_chunk(NULL, FIRST_CHUNK + sizeof(struct toml_doc) + length + 1);
    if (chunk == NULL)
        return NULL;
    struct toml_doc *doc = (struct toml_doc *)chunk->memory;
    *doc = (struct toml_doc){.chunk = chunk};
    chunk->used = sizeof(*doc);
    char *text = allocate(doc, length + 1);
    doc->root =
        (struct toml_node){.type = TOML_TABLE, .line = 1, .column = 1, .value_line = 1, .value_column = 1};
    doc->root.as.items = core_toml_new_items(doc, TOML_BY_HEADER, 0);
    if (text == NULL || doc->root.as.items == NULL) {
        free_chunks(doc->chunk);
        return NULL;
    }
    *ret_text = text;
    return doc;
}

void core_toml_free(struct toml_doc *doc)
{
    if (doc != NULL)
        free_chunks(doc->chunk);
}

const struct toml_node *core_toml_root(const struct toml_doc *doc)
{
    return &doc->root;
}

struct toml_node *core_toml_mutable_root(struct toml_doc *doc)
{
    return &doc->root;
}

struct toml_items *core_toml_new_items(struct toml_doc *doc, enum toml_origin origin, unsigned depth)
{
    struct toml_items *items = allocate(doc, sizeof(*items));
    if (items != NULL)
        *items = (struct toml_items){.origin = (uint16_t)origin, .depth = (uint16_t)depth};
    return items;
}

static inline uint64_t rotate(uint64_t value, unsigned by)
{
    return value << by | value >> (64 - by);
}

static inline void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[2] += v[3];
    v[1] = rotate(v[1], 13) ^ v[0];
    v[3] = rotate(v[3], 16) ^ v[2];
    v[0] = rotate(v[0], 32);
    v[2] += v[1];
    v[0] += v[3];
    v[1] = rotate(v[1], 17) ^ v[2];
    v[3] = rotate(v[3], 21) ^ v[0];
    v[2] = rotate(v[2], 32);
}

/* SipHash-1-3 under a secret of this process: whoever writes a document cannot choose keys that collide and
 * make reading it quadratic. The kernel hands every process 16 random bytes, so the secret costs no call. */
static uint32_t hash_key(const char *key, size_t length)
{
    uint64_t secret[2] = {0, 0};
    const void *random = (const void *)getauxval(AT_RANDOM);
    if (random != NULL)
        memcpy(secret, random, sizeof(secret));
    uint64_t v[4] = {secret[0] ^ 0x736f6d6570736575, secret[1] ^ 0x646f72616e646f6d,
                     secret[0] ^ 0x6c7967656e657261, secret[1] ^ 0x7465646279746573};
    uint64_t word;
    size_t left = length;
    for (; left >= sizeof(word); left -= sizeof(word), key += sizeof(word)) {
        memcpy(&word, key, sizeof(word));
        v[3] ^= word;
        sip_round(v);
        v[0] ^= word;
    }
    word = 0;
    memcpy(&word, key, left);
    word |= (uint64_t)length << 56;
    v[3] ^= word;
    sip_round(v);
    v[0] ^= word;
    v[2] ^= 0xff;
    for (int i = 0; i < 3; i++)
        sip_round(v);
    return (uint32_t)(v[0] ^ v[1] ^ v[2] ^ v[3]);
}

static bool has_key(const struct toml_node *node, const char *key, size_t length)
{
    return node->key_length == length && memcmp(node->key, key, length) == 0;
}

struct toml_node *core_toml_lookup(const struct toml_node *table, const char *key, size_t length)
{
    const struct toml_items *items = table->as.items;
    if (items->slots == NULL) {
        for (uint32_t i = 0; i < items->count; i++)
            if (has_key(items->nodes[i], key, length))
                return items->nodes[i];
        return NULL;
    }
    uint32_t hash = hash_key(key, length);
    for (uint32_t i = hash & items->slot_mask; items->slots[i].number != 0; i = (i + 1) & items->slot_mask) {
        struct toml_node *node = items->nodes[items->slots[i].number - 1];
        if (items->slots[i].hash == hash && has_key(node, key, length))
            return node;
    }
    return NULL;
}

static void fill_slot(struct toml_slot *slots, uint32_t mask, struct toml_slot slot)
{
    uint32_t i = slot.hash & mask;
    while (slots[i].number != 0)
        i = (i + 1) & mask;
    slots[i] = slot;
}

/* Makes an index with twice as many slots as `room` items need, so that probing stays short. */
static bool grow_index(struct toml_doc *doc, struct toml_items *items, uint32_t room)
{
    uint32_t size = room * 2;
    struct toml_slot *slots = allocate(doc, size * sizeof(*slots));
    if (slots == NULL)
        return false;
    memset(slots, 0, size * sizeof(*slots));
    if (items->slots == NULL)
        for (uint32_t i = 0; i < items->count; i++) {
            const struct toml_node *node = items->nodes[i];
            uint32_t hash = hash_key(node->key, node->key_length);
            fill_slot(slots, size - 1, (struct toml_slot){.hash = hash, .number = i + 1});
        }
    else
        for (uint32_t i = 0; i <= items->slot_mask; i++)
            if (items->slots[i].number != 0)
                fill_slot(slots, size - 1, items->slots[i]);
    items->slots = slots;
    items->slot_mask = size - 1;
    return true;
}

/* Doubling leaves the old lists in the arena: together they are no larger than the new one. */
static bool make_room(struct toml_doc *doc, struct toml_items *items, bool keyed)
{
    if (items->count < items->room)
        return true;
    uint32_t room = items->room == 0 ? LINEAR_ITEMS / 2 : items->room * 2;
    struct toml_node **nodes = allocate(doc, room * sizeof(struct toml_node *));
    if (nodes == NULL)
        return false;
    if (keyed && room > LINEAR_ITEMS && !grow_index(doc, items, room))
        return false;
    if (items->count > 0)
        memcpy(nodes, items->nodes, items->count * sizeof(struct toml_node *));
    items->nodes = nodes;
    items->room = room;
    return true;
}

/* Appends an item; its type, value and place are the caller's to set. `key` is NULL in an array. */
struct toml_node *core_toml_add(struct toml_doc *doc, struct toml_items *items, const struct toml_key *key)
{
    struct toml_node *node = allocate(doc, sizeof(*node));
    if (node == NULL || !make_room(doc, items, key != NULL))
        return NULL;
    *node = (struct toml_node){.key = NULL};
    items->nodes[items->count++] = node;
    if (key == NULL)
        return node;
    node->key = key->bytes;
    node->key_length = (uint32_t)key->length;
    if (items->slots != NULL) {
        struct toml_slot slot = {.hash = hash_key(key->bytes, key->length), .number = items->count};
        fill_slot(items->slots, items->slot_mask, slot);
    }
    return node;
}

static bool has_items(const struct toml_node *node)
{
    return node != NULL && (node->type == TOML_TABLE || node->type == TOML_ARRAY);
}

size_t core_toml_count(const struct toml_node *node)
{
    return has_items(node) ? node->as.items->count : 0;
}

const struct toml_node *core_toml_at(const struct toml_node *node, size_t number)
{
    return number < core_toml_count(node) ? node->as.items->nodes[number] : NULL;
}

const struct toml_node *core_toml_find(const struct toml_node *node, const char *key, size_t length)
{
    return node != NULL && node->type == TOML_TABLE ? core_toml_lookup(node, key, length) : NULL;
}

const struct toml_node *core_toml_get(const struct toml_node *node, const char *key)
{
    return core_toml_find(node, key, strlen(key));
}

bool core_toml_is_array_of_tables(const struct toml_node *node)
{
    return node != NULL && node->type == TOML_ARRAY && node->as.items->origin == TOML_BY_HEADER;
}

const char *core_toml_type_name(enum toml_type type)
{
    static const char *const names[] = {
        [TOML_STRING] = "string",
        [TOML_INTEGER] = "integer",
        [TOML_FLOAT] = "float",
        [TOML_BOOLEAN] = "boolean",
        [TOML_OFFSET_DATETIME] = "offset date-time",
        [TOML_LOCAL_DATETIME] = "local date-time",
        [TOML_LOCAL_DATE] = "local date",
        [TOML_LOCAL_TIME] = "local time",
        [TOML_ARRAY] = "array",
        [TOML_TABLE] = "table",
    };
    return names[type];
}
