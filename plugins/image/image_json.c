/* Configurations, as they come from elsewhere, and what the store takes of manifests; see image_store.h. Pure. jansson reads with
 * its own bounds on depth; what is taken is vetted here: kinds, lengths, counts, digests. */
#include "image_document.h"
#include "image_store_impl.h"

#include "kern/cleanup.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

static void drop(json_t **value)
{
    json_decref(*value);
}
#define auto_json cleanup(drop) json_t

static json_t *read_object(const char *text, size_t length, const char *what, struct kern_error *err)
{
    json_error_t where;
    json_t *value = json_loadb(text, length, JSON_REJECT_DUPLICATES, &where);
    if (value == NULL) {
        kern_refuse(err, 0, "cannot read %s: %s (line %d)", what, where.text, where.line);
        return NULL;
    }
    if (json_is_object(value))
        return value;
    kern_refuse(err, 0, "cannot read %s: it is not a JSON object", what);
    json_decref(value);
    return NULL;
}

/* ---- Manifests ---- */

int image_parse_manifest(const char *text, size_t length, struct image_parts *ret_parts,
                         struct kern_error *err)
{
    cleanup(image_document_clear) struct image_document document = {0};
    int failed = image_document_read(text, length, NULL, &document, err);
    if (failed == 0 && document.is_index != 0)
        failed = kern_refuse(err, 0, "a list of manifests stands where one manifest is expected");
    if (failed != 0)
        return kern_wrap(err, "cannot use the image");
    memcpy(ret_parts->config, document.config.digest, IMAGE_DIGEST_SIZE);
    ret_parts->config_size = document.config.size;
    ret_parts->count = document.layer_count;
    for (uint32_t i = 0; i < document.layer_count; i++) {
        ret_parts->layer[i] = (struct image_layer){.size = document.layer[i].size};
        memcpy(ret_parts->layer[i].blob, document.layer[i].digest, IMAGE_DIGEST_SIZE);
    }
    return 0;
}

int image_parse_diffs(const char *text, size_t length, struct image_parts *parts, struct kern_error *err)
{
    static const char what[] = "the image's configuration";
    auto_json *root = read_object(text, length, what, err);
    if (root == NULL)
        return -EBADMSG;
    const json_t *diffs = json_object_get(json_object_get(root, "rootfs"), "diff_ids");
    if (json_array_size(diffs) != parts->count)
        return kern_refuse(err, 0, "cannot read %s: it names %zu layers, the manifest %u", what,
                           json_array_size(diffs), parts->count);
    for (uint32_t i = 0; i < parts->count; i++) {
        const char *diff = json_string_value(json_array_get(diffs, i));
        if (diff == NULL || !image_digest_is_valid(diff))
            return kern_refuse(err, 0, "cannot read %s: a digest in it is not sha256", what);
    }
    for (uint32_t i = 0; i < parts->count; i++)
        memcpy(parts->layer[i].diff, json_string_value(json_array_get(diffs, i)), IMAGE_DIGEST_SIZE);
    return 0;
}

/* ---- Lists of manifests ---- */

const char *image_own_platform(void)
{
#if defined(__x86_64__)
    return "linux/amd64";
#else
    return "linux/arm64";
#endif
}

int image_choose_own(const char *text, size_t length, char ret_digest[static IMAGE_DIGEST_SIZE],
                     int *ret_is_list, struct kern_error *err)
{
    cleanup(image_document_clear) struct image_document document = {0};
    struct image_platform own;
    const struct image_entry *entry = NULL;
    image_platform_native(&own);
    int failed = image_document_read(text, length, NULL, &document, err);
    if (failed == 0 && document.is_index != 0) {
        failed = image_document_choose(&document, &own, &entry, err);
        if (failed != 0)
            err->hint[0] = '\0'; /* an archive is all there is to choose from */
    }
    if (failed != 0)
        return kern_wrap(err, "cannot use the image");
    *ret_is_list = entry != NULL;
    if (entry != NULL)
        memcpy(ret_digest, entry->blob.digest, IMAGE_DIGEST_SIZE);
    return 0;
}

/* ---- Configurations ---- */

static const char config_name[] = "the image's configuration";

static int add_line(struct image_text *out, const char *word, const char *value, struct kern_error *err)
{
    if (strlen(value) > 65536)
        return kern_refuse(err, 0, "cannot read %s: a value of it is longer than 64 KiB", config_name);
    return image_text_line(out, word, value) == 0 ? 0
                                                  : kern_refuse(err, ENOMEM, "cannot read %s", config_name);
}

static int add_text(struct image_text *out, const char *word, const json_t *value, struct kern_error *err)
{
    const char *text = json_string_value(value);
    return text != NULL && text[0] != '\0' ? add_line(out, word, text, err) : 0;
}

static int add_list(struct image_text *out, const char *word, const json_t *list, struct kern_error *err)
{
    if (json_array_size(list) > IMAGE_VALUES_MOST / 8)
        return kern_refuse(err, 0, "cannot read %s: it has %zu values of one kind", config_name,
                           json_array_size(list));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *text = json_string_value(json_array_get(list, i));
        if (text == NULL)
            return kern_refuse(err, 0, "cannot read %s: a value of it is not text", config_name);
        int failed = add_line(out, word, text, err);
        if (failed != 0)
            return failed;
    }
    return 0;
}

static int add_volumes(struct image_text *out, json_t *volumes, struct kern_error *err)
{
    const char *path = NULL;
    json_t *unused = NULL;
    if (json_object_size(volumes) > IMAGE_VALUES_MOST / 8)
        return kern_refuse(err, 0, "cannot read %s: it has %zu volumes", config_name,
                           json_object_size(volumes));
    json_object_foreach(volumes, path, unused)
    {
        int failed = add_line(out, "volume", path, err);
        if (failed != 0)
            return failed;
    }
    return 0;
}

static int add_platform(struct image_text *out, const json_t *root, struct kern_error *err)
{
    char platform[128];
    const char *os = json_string_value(json_object_get(root, "os"));
    const char *arch = json_string_value(json_object_get(root, "architecture"));
    const char *variant = json_string_value(json_object_get(root, "variant"));
    int used = snprintf(platform, sizeof(platform), "%s/%s%s%s", os != NULL ? os : "linux",
                        arch != NULL && arch[0] != '\0' ? arch : "amd64", variant != NULL ? "/" : "",
                        variant != NULL ? variant : "");
    if (used < 0 || (size_t)used >= sizeof(platform))
        return kern_refuse(err, 0, "cannot read %s: its platform is too long", config_name);
    return add_line(out, "platform", platform, err);
}

int image_check_platform(const char *text, size_t length, const struct image_platform *wanted,
                         struct kern_error *err)
{
    struct image_text lines = {0};
    struct image_platform own;
    auto_json *root = read_object(text, length, config_name, err);
    int failed = root == NULL ? -EBADMSG : add_platform(&lines, root, err);
    if (failed == 0) {
        lines.text[strcspn(lines.text, "\n")] = '\0';
        failed = image_platform_parse(lines.text + strlen("platform "), &own, err);
    }
    free(lines.text);
    if (failed != 0)
        return failed;
    char asked[64], found[64];
    image_platform_print(wanted, asked, sizeof(asked));
    image_platform_print(&own, found, sizeof(found));
    if (own.variant[0] == '\0') /* many do not say */
        memcpy(own.variant, wanted->variant, sizeof(own.variant));
    if (image_platform_rank(wanted, &own) > 0)
        return 0;
    failed = kern_refuse(err, 0, "the image is not made for %s; there is: %s", asked, found);
    kern_hint(err, "--platform %s", found);
    return failed;
}

int image_parse_config(const char *text, size_t length, struct image_text *out, struct kern_error *err)
{
    auto_json *root = read_object(text, length, config_name, err);
    if (root == NULL)
        return -EBADMSG;
    const json_t *config = json_object_get(root, "config");
    int failed = add_platform(out, root, err);
    if (failed == 0)
        failed = add_list(out, "entrypoint", json_object_get(config, "Entrypoint"), err);
    if (failed == 0)
        failed = add_list(out, "cmd", json_object_get(config, "Cmd"), err);
    if (failed == 0)
        failed = add_list(out, "env", json_object_get(config, "Env"), err);
    if (failed == 0)
        failed = add_volumes(out, json_object_get(config, "Volumes"), err);
    if (failed == 0)
        failed = add_text(out, "workdir", json_object_get(config, "WorkingDir"), err);
    if (failed == 0)
        failed = add_text(out, "user", json_object_get(config, "User"), err);
    return failed == 0 ? add_text(out, "stop", json_object_get(config, "StopSignal"), err) : failed;
}
