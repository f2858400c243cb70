/* `kern load`; see image_tool.h. Docker archives, and OCI layouts as a tar or a directory. Runs in the process of the verb; the
 * archive itself is read by another (image_members.c). */
#include "image_members.h"

#include "kern/cleanup.h"

#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

static void drop(json_t **value)
{
    json_decref(*value);
}
#define auto_json cleanup(drop) json_t

struct loading {
    struct image_store *store;
    struct image_members members;
    const char *name; /* for what has none of its own; or NULL */
    uint32_t loaded;
};

static json_t *read_json(struct loading *l, const char *member, struct kern_error *err)
{
    const struct image_member *found = image_members_find(&l->members, member);
    auto_free char *text = NULL;
    size_t length = 0;
    json_error_t where;
    if (found == NULL) {
        kern_refuse(err, 0, "cannot read \"%.200s\" of the archive: it is not there", member);
        return NULL;
    }
    if (image_store_read_blob(l->store, found->digest, &text, &length, err) != 0)
        return NULL;
    json_t *json = json_loadb(text, length, JSON_REJECT_DUPLICATES, &where);
    if (json == NULL)
        kern_refuse(err, 0, "cannot read \"%.200s\" of the archive: %s (line %d)", member, where.text,
                    where.line);
    return json;
}

static int finish(struct loading *l, const char *name, const char *manifest, struct kern_error *err)
{
    struct image_ref ref;
    char brief[IMAGE_REF_SIZE];
    int failed = image_ref_parse(name, &ref, err);
    if (failed == 0)
        failed = image_store_commit(l->store, &ref, manifest, NULL, NULL, NULL, err);
    if (failed != 0)
        return failed;
    image_ref_short(&ref, brief);
    (void)printf("loaded '%s'\n", brief); /* the caller looks at the stream */
    l->loaded++;
    return 0;
}

static int refuse_nameless(struct kern_error *err)
{
    kern_refuse(err, 0, "cannot load an image that has no name");
    kern_hint(err, "name it: kern load -i FILE REF");
    return -EINVAL;
}

/* ---- Docker archives ---- */

static int docker_manifest(struct loading *l, const json_t *image, char ret_digest[static IMAGE_DIGEST_SIZE],
                           struct kern_error *err)
{
    const char *config_name = json_string_value(json_object_get(image, "Config"));
    const json_t *layers = json_object_get(image, "Layers");
    const struct image_member *config =
        config_name != NULL ? image_members_find(&l->members, config_name) : NULL;
    auto_free struct image_parts *parts = calloc(1, sizeof(*parts));
    if (parts == NULL)
        return kern_refuse(err, ENOMEM, "cannot load an image");
    if (config == NULL)
        return kern_refuse(err, 0, "cannot load an image: its configuration is not in the archive");
    if (json_array_size(layers) == 0 || json_array_size(layers) > IMAGE_LAYERS_MOST) {
        kern_refuse(err, 0, "cannot load an image: it has %zu layers; 1 to %u make an image",
                    json_array_size(layers), IMAGE_LAYERS_MOST);
        return image_hint_layers(err);
    }
    for (size_t i = 0; i < json_array_size(layers); i++) {
        const char *name = json_string_value(json_array_get(layers, i));
        const struct image_member *layer = name != NULL ? image_members_find(&l->members, name) : NULL;
        if (layer == NULL)
            return kern_refuse(err, 0, "cannot load an image: its layer \"%.200s\" is not in the archive",
                               name != NULL ? name : "");
        memcpy(parts->layer[i].blob, layer->digest, IMAGE_DIGEST_SIZE);
        parts->layer[i].size = layer->size;
    }
    parts->count = (uint32_t)json_array_size(layers);
    return image_make_manifest(l->store, config->digest, config->size, parts, ret_digest, err);
}

static int load_docker(struct loading *l, struct kern_error *err)
{
    auto_json *root = read_json(l, "manifest.json", err);
    if (root == NULL)
        return -EBADMSG;
    if (!json_is_array(root) || json_array_size(root) == 0 || json_array_size(root) > 1000)
        return kern_refuse(err, 0, "cannot load the archive: its manifest.json lists no images");
    for (size_t i = 0; i < json_array_size(root); i++) {
        const json_t *image = json_array_get(root, i), *tags = json_object_get(image, "RepoTags");
        char manifest[IMAGE_DIGEST_SIZE];
        int failed = docker_manifest(l, image, manifest, err);
        if (failed == 0 && json_array_size(tags) == 0)
            failed = l->name != NULL ? finish(l, l->name, manifest, err) : refuse_nameless(err);
        for (size_t j = 0; failed == 0 && j < json_array_size(tags); j++) {
            const char *tag = json_string_value(json_array_get(tags, j));
            failed = tag != NULL ? finish(l, tag, manifest, err)
                                 : kern_refuse(err, 0, "cannot load an image: its name is not text");
        }
        if (failed != 0)
            return failed;
    }
    return 0;
}

/* ---- OCI layouts ---- */

/* Only bytes that have this digest may stand for it: by their own digest, not by their name in the archive. */
static int require_blob(const struct loading *l, const char *digest, struct kern_error *err)
{
    return image_store_has_blob(l->store, digest, NULL)
               ? 0
               : kern_refuse(err, 0, "cannot load an image: \"%.80s\" is not in the archive", digest);
}

/* Down through lists to the manifest for this machine. */
static int find_manifest(struct loading *l, const char *digest, char ret_digest[static IMAGE_DIGEST_SIZE],
                         struct kern_error *err)
{
    char at[IMAGE_DIGEST_SIZE];
    (void)snprintf(at, sizeof(at), "%s", digest); /* judged by the caller */
    for (int depth = 0; depth < 4; depth++) {
        auto_free char *text = NULL;
        size_t length = 0;
        int is_list = 0, failed = require_blob(l, at, err);
        if (failed == 0)
            failed = image_store_read_blob(l->store, at, &text, &length, err);
        if (failed == 0)
            failed = image_choose_own(text, length, at, &is_list, err);
        if (failed != 0)
            return failed;
        if (!is_list) {
            memcpy(ret_digest, at, IMAGE_DIGEST_SIZE);
            return 0;
        }
    }
    return kern_refuse(err, 0, "cannot load an image: its lists of manifests are too deep");
}

/* A whole reference, or a tag of the name that the user gave. */
static int name_of(const struct loading *l, const json_t *entry, char *ret_name, size_t size,
                   struct kern_error *err)
{
    const json_t *notes = json_object_get(entry, "annotations");
    const char *whole = json_string_value(json_object_get(notes, "io.containerd.image.name"));
    const char *name = json_string_value(json_object_get(notes, "org.opencontainers.image.ref.name"));
    if (l->name != NULL)
        whole = l->name;
    else if (whole == NULL && name != NULL && strpbrk(name, ":/@") != NULL)
        whole = name;
    if (whole == NULL)
        return refuse_nameless(err);
    int used = snprintf(ret_name, size, "%s", whole);
    return used > 0 && (size_t)used < size ? 0 : refuse_nameless(err);
}

static int load_layout(struct loading *l, struct kern_error *err)
{
    auto_json *root = read_json(l, "index.json", err);
    if (root == NULL)
        return -EBADMSG;
    const json_t *list = json_object_get(root, "manifests");
    if (json_array_size(list) == 0 || json_array_size(list) > 1000)
        return kern_refuse(err, 0, "cannot load the layout: its index.json lists no images");
    if (l->name != NULL && json_array_size(list) > 1)
        return kern_refuse(err, 0, "cannot load the layout as \"%s\": it has %zu images", l->name,
                           json_array_size(list));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *entry = json_array_get(list, i);
        const char *digest = json_string_value(json_object_get(entry, "digest"));
        char manifest[IMAGE_DIGEST_SIZE], name[512];
        if (digest == NULL || !image_digest_is_valid(digest))
            return kern_refuse(err, 0, "cannot load the layout: a digest in its index.json is not sha256");
        int failed = name_of(l, entry, name, sizeof(name), err);
        if (failed == 0)
            failed = find_manifest(l, digest, manifest, err);
        if (failed == 0)
            failed = finish(l, name, manifest, err);
        if (failed != 0)
            return failed;
    }
    return 0;
}

static int load_from(struct loading *l, int in, struct kern_error *err)
{
    int failed = image_members_read(l->store, in, &l->members, err);
    if (failed != 0)
        return failed;
    if (image_members_find(&l->members, "index.json") != NULL)
        return load_layout(l, err);
    if (image_members_find(&l->members, "manifest.json") != NULL)
        return load_docker(l, err);
    kern_refuse(err, 0, "cannot load the archive: it is neither a docker archive nor an OCI layout");
    kern_hint(err, "kern import FILE REF makes an image of the tar of a root file system");
    return -EINVAL;
}

int image_cmd_load(const struct image_call *call, struct kern_error *err)
{
    const char *path = kern_get_string(call->values, "input");
    auto_fd in = -1;
    struct loading l = {.name = call->count > 0 ? call->words[0] : NULL};
    if (call->count > 1) {
        kern_refuse(err, 0, "unexpected word \"%s\"", call->words[1]);
        kern_hint(err, "kern load -i FILE takes the archive");
        return -EINVAL;
    }
    if (path == NULL && isatty(STDIN_FILENO)) {
        kern_refuse(err, 0, "cannot read an archive from a terminal");
        kern_hint(err, "kern load -i FILE");
        return -EINVAL;
    }
    in = path == NULL || strcmp(path, "-") == 0 ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
                                                : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (in < 0)
        return kern_refuse(err, errno, "cannot open \"%s\"", path != NULL ? path : "standard input");
    int failed = image_open_for(call, &l.store, err);
    if (failed == 0)
        failed = load_from(&l, in, err);
    image_members_clear(&l.members);
    image_store_close(l.store);
    if (failed != 0) {
        struct kern_error ignored = {0};
        uint64_t freed = 0;
        uint32_t things = 0;
        (void)image_collect(0, 0, &freed, &things, &ignored); /* leaves nothing of what was refused */
    }
    return failed;
}
