/* `kern pull REF`: puts an image of a registry into the store. Host side; the work is the registry client's, an object of its
 * own that is opened here. */
#include "cmd.h"

#include "image/registry.h"

#include "cleanup.h"
#include "log.h"
#include "plugin.h"

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
    if (request.note[0] != '\0')
        core_log_note("%s", request.note);
    char name[IMAGE_REF_SIZE];
    image_ref_short(&request.ref, name);
    (void)printf("pulled '%s' [%s]\n", name, request.digest); /* found when standard output is closed */
    return 0;
}

int core_cmd_pull(struct core_call *call, struct kern_error *err)
{
    uint32_t signal = 0;
    core_log_set_quiet(kern_get_int(&call->flags, "quiet") != 0);
    int r = pull(call->word[0], &call->flags, &signal, err);
    if (r < 0 && signal != 0) {
        core_log_error(err);
        return 128 + (int)signal;
    }
    return r < 0 ? r : core_log_close_stdout();
}
