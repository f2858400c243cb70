/* Manifests, lists of them and configurations, as they come from elsewhere; see image_store.h. Pure. jansson reads with its
 * own bounds on depth; what is taken is vetted here: kinds, lengths, counts, digests. */
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

static int get_digest(const json_t *object, const char *key, char ret_digest[static IMAGE_DIGEST_SIZE],
                      const char *what, struct kern_error *err)
{
    const char *text = json_string_value(json_object_get(object, key));
    if (text == NULL || !image_digest_is_valid(text))
        return kern_refuse(err, 0, "cannot read %s: a digest in it is missing, or is not sha256", what);
    memcpy(ret_digest, text, IMAGE_DIGEST_SIZE);
    return 0;
}

static uint64_t get_size(const json_t *object)
{
    json_int_t size = json_integer_value(json_object_get(object, "size"));
    return size > 0 ? (uint64_t)size : 0;
}

/* ---- Manifests ---- */

/* What is not a layer in a registry can stand where one is expected: signatures, charts, attestations. */
static int is_layer_type(const char *type)
{
    return type == NULL || strstr(type, ".tar") != NULL || strstr(type, "+tar") != NULL;
}

static int take_layers(const json_t *layers, struct image_parts *parts, struct kern_error *err)
{
    static const char what[] = "the image's manifest";
    size_t count = json_array_size(layers);
    if (count == 0 || count > IMAGE_LAYERS_MOST)
        return kern_refuse(err, 0, "cannot read %s: it has %zu layers (1 to %d can be had)", what, count,
                           IMAGE_LAYERS_MOST);
    for (size_t i = 0; i < count; i++) {
        const json_t *layer = json_array_get(layers, i);
        const char *type = json_string_value(json_object_get(layer, "mediaType"));
        if (!is_layer_type(type))
            return kern_refuse(err, 0, "cannot read %s: a layer of it is of type \"%.100s\"", what, type);
        int failed = get_digest(layer, "digest", parts->layer[i].blob, what, err);
        if (failed != 0)
            return failed;
        parts->layer[i].size = get_size(layer);
    }
    parts->count = (uint32_t)count;
    return 0;
}

int image_parse_manifest(const char *text, size_t length, struct image_parts *ret_parts,
                         struct kern_error *err)
{
    static const char what[] = "the image's manifest";
    auto_json *root = read_object(text, length, what, err);
    if (root == NULL)
        return -EBADMSG;
    if (json_integer_value(json_object_get(root, "schemaVersion")) != 2)
        return kern_refuse(err, 0, "cannot read %s: it is not of schema version 2", what);
    auto_free struct image_parts *parts = calloc(1, sizeof(*parts));
    if (parts == NULL)
        return kern_refuse(err, ENOMEM, "cannot read %s", what);
    const json_t *config = json_object_get(root, "config");
    int failed = get_digest(config, "digest", parts->config, what, err);
    if (failed == 0) {
        parts->config_size = get_size(config);
        failed = take_layers(json_object_get(root, "layers"), parts, err);
    }
    if (failed == 0)
        *ret_parts = *parts;
    return failed;
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

/* ---- Platforms ---- */

const char *image_own_platform(void)
{
#if defined(__x86_64__)
    return "linux/amd64";
#else
    return "linux/arm64";
#endif
}

/* "linux/arm64" is also "linux/arm64/v8"; "linux/arm" is any of its variants. */
static int is_platform(const json_t *platform, const char *wanted, int exact)
{
    char text[128];
    const char *os = json_string_value(json_object_get(platform, "os"));
    const char *arch = json_string_value(json_object_get(platform, "architecture"));
    const char *variant = json_string_value(json_object_get(platform, "variant"));
    if (os == NULL || arch == NULL)
        return 0;
    int used = snprintf(text, sizeof(text), "%s/%s%s%s", os, arch, variant != NULL ? "/" : "",
                        variant != NULL ? variant : "");
    if (used < 0 || (size_t)used >= sizeof(text))
        return 0;
    size_t length = strlen(wanted);
    return strcmp(text, wanted) == 0 || (!exact && strncmp(text, wanted, length) == 0 && text[length] == '/');
}

static int refuse_platform(const json_t *list, const char *platform, struct kern_error *err)
{
    char names[256] = "";
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *found = json_object_get(json_array_get(list, i), "platform");
        const char *os = json_string_value(json_object_get(found, "os"));
        const char *arch = json_string_value(json_object_get(found, "architecture"));
        size_t used = strlen(names);
        if (os != NULL && arch != NULL && strcmp(os, "unknown") != 0)
            (void)snprintf(names + used, sizeof(names) - used, "%s%.20s/%.20s", used > 0 ? ", " : "", os,
                           arch); /* a cut list still helps */
    }
    kern_refuse(err, 0, "cannot use the image: it is not made for %s", platform);
    if (names[0] != '\0')
        kern_hint(err, "it is made for %s: --platform chooses", names);
    return -ENOENT;
}

int image_choose_platform(const char *text, size_t length, const char *platform,
                          char ret_digest[static IMAGE_DIGEST_SIZE], int *ret_is_list, struct kern_error *err)
{
    static const char what[] = "the image's list of manifests";
    auto_json *root = read_object(text, length, what, err);
    if (root == NULL)
        return -EBADMSG;
    const json_t *list = json_object_get(root, "manifests");
    if (list == NULL) {
        *ret_is_list = 0;
        return 0;
    }
    if (json_array_size(list) == 0 || json_array_size(list) > 4096)
        return kern_refuse(err, 0, "cannot read %s: it has %zu entries", what, json_array_size(list));
    for (int exact = 1; exact >= 0; exact--)
        for (size_t i = 0; i < json_array_size(list); i++) {
            const json_t *one = json_array_get(list, i), *found = json_object_get(one, "platform");
            /* An image made in one piece may not say what it is for; then there is nothing to choose. */
            if (!is_platform(found, platform, exact) && !(found == NULL && json_array_size(list) == 1))
                continue;
            int failed = get_digest(one, "digest", ret_digest, what, err);
            if (failed == 0)
                *ret_is_list = 1;
            return failed;
        }
    return refuse_platform(list, platform, err);
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
