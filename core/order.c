/* A stable topological sort of the plugins that take part; see order.h. Pure. */
#include "order.h"

#include <errno.h>
#include <string.h>

#define MAX_PLUGINS 64

static bool names(const char *const *list, const char *name)
{
    for (; list != NULL && *list != NULL; list++)
        if (strcmp(*list, name) == 0)
            return true;
    return false;
}

/* True when `first` has to come before `second`. Both stand in the same stage. */
static bool must_precede(const struct core_plugin *first, const struct core_plugin *second)
{
    return names(first->table->before, second->name) || names(second->table->after, first->name);
}

/* A plugin may go next when nobody who is still waiting has to precede it. */
static bool is_blocked(struct core_plugin *const *waiting, size_t count, size_t candidate, size_t *ret_by)
{
    for (size_t i = 0; i < count; i++) {
        if (i != candidate && waiting[i] != NULL && must_precede(waiting[i], waiting[candidate])) {
            *ret_by = i;
            return true;
        }
    }
    return false;
}

static int report_cycle(struct core_plugin *const *waiting, size_t count, struct kern_error *err)
{
    size_t by = 0;
    for (size_t i = 0; i < count; i++)
        if (waiting[i] != NULL && is_blocked(waiting, count, i, &by))
            return kern_refuse(err, 0, "plugins \"%s\" and \"%s\" each want to run before the other",
                               waiting[i]->name, waiting[by]->name);
    return kern_refuse(err, 0, "plugins cannot be put in order");
}

static int order_stage(struct core_plugin **waiting, size_t count, struct core_plugin **ret_order,
                       size_t *done, struct kern_error *err)
{
    for (size_t placed = 0; placed < count; placed++) {
        size_t next = count, by = 0;
        for (size_t i = 0; i < count && next == count; i++)
            if (waiting[i] != NULL && !is_blocked(waiting, count, i, &by))
                next = i;
        if (next == count)
            return report_cycle(waiting, count, err);
        ret_order[(*done)++] = waiting[next];
        waiting[next] = NULL;
    }
    return 0;
}

int core_order(const struct core_catalog *catalog, struct core_plugin **ret_order, size_t *ret_count,
               struct kern_error *err)
{
    size_t done = 0;
    uint32_t stage = 0;
    for (;;) {
        uint32_t next = UINT32_MAX;
        for (size_t i = 0; i < catalog->count; i++) {
            const struct core_plugin *plugin = &catalog->plugin[i];
            if (plugin->wanted && plugin->table->stage > stage && plugin->table->stage < next)
                next = plugin->table->stage;
        }
        if (next == UINT32_MAX)
            break;
        stage = next;
        struct core_plugin *waiting[MAX_PLUGINS];
        size_t count = 0;
        for (size_t i = 0; i < catalog->count; i++) {
            struct core_plugin *plugin = &catalog->plugin[i];
            if (!plugin->wanted || plugin->table->stage != stage)
                continue;
            if (count == MAX_PLUGINS)
                return kern_refuse(err, E2BIG, "cannot order more than %d plugins of one stage", MAX_PLUGINS);
            waiting[count++] = plugin;
        }
        int failed = order_stage(waiting, count, ret_order, &done, err);
        if (failed != 0)
            return failed;
    }
    *ret_count = done;
    return 0;
}
