/* A plugin as it was built for kern 0.1.0, kept with its binaries (ARCH.so, made once by tests/abi/record): each later kern of plugin
 * interface 1 must load these unchanged. It uses what a plugin of that time could: options, a profile, a file, a variable, a tmpfs,
 * a rule, enter, the report. Runs in kern and in the box's first process. */
#include <kern/plugin.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

struct state {
    uint32_t prepared, entered;
};

static const struct kern_option options[] = {
    {.name = "name", .type = KERN_STRING, .flags = KERN_OPT_PROFILE | KERN_OPT_REQUIRED, .help = "its name"},
    {.name = "size",
     .type = KERN_SIZE,
     .flags = KERN_OPT_PROFILE,
     .fallback = "1m",
     .min = 1,
     .max = INT64_MAX,
     .help = "a size"},
    {.name = "word",
     .type = KERN_STRING,
     .flags = KERN_OPT_PLUGIN | KERN_OPT_FLAG,
     .fallback = "hi",
     .help = "a word"},
    {.name = NULL},
};

static int check(const kern_values *profile, const kern_values *pool, struct kern_error *err)
{
    (void)pool;
    return kern_get_int(profile, "size") != 13 ? 0 : kern_refuse(err, 0, "size 13 brings bad luck");
}

static int prepare(kern_box *box, void *data, struct kern_error *err)
{
    struct state *state = data;
    const struct kern_rule rule = {
        .struct_size = sizeof(rule), .call = SYS_personality, .action = KERN_RULE_ERRNO, .value = EDOM};
    char text[128];
    snprintf(text, sizeof(text), "%s from %s\n", kern_get_string(kern_options(box), "word"),
             kern_box_name(box));
    int failed = kern_add_file(box, "/etc/abi", 0444, text, strlen(text), err);
    if (failed == 0)
        failed = kern_set_env(box, "ABI", "old", err);
    if (failed == 0)
        failed = kern_add_rule(box, &rule, err);
    for (uint32_t i = 0; failed == 0 && i < kern_profile_count(box); i++)
        failed =
            kern_add_tmpfs(box, "/abi", (uint64_t)kern_get_int(kern_profile(box, i), "size"), 0755, 0, err);
    state->prepared = 1;
    return failed;
}

static int enter(kern_box *box, void *data, struct kern_error *err)
{
    struct state *state = data;
    if (!state->prepared || kern_box_root(box) < 0)
        return kern_fail(err, EINVAL, "the state did not come along");
    return 0;
}

static void teardown(kern_box *box, void *data, const struct kern_outcome *outcome)
{
    const struct state *state = data;
    kern_report_int(box, "prepared", state->prepared);
    kern_report_int(box, "exit", outcome->exit_code);
    kern_report_string(box, "fault", outcome->fault != NULL ? outcome->fault : "none");
}

KERN_PLUGIN(.name = "abi", .version = "0.1.0", .summary = "a plugin of an old release",
            .stage = KERN_STAGE_MOUNT, .flags = KERN_PLUGIN_LEAN, .profile = "abi", .options = options,
            .state_size = sizeof(struct state), .prepare = prepare, .enter = enter, .teardown = teardown,
            .check = check);
