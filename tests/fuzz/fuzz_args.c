/* libFuzzer target for the command line: the input is cut into words at each NUL, the first byte chooses the verb. Whatever
 * the words are, kern must either understand them or say what is wrong with them. */
#include "args.h"
#include "error.h"
#include "verbs.h"

#include <stdlib.h>
#include <string.h>

#define MAX_WORDS 256

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct kern_option hello_options[] = {
    {.name = "text", .type = KERN_STRING, .flags = KERN_OPT_FLAG, .help = "a text"},
    {.name = "loud", .type = KERN_BOOL, .flags = KERN_OPT_FLAG, .help = "a switch"},
    {.name = NULL},
};

static const struct kern_plugin hello = {.struct_size = sizeof(struct kern_plugin),
                                         .abi = KERN_ABI,
                                         .name = "hello",
                                         .profile = "hello",
                                         .options = hello_options};

static void require(bool holds)
{
    if (!holds)
        abort();
}

/* A block of its own for each word, so that reading past one is seen. */
static int split(const uint8_t *data, size_t size, char **argv)
{
    int argc = 1;
    while (size > 0 && argc < MAX_WORDS) {
        size_t length = strnlen((const char *)data, size);
        argv[argc++] = strndup((const char *)data, length);
        length += length < size;
        data += length;
        size -= length;
    }
    argv[argc] = NULL;
    return argc;
}

/* A failure is told, once, as a refusal; success leaves no trace of one. */
static void check_error(int result, const struct kern_error *err)
{
    require((result < 0) == core_error_is_set(err));
    require(result == 0 || err->category == KERN_ERROR_REFUSED);
    require(result == 0 || err->message[0] != '\0');
}

static void fuzz_box(int argc, char **argv)
{
    struct kern_error err = {0};
    struct core_catalog catalog = {0};
    struct core_plugin *plugin = NULL;
    struct kern_values box = {0};
    struct core_args args = {0};
    require(core_catalog_builtin(&catalog, &err) == 0);
    require(core_catalog_add(&catalog, &hello, NULL, &plugin, &err) == 0);
    for (size_t i = 0; i < catalog.count; i++) {
        if (catalog.plugin[i].builtin)
            require(core_values_add(&box, catalog.plugin[i].table->options, KERN_OPT_FLAG | KERN_OPT_BOX,
                                    &err) == 0);
    }
    int result = core_args_parse(argc, argv, &catalog, &box, &args, &err);
    check_error(result, &err);
    require(args.token_count < (size_t)argc);
    if (args.command != NULL) {
        require(strcmp(args.command[-1], "--") == 0);
        require(args.command + args.command_count == argv + argc && args.command_count > 0);
    }
    const char *config = core_args_peek(argc, argv, "--config");
    require(config == NULL || strlen(config) < SIZE_MAX);
    core_args_clear(&args);
    core_values_clear(&box);
    core_catalog_clear(&catalog);
}

static void fuzz_verb(const struct core_verb *verb, int argc, char **argv)
{
    struct kern_error err = {0};
    struct kern_values values = {0};
    int words = 0;
    bool help = false;
    int result = core_args_verb(argc, argv, verb->options, &values, 3, &words, &help, &err);
    check_error(result, &err);
    require(words >= 0 && words <= 3 && words < argc);
    core_values_clear(&values);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char box[] = "box";
    static char run[] = "run";
    static char config[] = "config";
    if (size == 0)
        return 0;
    char *argv[MAX_WORDS + 1];
    int argc = split(data + 1, size - 1, argv);
    char *owned[MAX_WORDS];
    memcpy(owned, argv, sizeof(owned)); /* words of a verb are moved */
    argv[0] = data[0] % 3 == 0 ? box : data[0] % 3 == 1 ? run : config;
    if (argv[0] == config)
        fuzz_verb(core_verb_find("config"), argc, argv);
    else
        fuzz_box(argc, argv);
    for (int i = 1; i < argc; i++)
        free(owned[i]);
    return 0;
}
