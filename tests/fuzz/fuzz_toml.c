/* Fuzz target of the TOML reader: any bytes are either read, and then every node makes sense and prints, or
 * refused with a message that names a place. Runs in the fuzzer's process. */
#include "toml.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void check_node(const struct toml_node *node, unsigned depth)
{
    require(node->line > 0 && node->column > 0 && node->value_line >= node->line && node->value_column > 0);
    require(depth <= CORE_TOML_MAX_DEPTH + 1);
    require(core_toml_type_name(node->type) != NULL);
    if (node->key != NULL)
        require(node->key[node->key_length] == '\0');
    if (node->type == TOML_STRING || (node->type >= TOML_OFFSET_DATETIME && node->type <= TOML_LOCAL_TIME))
        require(node->as.text.bytes[node->as.text.length] == '\0');
    for (size_t i = 0; i < core_toml_count(node); i++) {
        const struct toml_node *item = core_toml_at(node, i);
        require((item->key != NULL) == (node->type == TOML_TABLE));
        if (item->key != NULL)
            require(core_toml_find(node, item->key, item->key_length) == item);
        check_node(item, depth + 1);
    }
}

static void check_printing(const struct toml_node *root, int tagged)
{
    char *json = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&json, &size);
    require(out != NULL && core_toml_print_json(root, out, tagged) == 0 && fclose(out) == 0);
    require(size >= 2 && json[0] == '{' && json[size - 1] == '}');
    free(json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char name[] = "fuzz.toml";
    struct kern_error err = {0};
    struct toml_doc *doc = NULL;
    if (core_toml_parse((const char *)data, size, name, &doc, &err) != 0) {
        require(doc == NULL && err.category == KERN_ERROR_REFUSED);
        require(strncmp(err.message, name, strlen(name)) == 0 && err.message[strlen(name)] == ':');
        return 0;
    }
    check_node(core_toml_root(doc), 0);
    check_printing(core_toml_root(doc), 0);
    check_printing(core_toml_root(doc), 1);
    core_toml_free(doc);
    return 0;
}
