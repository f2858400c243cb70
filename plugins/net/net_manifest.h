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
    {.name = "egress-allow",
     .type = KERN_STRING,
     .flags = KERN_OPT_FLAG | KERN_OPT_LATER | KERN_OPT_LIST,
     .arg = "HOST,...",
     .help = "reach only these hosts"},
    {.name = "publish",
     .type = KERN_STRING,
     .flags = KERN_OPT_FLAG | KERN_OPT_LATER | KERN_OPT_LIST,
     .letter = "p",
     .arg = "[IP:]H:B",
     .help = "a port of the box on the host"},
    {.name = "tun",
     .type = KERN_BOOL,
     .flags = KERN_OPT_FLAG | KERN_OPT_LATER,
     .help = "/dev/net/tun in the box"},
    {.name = NULL},
};

#define NET_MANIFEST                                                                               \
    .name = "net", .version = KERN_VERSION, .summary = "isolated loopback, or the host's network", \
    .stage = KERN_STAGE_NETWORK, .flags = KERN_PLUGIN_LEAN, .profile = NULL, .pool = NULL,         \
    .options = net_option_table

#endif
