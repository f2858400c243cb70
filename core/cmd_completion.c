/* `kern completion bash|zsh|fish`: prints the script that the shell reads. Host side. */
#include "cleanup.h"
#include "cmd.h"
#include "completion.h"
#include "help.h"
#include "log.h"

#include <string.h>

static const struct {
    const char *shell;
    void (*print)(FILE *out, const struct core_catalog *catalog);
} shells[] = {
    {"bash", core_completion_bash},
    {"zsh", core_completion_zsh},
    {"fish", core_completion_fish},
};

static void each_of(FILE *out, const struct core_verb *verb, const struct kern_option *option, uint32_t mask,
                    core_completion_fn fn)
{
    for (; option != NULL && option->name != NULL; option++) {
        if (core_help_shows(option, mask))
            fn(out, verb, option);
    }
}

void core_completion_each(FILE *out, const struct core_verb *verb, const struct core_catalog *catalog,
                          core_completion_fn fn)
{
    each_of(out, verb, verb->options, KERN_OPT_FLAG, fn);
    for (size_t i = 0; verb->plugin_flags != 0 && i < catalog->count; i++)
        each_of(out, verb, catalog->plugin[i].table->options, verb->plugin_flags, fn);
}

static int print_for(const char *shell, struct kern_error *err)
{
    for (size_t i = 0; i < sizeof(shells) / sizeof(shells[0]); i++) {
        if (strcmp(shells[i].shell, shell) != 0)
            continue;
        struct core_catalog catalog = {0};
        int r = core_catalog_builtin(&catalog, err);
        if (r == 0)
            shells[i].print(stdout, &catalog);
        core_catalog_clear(&catalog);
        return r;
    }
    int result = kern_refuse(err, 0, "no completions for the shell \"%s\"", shell);
    kern_hint(err, "kern completion bash|zsh|fish");
    return result;
}

int core_cmd_completion(struct core_call *call, struct kern_error *err)
{
    int r = print_for(call->word[0], err);
    return r < 0 ? r : core_log_close_stdout();
}
