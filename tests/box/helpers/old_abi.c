/* old_abi: a plugin table that claims another ABI than the header it was built with, and one with MORE fields or
 * HELP, such as a pointer that leads nowhere; kern must not call into it, nor crash. */
#include <kern/plugin.h>

#ifndef MORE
#define MORE
#endif
#ifndef HELP
#define HELP "x"
#endif

static const struct kern_option options[] = {
    {.name = "a", .type = KERN_STRING, .flags = KERN_OPT_PLUGIN | KERN_OPT_FLAG, .help = HELP},
    {.name = NULL},
};

KERN_EXPORT extern const struct kern_plugin kern_plugin_table;

const struct kern_plugin kern_plugin_table = {.struct_size = (uint32_t)sizeof(struct kern_plugin),
                                              .abi = FAKE_ABI,
                                              .options = options,
                                              .name = "hello",
                                              .version = "1",
                                              .summary = "speaks another ABI",
                                              .stage = KERN_STAGE_MOUNT,
                                              MORE};
