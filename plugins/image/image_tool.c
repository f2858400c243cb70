/* The way from a verb to what it does; see image_tool.h. Runs in the process of the verb. */
#include "image_tool.h"

#include "kern/foundation.h"

#include "kern/cleanup.h"

#include <stdio.h>
#include <string.h>

int image_open_for(const struct image_call *call, struct image_store **ret_store, struct kern_error *err)
{
    struct image_store *store = NULL;
    kern_values *settings = NULL;
    int failed = kern_registry_open(&settings, err);
    if (failed == 0)
        failed = image_store_open(&store, err);
    if (failed == 0) {
        image_store_set_limits(store, settings);
        image_store_set_limits(store, call->values);
        *ret_store = store;
    }
    kern_registry_close(settings);
    return failed;
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

/* The layers were taken with caps that somebody may have raised for them once; they are known by their digests now. */
int image_tool_repair(const char *full, int want_range, struct kern_error *err)
{
    struct image_store *store = NULL;
    struct image_ids ids;
    image_find_ids(want_range, &ids);
    int failed = image_store_open_with(&ids, &store, err);
    if (failed == 0)
        store->limits = (struct image_limits){.bytes = INT64_MAX,
                                              .ratio = UINT64_MAX,
                                              .entries = UINT64_MAX,
                                              .all_bytes = UINT64_MAX,
                                              .all_entries = UINT64_MAX};
    if (failed == 0)
        failed = image_store_repair(store, full, err);
    image_store_close(store);
    return failed;
}
