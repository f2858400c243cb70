/* runner: a plugin of a third party that takes part in `kern run`, because an option of it has KERN_OPT_RUN. It says where it is, and
 * asks for what only a box has as told. Runs in kern and in the command's process. */
#include <kern/plugin.h>

#include <errno.h>
#include <linux/sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define EVERYWHERE (KERN_OPT_FLAG | KERN_OPT_RUN | KERN_OPT_PLUGIN)
static const struct kern_option options[] = {
    {.name = "does", .type = KERN_STRING, .flags = EVERYWHERE, .fallback = "nothing", .help = "what it does"},
    {.name = "inside", .type = KERN_STRING, .flags = KERN_OPT_FLAG, .help = "for boxes only"},
    {.name = "name", .type = KERN_STRING, .flags = KERN_OPT_PROFILE | KERN_OPT_REQUIRED, .help = "its name"},
    {.name = NULL},
};

static const char *does(const kern_box *box)
{
    return kern_get_string(kern_options(box), "does");
}

static int32_t on_call(kern_box *box, void *state, struct kern_call *call)
{
    (void)box, (void)state, (void)call;
    return KERN_CALL_DONE;
}

static int ask(kern_box *box, const char *what, struct kern_error *err)
{
    const struct kern_rule rule = {
        .struct_size = sizeof(rule), .call = SYS_personality, .action = KERN_RULE_ERRNO, .value = EDOM};
    if (strcmp(what, "file") == 0)
        return kern_add_file(box, "/etc/runner", 0444, "x", 1, err);
    if (strcmp(what, "tmpfs") == 0)
        return kern_add_tmpfs(box, "/runner", 0, 0755, 0, err);
    if (strcmp(what, "link") == 0)
        return kern_add_link(box, "/dev/runner", "null", err);
    if (strcmp(what, "bind") == 0)
        return kern_add_bind(box, 0, "/runner", 0, err);
    if (strcmp(what, "namespace") == 0)
        return kern_add_namespace(box, CLONE_NEWTIME, err);
    if (strcmp(what, "rule") == 0)
        return kern_add_rule(box, &rule, err);
    if (strcmp(what, "call") == 0)
        return kern_on_call(box, SYS_personality, on_call, err);
    return 0;
}

static int prepare(kern_box *box, void *state, struct kern_error *err)
{
    (void)state;
    int failed = kern_set_env(box, "RUNNER", kern_box_bare(box) != 0 ? "on the host" : "in a box", err);
    if (kern_profile_count(box) > 0)
        kern_report_string(box, "profile", kern_profile_name(box, 0));
    return failed != 0 ? failed : ask(box, does(box), err);
}

static int enter(kern_box *box, void *state, struct kern_error *err)
{
    (void)state;
    if (strcmp(does(box), "crash") == 0)
        abort();
    if (strcmp(does(box), "fail") == 0)
        return kern_fail(err, EIO, "cannot run with it");
    if (strcmp(does(box), "silent") == 0)
        return -EIO;
    (void)umask(027);
    return 0;
}

static void teardown(kern_box *box, void *state, const struct kern_outcome *outcome)
{
    (void)state;
    kern_report_int(box, "exit", outcome->exit_code);
}

KERN_PLUGIN(.name = "runner", .version = "1", .summary = "takes part in kern run", .stage = KERN_STAGE_LIMIT,
            .profile = "runner", .options = options, .prepare = prepare, .enter = enter,
            .teardown = teardown);
