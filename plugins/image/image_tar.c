/* A layer's tar becomes files; see image_tar.h. Runs in a process of its own, in a user namespace or as root with few
 * capabilities, with the layer's directory as its root. libarchive reads; every name is judged (image_vet.c) and resolved
 * by descriptor, beneath that directory and through no symlink; libarchive's own way to write files is not used. */
#include "image_tar.h"

#include "image_tar_entry.h"
#include "image_vet.h"

#include "kern/cleanup.h"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <locale.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>

#define BLOCK ((size_t)1 << 18)

/* Names are bytes; "pax" ones are UTF-8 and come out as such only where the locale says UTF-8. */
static struct archive *open_tar(int in, struct kern_error *err)
{
    struct archive *tar = archive_read_new();
    if (tar == NULL) {
        kern_refuse(err, ENOMEM, "cannot read a layer");
        return NULL;
    }
    (void)setlocale(LC_CTYPE, "C.UTF-8"); /* where it is missing, such names are refused */
    if (archive_read_support_format_tar(tar) != ARCHIVE_OK ||
        archive_read_support_format_empty(tar) != ARCHIVE_OK ||
        archive_read_open_fd(tar, in, BLOCK) != ARCHIVE_OK) {
        kern_refuse(err, 0, "cannot read a layer: %s", archive_error_string(tar));
        (void)archive_read_free(tar); /* nothing else can be said */
        return NULL;
    }
    return tar;
}

/* Several layers are unpacked at one time, and each alone may be within its caps. */
static int check_total(struct image_tar *t, uint64_t size)
{
    uint64_t bytes = atomic_fetch_add(&t->total->bytes, size),
             entries = atomic_fetch_add(&t->total->entries, 1);
    if (bytes + size > t->limits.all_bytes) {
        kern_refuse(t->err, 0, "cannot unpack a layer: all layers together are larger than %llu bytes",
                    (unsigned long long)t->limits.all_bytes);
        return image_hint_limit(t->err, "max-image-size");
    }
    if (entries + 1 > t->limits.all_entries) {
        kern_refuse(t->err, 0, "cannot unpack a layer: all layers together have more than %llu entries",
                    (unsigned long long)t->limits.all_entries);
        return image_hint_limit(t->err, "max-image-entries");
    }
    return 0;
}

static int check_budget(struct image_tar *t, struct archive_entry *entry)
{
    int64_t size = archive_entry_size_is_set(entry) ? archive_entry_size(entry) : 0;
    if (++t->result->entries > t->limits.entries) {
        kern_refuse(t->err, 0, "cannot unpack a layer: it has more than %llu entries",
                    (unsigned long long)t->limits.entries);
        return image_hint_limit(t->err, "max-entries");
    }
    if (size < 0)
        return kern_refuse(t->err, 0, "cannot unpack \"%s\": its size is negative", t->name);
    if ((uint64_t)size > t->limits.bytes || t->result->bytes + (uint64_t)size > t->limits.bytes) {
        kern_refuse(t->err, 0, "cannot unpack a layer: its files are larger than %llu bytes",
                    (unsigned long long)t->limits.bytes);
        return image_hint_limit(t->err, "max-size");
    }
    t->result->bytes += (uint64_t)size;
    return check_total(t, (uint64_t)size);
}

/* Whiteouts are files. 1: something below the bookkeeping of another program, which is left out. */
static int judge_folder(struct image_tar *t, const char *path)
{
    const char *hidden = NULL;
    for (const char *part = path; *part != '\0'; part += strspn(part, "/")) {
        char name[NAME_MAX + 1];
        size_t length = strcspn(part, "/");
        memcpy(name, part, length); /* vetted: 255 at most */
        name[length] = '\0';
        int kind = image_vet_whiteout(name, &hidden);
        if (kind == IMAGE_NAME_IGNORED)
            return 1;
        if (kind != IMAGE_NAME_PLAIN)
            return kern_refuse(t->err, 0, "cannot unpack \"%.200s\": a whiteout is no directory", t->name);
        part += length;
    }
    return 0;
}

static int take_entry(struct image_tar *t, struct archive_entry *entry)
{
    char path[PATH_MAX];
    const char *name = archive_entry_pathname(entry);
    if (name == NULL)
        return kern_refuse(t->err, 0, "cannot unpack a layer: the name of an entry is not text");
    t->name = name;
    const char *why = image_vet_name(name, path);
    if (why != NULL)
        return kern_refuse(t->err, 0, "cannot unpack \"%.200s\": %s", name, why);
    int failed = check_budget(t, entry);
    if (failed != 0 || path[0] == '\0')
        return failed; /* the root itself is kern's */
    char *slash = strrchr(path, '/');
    const char *base = slash != NULL ? slash + 1 : path, *hidden = NULL;
    if (slash != NULL)
        *slash = '\0';
    int stand = slash != NULL ? judge_folder(t, path) : 0;
    if (stand != 0)
        return stand < 0 ? stand : 0;
    failed = image_tar_parent(t, slash != NULL ? path : "");
    if (failed != 0)
        return failed;
    switch (image_vet_whiteout(base, &hidden)) {
    case IMAGE_NAME_PLAIN:
        return image_tar_make(t, entry, base);
    case IMAGE_NAME_WHITEOUT:
        return image_tar_hide(t, hidden);
    case IMAGE_NAME_OPAQUE:
        return image_tar_opaque(t);
    case IMAGE_NAME_IGNORED:
        return 0;
    default:
        return kern_refuse(t->err, 0, "cannot unpack \"%.200s\": it hides what cannot be hidden", name);
    }
}

static int take_all(struct image_tar *t)
{
    struct archive_entry *entry = NULL;
    for (;;) {
        int result = archive_read_next_header(t->tar, &entry);
        if (result == ARCHIVE_EOF)
            return 0;
        if (result != ARCHIVE_OK && result != ARCHIVE_WARN)
            return kern_refuse(t->err, 0, "cannot unpack a layer: the archive is damaged (%s)",
                               archive_error_string(t->tar));
        int failed = take_entry(t, entry);
        if (failed != 0)
            return failed;
    }
}

/* The digest is of all bytes, also of those behind the end of the archive. */
static int drain(int in)
{
    char buffer[16384];
    ssize_t got;
    do
        got = read(in, buffer, sizeof(buffer));
    while (got > 0 || (got < 0 && errno == EINTR));
    return got < 0 ? -errno : 0;
}

int image_tar_unpack(const struct image_tar_job *job)
{
    struct image_tar t = {.root = job->root,
                          .parent = -1,
                          .limits = job->limits,
                          .total = job->total,
                          .uids = job->uids,
                          .gids = job->gids,
                          .result = job->result,
                          .err = &job->result->error,
                          .name = ""};
    t.tar = open_tar(job->in, t.err);
    if (t.tar == NULL)
        return -1;
    int failed = take_all(&t);
    if (failed == 0)
        image_tar_times(&t);
    (void)archive_read_free(t.tar); /* all was read */
    if (failed == 0)
        failed = drain(job->in);
    image_tar_clear(&t);
    job->result->done = failed == 0;
    return failed == 0 ? 0 : -1;
}
