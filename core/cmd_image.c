/* The verbs of images: `load`, `import`, `save`, `tag`, `images`, `rmi`, `gc`. What they do stands in an object with
 * libarchive and jansson, which is opened for them only. Host side. */
#include "cmd.h"

#include "cleanup.h"
#include "log.h"
#include "plugin.h"

#include <limits.h>

typedef int (*tool_fn)(const char *verb, int count, char **words, const kern_values *values,
                       struct kern_error *err);

bool core_image_is_here(const char *word)
{
    struct kern_error ignored = {0};
    union {
        void *object;
        int (*has)(const char *text);
    } tool = {.object = core_plugin_companion("image_tool", "image_tool_has", &ignored)};
    return tool.object != NULL && tool.has(word) == 1;
}

int core_cmd_image(struct core_call *call, struct kern_error *err)
{
    /* A function pointer through a union: the language has no cast for it. */
    union {
        void *object;
        tool_fn run;
    } tool = {.object = core_plugin_companion("image_tool", "image_tool", err)};
    if (tool.object == NULL)
        return -ENOENT;
    int failed = tool.run(call->verb->name, call->words, call->word, &call->flags, err);
    return failed != 0 ? failed : core_log_close_stdout();
}
