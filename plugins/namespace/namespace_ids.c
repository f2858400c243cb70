/* Which ids a box gets; see namespace_ids.h. Pure. */
#include "namespace_ids.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a box may use; the rest of a larger range is not needed. */
#define RANGE_MOST  65536u
#define RANGE_LEAST 2u

static int is_owner(const char *line, size_t length, const char *user, uint32_t id)
{
    char number[16];
    (void)snprintf(number, sizeof(number), "%u", id); /* fits */
    if (user != NULL && strlen(user) == length && memcmp(line, user, length) == 0)
        return 1;
    return strlen(number) == length && memcmp(line, number, length) == 0;
}

static int parse_number(const char **at, uint32_t *ret_number)
{
    char *end = NULL;
    if (!isdigit((unsigned char)**at))
        return -EINVAL;
    errno = 0;
    unsigned long number = strtoul(*at, &end, 10);
    if (errno != 0 || number > UINT32_MAX)
        return -ERANGE;
    *at = end;
    *ret_number = (uint32_t)number;
    return 0;
}

struct namespace_range namespace_find_range(const char *text, const char *user, uint32_t id)
{
    for (const char *line = text; line != NULL && *line != '\0'; line = strchr(line, '\n')) {
        line += *line == '\n';
        size_t name = strcspn(line, ":\n");
        if (line[name] != ':' || !is_owner(line, name, user, id))
            continue;
        const char *at = line + name + 1;
        struct namespace_range range = {0};
        if (parse_number(&at, &range.start) != 0 || *at != ':')
            continue;
        at++;
        if (parse_number(&at, &range.count) == 0 && (*at == '\n' || *at == '\0') &&
            range.count >= RANGE_LEAST && range.start > 0 && range.count <= UINT32_MAX - range.start)
            return range;
    }
    return (struct namespace_range){0};
}

static uint32_t usable(uint32_t count)
{
    return count < RANGE_MOST ? count : RANGE_MOST;
}

static int choose_single(const struct namespace_caller *caller, uint32_t inside_uid, uint32_t inside_gid,
                         struct kern_ids *ids)
{
    ids->how = KERN_IDS_SELF;
    ids->inside = inside_uid;
    ids->base = caller->uid;
    ids->count = 1;
    (void)snprintf(ids->uid_map, sizeof(ids->uid_map), "%u %u 1\n", inside_uid, caller->uid); /* fits */
    (void)snprintf(ids->gid_map, sizeof(ids->gid_map), "%u %u 1\n", inside_gid, caller->gid); /* fits */
    (void)snprintf(ids->inner_uid_map, sizeof(ids->inner_uid_map), "%u %u 1\n", inside_uid,
                   inside_uid); /* fits */
    (void)snprintf(ids->inner_gid_map, sizeof(ids->inner_gid_map), "%u %u 1\n", inside_gid,
                   inside_gid); /* fits */
    return 0;
}

static void inner_identity(struct kern_ids *ids, uint32_t uids, uint32_t gids)
{
    (void)snprintf(ids->inner_uid_map, sizeof(ids->inner_uid_map), "0 0 %u\n", uids); /* fits */
    (void)snprintf(ids->inner_gid_map, sizeof(ids->inner_gid_map), "0 0 %u\n", gids); /* fits */
}

/* The caller is root in the box, and its subordinate range follows. */
static int choose_subordinate(const struct namespace_caller *caller, struct namespace_range uids,
                              struct namespace_range gids, struct kern_ids *ids)
{
    uint32_t uid_count = usable(uids.count), gid_count = usable(gids.count);
    ids->how = KERN_IDS_HELPER;
    ids->become = 1;
    ids->base = caller->uid;
    ids->count = (uid_count < gid_count ? uid_count : gid_count) + 1;
    (void)snprintf(ids->uid_map, sizeof(ids->uid_map), "0 %u 1 1 %u %u", caller->uid, uids.start,
                   uid_count); /* fits */
    (void)snprintf(ids->gid_map, sizeof(ids->gid_map), "0 %u 1 1 %u %u", caller->gid, gids.start,
                   gid_count); /* fits */
    /* One line of a map must lie in one line of the parent's. */
    (void)snprintf(ids->inner_uid_map, sizeof(ids->inner_uid_map), "0 0 1\n1 1 %u\n", uid_count); /* fits */
    (void)snprintf(ids->inner_gid_map, sizeof(ids->inner_gid_map), "0 0 1\n1 1 %u\n", gid_count); /* fits */
    return 0;
}

static int choose_for_root(uint32_t mode, struct namespace_range uids, struct namespace_range gids,
                           struct kern_ids *ids)
{
    if (mode == NAMESPACE_HOST) {
        ids->how = KERN_IDS_NONE;
        ids->count = UINT32_MAX;
        return 0;
    }
    ids->how = KERN_IDS_PARENT;
    if (mode == NAMESPACE_KEEP) {
        ids->count = UINT32_MAX;
        (void)snprintf(ids->uid_map, sizeof(ids->uid_map), "0 0 4294967295\n"); /* fits */
        (void)snprintf(ids->gid_map, sizeof(ids->gid_map), "0 0 4294967295\n"); /* fits */
        inner_identity(ids, UINT32_MAX, UINT32_MAX);
        return 0;
    }
    uint32_t count = usable(uids.count < gids.count ? uids.count : gids.count);
    ids->become = 1;
    ids->shifted = 1;
    ids->base = uids.start;
    ids->gid_base = gids.start;
    ids->count = count;
    (void)snprintf(ids->uid_map, sizeof(ids->uid_map), "0 %u %u\n", uids.start, count); /* fits */
    (void)snprintf(ids->gid_map, sizeof(ids->gid_map), "0 %u %u\n", gids.start, count); /* fits */
    inner_identity(ids, count, count);
    return 0;
}

int namespace_choose(const struct namespace_caller *caller, uint32_t mode, int want_range,
                     struct namespace_range uids, struct namespace_range gids, struct kern_ids *ret_ids,
                     struct kern_error *err)
{
    struct kern_ids ids = {0};
    if (caller->real_root != 0) {
        choose_for_root(mode, uids, gids, &ids);
        *ret_ids = ids;
        return 0;
    }
    if (mode == NAMESPACE_HOST)
        return kern_refuse(err, 0,
                           "cannot use --userns=host: only root of the host can do without a user namespace");
    if (mode == NAMESPACE_KEEP) {
        choose_single(caller, caller->uid, caller->gid, &ids);
    } else if (want_range == 0) {
        choose_single(caller, 0, 0, &ids);
    } else if (uids.count == 0 || gids.count == 0) {
        kern_refuse(err, 0, "cannot map a range of ids: %s has no line for \"%s\"",
                    uids.count == 0 ? "/etc/subuid" : "/etc/subgid",
                    caller->user != NULL ? caller->user : "this user");
        kern_hint(err,
                  "sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 %s, or leave out "
                  "--uid-range",
                  caller->user != NULL ? caller->user : "USER");
        return -ENOENT;
    } else {
        choose_subordinate(caller, uids, gids, &ids);
    }
    *ret_ids = ids;
    return 0;
}

int namespace_check_hostname(const char *name)
{
    size_t length = strlen(name);
    if (length == 0 || length > 64 || name[0] == '-' || name[0] == '.')
        return -EINVAL;
    for (const char *c = name; *c != '\0'; c++)
        if (!isalnum((unsigned char)*c) && *c != '-' && *c != '.' && *c != '_')
            return -EINVAL;
    return 0;
}

/* Everything here is a property of an ipc, uts or network namespace; nothing else of /proc/sys is the box's to set. */
int namespace_sysctl_path(const char *key, int own_network, char *ret_path, size_t size)
{
    static const char *const exact[] = {"kernel.msgmax",     "kernel.msgmnb",     "kernel.msgmni",
                                        "kernel.sem",        "kernel.shmall",     "kernel.shmmax",
                                        "kernel.shmmni",     "kernel.domainname", "kernel.shm_rmid_forced",
                                        "kernel.auto_msgmni"};
    int known = strncmp(key, "fs.mqueue.", 10) == 0 || (strncmp(key, "net.", 4) == 0 && own_network != 0);
    for (size_t i = 0; i < sizeof(exact) / sizeof(exact[0]) && known == 0; i++)
        known = strcmp(key, exact[i]) == 0;
    if (known == 0 || strstr(key, "..") != NULL || strchr(key, '/') != NULL)
        return -EINVAL;
    int used = snprintf(ret_path, size, "sys/%s", key);
    if (used < 0 || (size_t)used >= size)
        return -ENAMETOOLONG;
    for (char *c = ret_path; *c != '\0'; c++)
        if (*c == '.')
            *c = '/';
    return 0;
}
