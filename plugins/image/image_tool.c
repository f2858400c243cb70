/* The way from a verb to what it does; see image_tool.h. Runs in the process of the verb. */
#include "image_tool.h"

#include "kern/cleanup.h"

#include <stdio.h>
#include <string.h>

int image_open_for(const struct image_call *call, struct image_store **ret_store, struct kern_error *err)
{
    struct image_store *store = NULL;
    int failed = image_store_open(&store, err);
    if (failed != 0)
        return failed;
    int64_t bytes = kern_get_int(call->values, "max-size"), ratio = kern_get_int(call->values, "max-ratio"),
            entries = kern_get_int(call->values, "max-entries");
    if (bytes > 0)
        store->limits.bytes = (uint64_t)bytes;
    if (ratio > 0)
        store->limits.ratio = (uint64_t)ratio;
    if (entries > 0)
        store->limits.entries = (uint64_t)entries;
    *ret_store = store;
    return 0;
}

int image_tool(const char *verb, int count, char **words, const kern_values *values, struct kern_error *err)
{
    static const struct {
        const char *verb;
        int (*run)(const struct image_call *call, struct kern_error *err);
    } table[] = {{"load", image_cmd_load}, {"import", image_cmd_import},  {"save", image_cmd_save},
                 {"tag", image_cmd_tag},   {"images", image_cmd_images},  {"rmi", image_cmd_rmi},
                 {"gc", image_cmd_gc},     {"inspect", image_cmd_inspect}};
    const struct image_call call = {.count = count, .words = words, .values = values};
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        if (strcmp(verb, table[i].verb) == 0) {
            int failed = table[i].run(&call, err);
            if (failed == 0 && fflush(stdout) != 0)
                failed = kern_refuse(err, errno, "cannot print");
            return failed;
        }
    return kern_refuse(err, 0, "unknown verb \"%s\"", verb);
}

int image_tool_has(const char *text)
{
    struct image_store *store = NULL;
    struct image_resolved image = {0};
    struct kern_error ignored = {0};
    char full[IMAGE_REF_SIZE];
    int found =
        image_store_open(&store, &ignored) == 0 && image_find(store, text, full, &image, &ignored) == 0;
    image_resolved_clear(&image);
    image_store_close(store);
    return found;
}

int image_tool_repair(const char *full, int want_range, struct kern_error *err)
{
    struct image_store *store = NULL;
    struct image_ids ids;
    image_find_ids(want_range, &ids);
    int failed = image_store_open_with(&ids, &store, err);
    if (failed == 0)
        failed = image_store_repair(store, full, err);
    image_store_close(store);
    return failed;
}
