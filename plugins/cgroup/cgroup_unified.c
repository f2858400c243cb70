/* Making a box's group in version 2. Runs in kern, in prepare.
 *
 * A v2 group that hands controllers on must hold no process of its own (the true root excepted), so the box's group
 * cannot stand below the caller's: it stands beside it or further up, PARENT/kern.BOXID, where PARENT is one of the
 * caller's ancestors. systemd is asked first (cgroup_manager.c). Without it root takes the outermost group, others the
 * innermost that was delegated to them. Each candidate is judged by doing. */
#include "cgroup_file.h"
#include "cgroup_manager.h"
#include "cgroup_state.h"

#include "kern/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define MUST_BITS (CGROUP_BIT(CGROUP_MEMORY) | CGROUP_BIT(CGROUP_PIDS))

uint32_t cgroup_kinds_named(const char *list, uint32_t kinds)
{
    uint32_t found = 0;
    while (*list != '\0') {
        size_t length = strcspn(list, " \n");
        for (enum cgroup_kind kind = 0; kind < CGROUP_KINDS; kind++) {
            const char *name = cgroup_controller_v2(kind);
            if (strlen(name) == length && strncmp(list, name, length) == 0)
                found |= kinds & CGROUP_BIT(kind);
        }
        list += length;
        list += strspn(list, " \n");
    }
    return found;
}

/* Which of `need` children of this group get, after asking for those that are missing one by one: a list is taken
 * as a whole or not at all. Memory comes first and its refusal ends it, because a group with processes does take
 * pids and cpu, and is then good for threads only. */
uint32_t cgroup_enable(int parent, uint32_t need, int *ret_code)
{
    char list[256];
    int result = cgroup_read(parent, "cgroup.subtree_control", list, sizeof(list));
    uint32_t have = result == 0 ? cgroup_kinds_named(list, need) : 0;
    for (enum cgroup_kind kind = 0; kind < CGROUP_KINDS; kind++) {
        if (!(need & ~have & CGROUP_BIT(kind)))
            continue;
        char order[16];
        (void)snprintf(order, sizeof(order), "+%s",
                       cgroup_controller_v2(kind)); /* the longest is "+memory" */
        result = cgroup_write(parent, "cgroup.subtree_control", order);
        if (result == 0)
            have |= CGROUP_BIT(kind);
        else
            *ret_code = -result;
        if (result < 0 && (MUST_BITS & CGROUP_BIT(kind)))
            break;
    }
    return have;
}

static enum cgroup_why why_not(int code)
{
    switch (code) {
    case EBUSY:
        return CGROUP_HAS_PROCESSES;
    case EROFS:
        return CGROUP_READ_ONLY;
    case EACCES:
    case EPERM:
    case ENOENT:
        return CGROUP_NOT_DELEGATED;
    default:
        return CGROUP_FAILED;
    }
}

/* "domain invalid" stands below a group whose processes only threads can leave. */
static bool takes_processes(int dir)
{
    char type[32];
    return cgroup_read(dir, "cgroup.type", type, sizeof(type)) < 0 || strcmp(type, "domain\n") == 0;
}

/* One candidate. On success the group is the state's last; otherwise *ret_code says why. */
static int try_parent(kern_box *box, struct cgroup_state *state, const char *parent, uint32_t need,
                      int *ret_code, struct kern_error *err)
{
    auto_fd dir = -1;
    *ret_code = -cgroup_open_group(parent, &dir);
    if (*ret_code != 0)
        return 0;
    /* Whoever puts a process elsewhere must be allowed to in the nearest ancestor of both places: this one. */
    if (faccessat(dir, "cgroup.procs", W_OK, AT_EACCESS) < 0) {
        *ret_code = errno;
        return 0;
    }
    uint32_t have = cgroup_enable(dir, need, ret_code);
    if ((need & MUST_BITS & ~have) || (need != 0 && have == 0))
        return 0;
    struct cgroup_group *group;
    int result = cgroup_make_group(box, state, parent, 2, have, &group, ret_code, err);
    if (result < 0 || *ret_code != 0)
        return result;
    group->version = 2;
    group->kinds = have;
    if (!(have & CGROUP_BIT(CGROUP_MEMORY)) && !takes_processes(group->dir)) {
        *ret_code = EBUSY;
        kern_close_fd(&group->dir);
        (void)rmdir(group->path); /* made a moment ago and never used */
        state->group_count--;
    }
    return 0;
}

static int choose_parent(kern_box *box, struct cgroup_state *state, const struct cgroup_place *place,
                         uint32_t need, struct cgroup_bound *ret_bound, struct kern_error *err)
{
    char path[CGROUP_PATH_MAX];
    uint32_t depth = 0, before = state->group_count;
    int result = cgroup_manager_parent(place, need, path);
    if (result == 0) {
        int code = 0;
        result = try_parent(box, state, path, need, &code, err);
        if (result < 0)
            return result;
        if (state->group_count > before) {
            state->group[before].in_unit = 1;
            return 0;
        }
        result = -code;
    }
    const struct cgroup_bound refused = {.by = "none", .why = CGROUP_MANAGER_FAILED, .code = -result};
    while (cgroup_place_ancestor(place, depth + 1, path) == 0)
        depth++;
    /* The caller's own group holds at least the caller; only where it is the outermost is it worth a try. */
    uint32_t candidates = depth > 0 ? depth : 1;
    for (uint32_t i = 0; i < candidates && state->group_count == before; i++) {
        int code = 0;
        (void)cgroup_place_ancestor(place, geteuid() == 0 ? i : candidates - 1 - i, path); /* counted above */
        int failed = try_parent(box, state, path, need, &code, err);
        if (failed < 0)
            return failed;
        if (ret_bound->why == CGROUP_HAS_PROCESSES)
            continue; /* it says most: the group would be ours to use otherwise */
        ret_bound->why = why_not(code);
        ret_bound->code = code;
    }
    if (state->group_count == before && geteuid() != 0 && cgroup_make_room(place) == 0) {
        int code = 0;
        result = try_parent(box, state, place->own, need, &code, err);
        if (result < 0 || state->group_count > before)
            return result;
    }
    if (refused.code != ENOENT && state->group_count == before)
        *ret_bound = refused;
    return 0;
}

/* Kinds that this machine's v2 hierarchy has at all. */
static uint32_t offered(const struct cgroup_place *place, uint32_t kinds)
{
    char path[CGROUP_PATH_MAX], list[256];
    auto_fd dir = -1;
    (void)cgroup_place_ancestor(place, 0, path); /* there is always a mount point */
    if (cgroup_open_group(path, &dir) < 0 || cgroup_read(dir, "cgroup.controllers", list, sizeof(list)) < 0)
        return 0;
    return cgroup_kinds_named(list, kinds);
}

int cgroup_v2_make(kern_box *box, struct cgroup_state *state, const struct cgroup_map *map,
                   struct kern_error *err)
{
    uint32_t kinds = state->wish.kinds;
    for (enum cgroup_kind kind = 0; kind < CGROUP_KINDS; kind++)
        if (map->v1[kind].own[0] != '\0')
            kinds &= ~CGROUP_BIT(kind);
    uint32_t need = kinds != 0 && map->v2.own[0] != '\0' ? offered(&map->v2, kinds) : 0;
    struct cgroup_bound none = {.by = "none"};
    uint32_t before = state->group_count;
    int result = need != 0 ? choose_parent(box, state, &map->v2, need, &none, err) : 0;
    uint32_t have = state->group_count > before ? state->group[before].kinds : 0;
    char controllers[2048] = "";
    if (kinds & ~need)
        (void)cgroup_read(AT_FDCWD, "/proc/cgroups", controllers, sizeof(controllers)); /* "" knows of none */
    for (enum cgroup_kind kind = 0; kind < CGROUP_KINDS; kind++) {
        if (!(kinds & ~have & CGROUP_BIT(kind)))
            continue;
        state->bound[kind] = none;
        if (!(need & CGROUP_BIT(kind)))
            state->bound[kind].why = cgroup_why_missing(controllers, kind);
        else if (have != 0)
            state->bound[kind].why = CGROUP_NO_SUBTREE;
    }
    return result;
}
