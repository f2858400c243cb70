/* `kern save`; see image_tool.h. One archive that is an OCI layout and a docker archive: blobs stand in it as they came, so that
 * digests stay. Runs in the process of the verb. */
#include "image_tool.h"

#include "kern/cleanup.h"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static void drop(json_t **value)
{
    json_decref(*value);
}
#define auto_json cleanup(drop) json_t

struct saving {
    struct image_store *store;
    struct archive *tar;
    json_t *index;    /* "manifests" of index.json */
    json_t *manifest; /* manifest.json, for docker */
    json_t *written;  /* names of blobs that stand in the archive */
};

static int fail_archive(const struct saving *s, struct kern_error *err)
{
    return kern_refuse(err, 0, "cannot write the archive: %s", archive_error_string(s->tar));
}

static int put_header(struct saving *s, const char *name, uint64_t size, int directory,
                      struct kern_error *err)
{
    struct archive_entry *entry = archive_entry_new();
    if (entry == NULL)
        return kern_refuse(err, ENOMEM, "cannot write the archive");
    archive_entry_set_pathname(entry, name);
    archive_entry_set_size(entry, (int64_t)size);
    archive_entry_set_filetype(entry, directory ? AE_IFDIR : AE_IFREG);
    archive_entry_set_perm(entry, directory ? 0755 : 0644);
    archive_entry_set_mtime(entry, 0, 0); /* the same images make the same archive */
    int result = archive_write_header(s->tar, entry);
    archive_entry_free(entry);
    return result == ARCHIVE_OK ? 0 : fail_archive(s, err);
}

static int put_text(struct saving *s, const char *name, const char *text, struct kern_error *err)
{
    int failed = put_header(s, name, strlen(text), 0, err);
    if (failed == 0 && archive_write_data(s->tar, text, strlen(text)) != (la_ssize_t)strlen(text))
        failed = fail_archive(s, err);
    return failed;
}

static int put_blob(struct saving *s, const char *digest, struct kern_error *err)
{
    char name[96];
    uint64_t size = 0;
    auto_fd fd = -1;
    if (json_object_get(s->written, digest) != NULL)
        return 0;
    int failed = image_store_open_blob(s->store, digest, &fd, err);
    if (failed != 0)
        return failed;
    (void)image_store_has_blob(s->store, digest, &size);                      /* just opened */
    (void)snprintf(name, sizeof(name), "blobs/sha256/%s", image_hex(digest)); /* fits */
    failed = put_header(s, name, size, 0, err);
    auto_free char *buffer = malloc(1 << 18);
    if (failed == 0 && buffer == NULL)
        failed = kern_refuse(err, ENOMEM, "cannot write the archive");
    while (failed == 0) {
        ssize_t got = read(fd, buffer, 1 << 18);
        if (got == 0)
            break;
        if (got < 0)
            failed = kern_refuse(err, errno, "cannot read blob \"%s\"", digest);
        else if (archive_write_data(s->tar, buffer, (size_t)got) != got)
            failed = fail_archive(s, err);
    }
    if (failed == 0 && json_object_set_new(s->written, digest, json_true()) != 0)
        failed = kern_refuse(err, ENOMEM, "cannot write the archive");
    return failed;
}

static char *blob_path(const char *digest)
{
    char *path = NULL;
    return asprintf(&path, "blobs/sha256/%s", image_hex(digest)) > 0 ? path : NULL;
}

/* What the manifest calls itself; docker's differ from OCI's in nothing but names. */
static json_t *manifest_type(const struct saving *s, const char *manifest)
{
    auto_free char *text = NULL;
    size_t length = 0;
    struct kern_error ignored = {0};
    if (image_store_read_blob(s->store, manifest, &text, &length, &ignored) != 0)
        return json_null();
    auto_json *root = json_loadb(text, length, 0, NULL);
    const char *type = json_string_value(json_object_get(root, "mediaType"));
    return json_string(type != NULL ? type : "application/vnd.oci.image.manifest.v1+json");
}

/* The same image under several names stands once for each of them. */
static int describe(struct saving *s, const char *full, const struct image_resolved *image,
                    const struct image_parts *parts, struct kern_error *err)
{
    uint64_t size = 0;
    int pinned = strchr(full, '@') != NULL;
    (void)image_store_has_blob(s->store, image->manifest, &size); /* was written just now */
    json_t *entry = json_pack("{s:o, s:s, s:I}", "mediaType", manifest_type(s, image->manifest), "digest",
                              image->manifest, "size", (json_int_t)size);
    const char *tag = strrchr(full, ':') + 1;
    if (!pinned)
        (void)json_object_set_new(entry, "annotations", /* a loss shows when the array is written */
                                  json_pack("{s:s, s:s}", "io.containerd.image.name", full,
                                            "org.opencontainers.image.ref.name", tag));
    auto_free char *config = blob_path(image->config);
    json_t *layers = json_array();
    for (uint32_t i = 0; i < parts->count; i++) {
        auto_free char *path = blob_path(parts->layer[i].blob);
        (void)json_array_append_new(layers, json_string(path != NULL ? path : "")); /* as above */
    }
    json_t *tags = pinned ? json_array() : json_pack("[s]", full);
    json_t *docker = json_pack("{s:s, s:o, s:o}", "Config", config != NULL ? config : "", "RepoTags", tags,
                               "Layers", layers);
    int failed = json_array_append_new(s->index, entry) + json_array_append_new(s->manifest, docker);
    return failed == 0 ? 0 : kern_refuse(err, ENOMEM, "cannot write the archive");
}

static int save_one(struct saving *s, const char *text, struct kern_error *err)
{
    struct image_resolved image = {0};
    char full[IMAGE_REF_SIZE];
    auto_free struct image_parts *parts = calloc(1, sizeof(*parts));
    int failed = parts == NULL ? kern_refuse(err, ENOMEM, "cannot save \"%s\"", text)
                               : image_find(s->store, text, full, &image, err);
    if (failed == 0 && image_resolved_parts(&image, parts) != 0)
        failed = kern_refuse(err, 0, "cannot save \"%s\": its file in the store is damaged", text);
    if (failed == 0)
        failed = put_blob(s, image.manifest, err);
    if (failed == 0)
        failed = put_blob(s, image.config, err);
    for (uint32_t i = 0; failed == 0 && i < parts->count; i++)
        failed = put_blob(s, parts->layer[i].blob, err);
    if (failed == 0)
        failed = describe(s, full, &image, parts, err);
    image_resolved_clear(&image);
    return failed;
}

static int put_indexes(struct saving *s, struct kern_error *err)
{
    auto_json *index = json_pack("{s:i, s:s, s:O}", "schemaVersion", 2, "mediaType",
                                 "application/vnd.oci.image.index.v1+json", "manifests", s->index);
    auto_free char *text = json_dumps(index, JSON_COMPACT), *docker = json_dumps(s->manifest, JSON_COMPACT);
    if (text == NULL || docker == NULL)
        return kern_refuse(err, ENOMEM, "cannot write the archive");
    int failed = put_text(s, "index.json", text, err);
    return failed == 0 ? put_text(s, "manifest.json", docker, err) : failed;
}

static int save_all(struct saving *s, const struct image_call *call, struct kern_error *err)
{
    int failed = put_text(s, "oci-layout", "{\"imageLayoutVersion\":\"1.0.0\"}", err);
    if (failed == 0)
        failed = put_header(s, "blobs/", 0, 1, err);
    if (failed == 0)
        failed = put_header(s, "blobs/sha256/", 0, 1, err);
    for (int i = 0; failed == 0 && i < call->count; i++)
        failed = save_one(s, call->words[i], err);
    if (failed == 0)
        failed = put_indexes(s, err);
    if (failed == 0 && archive_write_close(s->tar) != ARCHIVE_OK)
        failed = fail_archive(s, err);
    return failed;
}

static int save_to(int fd, const struct image_call *call, struct kern_error *err)
{
    auto_json *index = json_array(), *manifest = json_array(), *written = json_object();
    struct saving s = {.tar = archive_write_new(), .index = index, .manifest = manifest, .written = written};
    int failed = s.tar == NULL || archive_write_set_format_pax_restricted(s.tar) != ARCHIVE_OK ||
                         archive_write_open_fd(s.tar, fd) != ARCHIVE_OK
                     ? kern_refuse(err, ENOMEM, "cannot write the archive")
                     : image_store_open(&s.store, err);
    if (failed == 0)
        failed = save_all(&s, call, err);
    (void)archive_write_free(s.tar); /* closed already where all went well */
    image_store_close(s.store);
    return failed;
}

/* The file takes its name when it is whole. */
static int save_file(const char *path, const struct image_call *call, struct kern_error *err)
{
    auto_free char *fresh = NULL;
    if (asprintf(&fresh, "%s.%d.new", path, (int)getpid()) < 0)
        return kern_refuse(err, ENOMEM, "cannot save to \"%s\"", path);
    auto_fd fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return kern_refuse(err, errno, "cannot save to \"%s\"", path);
    int failed = save_to(fd, call, err);
    mode_t mask = umask(0);
    (void)umask(mask);
    if (failed == 0 && (fchmod(fd, 0666 & ~mask) != 0 || rename(fresh, path) != 0))
        failed = kern_refuse(err, errno, "cannot save to \"%s\"", path);
    if (failed != 0)
        (void)unlink(fresh); /* the failure is what counts */
    return failed;
}

int image_cmd_save(const struct image_call *call, struct kern_error *err)
{
    const char *path = kern_get_string(call->values, "output");
    if (call->count == 0) {
        kern_refuse(err, 0, "save needs an image");
        kern_hint(err, "kern save REF -o FILE");
        return -EINVAL;
    }
    if (path != NULL && strcmp(path, "-") != 0)
        return save_file(path, call, err);
    if (isatty(STDOUT_FILENO)) {
        kern_refuse(err, 0, "cannot write an archive to a terminal");
        kern_hint(err, "kern save %s -o FILE", call->words[0]);
        return -EINVAL;
    }
    return save_to(STDOUT_FILENO, call, err);
}
