/* The order in which plugins enter: by stage, and inside a stage by their after/before wishes, otherwise as they
 * stand in the catalog. Pure. */
#ifndef CORE_ORDER_H
#define CORE_ORDER_H

#include "catalog.h"

/* Puts the wanted plugins of the catalog into `ret_order` (room for catalog->count pointers). A cycle is an error that
 * names two plugins of it. Wishes that name absent plugins, or plugins of another stage, do not count. */
int core_order(const struct core_catalog *catalog, struct core_plugin **ret_order, size_t *ret_count,
               struct kern_error *err);

#endif
