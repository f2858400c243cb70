/* `kern pull REF`: puts an image of a registry into the store. Host side; the work is the registry client's, an object of its
 * own that is opened here. */
#include "cmd.h"

#include "image/registry.h"

#include "args.h"
#include "cleanup.h"
#include "help.h"
#include "log.h"
#include "plugin.h"
#include "verbs.h"

#include <stdio.h>

static int pull(const char *reference, const kern_values *flags, uint32_t *ret_signal, struct kern_error *err)
{
    struct registry_request request = {.struct_size = sizeof(request), .lines = 1};
    request.platform = kern_get_string(flags, "platform");
    int r = image_ref_parse(reference, &request.ref, err);
    if (r < 0)
        return r;
    registry_pull_fn run = (registry_pull_fn)core_plugin_companion(REGISTRY_OBJECT, "registry_pull", err);
    r = run != NULL ? run(&request, err) : -ENOENT;
    *ret_signal = request.signal;
    if (r < 0)
        return r;
    char name[IMAGE_REF_SIZE];
    image_ref_short(&request.ref, name);
    (void)printf("pulled '%s' [%s]\n", name, request.digest); /* found when standard output is closed */
    return 0;
}

int core_cmd_pull(int argc, char **argv)
{
    cleanup(core_values_clear) struct kern_values flags = {0};
    struct kern_error err = {0};
    const struct core_verb *verb = core_verb_find(argv[0]);
    int words = 0;
    bool help = false;
    uint32_t signal = 0;
    int r = core_args_verb(argc, argv, verb->options, &flags, 1, &words, &help, &err);
    if (r == 0 && help)
        return core_help_print(verb);
    if (r == 0 && words == 0) {
        r = kern_refuse(&err, 0, "pull which image?");
        kern_hint(&err, "kern pull NAME[:TAG]");
    }
    if (r == 0) {
        core_log_set_quiet(kern_get_int(&flags, "quiet") != 0);
        r = pull(argv[1], &flags, &signal, &err);
    }
    if (r < 0) {
        core_log_error(&err);
        return signal != 0 ? 128 + (int)signal : 1;
    }
    return core_log_close_stdout();
}
