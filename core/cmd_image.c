/* The verbs of images: `load`, `import`, `save`, `tag`, `images`, `rmi`, `gc`. What they do stands in an object with
 * libarchive and jansson, which is opened for them only. Host side. */
#include "cmd.h"

#include "args.h"
#include "cleanup.h"
#include "help.h"
#include "log.h"
#include "plugin.h"
#include "verbs.h"

#include <limits.h>

#define EXIT_REFUSED 1

typedef int (*tool_fn)(const char *verb, int count, char **words, const kern_values *values,
                       struct kern_error *err);

static int run(int argc, char **argv, struct kern_error *err, int *ret_done)
{
    cleanup(core_values_clear) struct kern_values values = {0};
    const struct core_verb *verb = core_verb_find(argv[0]);
    int words = 0;
    bool help = false;
    int failed = core_args_verb(argc, argv, verb->options, &values, INT_MAX, &words, &help, err);
    if (failed < 0)
        return failed;
    if (help) {
        *ret_done = core_help_print(verb);
        return 0;
    }
    /* A function pointer through a union: the language has no cast for it. */
    union {
        void *object;
        tool_fn run;
    } tool = {.object = core_plugin_companion("image_tool", "image_tool", err)};
    if (tool.object == NULL)
        return -ENOENT;
    failed = tool.run(verb->name, words, argv + 1, &values, err);
    if (failed == 0)
        *ret_done = core_log_close_stdout();
    return failed;
}

bool core_image_is_here(const char *word)
{
    struct kern_error ignored = {0};
    union {
        void *object;
        int (*has)(const char *text);
    } tool = {.object = core_plugin_companion("image_tool", "image_tool_has", &ignored)};
    return tool.object != NULL && tool.has(word) == 1;
}

int core_cmd_image(int argc, char **argv)
{
    struct kern_error err = {0};
    int done = 0;
    if (run(argc, argv, &err, &done) == 0)
        return done;
    core_log_error(&err);
    return EXIT_REFUSED;
}
