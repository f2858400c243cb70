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

static int help(int argc, char **argv, struct kern_values *values, const struct core_verb **ret_verb,
                const char **ret_template, struct kern_error *err)
{
    int words = 0;
    bool wanted = false;
    int r = core_args_verb(argc, argv, flags, values, 1, &words, &wanted, err);
    if (r < 0)
        return r;
    const char *name = wanted ? "help" : words > 0 ? argv[1] : NULL;
    const struct core_verb *verb = name != NULL ? core_verb_find(name) : NULL;
    if (name != NULL && verb == NULL) {
        r = kern_refuse(err, 0, "no help for \"%s\": no such verb in this build", name);
        kern_hint(err, "all verbs: kern help");
        return r;
    }
    *ret_verb = verb;
    *ret_template = wanted ? NULL : kern_get_string(values, "roff");
    return 0;
}

int core_cmd_help(int argc, char **argv)
{
    struct kern_error err = {0};
    struct kern_values values = {0};
    const struct core_verb *verb = NULL;
    const char *template = NULL;
    int r = help(argc, argv, &values, &verb, &template, &err);
    if (r == 0 && template != NULL)
        r = print_page(template, &err);
    if (r < 0)
        core_log_error(&err);
    bool page = template != NULL;
    core_values_clear(&values);
    if (r < 0)
        return 1;
    return page ? core_log_close_stdout() : core_help_print(verb);
}
