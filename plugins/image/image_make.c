/* Images from what is no image yet: streams, manifests that have to be written, `kern import`. Runs in the process of the verb;
 * a directory is read by a child with the ids of its files. */
#include "image_child.h"
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

#define MANIFEST_TYPE "application/vnd.oci.image.manifest.v1+json"
#define CONFIG_TYPE   "application/vnd.oci.image.config.v1+json"
#define LAYER_TYPE    "application/vnd.oci.image.layer.v1.tar"

int image_take_stream(struct image_store *store, int in, char ret_digest[static IMAGE_DIGEST_SIZE],
                      uint64_t *ret_size, struct kern_error *err)
{
    struct image_ingest *ingest = NULL;
    auto_free char *buffer = malloc(1 << 18);
    int failed = buffer == NULL ? kern_refuse(err, ENOMEM, "cannot read an image")
                                : image_ingest_begin(store, NULL, &ingest, err);
    while (failed == 0) {
        ssize_t got = read(in, buffer, 1 << 18);
        if (got == 0)
            break;
        if (got > 0)
            failed = image_ingest_write(ingest, buffer, (size_t)got, err);
        else if (errno != EINTR)
            failed = kern_refuse(err, errno, "cannot read an image");
    }
    if (failed != 0) {
        image_ingest_close(ingest);
        return failed;
    }
    *ret_size = image_ingest_have(ingest);
    return image_ingest_commit_as(ingest, ret_digest, err);
}

/* ---- Manifests ---- */

/* By its first bytes: names of files say nothing. */
static const char *layer_type(const struct image_store *store, const char *blob)
{
    unsigned char head[4] = {0};
    struct kern_error ignored = {0};
    auto_fd fd = -1;
    if (image_store_open_blob(store, blob, &fd, &ignored) != 0 || pread(fd, head, 4, 0) != 4)
        return LAYER_TYPE;
    if (head[0] == 0x1f && head[1] == 0x8b)
        return LAYER_TYPE "+gzip";
    if (head[0] == 0x28 && head[1] == 0xb5 && head[2] == 0x2f && head[3] == 0xfd)
        return LAYER_TYPE "+zstd";
    return LAYER_TYPE;
}

static json_t *describe(const char *type, const char *digest, uint64_t size)
{
    return json_pack("{s:s, s:s, s:I}", "mediaType", type, "digest", digest, "size", (json_int_t)size);
}

static int add_json(struct image_store *store, json_t *root, char ret_digest[static IMAGE_DIGEST_SIZE],
                    uint64_t *ret_size, struct kern_error *err)
{
    auto_free char *text = root != NULL ? json_dumps(root, JSON_COMPACT) : NULL;
    if (text == NULL)
        return kern_refuse(err, ENOMEM, "cannot write a manifest");
    *ret_size = strlen(text);
    return image_store_add_blob(store, NULL, text, strlen(text), ret_digest, err);
}

int image_make_manifest(struct image_store *store, const char *config, uint64_t config_size,
                        const struct image_parts *parts, char ret_digest[static IMAGE_DIGEST_SIZE],
                        struct kern_error *err)
{
    auto_json *root = json_pack("{s:i, s:s, s:o, s:[]}", "schemaVersion", 2, "mediaType", MANIFEST_TYPE,
                                "config", describe(CONFIG_TYPE, config, config_size), "layers");
    json_t *layers = json_object_get(root, "layers");
    for (uint32_t i = 0; i < parts->count; i++) {
        uint64_t size = parts->layer[i].size;
        (void)image_store_has_blob(store, parts->layer[i].blob,
                                   &size); /* commit says so when it is missing */
        if (json_array_append_new(
                layers, describe(layer_type(store, parts->layer[i].blob), parts->layer[i].blob, size)) != 0)
            return kern_refuse(err, ENOMEM, "cannot write a manifest");
    }
    uint64_t size = 0;
    return add_json(store, root, ret_digest, &size, err);
}

/* ---- import ---- */

struct packing {
    int folder, out;
    int fold;
};

static int pack(void *data)
{
    const struct packing *packing = data;
    return image_pack_folder(packing->folder, packing->out, packing->fold);
}

static int import_folder(struct image_store *store, int folder, char ret_blob[static IMAGE_DIGEST_SIZE],
                         struct kern_error *err)
{
    int pipe_fd[2];
    if (pipe2(pipe_fd, O_CLOEXEC) != 0)
        return kern_refuse(err, errno, "cannot make a pipe");
    auto_fd in = pipe_fd[0], out = pipe_fd[1];
    struct packing packing = {.folder = folder, .out = out, .fold = store->ids.kind == IMAGE_IDS_FOLDED};
    int32_t pid = 0;
    int failed = image_start_with_ids(&store->ids, pack, &packing, &pid, err);
    kern_close_fd(&out);
    if (failed != 0)
        return failed;
    uint64_t size = 0;
    failed = image_take_stream(store, in, ret_blob, &size, err);
    kern_close_fd(&in);
    int code = image_wait_child(pid);
    if (failed == 0 && code != 0)
        failed = kern_refuse(err, 0, "cannot read all of the directory");
    return failed;
}

static int import_source(struct image_store *store, const char *source,
                         char ret_blob[static IMAGE_DIGEST_SIZE], struct kern_error *err)
{
    uint64_t size = 0;
    struct stat st;
    if (strcmp(source, "-") == 0)
        return image_take_stream(store, STDIN_FILENO, ret_blob, &size, err);
    auto_fd fd = open(source, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st) != 0)
        return kern_refuse(err, errno, "cannot import \"%s\"", source);
    if (!S_ISDIR(st.st_mode))
        return image_take_stream(store, fd, ret_blob, &size, err);
    struct stat slash;
    if (stat("/", &slash) == 0 && st.st_dev == slash.st_dev && st.st_ino == slash.st_ino)
        return kern_refuse(err, 0, "cannot import \"%s\": it is the host's own root, with all its secrets",
                           source);
    return import_folder(store, fd, ret_blob, err);
}

static json_t *list_values(const kern_values *values, const char *name)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < kern_get_count(values, name); i++)
        (void)json_array_append_new(list,
                                    json_string(kern_get_item(values, name, i))); /* a loss shows below */
    return list;
}

static void set_text(json_t *config, const char *key, const char *value)
{
    if (value != NULL)
        (void)json_object_set_new(config, key, json_string(value)); /* not text: left out */
}

static int make_config(struct image_store *store, const struct image_call *call, const char *diff,
                       char ret_digest[static IMAGE_DIGEST_SIZE], uint64_t *ret_size, struct kern_error *err)
{
    char now[32] = "";
    time_t at = time(NULL);
    struct tm utc;
    if (gmtime_r(&at, &utc) != NULL)
        (void)strftime(now, sizeof(now), "%Y-%m-%dT%H:%M:%SZ", &utc); /* fits */
    json_t *cmd = json_array();
    for (int i = 2; i < call->count; i++)
        (void)json_array_append_new(cmd, json_string(call->words[i])); /* not text: left out */
    json_t *config = json_pack("{s:o, s:o}", "Cmd", cmd, "Env", list_values(call->values, "env"));
    if (kern_get_count(call->values, "entrypoint") > 0)
        (void)json_object_set_new(config, "Entrypoint", list_values(call->values, "entrypoint"));
    set_text(config, "WorkingDir", kern_get_string(call->values, "workdir"));
    set_text(config, "User", kern_get_string(call->values, "user"));
    const char *slash = strchr(image_own_platform(), '/');
    auto_json *root =
        json_pack("{s:s, s:s, s:s, s:o, s:{s:s, s:[s]}}", "created", now, "architecture", slash + 1, "os",
                  "linux", "config", config, "rootfs", "type", "layers", "diff_ids", diff);
    return add_json(store, root, ret_digest, ret_size, err);
}

static int import_into(struct image_store *store, const struct image_call *call, const struct image_ref *ref,
                       struct kern_error *err)
{
    char config[IMAGE_DIGEST_SIZE], manifest[IMAGE_DIGEST_SIZE];
    uint64_t config_size = 0;
    auto_free struct image_parts *parts = calloc(1, sizeof(*parts));
    if (parts == NULL)
        return kern_refuse(err, ENOMEM, "cannot import \"%s\"", call->words[0]);
    parts->count = 1;
    struct image_layer *layer = &parts->layer[0];
    int failed = import_source(store, call->words[0], layer->blob, err);
    if (failed == 0)
        failed = image_store_unpack_as(store, layer->blob, NULL, NULL, NULL, layer->diff, err);
    if (failed == 0)
        failed = make_config(store, call, layer->diff, config, &config_size, err);
    if (failed == 0)
        failed = image_make_manifest(store, config, config_size, parts, manifest, err);
    return failed == 0 ? image_store_commit(store, ref, manifest, NULL, NULL, NULL, err) : failed;
}

int image_cmd_import(const struct image_call *call, struct kern_error *err)
{
    struct image_store *store = NULL;
    struct image_ref ref;
    char name[IMAGE_REF_SIZE];
    if (call->count < 2) {
        kern_refuse(err, 0, "import needs a source and a reference");
        kern_hint(err, "kern import DIR|FILE|- REF");
        return -EINVAL;
    }
    int failed = image_ref_parse(call->words[1], &ref, err);
    if (failed == 0 && ref.digest[0] != '\0')
        failed =
            kern_refuse(err, 0, "cannot import as \"%s\": a digest is computed, not chosen", call->words[1]);
    if (failed == 0)
        failed = image_open_for(call, &store, err);
    if (failed != 0)
        return failed;
    failed = import_into(store, call, &ref, err);
    image_store_close(store);
    if (failed != 0) {
        struct kern_error ignored = {0};
        uint64_t freed = 0;
        uint32_t things = 0;
        (void)image_collect(0, 0, &freed, &things, &ignored); /* leaves nothing of what was refused */
        return failed;
    }
    image_ref_short(&ref, name);
    (void)printf("imported '%s'\n", name); /* the caller looks at the stream */
    return 0;
}
