/* `kern help [VERB]`, and `kern help --roff TEMPLATE`, by which the build makes the man pages. Host side. */
#include "args.h"
#include "cleanup.h"
#include "cmd.h"
#include "help.h"
#include "log.h"

/* Not in the table of verbs: no user needs it. */
static const struct kern_option flags[] = {
    {.name = "roff", .type = KERN_PATH, .flags = KERN_OPT_FLAG, .arg = "TEMPLATE", .help = "a man page"},
    {.name = NULL},
};

static int print_page(const char *path, struct kern_error *err)
{
    auto_file in = fopen(path, "re");
    if (in == NULL)
        return kern_refuse(err, errno, "cannot read \"%s\"", path);
    struct core_catalog catalog = {0};
    int r = core_catalog_builtin(&catalog, err);
    if (r == 0)
        r = core_help_roff(in, stdout, &catalog, err);
    core_catalog_clear(&catalog);
    return r;
}

static int help(struct core_call *call, const struct core_verb **ret_verb, const char **ret_template,
                struct kern_error *err)
{
    bool wanted = false;
    int r = core_args_verb(call->argc, call->argv, flags, &call->flags, 1, &call->words, &wanted, err);
    if (r < 0)
        return r;
    const char *name = wanted ? "help" : call->words > 0 ? call->word[0] : NULL;
    const struct core_verb *verb = name != NULL ? core_verb_find(name) : NULL;
    if (name != NULL && verb == NULL) {
        r = kern_refuse(err, 0, "no help for \"%s\": no such verb in this build", name);
        kern_hint(err, "all verbs: kern help");
        return r;
    }
    *ret_verb = verb;
    *ret_template = wanted ? NULL : kern_get_string(&call->flags, "roff");
    return 0;
}

int core_cmd_help(struct core_call *call, struct kern_error *err)
{
    const struct core_verb *verb = NULL;
    const char *template = NULL;
    int r = help(call, &verb, &template, err);
    if (r == 0 && template != NULL)
        r = print_page(template, err);
    if (r < 0)
        return r;
    return template != NULL ? core_log_close_stdout() : core_help_print(verb);
}
