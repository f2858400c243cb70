/* old_abi: a plugin table that claims another ABI than the header it was built with; kern must not call into it. */
#include <kern/plugin.h>

KERN_EXPORT extern const struct kern_plugin kern_plugin_table;

const struct kern_plugin kern_plugin_table = {.struct_size = (uint32_t)sizeof(struct kern_plugin),
                                              .abi = FAKE_ABI,
                                              .name = "hello",
                                              .version = "1",
                                              .summary = "speaks another ABI",
                                              .stage = KERN_STAGE_MOUNT};
