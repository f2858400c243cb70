/* Manifests, lists and configurations: whatever they say, counts and digests that come out are what the store may use, and a
 * configuration becomes a resolved image that reads back. The first byte chooses the document. */
#include "image_store_impl.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void manifest(const char *text, size_t size)
{
    struct image_parts *parts = calloc(1, sizeof(*parts));
    struct kern_error err = {0};
    if (parts != NULL && image_parse_manifest(text, size, parts, &err) == 0) {
        if (parts->count == 0 || parts->count > IMAGE_LAYERS_MOST || !image_digest_is_valid(parts->config))
            abort();
        for (uint32_t i = 0; i < parts->count; i++)
            if (!image_digest_is_valid(parts->layer[i].blob))
                abort();
    }
    free(parts);
}

static void diffs(const char *text, size_t size)
{
    struct image_parts *parts = calloc(1, sizeof(*parts));
    struct kern_error err = {0};
    if (parts != NULL) {
        parts->count = 2;
        if (image_parse_diffs(text, size, parts, &err) == 0 &&
            (!image_digest_is_valid(parts->layer[0].diff) || !image_digest_is_valid(parts->layer[1].diff)))
            abort();
    }
    free(parts);
}

static void platform(const char *text, size_t size)
{
    char digest[IMAGE_DIGEST_SIZE] = "";
    struct kern_error err = {0};
    int is_list = 0;
    if (image_choose_own(text, size, digest, &is_list, &err) == 0 && is_list == 1 &&
        !image_digest_is_valid(digest))
        abort();
}

static void config(const char *text, size_t size)
{
    struct image_text out = {0};
    struct image_resolved image;
    struct kern_error err = {0};
    static const char *const lines[][2] = {{"kern-image", "1"}, {"ref", "r"},    {"digest", "d"},
                                           {"manifest", "m"},   {"config", "c"}, {"layer", "l"}};
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        if (image_text_line(&out, lines[i][0], lines[i][1]) != 0)
            abort();
    if (image_parse_config(text, size, &out, &err) == 0) {
        if (image_text_line(&out, "end", NULL) != 0 || image_resolved_parse(out.text, &image) != 0)
            abort();
        image_resolved_clear(&image);
    } else {
        free(out.text);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const readers[])(const char *text, size_t size) = {manifest, diffs, platform, config};
    if (size > 0)
        readers[data[0] % 4]((const char *)data + 1, size - 1);
    return 0;
}
