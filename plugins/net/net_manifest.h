/* What kern knows of the net plugin without opening it: its place, its options. Shared by the plugin itself and
 * by core/catalog.c, so that flags and keys have one source. */
#ifndef NET_MANIFEST_H
#define NET_MANIFEST_H

#include "kern/plugin.h"

static const char *const net_words[] = {"none", "host", NULL};

static const struct kern_option net_option_table[] = {
    {.name = "net",
     .type = KERN_ENUM,
     .flags = KERN_OPT_FLAG | KERN_OPT_BOX | KERN_OPT_GUARDED | KERN_OPT_OPTIONAL,
     .alias = "network",
     .arg = "host|none",
     .fallback = "none",
     .implied = "host",
     .choices = net_words,
     .help = "share the host's network (default: an isolated loopback)"},
    {.name = "tun",
     .type = KERN_BOOL,
     .flags = KERN_OPT_FLAG,
     .help = "/dev/net/tun in the box, for networks that it makes itself"},
    {.name = NULL},
};

#define NET_MANIFEST                                                                               \
    .name = "net", .version = KERN_VERSION, .summary = "isolated loopback, or the host's network", \
    .stage = KERN_STAGE_NETWORK, .flags = KERN_PLUGIN_LEAN, .profile = NULL, .pool = NULL,         \
    .options = net_option_table

#endif
