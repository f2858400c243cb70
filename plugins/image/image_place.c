/* Where the store is and whose ids its layers have; see image_place.h. Runs in kern's prepare, in verbs and in children. */
#include "image_place.h"

#include "kern/cleanup.h"
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define RANGE_MOST 65536u /* what a box uses of a longer one: see namespace_choose() */

int image_directory(char *ret_path, size_t size)
{
    const char *xdg = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    int used = xdg != NULL && xdg[0] == '/' ? snprintf(ret_path, size, "%s/kern/images", xdg)
               : home != NULL && home[0] == '/'
                   ? snprintf(ret_path, size, "%s/.local/share/kern/images", home)
                   : snprintf(ret_path, size, "/var/lib/kern/images");
    return used > 0 && (size_t)used < size ? 0 : -ENAMETOOLONG;
}

static char *read_small(const char *path)
{
    auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0 || st.st_size > 1 << 20)
        return NULL;
    size_t room = st.st_size > 0 ? (size_t)st.st_size : 256; /* procfs says 0 */
    char *text = calloc(1, room + 1);
    if (text != NULL && read(fd, text, room) < 0)
        text[0] = '\0';
    return text;
}

/* The map of the first user namespace covers every id one to one. */
static int is_real_root(void)
{
    auto_free char *text = geteuid() == 0 ? read_small("/proc/self/uid_map") : NULL;
    unsigned inside = 1, outside = 1, count = 0;
    return text != NULL && sscanf(text, "%u %u %u", &inside, &outside, &count) == 3 && inside == 0 &&
           outside == 0 && count == UINT32_MAX;
}

struct range {
    uint32_t start, count; /* count 0: there is none */
};

/* The first line of the user, by name or by number. What the box gets is what the namespace plugin reads in the same files. */
static struct range range_in(const char *path, const char *user, uint32_t id)
{
    auto_free char *text = read_small(path);
    char number[16], *rest = NULL;
    (void)snprintf(number, sizeof(number), "%u", id); /* fits */
    for (char *line = text != NULL ? strtok_r(text, "\n", &rest) : NULL; line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        char *colon = strchr(line, ':');
        uint32_t start = 0, count = 0;
        char end = 0;
        if (colon == NULL || sscanf(colon, ":%u:%u%c", &start, &count, &end) != 2)
            continue;
        *colon = '\0';
        if (((user != NULL && strcmp(line, user) == 0) || strcmp(line, number) == 0) && count >= 2 &&
            start > 0)
            return (struct range){.start = start, .count = count < RANGE_MOST ? count : RANGE_MOST};
    }
    return (struct range){0};
}

static int has_helper(const char *name)
{
    static const char *const folders[] = {"/usr/bin", "/bin", "/usr/local/bin", "/usr/sbin", "/sbin"};
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
        char path[64];
        (void)snprintf(path, sizeof(path), "%s/%s", folders[i], name); /* fits */
        if (access(path, X_OK) == 0)
            return 1;
    }
    return 0;
}

void image_find_ids(int want_range, struct image_ids *ret_ids)
{
    struct image_ids ids = {.uid = geteuid(), .gid = getegid(), .userns = -1};
    if (is_real_root()) {
        ids.kind = IMAGE_IDS_PLAIN;
        (void)snprintf(ids.name, sizeof(ids.name), "plain"); /* fits */
        *ret_ids = ids;
        return;
    }
    if (want_range) {
        const struct passwd *entry = getpwuid(ids.uid);
        const char *user = entry != NULL ? entry->pw_name : NULL;
        struct range uids = range_in("/etc/subuid", user, ids.uid),
                     gids = range_in("/etc/subgid", user, ids.uid);
        if (uids.count > 0 && gids.count > 0 && has_helper("newuidmap") && has_helper("newgidmap")) {
            ids.kind = IMAGE_IDS_RANGE;
            ids.uid_start = uids.start, ids.uid_count = uids.count;
            ids.gid_start = gids.start, ids.gid_count = gids.count;
            (void)snprintf(ids.name, sizeof(ids.name), "%u+%u-%u+%u", uids.start, uids.count, gids.start,
                           gids.count); /* 43 characters at most */
            *ret_ids = ids;
            return;
        }
    }
    ids.kind = IMAGE_IDS_FOLDED;
    (void)snprintf(ids.name, sizeof(ids.name), "folded"); /* fits */
    *ret_ids = ids;
}

void image_ref_file(const char *full, char ret_name[static IMAGE_REF_SIZE])
{
    size_t length = strnlen(full, IMAGE_REF_SIZE - 1);
    memcpy(ret_name, full, length);
    ret_name[length] = '\0';
    for (char *c = ret_name; *c != '\0'; c++)
        if (*c == '/')
            *c = '+';
}
