/* What kern knows of the egress plugin without opening it: its place, its options. Shared by the plugin itself and by
 * core/catalog.c, so that flags and keys have one source. */
#ifndef EGRESS_MANIFEST_H
#define EGRESS_MANIFEST_H

#include "kern/plugin.h"

static const char *const egress_tls_words[] = {"name", "ech", "any", NULL};
static const char *const egress_after[] = {"net", NULL};

static const struct kern_option egress_option_table[] = {
    {.name = "egress-allow",
     .type = KERN_STRING,
     .flags = KERN_OPT_FLAG | KERN_OPT_BOX | KERN_OPT_LIST | KERN_OPT_COMMAS,
     .arg = "HOST[:PORT],...",
     .help = "reach these hosts and no others; \"none\": no host at all"},
    {.name = "egress-deny",
     .type = KERN_STRING,
     .flags = KERN_OPT_FLAG | KERN_OPT_BOX | KERN_OPT_LIST | KERN_OPT_COMMAS,
     .arg = "HOST[:PORT],...",
     .help = "but not these, whatever else allows them"},
    {.name = "publish",
     .type = KERN_STRING,
     .flags = KERN_OPT_FLAG | KERN_OPT_LIST,
     .letter = "p",
     .arg = "[IP:]H:B[/udp]",
     .help = "port B of the box on port H of the host (127.0.0.1 unless IP says otherwise); ranges H-H:B-B"},
    {.name = "name",
     .type = KERN_STRING,
     .flags = KERN_OPT_PROFILE | KERN_OPT_REQUIRED,
     .help = "what follows egress: on the command line"},
    {.name = "extends",
     .type = KERN_STRING,
     .flags = KERN_OPT_PROFILE,
     .help = "another [[egress]] whose keys are taken over"},
    {.name = "allow",
     .type = KERN_STRING,
     .flags = KERN_OPT_PROFILE | KERN_OPT_LIST,
     .help = "hosts that the box may reach, as for --egress-allow"},
    {.name = "deny",
     .type = KERN_STRING,
     .flags = KERN_OPT_PROFILE | KERN_OPT_LIST,
     .help = "hosts that it may not reach, whatever else allows them"},
    {.name = "private",
     .type = KERN_BOOL,
     .flags = KERN_OPT_PROFILE | KERN_OPT_GUARDED,
     .fallback = "false",
     .help = "the names may lead to addresses of this machine and its networks"},
    {.name = "tls",
     .type = KERN_ENUM,
     .flags = KERN_OPT_PROFILE,
     .fallback = "name",
     .choices = egress_tls_words,
     .help = "what a connection must say: the host's name; \"ech\": it may hide another; \"any\": anything"},
    {.name = NULL},
};

#define EGRESS_MANIFEST                                                                                   \
    .name = "egress", .version = KERN_VERSION, .summary = "the hosts that a box may reach",               \
    .stage = KERN_STAGE_NETWORK, .flags = KERN_PLUGIN_LEAN | KERN_PLUGIN_STANDING, .after = egress_after, \
    .profile = "egress", .pool = NULL, .options = egress_option_table

#endif
