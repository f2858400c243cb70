/* A group of the io controller for a box that was not to have one: a throttled disk asks for it, when the groups have been made
 * already (kern_need_io_group). Runs in kern, in prepare of another plugin. */
#include "cgroup_file.h"
#include "cgroup_state.h"
#include "cgroup_sweep.h"

#include "kern/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define IO_BIT CGROUP_BIT(CGROUP_IO)

static struct cgroup_group *unified_group(struct cgroup_state *state)
{
    for (uint32_t i = 0; i < state->group_count; i++)
        if (state->group[i].version == 2)
            return &state->group[i];
    return NULL;
}

/* v2: the box has one group for all, and those above it hand one controller more on. */
static void extend(struct cgroup_state *state, struct cgroup_group *group)
{
    struct cgroup_bound *bound = &state->bound[CGROUP_IO];
    auto_fd parent = openat(group->dir, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
    int code = ENOENT;
    if (parent >= 0 && strstr(group->path, "/" CGROUP_FLEET "/") != NULL) {
        auto_fd above = openat(parent, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
        (void)cgroup_enable(above, IO_BIT, &code); /* the next one fails otherwise */
    }
    if (parent >= 0 && cgroup_enable(parent, IO_BIT, &code) == IO_BIT)
        group->kinds |= IO_BIT;
    else
        *bound = (struct cgroup_bound){.by = "none", .why = CGROUP_NO_SUBTREE, .code = code};
}

static int make(kern_box *box, struct cgroup_state *state, struct kern_error *err)
{
    struct cgroup_wish before = state->wish;
    struct cgroup_map map;
    int result = cgroup_map_read(&map);
    if (result < 0)
        return kern_fail(err, -result, "cannot read \"/proc/self/mountinfo\" and \"/proc/self/cgroup\"");
    state->wish.kinds = IO_BIT;
    result = cgroup_v1_make(box, state, &map, err);
    if (result == 0 && map.v1[CGROUP_IO].own[0] == '\0')
        result = cgroup_v2_make(box, state, &map, err);
    state->wish = before;
    return result;
}

int cgroup_need_io(kern_box *box, void *opaque, char *ret_why, size_t size, struct kern_error *err)
{
    struct cgroup_state *state = opaque;
    struct cgroup_group *unified = unified_group(state);
    uint32_t count = state->group_count;
    int result = 0;
    if (cgroup_group_of(state, CGROUP_IO) != NULL)
        return 1;
    if (unified != NULL)
        extend(state, unified);
    if (cgroup_group_of(state, CGROUP_IO) == NULL && (unified == NULL || unified->kinds == 0))
        result = make(box, state, err);
    if (result < 0)
        return result;
    for (uint32_t i = count; i < state->group_count; i++)
        cgroup_tell(box, &state->group[i]);
    if (cgroup_group_of(state, CGROUP_IO) != NULL)
        return 1;
    char reason[160], remedy[200];
    const struct cgroup_bound *bound = &state->bound[CGROUP_IO];
    const char *mend = cgroup_remedy(bound, CGROUP_IO, remedy, sizeof(remedy));
    (void)snprintf(ret_why, size, "%s%s%s%s", cgroup_reason(bound, CGROUP_IO, reason, sizeof(reason)),
                   mend[0] ? " (" : "", mend, mend[0] ? ")" : ""); /* a long remedy is cut */
    return 0;
}
