/* What kern knows of the audit plugin without opening it. */
#ifndef AUDIT_MANIFEST_H
#define AUDIT_MANIFEST_H

#include "kern/plugin.h"

static const struct kern_option audit_option_table[] = {
    {.name = "audit",
     .type = KERN_PATH,
     .flags = KERN_OPT_FLAG | KERN_OPT_BOX | KERN_OPT_GUARDED,
     .arg = "FILE",
     .help = "append what happens to the box, as JSON lines, to this file or unix socket"},
    {.name = NULL},
};

#define AUDIT_MANIFEST                                                                           \
    .name = "audit", .version = KERN_VERSION,                                                    \
    .summary = "a JSON line for each phase of a box and each denial", .stage = KERN_STAGE_LIMIT, \
    .flags = KERN_PLUGIN_LEAN, .options = audit_option_table

#endif
