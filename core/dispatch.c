/* From argv to a verb, its flags and its words; see verbs.h. First code that runs in kern, host side. */
#include "dispatch.h"

#include "args.h"
#include "cmd.h"
#include "engine.h"
#include "help.h"
#include "log.h"
#include "report.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#define MOST_VERBS 64

/* Verbs that others have, so that nobody hunts for a typing error. */
static const struct {
    const char *name, *hint;
} foreign[] = {
    {"gpio", "kern probe shows what there is; a box gets lines by a profile: kern box vgpio:NAME"},
    {"mcp", "the server for models is kern-mcp, of the Python package kern-sandbox"},
};

static const char *nearest_verb(const char *typed)
{
    const char *names[MOST_VERBS] = {NULL};
    size_t count = 0;
    for (const struct core_verb *verb = core_verbs(); verb->name != NULL && count + 1 < MOST_VERBS; verb++)
        names[count++] = verb->name;
    return core_nearest(typed, names);
}

static const char *foreign_hint(const char *typed)
{
    for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++) {
        if (strcmp(foreign[i].name, typed) == 0)
            return foreign[i].hint;
    }
    return NULL;
}

static int refuse_verb(const char *typed, struct kern_error *err)
{
    const char *nearest = nearest_verb(typed), *hint = foreign_hint(typed);
    if (hint != NULL) {
        int r = kern_refuse(err, 0, "\"%s\" is not available in this build", typed);
        kern_hint(err, "%s", hint);
        return r;
    }
    if (typed[0] == '-') {
        int r = kern_refuse(err, 0, "unknown option \"%s\"", typed);
        kern_hint(err, "all verbs and options: kern --help");
        return r;
    }
    int r = kern_refuse(err, 0, "unknown verb \"%s\"", typed);
    if (strchr(typed, ':') != NULL)
        kern_hint(err, "kern box %s", typed);
    else if (nearest != NULL)
        kern_hint(err, "did you mean \"kern %s\"? All verbs: kern --help", nearest);
    else
        kern_hint(err, "all verbs: kern --help");
    return r;
}

/* Of fewer words than the verb needs, a flag --all makes enough. */
static bool has_enough(const struct core_call *call)
{
    return call->words >= call->verb->min_words ||
           (core_values_find(&call->flags, "all") != NULL && kern_get_int(&call->flags, "all") != 0);
}

static int read_words(struct core_call *call, bool *ret_help, struct kern_error *err)
{
    const struct core_verb *verb = call->verb;
    int r = core_args_verb(call->argc, call->argv, verb->options, &call->flags, verb->max_words, &call->words,
                           ret_help, err);
    if (r < 0 || *ret_help || has_enough(call))
        return r;
    r = kern_refuse(err, 0, "%s kern %s takes %s", verb->question, verb->name, verb->takes);
    kern_hint(err, "%s", verb->hint);
    return r;
}

/* Words that make no sense are reported as what they ask for would be. */
static void report_refusal(const struct core_call *call, const struct kern_error *err)
{
    const char *where = core_args_peek(call->argc, call->argv, "--report");
    kern_box box;
    struct core_catalog catalog = {0};
    struct kern_error ignored = {0};
    core_box_init(&box);
    box.catalog = &catalog;
    if (core_values_add(&box.options, call->verb->options, KERN_OPT_FLAG, &ignored) == 0 &&
        core_values_find(&box.options, "report") != NULL && core_secure_descriptors(&ignored) == 0)
        core_report_refusal(&box, where, err);
    core_box_clear(&box);
    core_values_clear(&box.options);
}

/* Returns the exit code, or what went wrong. */
static int run_verb(const char *name, int argc, char **argv, struct kern_error *err)
{
    struct core_call call = {.verb = core_verb_find(name), .argc = argc, .argv = argv, .word = argv + 1};
    if (call.verb == NULL)
        return refuse_verb(name, err);
    /* Here, because help must come also where kern.toml cannot be read. */
    bool help = argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0);
    int r = help || call.verb->raw ? 0 : read_words(&call, &help, err);
    if (r == 0)
        r = help ? core_help_print(call.verb) : call.verb->run(&call, err);
    else if (call.verb->options != NULL)
        report_refusal(&call, err);
    core_values_clear(&call.flags);
    return r;
}

int core_dispatch(int argc, char **argv)
{
    struct kern_error err = {0};
    int r;
    /* With this one ignored, as some services leave it to what they start, the kernel reaps children itself and tells nobody how
     * they ended: a failed command would count as a good one. */
    (void)signal(SIGCHLD, SIG_DFL);
    if (argc < 2) {
        (void)core_help_print(NULL); /* no verb is a mistake whether or not it could be explained */
        return 1;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        return core_help_print(NULL);
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0)
        r = run_verb("version", 1, argv + 1, &err);
    else
        r = run_verb(argv[1], argc - 1, argv + 1, &err);
    if (r < 0)
        core_log_error(&err);
    return r < 0 ? 1 : r;
}
