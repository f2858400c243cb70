/* What kern knows of the creds plugin without opening it: its place, its options. Shared by the plugin itself and
 * by core/catalog.c, so that flags and keys have one source. */
#ifndef CREDS_MANIFEST_H
#define CREDS_MANIFEST_H

#include "kern/plugin.h"

#define BOTH (KERN_OPT_FLAG | KERN_OPT_BOX)

static const struct kern_option creds_option_table[] = {
    {.name = "user",
     .type = KERN_STRING,
     .flags = BOTH,
     .letter = "u",
     .arg = "USER[:GROUP]",
     .help = "run as this user of the box; sheds all capabilities"},
    {.name = "cap-drop",
     .type = KERN_STRING,
     .flags = BOTH | KERN_OPT_LIST | KERN_OPT_COMMAS,
     .arg = "CAP",
     .help = "drop a capability; ALL is known"},
    {.name = "cap-add",
     .type = KERN_STRING,
     .flags = BOTH | KERN_OPT_LIST | KERN_OPT_COMMAS | KERN_OPT_GUARDED,
     .arg = "CAP",
     .help = "keep a capability that is dropped by default"},
    {.name = "ulimit",
     .type = KERN_STRING,
     .flags = BOTH | KERN_OPT_LIST,
     .arg = "NAME=SOFT[:HARD]",
     .help = "resource limit; without root only lower"},
    {.name = "nice",
     .type = KERN_INT,
     .flags = BOTH | KERN_OPT_RUN,
     .arg = "N",
     .min = -20,
     .max = 19,
     .help = "scheduling priority"},
    {.name = "apparmor",
     .type = KERN_STRING,
     .flags = BOTH,
     .arg = "PROFILE",
     .help = "AppArmor profile for the command"},
    {.name = "landlock-rw",
     .type = KERN_STRING,
     .flags = BOTH | KERN_OPT_LIST,
     .arg = "PATH",
     .help = "with Landlock, only these paths of the box may be written"},
    {.name = NULL},
};

#undef BOTH

#define CREDS_MANIFEST                                                                                  \
    .name = "creds", .version = KERN_VERSION,                                                           \
    .summary = "user, capabilities, resource limits, Landlock, AppArmor", .stage = KERN_STAGE_IDENTITY, \
    .flags = KERN_PLUGIN_LEAN, .profile = NULL, .pool = NULL, .options = creds_option_table

#endif
