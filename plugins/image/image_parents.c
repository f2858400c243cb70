/* Directories that a layer has only as the way to its files, with no entry of their own; see image_parents.h. What is mounted
 * shows of a directory what its topmost layer says, so that mode and owner of a lower one would be hidden by such a way. Layers
 * are shared by images and stay as they are; an image that needs it gets one more on top, of directories only. Runs in a
 * child that is root over the ids of the layers. They are as hostile as their archives: no link of theirs is followed. */
#include "image_parents.h"

#include "image_describe.h"

#include "kern/cleanup.h"
#include "kern/sys.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#define MARK    "user.overlay.parent" /* overlayfs shows nothing of this name to a box */
#define BENEATH (RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS)

/* ---- Marks of one layer ---- */

/* A file system without such attributes shows what its layers say, as if there were no marks. */
void image_parents_mark(int folder, enum image_parent kind)
{
    (void)fsetxattr(folder, MARK, kind == IMAGE_PARENT_MADE ? "m" : "w", 1,
                    kind == IMAGE_PARENT_WAY     ? XATTR_CREATE
                    : kind == IMAGE_PARENT_KNOWN ? XATTR_REPLACE
                                                 : 0);
}

static char mark_of(int folder)
{
    char value = '\0';
    return fgetxattr(folder, MARK, &value, 1) == 1 ? value : '\0';
}

int image_parents_are_in(int layer)
{
    return mark_of(layer) != '\0';
}

/* ---- All layers side by side ---- */

struct parents {
    int layer[IMAGE_LAYERS_MOST]; /* the topmost first */
    uint32_t count;
    char path[PATH_MAX]; /* of the directory at hand, in each of them */
    size_t used;
    struct image_attributes attributes;
};

/* Which layers what is shown at a path comes from. */
struct shown {
    unsigned char in[IMAGE_LAYERS_MOST];
};

/* One name below that: `from` is what mode and owner come from, -1 while none is known. */
struct found {
    struct shown shown;
    int from;
    int is_first; /* in no layer above the one at hand */
    int is_hidden_by_made;
};

static int is_opaque(int folder)
{
    char value = '\0';
    return fgetxattr(folder, "user.overlay.opaque", &value, 1) == 1 && value == 'y';
}

static int open_at(const struct parents *p, uint32_t layer, int flags)
{
    return sys_open_beneath(p->layer[layer], p->used > 0 ? p->path : ".", flags, 0, BENEATH);
}

/* Goes down through the layers at the path at hand, of which `above` says where its parent is from. */
static void look(const struct parents *p, const struct shown *above, uint32_t at, struct found *ret_found)
{
    int shows_content = 1, top_is_made = 0, is_top = 1;
    *ret_found = (struct found){.from = -1, .is_first = 1};
    for (uint32_t i = 0; i < p->count && (shows_content || ret_found->from < 0); i++) {
        if (!above->in[i])
            continue;
        auto_fd folder = open_at(p, i, O_RDONLY | O_DIRECTORY);
        if (folder == -ENOENT)
            continue;
        if (folder < 0)
            break; /* a whiteout or a file: nothing of what is below is to be seen */
        char mark = mark_of(folder);
        if (i < at && mark != '\0') {
            ret_found->is_first = 0;
            return;
        }
        if (ret_found->from < 0 && mark != 'm')
            ret_found->from = (int)i;
        if (is_top)
            top_is_made = mark == 'm';
        is_top = 0;
        ret_found->shown.in[i] = (unsigned char)shows_content;
        if (is_opaque(folder))
            shows_content = 0; /* but a way to files does not say what the directory is like */
    }
    ret_found->is_hidden_by_made = top_is_made && ret_found->from >= 0;
}

static int restore(struct parents *p, const struct shown *shown, int out, int *ret_made);

/* A directory in the layer `at`, at the path at hand. */
static int restore_one(struct parents *p, const struct shown *above, uint32_t at, int out, const char *name,
                       int *ret_made)
{
    struct found found;
    int is_needed = 0;
    look(p, above, at, &found);
    if (!found.is_first || !found.shown.in[at])
        return 0;
    if (mkdirat(out, name, 0700) != 0)
        return -errno;
    auto_fd made = openat(out, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int failed = made < 0 ? -errno : restore(p, &found.shown, made, &is_needed);
    if (failed != 0)
        return failed;
    if (!is_needed && !found.is_hidden_by_made)
        return unlinkat(out, name, AT_REMOVEDIR) == 0 ? 0 : -errno;
    *ret_made = 1;
    struct stat st;
    auto_fd from = open_at(p, found.from >= 0 ? (uint32_t)found.from : at, O_RDONLY | O_DIRECTORY);
    if (from < 0 || fstat(from, &st) != 0)
        return from < 0 ? from : -errno;
    return image_describe(&p->attributes, from, made, &st, st.st_mode & 07777, 0);
}

static int restore_entry(struct parents *p, const struct shown *shown, uint32_t at, int out, const char *name,
                         int *ret_made)
{
    size_t before = p->used, length = strlen(name);
    if (before + length + 2 > sizeof(p->path))
        return 0; /* no archive can name it */
    p->used += (size_t)snprintf(p->path + before, sizeof(p->path) - before, "%s%s", before > 0 ? "/" : "",
                                name); /* fits */
    auto_fd folder = open_at(p, at, O_RDONLY | O_DIRECTORY);
    int failed = folder >= 0 && mark_of(folder) != '\0' ? restore_one(p, shown, at, out, name, ret_made) : 0;
    p->path[before] = '\0';
    p->used = before;
    return failed;
}

static int restore_layer(struct parents *p, const struct shown *shown, uint32_t at, int out, int *ret_made)
{
    auto_fd folder = open_at(p, at, O_RDONLY | O_DIRECTORY);
    if (folder < 0 || mark_of(folder) == '\0')
        return 0;
    auto_dir dir = fdopendir(folder);
    if (dir == NULL)
        return -errno;
    (void)steal_fd(&folder); /* the stream has it */
    int failed = 0;
    for (struct dirent *entry = readdir(dir); failed == 0 && entry != NULL; entry = readdir(dir))
        if ((entry->d_type == DT_DIR || entry->d_type == DT_UNKNOWN) && strcmp(entry->d_name, ".") != 0 &&
            strcmp(entry->d_name, "..") != 0)
            failed = restore_entry(p, shown, at, out, entry->d_name, ret_made);
    return failed;
}

static int restore(struct parents *p, const struct shown *shown, int out, int *ret_made)
{
    int failed = 0;
    for (uint32_t i = 0; failed == 0 && i < p->count; i++)
        if (shown->in[i])
            failed = restore_layer(p, shown, i, out, ret_made);
    return failed;
}

int image_parents_restore(const int *layers, uint32_t count, int out, int *ret_made)
{
    auto_free struct parents *p = calloc(1, sizeof(*p));
    struct shown all = {{0}};
    if (p == NULL)
        return -ENOMEM;
    image_prepare_walk();
    *ret_made = 0;
    p->count = count;
    memcpy(p->layer, layers, count * sizeof(*layers));
    memset(all.in, 1, count);
    return restore(p, &all, out, ret_made);
}
