/* The plugins that a kern.toml declares in [[plugin]], opened and put into the catalog. Host side. */
#ifndef CORE_DECLARED_H
#define CORE_DECLARED_H

#include "config.h"

/* Each that is enabled takes part in the box (`wanted`) and has the values of its table. */
int core_declared_add(struct core_catalog *catalog, const struct core_config *config, struct kern_error *err);

/* For help and completions: those of the kern.toml that a box would use. One that cannot be opened is left out, and nothing is said:
 * a box will say it. A file that somebody else chose (KERN_CONFIG) adds none. */
void core_declared_show(struct core_catalog *catalog);

#endif
