/* Making a box's groups, version 1 and what both versions share. Runs in kern, in prepare.
 *
 * v1 groups stand below the caller's own group, PARENT/kern.BOXID, so that whatever binds the caller binds the box
 * as well. There is no directory between them: nothing of kern's stays when no box runs. */
#include "cgroup_file.h"
#include "cgroup_state.h"
#include "cgroup_sweep.h"

#include "kern/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct cgroup_group *cgroup_group_of(struct cgroup_state *state, enum cgroup_kind kind)
{
    for (uint32_t i = 0; i < state->group_count; i++)
        if (state->group[i].kinds & CGROUP_BIT(kind))
            return &state->group[i];
    return NULL;
}

/* The last box of a fleet may take its group away between our look and our mkdir. */
static int make_in_fleet(struct cgroup_state *state, const char *parent, const char *path, uint32_t version,
                         uint32_t kinds)
{
    char fleet[CGROUP_PATH_MAX];
    int result = -ENOENT;
    for (int round = 0; result == -ENOENT && round < 10; round++) {
        result = cgroup_fleet_open(&state->fleet, parent, version, kinds, fleet);
        if (result == 0 && mkdir(path, 0755) < 0)
            result = -errno;
    }
    return result;
}

int cgroup_make_group(kern_box *box, struct cgroup_state *state, const char *parent, uint32_t version,
                      uint32_t kinds, struct cgroup_group **ret_group, int *ret_code, struct kern_error *err)
{
    struct cgroup_group *group = &state->group[state->group_count];
    bool fleet = cgroup_fleet_wanted(&state->fleet, kinds);
    int length = snprintf(group->path, sizeof(group->path), "%s%s/" CGROUP_NAME_PREFIX "%s", parent,
                          fleet ? "/" CGROUP_FLEET : "", kern_box_id(box));
    if (length < 0 || (size_t)length >= sizeof(group->path)) {
        *ret_code = ENAMETOOLONG;
        return 0;
    }
    int result = kern_box_record_group(box, group->path, err);
    if (result < 0)
        return result;
    if (fleet) {
        *ret_code = -make_in_fleet(state, parent, group->path, version, kinds);
        if (*ret_code != 0)
            return 0;
    } else if (mkdir(group->path, 0755) < 0 &&
               (errno != EEXIST || cgroup_sweep(group->path) < 0 || mkdir(group->path, 0755) < 0)) {
        *ret_code = errno;
        return 0;
    }
    int fd = -1;
    *ret_code = -cgroup_open_group(group->path, &fd);
    if (*ret_code != 0) {
        (void)rmdir(group->path); /* made a moment ago and never used */
        return 0;
    }
    group->dir = fd;
    group->tasks = -1;
    group->kinds = 0;
    group->in_unit = 0;
    group->counts = 0;
    state->group_count++;
    *ret_group = group;
    return 0;
}

/* cpu and cpuacct, or any others, may be mounted as one hierarchy: then one group serves both. */
static struct cgroup_group *group_below(struct cgroup_state *state, const char *parent)
{
    size_t length = strlen(parent);
    for (uint32_t i = 0; i < state->group_count; i++) {
        const char *path = state->group[i].path, *last = strrchr(path, '/');
        if (strncmp(path, parent, length) == 0 &&
            (last == path + length ||
             (strncmp(path + length, "/" CGROUP_FLEET "/", strlen("/" CGROUP_FLEET "/")) == 0 &&
              last == path + length + strlen("/" CGROUP_FLEET))))
            return &state->group[i];
    }
    return NULL;
}

static void refuse(struct cgroup_bound *bound, int code)
{
    bound->why = cgroup_why_v1(code);
    bound->code = code;
}

/* The box's group below `parent`, made if there is none yet; *ret_group is NULL, and *ret_code an errno, where there is none that
 * the box can enter. */
static int have_group(kern_box *box, struct cgroup_state *state, const char *parent, uint32_t kinds,
                      struct cgroup_group **ret_group, int *ret_code, struct kern_error *err)
{
    struct cgroup_group *group = group_below(state, parent);
    *ret_group = NULL;
    *ret_code = EACCES; /* of a group that was made before and cannot be entered */
    if (group == NULL) {
        int result = cgroup_make_group(box, state, parent, 1, kinds, &group, ret_code, err);
        if (result < 0 || *ret_code != 0)
            return result;
        group->version = 1;
        /* Writing to cgroup.procs waits for an RCU grace period, some milliseconds; a single-threaded process that
         * writes "0" to tasks takes no such lock (since Linux 5.5). Whether it may is judged by who opened it. */
        group->tasks = openat(group->dir, "tasks", O_WRONLY | O_CLOEXEC);
        *ret_code = errno;
    }
    *ret_group = group->tasks >= 0 ? group : NULL;
    return 0;
}

static int make_one(kern_box *box, struct cgroup_state *state, enum cgroup_kind kind, const char *parent,
                    struct kern_error *err)
{
    struct cgroup_group *group;
    int code, result = have_group(box, state, parent, CGROUP_BIT(kind), &group, &code, err);
    if (result < 0)
        return result;
    if (group == NULL)
        refuse(&state->bound[kind], code);
    else
        group->kinds |= CGROUP_BIT(kind);
    return 0;
}

/* What a box used is known only to a group: the kernel forgets the times of what it kills together with the box's first process.
 * Where there is none, the report has what was waited for. */
static int make_accounts(kern_box *box, struct cgroup_state *state, const struct cgroup_map *map,
                         struct kern_error *err)
{
    struct cgroup_group *group;
    if (state->group_count == 0 || map->accounts.own[0] == '\0')
        return 0;
    int code, result = have_group(box, state, map->accounts.own, 0, &group, &code, err);
    if (result == 0 && group != NULL)
        group->counts = 1;
    return result;
}

int cgroup_v1_make(kern_box *box, struct cgroup_state *state, const struct cgroup_map *map,
                   struct kern_error *err)
{
    for (enum cgroup_kind kind = 0; kind < CGROUP_KINDS; kind++) {
        if (!(state->wish.kinds & CGROUP_BIT(kind)) || map->v1[kind].own[0] == '\0')
            continue;
        int result = make_one(box, state, kind, map->v1[kind].own, err);
        if (result < 0)
            return result;
    }
    return make_accounts(box, state, map, err);
}
