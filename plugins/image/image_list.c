/* `kern images`, `inspect`, `tag` and `rmi`; see image_tool.h. Runs in the process of the verb. */
#include "image_tool.h"

#include "kern/cleanup.h"

#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

static void drop(json_t **value)
{
    json_decref(*value);
}
#define auto_json cleanup(drop) json_t

/* ---- Finding ---- */

struct found {
    char full[IMAGE_REF_SIZE];
    struct image_resolved image;
    int dangling; /* its name means another image by now */
};

typedef int (*found_fn)(struct found *found, void *data);

static int each_image(const struct image_store *store, found_fn fn, void *data)
{
    auto_fd copy = openat(store->refs, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct dirent **names = NULL;
    int count = copy < 0 ? -1 : scandirat(copy, ".", &names, NULL, alphasort), failed = 0;
    if (count < 0)
        return -errno;
    for (int i = 0; i < count; i++) {
        struct found found = {0};
        const char *name = names[i]->d_name;
        if (failed == 0 && name[0] != '.' && strlen(name) < sizeof(found.full)) {
            (void)snprintf(found.full, sizeof(found.full), "%s", name); /* just measured */
            for (char *c = found.full; *c != '\0'; c++)
                if (*c == '+')
                    *c = '/';
            if (image_resolved_read(store->refs, found.full, &found.image) == 0) {
                found.dangling = strcmp(found.full, found.image.ref) != 0;
                failed = fn(&found, data);
            }
            image_resolved_clear(&found.image);
        }
        free(names[i]);
    }
    free(names);
    return failed;
}

struct search {
    const char *digest; /* its beginning, in hexadecimal */
    char full[IMAGE_REF_SIZE];
    char config[IMAGE_DIGEST_SIZE];
    int count;
};

static int match(struct found *found, void *data)
{
    struct search *search = data;
    size_t length = strlen(search->digest);
    if (strncmp(image_hex(found->image.config), search->digest, length) != 0 &&
        strncmp(image_hex(found->image.manifest), search->digest, length) != 0 &&
        strncmp(image_hex(found->image.digest), search->digest, length) != 0)
        return 0;
    /* Several names of one image are one. */
    if (search->count == 0 || strcmp(search->config, found->image.config) != 0)
        search->count++;
    (void)snprintf(search->full, sizeof(search->full), "%s", found->full);             /* same size */
    (void)snprintf(search->config, sizeof(search->config), "%s", found->image.config); /* a digest */
    return 0;
}

int image_find(const struct image_store *store, const char *text, char ret_full[static IMAGE_REF_SIZE],
               struct image_resolved *ret_image, struct kern_error *err)
{
    struct image_ref ref;
    struct kern_error ignored = {0};
    char full[IMAGE_REF_SIZE];
    const char *hex = strncmp(text, "sha256:", 7) == 0 ? text + 7 : text;
    struct search search = {.digest = hex};
    if (image_ref_parse(text, &ref, &ignored) == 0) {
        image_ref_full(&ref, full);
        if (image_resolved_read(store->refs, full, ret_image) == 0) {
            memcpy(ret_full, full, IMAGE_REF_SIZE);
            return 0;
        }
    }
    if (strlen(hex) >= 6 && strspn(hex, "0123456789abcdef") == strlen(hex))
        (void)each_image(store, match, &search); /* what cannot be read is not found */
    if (search.count > 1)
        return kern_refuse(err, 0, "cannot tell which image \"%s\" is: %d begin so", text, search.count);
    if (search.count == 1 && image_resolved_read(store->refs, search.full, ret_image) == 0) {
        memcpy(ret_full, search.full, IMAGE_REF_SIZE);
        return 0;
    }
    kern_refuse(err, 0, "cannot find image \"%.300s\"", text);
    kern_hint(err, "kern images lists those that are here; kern pull %.200s fetches it", text);
    return -ENOENT;
}

/* ---- images ---- */

static uint64_t size_of(const struct image_store *store, const struct image_resolved *image)
{
    uint64_t all = 0;
    auto_free struct image_parts *parts = calloc(1, sizeof(*parts));
    if (parts == NULL || image_resolved_parts(image, parts) != 0)
        return 0;
    for (uint32_t i = 0; i < parts->count; i++) {
        uint64_t size = parts->layer[i].size;
        (void)image_store_has_blob(store, parts->layer[i].blob, &size); /* else what the manifest says */
        all += size;
    }
    return all;
}

static void short_name(const char *full, char ret_name[static IMAGE_REF_SIZE])
{
    struct image_ref ref;
    struct kern_error ignored = {0};
    if (image_ref_parse(full, &ref, &ignored) == 0)
        image_ref_short(&ref, ret_name);
    else
        (void)snprintf(ret_name, IMAGE_REF_SIZE, "%s", full); /* same size */
}

struct listing {
    const struct image_store *store;
    json_t *json; /* NULL: as text */
    int quiet, count;
};

static int print_size(uint64_t bytes)
{
    static const char units[] = "kMGT";
    double size = (double)bytes / 1000;
    int unit = 0;
    for (; size >= 1000 && unit < 3; unit++)
        size /= 1000;
    return printf("%8.1f %cB", size, units[unit]);
}

static int list_one(struct found *found, void *data)
{
    struct listing *listing = data;
    char name[IMAGE_REF_SIZE], pulled[24] = "";
    short_name(found->full, name);
    uint64_t size = size_of(listing->store, &found->image);
    time_t at = (time_t)found->image.pulled;
    struct tm utc;
    if (gmtime_r(&at, &utc) != NULL)
        (void)strftime(pulled, sizeof(pulled), "%Y-%m-%dT%H:%M:%SZ", &utc); /* fits */
    if (listing->json != NULL)
        return json_array_append_new(listing->json,
                                     json_pack("{s:s, s:I, s:s, s:b, s:s, s:s, s:s}", "image", name,
                                               "size_bytes", (json_int_t)size, "pulled", pulled, "dangling",
                                               found->dangling, "digest", found->image.digest, "id",
                                               found->image.config, "platform", found->image.platform));
    if (listing->quiet) {
        (void)puts(name); /* the caller looks at the stream */
        return 0;
    }
    if (listing->count++ == 0)
        (void)printf("%-50s %-14s %11s  %s\n", "IMAGE", "ID", "SIZE", "PULLED"); /* as above */
    (void)printf("%-50s %-14.12s ", name, image_hex(found->image.config));       /* as above */
    (void)print_size(size);                                                      /* as above */
    (void)printf("  %s%s\n", pulled, found->dangling ? "  (dangling)" : "");     /* as above */
    return 0;
}

static int print_json(const json_t *json, struct kern_error *err)
{
    auto_free char *text = json_dumps(json, JSON_INDENT(2) | JSON_ENSURE_ASCII);
    if (text == NULL)
        return kern_refuse(err, ENOMEM, "cannot print JSON");
    (void)puts(text); /* the caller looks at the stream */
    return 0;
}

int image_cmd_images(const struct image_call *call, struct kern_error *err)
{
    struct image_store *store = NULL;
    if (call->count > 0) {
        kern_refuse(err, 0, "unexpected word \"%s\"", call->words[0]);
        kern_hint(err, "kern images --help");
        return -EINVAL;
    }
    int failed = image_store_open(&store, err);
    if (failed != 0)
        return failed;
    auto_json *json = kern_get_int(call->values, "json") != 0 ? json_array() : NULL;
    struct listing listing = {
        .store = store, .json = json, .quiet = kern_get_int(call->values, "quiet") != 0};
    failed = each_image(store, list_one, &listing);
    if (failed != 0)
        kern_refuse(err, failed < -1 ? -failed : 0, "cannot list the images");
    else if (json != NULL)
        failed = print_json(json, err);
    image_store_close(store);
    return failed;
}

/* ---- inspect ---- */

static json_t *list_json(const struct image_list *list)
{
    json_t *json = json_array();
    for (uint32_t i = 0; i < list->count; i++)
        (void)json_array_append_new(json, json_string(list->item[i])); /* not text: left out */
    return json;
}

static json_t *text_json(const char *text)
{
    json_t *json = text != NULL ? json_string(text) : NULL;
    return json != NULL ? json : json_null();
}

static int inspect_one(const struct image_store *store, const char *full, const struct image_resolved *image,
                       json_t *out)
{
    char name[IMAGE_REF_SIZE];
    auto_free struct image_parts *parts = calloc(1, sizeof(*parts));
    if (parts == NULL || image_resolved_parts(image, parts) != 0)
        return -1;
    short_name(full, name);
    json_t *layers = json_array();
    for (uint32_t i = 0; i < parts->count; i++)
        (void)json_array_append_new(layers, json_pack("{s:s, s:s, s:I, s:b}", "digest", parts->layer[i].blob,
                                                      "diff_id", parts->layer[i].diff, "size_bytes",
                                                      (json_int_t)parts->layer[i].size, "unpacked",
                                                      image_store_has_layer(store, parts->layer[i].diff)));
    return json_array_append_new(
        out,
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "image", name,
                  "digest", image->digest, "manifest", image->manifest, "id", image->config, "platform",
                  image->platform, "size_bytes", (json_int_t)size_of(store, image), "entrypoint",
                  list_json(&image->entrypoint), "cmd", list_json(&image->cmd), "env", list_json(&image->env),
                  "workdir", text_json(image->workdir), "user", text_json(image->user), "stop_signal",
                  text_json(image->stop_signal), "volumes", list_json(&image->volume), "layers", layers));
}

int image_cmd_inspect(const struct image_call *call, struct kern_error *err)
{
    struct image_store *store = NULL;
    auto_json *out = json_array();
    int failed = image_store_open(&store, err);
    for (int i = 0; failed == 0 && i < call->count; i++) {
        struct image_resolved image = {0};
        char full[IMAGE_REF_SIZE];
        failed = image_find(store, call->words[i], full, &image, err);
        if (failed == 0 && inspect_one(store, full, &image, out) != 0)
            failed = kern_refuse(err, 0, "cannot print image \"%s\"", call->words[i]);
        image_resolved_clear(&image);
    }
    image_store_close(store);
    return failed == 0 ? print_json(out, err) : failed;
}

/* ---- tag, rmi ---- */

int image_cmd_tag(const struct image_call *call, struct kern_error *err)
{
    struct image_store *store = NULL;
    struct image_ref ref;
    struct image_resolved image = {0};
    char full[IMAGE_REF_SIZE], name[IMAGE_REF_SIZE];
    if (call->count != 2) {
        kern_refuse(err, 0, "tag needs an image and a new reference");
        kern_hint(err, "kern tag alpine:3.19 alpine:stable");
        return -EINVAL;
    }
    int failed = image_ref_parse(call->words[1], &ref, err);
    if (failed == 0 && ref.digest[0] != '\0')
        failed =
            kern_refuse(err, 0, "cannot tag as \"%s\": a digest is computed, not chosen", call->words[1]);
    if (failed == 0)
        failed = image_store_open(&store, err);
    if (failed == 0)
        failed = image_find(store, call->words[0], full, &image, err);
    if (failed == 0)
        failed = image_store_commit(store, &ref, image.manifest, image.digest, NULL, NULL, err);
    image_resolved_clear(&image);
    image_store_close(store);
    if (failed != 0)
        return failed;
    image_ref_short(&ref, name);
    (void)printf("tagged '%s'\n", name); /* the caller looks at the stream */
    return 0;
}

static int remove_one(const struct image_store *store, const char *text, struct kern_error *err)
{
    struct image_resolved image = {0};
    char full[IMAGE_REF_SIZE], file[IMAGE_REF_SIZE], name[IMAGE_REF_SIZE];
    int failed = image_find(store, text, full, &image, err);
    image_resolved_clear(&image);
    if (failed != 0)
        return failed;
    image_ref_file(full, file);
    if (unlinkat(store->refs, file, 0) != 0)
        return kern_refuse(err, errno, "cannot remove image \"%s\"", text);
    short_name(full, name);
    (void)printf("removed '%s'\n", name); /* the caller looks at the stream */
    return 0;
}

int image_cmd_rmi(const struct image_call *call, struct kern_error *err)
{
    struct image_store *store = NULL;
    if (call->count == 0) {
        kern_refuse(err, 0, "rmi needs an image");
        kern_hint(err, "kern images lists those that are here");
        return -EINVAL;
    }
    int failed = image_store_open(&store, err);
    for (int i = 0; failed == 0 && i < call->count; i++)
        failed = remove_one(store, call->words[i], err);
    image_store_close(store);
    uint64_t freed = 0;
    uint32_t things = 0;
    return failed == 0 ? image_collect(0, 0, &freed, &things, err) : failed;
}
