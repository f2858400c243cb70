/* libFuzzer: any document as a kern.toml, trusted and not; what is accepted must resolve into values without
 * a fault. Build: clang -fsanitize=fuzzer,address,undefined. The corpus is that of the TOML reader and
 * etc/kern.toml.example. */
#include "config_internal.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Everything a run would ask: all profiles into one box. */
static void resolve(const struct core_config *config, struct core_catalog *catalog)
{
    struct kern_values box = {0};
    for (size_t i = 0; i < catalog->count; i++)
        if (core_values_add(&box, catalog->plugin[i].table->options, KERN_OPT_FLAG | KERN_OPT_BOX, NULL) < 0)
            abort();                           /* the tables are right, whatever the document says */
    (void)core_config_box(config, &box, NULL); /* accepted or not, it must not crash */
    for (size_t i = 0; i < catalog->count; i++) {
        struct core_plugin *plugin = &catalog->plugin[i];
        const char *kind = plugin->table->profile;
        if (kind == NULL)
            continue;
        for (const char *const *name = core_config_names(config, kind); *name != NULL; name++)
            if (core_config_profile(config, plugin, *name, NULL) < 0)
                abort(); /* a file that was accepted has no profile that is refused */
        for (uint32_t n = 0; n < plugin->profile_count; n++)
            (void)core_config_apply_profile(&plugin->profile[n], kind, &box, NULL, NULL, NULL); /* the same */
    }
    core_values_clear(&box);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    struct core_catalog catalog = {0};
    struct core_config *config = NULL;
    struct kern_error err = {0};
    /* The last byte chooses the trust, so that the documents of a corpus stay what they are. */
    struct config_source source = {.path = strdup("kern.toml"),
                                   .folder = strdup("/usr"),
                                   .text = malloc(size),
                                   .length = size - 1,
                                   .trust = data[size - 1] % 2 == 0 ? CORE_CONFIG_OWN : CORE_CONFIG_FOREIGN};
    if (source.path == NULL || source.folder == NULL || source.text == NULL)
        abort();
    memcpy(source.text, data, size - 1);
    if (core_catalog_builtin(&catalog, NULL) < 0)
        abort();
    if (config_parse(&source, &catalog, &config, NULL, NULL, &err) == 0)
        resolve(config, &catalog);
    else if (err.message[0] == '\0')
        abort(); /* refused without a word */
    core_config_free(config);
    core_catalog_clear(&catalog);
    config_source_clear(&source);
    return 0;
}
