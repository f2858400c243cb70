/* hello: a plugin of a third party, built by the tests against the public header alone. It serves hello:NAME, leaves a line in
 * a file for each hook that runs, and fails or crashes in the hook that its profile names. STAGE says where it stands. */
#include <kern/plugin.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef STAGE
#define STAGE KERN_STAGE_MOUNT
#endif
#ifndef NAME
#define NAME "hello"
#endif

struct hello_state {
    const char *fault;
    int log;
};

static const struct kern_option options[] = {
    {.name = "name", .type = KERN_STRING, .flags = KERN_OPT_PROFILE | KERN_OPT_REQUIRED, .help = "its name"},
    {.name = "fault",
     .type = KERN_STRING,
     .flags = KERN_OPT_PROFILE,
     .fallback = "none",
     .help = "what goes wrong"},
    {.name = "log",
     .type = KERN_STRING,
     .flags = KERN_OPT_PROFILE,
     .fallback = "/dev/null",
     .help = "a file"},
    {.name = "word",
     .type = KERN_STRING,
     .flags = KERN_OPT_PLUGIN | KERN_OPT_FLAG,
     .fallback = "hi",
     .help = "a word"},
    {.name = NULL},
};

static void say(const struct hello_state *state, const char *line)
{
    if (state->log > 0)
        (void)!write(state->log, line, strlen(line));
}

static int is(const struct hello_state *state, const char *fault)
{
    return state->fault != NULL && strcmp(state->fault, fault) == 0;
}

static int prepare(kern_box *box, void *block, struct kern_error *err)
{
    struct hello_state *state = block;
    if (kern_profile_count(box) == 0)
        return 0;
    const kern_values *profile = kern_profile(box, 0);
    state->fault = kern_get_string(profile, "fault");
    state->log = open(kern_get_string(profile, "log"), O_WRONLY | O_APPEND | O_CLOEXEC);
    say(state, "prepare\n");
    if (is(state, "prepare-crash"))
        abort();
    if (is(state, "prepare-refuse"))
        return kern_refuse(err, 0, "cannot greet \"%s\"", kern_profile_name(box, 0));
    if (is(state, "prepare"))
        return kern_fail(err, EIO, "cannot greet \"%s\"", kern_profile_name(box, 0));
    if (is(state, "prepare-silent"))
        return -EIO;
    kern_report_string(box, "greeted", kern_profile_name(box, 0));
    const char *word = kern_get_string(kern_options(box), "word");
    return kern_set_env(box, "HELLO", word != NULL ? word : "?", err);
}

static int enter(kern_box *box, void *block, struct kern_error *err)
{
    struct hello_state *state = block;
    (void)box;
    say(state, "enter\n");
    if (is(state, "enter-crash"))
        abort();
    if (is(state, "enter-refuse"))
        return kern_refuse(err, 0, "cannot greet from inside");
    if (is(state, "enter-silent"))
        return -EIO;
    if (is(state, "enter-exit"))
        _exit(0);
    return is(state, "enter") ? kern_fail(err, EIO, "cannot greet from inside") : 0;
}

static void teardown(kern_box *box, void *block, const struct kern_outcome *outcome)
{
    struct hello_state *state = block;
    (void)box;
    say(state, outcome->started != 0 ? "teardown after a run\n" : "teardown\n");
    if (is(state, "teardown-crash"))
        abort();
    if (state->log > 0)
        (void)close(state->log);
}

#if defined(AFTER)
static const char *const after[] = {AFTER, NULL};
#endif

KERN_PLUGIN(.name = NAME, .version = "1", .summary = "greets and fails as told", .stage = STAGE,
#if defined(LEAN)
            .flags = KERN_PLUGIN_LEAN,
#endif
#if defined(AFTER)
            .after = after,
#endif
            .profile = NAME, .options = options, .state_size = sizeof(struct hello_state), .prepare = prepare,
            .enter = enter, .teardown = teardown);
