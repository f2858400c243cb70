/* Freeing what nothing uses; see image_tool.h. Runs in the process of a verb. Whoever frees is alone: those who add hold the
 * store's lock shared. Living boxes hold no lock of the store but one of their image's folder of links: that and what it
 * links to stays. What is removed is renamed away first, so that a kill leaves nothing that looks whole. */
#include "image_tool.h"

#include "kern/cleanup.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#define DEEPEST      200
#define BROKEN_AFTER (7 * 24 * 3600) /* a transfer that nobody went on with for so long */

struct name_set {
    char (*name)[IMAGE_DIGEST_SIZE];
    size_t count, room;
};

static int add_name(struct name_set *set, const char *name)
{
    if (set->count == set->room) {
        size_t room = set->room > 0 ? set->room * 2 : 64;
        void *grown = reallocarray(set->name, room, sizeof(*set->name));
        if (grown == NULL)
            return -ENOMEM;
        set->name = grown;
        set->room = room;
    }
    (void)snprintf(set->name[set->count++], sizeof(*set->name), "%s",
                   name); /* digests in hexadecimal, s-HEX */
    return 0;
}

static int compare(const void *a, const void *b)
{
    return strcmp(a, b);
}

static int has_name(const struct name_set *set, const char *name)
{
    return set->count > 0 && bsearch(name, set->name, set->count, sizeof(*set->name), compare) != NULL;
}

static void sort_names(struct name_set *set)
{
    if (set->count > 0)
        qsort(set->name, set->count, sizeof(*set->name), compare);
}

struct collection {
    struct image_store *store;
    struct name_set blobs, links, layers; /* in use */
    uint64_t freed;
    uint32_t things;
    int failed;
    int only_looks; /* tells what would go, and leaves it */
};

typedef void (*entry_fn)(struct collection *c, int folder, const char *name, void *data);

/* All names first: what is renamed meanwhile may be found a second time. */
static int each_entry(struct collection *c, int folder, entry_fn fn, void *data)
{
    struct dirent **names = NULL;
    int count = scandirat(folder, ".", &names, NULL, NULL);
    if (count < 0)
        return -errno;
    for (int i = 0; i < count; i++) {
        if (strcmp(names[i]->d_name, ".") != 0 && strcmp(names[i]->d_name, "..") != 0)
            fn(c, folder, names[i]->d_name, data);
        free(names[i]);
    }
    free(names);
    return 0;
}

static uint64_t size_of(int folder, const char *name)
{
    struct stat st;
    return fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) == 0 ? (uint64_t)st.st_blocks * 512 : 0;
}

/* Of a file, or of all below a directory that the caller may look into. */
static uint64_t tree_size(int folder, const char *name, int depth)
{
    uint64_t size = size_of(folder, name);
    auto_fd fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    auto_dir dir = fd >= 0 && depth < DEEPEST ? fdopendir(fd) : NULL;
    if (dir == NULL)
        return size;
    (void)steal_fd(&fd); /* the stream's now */
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            size += tree_size(dirfd(dir), entry->d_name, depth + 1);
    return size;
}

static void tell(struct collection *c, const char *kind, const char *name, uint64_t size)
{
    c->freed += size;
    c->things++;
    (void)printf("%-9s  %8.1fM  %s\n", kind, (double)size / 1048576.0,
                 name); /* the caller looks at the stream */
}

/* ---- What is in use ---- */

static void use_ref(struct collection *c, int folder, const char *name, void *unused)
{
    struct image_resolved image = {0};
    auto_free struct image_parts *parts = calloc(1, sizeof(*parts));
    char own[IMAGE_REF_SIZE], links[IMAGE_DIGEST_SIZE];
    (void)unused;
    if (parts == NULL || strncmp(name, ".new-", 5) == 0 || strlen(name) >= IMAGE_REF_SIZE)
        return;
    if (image_resolved_read(folder, name, &image) != 0 || image_resolved_parts(&image, parts) != 0) {
        image_resolved_clear(&image);
        return; /* no image: what it may have named is not held by it */
    }
    image_ref_file(image.ref, own);
    if (strcmp(own, name) != 0) {
        if (c->only_looks)
            tell(c, "reference", name, 0);
        else
            c->things += unlinkat(folder, name, 0) == 0; /* its name means another image by now */
        image_resolved_clear(&image);
        return;
    }
    (void)snprintf(links, sizeof(links), "s-%s", image_hex(parts->config)); /* fits */
    int failed = add_name(&c->blobs, image_hex(image.manifest)) +
                 add_name(&c->blobs, image_hex(parts->config)) + add_name(&c->links, links);
    for (uint32_t i = 0; i < parts->count; i++)
        failed += add_name(&c->blobs, image_hex(parts->layer[i].blob)) +
                  add_name(&c->layers, image_hex(parts->layer[i].diff));
    if (failed != 0)
        c->failed = -ENOMEM;
    image_resolved_clear(&image);
}

/* The layers that a folder of links holds. */
static void use_link(struct collection *c, int folder, const char *name, void *unused)
{
    char target[IMAGE_DIGEST_SIZE + 8];
    (void)unused;
    ssize_t length = readlinkat(folder, name, target, sizeof(target) - 1);
    if (length <= 3)
        return;
    target[length] = '\0';
    if (add_name(&c->layers, target + 3) != 0) /* past "../" */
        c->failed = -ENOMEM;
}

/* ---- Removing ---- */

static void drop_file(struct collection *c, const char *kind, int folder, const char *name)
{
    uint64_t size = size_of(folder, name);
    if (c->only_looks) {
        tell(c, kind, name, size);
    } else if (unlinkat(folder, name, 0) == 0) {
        c->freed += size;
        c->things++;
    }
}

static void drop_blob(struct collection *c, int folder, const char *name, void *unused)
{
    (void)unused;
    if (!has_name(&c->blobs, name))
        drop_file(c, "blob", folder, name);
}

static void drop_ingest(struct collection *c, int folder, const char *name, void *unused)
{
    struct stat st;
    (void)unused;
    int whole = strlen(name) == 64 && fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
    if (whole && time(NULL) - st.st_mtime < BROKEN_AFTER && !has_name(&c->blobs, name))
        return; /* somebody may go on with it */
    drop_file(c, "transfer", folder, name);
}

static void drop_new(struct collection *c, int folder, const char *name, void *unused)
{
    (void)unused;
    if (strncmp(name, ".new-", 5) == 0)
        drop_file(c, "reference", folder, name);
}

struct doomed {
    char **name;
    size_t count, room;
};

static void doom(struct collection *c, struct doomed *doomed, const char *name)
{
    if (doomed->count == doomed->room) {
        size_t room = doomed->room > 0 ? doomed->room * 2 : 64;
        char **grown = reallocarray(doomed->name, room, sizeof(*grown));
        if (grown == NULL) {
            c->failed = -ENOMEM;
            return;
        }
        doomed->name = grown;
        doomed->room = room;
    }
    doomed->name[doomed->count] = strdup(name);
    if (doomed->name[doomed->count] == NULL)
        c->failed = -ENOMEM;
    else
        doomed->count++;
}

/* Links that no reference uses and no living box holds. Those held by a box also hold their layers. */
static void judge_links(struct collection *c, int folder, const char *name, void *unused)
{
    (void)unused;
    if (strncmp(name, "s-", 2) != 0)
        return;
    auto_fd links = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (links < 0)
        return;
    if (!has_name(&c->links, name) && flock(links, LOCK_EX | LOCK_NB) == 0) {
        char fresh[40];
        if (c->only_looks) {
            tell(c, "links", name, tree_size(folder, name, 0));
            return;
        }
        image_fresh_name(".new-", fresh, sizeof(fresh));
        /* Under the lock: a box that opened it before sees that it is gone. */
        if (renameat(folder, name, folder, fresh) != 0)
            c->failed = -errno;
        return;
    }
    if (each_entry(c, links, use_link, NULL) != 0)
        c->failed = -EIO;
}

static void judge_layer(struct collection *c, int folder, const char *name, void *data)
{
    if (strncmp(name, "s-", 2) == 0 || has_name(&c->layers, name))
        return;
    char fresh[40];
    if (c->only_looks) {
        tell(c, "layer", name, tree_size(folder, name, 0));
        return;
    }
    if (strncmp(name, ".new-", 5) == 0) {
        doom(c, data, name); /* of somebody who was killed: nobody is at work now */
        return;
    }
    image_fresh_name(".new-", fresh, sizeof(fresh));
    if (renameat(folder, name, folder, fresh) == 0)
        doom(c, data, fresh);
}

static void collect_layers(struct collection *c, int folder, const char *name, void *unused)
{
    struct image_ids ids;
    struct doomed layers = {0};
    (void)unused;
    auto_fd fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return;
    image_find_ids(strcmp(name, "folded") != 0, &ids);
    if (each_entry(c, fd, judge_links, NULL) != 0)
        c->failed = -EIO;
    sort_names(&c->layers);
    /* A new look, which finds the links that were renamed, too. */
    if (c->failed == 0 && each_entry(c, fd, judge_layer, &layers) != 0)
        c->failed = -EIO;
    int failed = layers.count > 0 ? image_remove_trees(&ids, fd, layers.name, layers.count) : 0;
    c->things += (uint32_t)layers.count;
    if (failed != 0 && c->failed == 0)
        c->failed = failed;
    for (size_t i = 0; i < layers.count; i++)
        free(layers.name[i]);
    free(layers.name);
}

static int collect(struct collection *c, struct kern_error *err)
{
    struct image_store *store = c->store;
    auto_fd layers = openat(store->top, "layers", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int failed = each_entry(c, store->refs, use_ref, NULL);
    sort_names(&c->blobs);
    sort_names(&c->links);
    sort_names(&c->layers);
    if (failed == 0 && c->failed == 0 && layers >= 0)
        failed = each_entry(c, layers, collect_layers, NULL);
    /* Blobs last: a layer can be unpacked again, a blob not. */
    if (failed == 0 && c->failed == 0)
        failed = each_entry(c, store->blobs, drop_blob, NULL);
    if (failed == 0 && c->failed == 0)
        failed = each_entry(c, store->ingest, drop_ingest, NULL);
    if (failed == 0 && c->failed == 0)
        failed = each_entry(c, store->refs, drop_new, NULL);
    failed = failed != 0 ? failed : c->failed;
    return failed == 0 ? 0
                       : kern_refuse(err, -failed, "cannot free all of the image store \"%s\"", store->path);
}

int image_collect(int wait, int only_looks, uint64_t *ret_freed, uint32_t *ret_things, struct kern_error *err)
{
    struct collection c = {.only_looks = only_looks};
    int failed = image_store_open(&c.store, err);
    if (failed != 0)
        return failed;
    /* flock turns a shared lock into an exclusive one by letting go of the first. */
    while ((failed = flock(c.store->lock, LOCK_EX | (wait ? 0 : LOCK_NB))) != 0 && errno == EINTR)
        continue;
    if (failed != 0 && errno == EWOULDBLOCK)
        failed = 0; /* somebody adds: not now */
    else if (failed != 0)
        failed = kern_refuse(err, errno, "cannot lock \"%s/lock\"", c.store->path);
    else
        failed = collect(&c, err);
    image_store_close(c.store);
    free(c.blobs.name);
    free(c.links.name);
    free(c.layers.name);
    *ret_freed = c.freed;
    *ret_things = c.things;
    return failed;
}

int image_cmd_gc(const struct image_call *call, struct kern_error *err)
{
    uint64_t freed = 0;
    uint32_t things = 0;
    if (call->count > 0) {
        kern_refuse(err, 0, "unexpected word \"%s\"", call->words[0]);
        kern_hint(err, "kern gc --help");
        return -EINVAL;
    }
    int dry = kern_get_int(call->values, "dry-run") != 0;
    int failed = image_collect(1, 1, &freed, &things, err); /* the list first */
    (void)fflush(stdout);                                   /* the caller looks at the stream */
    if (failed == 0 && dry)
        (void)printf("would remove %u, and free %.1fM\n", things, (double)freed / 1048576.0); /* as above */
    if (failed != 0 || dry)
        return failed;
    uint64_t blobs = 0;
    failed = image_collect(1, 0, &blobs, &things, err);
    if (failed == 0)
        (void)printf("removed %u, and freed %.1fM\n", things, (double)freed / 1048576.0); /* as above */
    return failed;
}
