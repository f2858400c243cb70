/* The example plugin: the one to copy. It makes `kern box greeting:NAME` work: for each profile so named it puts a
 * file with one line of text into the box.
 *
 *     [[greeting]]                    # in kern.toml; the table is called as .profile says
 *     name = "morning"
 *     text = "good morning"           # the keys are those of .options
 *     path = "/etc/motd"
 *
 *     $ kern box greeting:morning -- cat /etc/motd
 *     good morning
 *
 * To make a plugin of your own, copy this folder, put the fields of the manifest straight into KERN_PLUGIN() below, and
 * build a shared object against the installed header:
 *
 *     cc $(pkg-config --cflags kern-plugin) -o hello.so hello.c $(pkg-config --libs kern-plugin)
 *
 * Then name it in kern.toml, [[plugin]] with name or path, and look at it with `kern plugin info`. (The manifest is a
 * file apart only because kern reads those of its own plugins without opening them.) */
#include "example_manifest.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Zeroed by the core, one for each box: the place for everything to remember between hooks. Keep no variables outside
 * of it, and free what it holds in teardown. */
struct example_state {
    uint32_t greetings;
};

/* check judges a profile as soon as kern.toml is read, so that `kern validate` finds the mistake too. It looks at the
 * values alone: no files, no host. Types and ranges were checked before, from the options' table. */
static int example_check(const kern_values *profile, const kern_values *pool, struct kern_error *err)
{
    (void)pool; /* this kind of profile has no pools behind it */
    const char *path = kern_get_string(profile, "path");
    if (path[0] != '/') {
        /* Say what was attempted and on which object, then how to mend it. */
        int result = kern_refuse(err, 0, "greeting: path \"%s\" is not absolute", path);
        kern_hint(err, "write path = \"/%s\"", path);
        return result;
    }
    if (strchr(kern_get_string(profile, "text"), '\n') != NULL)
        return kern_refuse(err, 0, "greeting: text is one line");
    return 0;
}

static int add_greeting(kern_box *box, const kern_values *profile, struct kern_error *err)
{
    const char *text = kern_get_string(profile, "text");
    size_t length = strlen(text) + 1;
    char *line = malloc(length + 1);
    if (line == NULL)
        return kern_fail(err, ENOMEM, "cannot make a greeting of %zu bytes", length);
    (void)snprintf(line, length + 1, "%s\n", text); /* the block was made to fit */
    int result = kern_add_file(box, kern_get_string(profile, "path"), 0444, line, length, err);
    free(line); /* the core has its own copy */
    return result;
}

/* prepare runs in kern itself, on the host, before the box exists. Here a plugin may open, allocate, read, decide.
 * kern_refuse() ends kern with code 1, kern_fail() with 125; either way no box is built and teardown is called. */
static int example_prepare(kern_box *box, void *data, struct kern_error *err)
{
    struct example_state *state = data;
    for (uint32_t i = 0; i < kern_profile_count(box); i++) {
        int result = add_greeting(box, kern_profile(box, i), err);
        if (result < 0)
            return kern_wrap(err, "greeting:%s", kern_profile_name(box, i)); /* which one it was */
        state->greetings++;
    }
    return 0;
}

/* enter would run in the box's first process, inside its namespaces, before the command: the place to mount, to write
 * into the box's /proc, to open sockets in its network. This plugin has no such wish, so it has no such hook. One that
 * has must not allocate there, nor use stdio or look up names: the process may share kern's memory. When its enter
 * keeps to that it says so with KERN_PLUGIN_LEAN, and boxes start faster for it. */

/* teardown runs on the host when the box has ended, or when building it failed, even in this plugin's own prepare: so
 * it takes the state half filled. It cannot fail. What enter changed in the state does not arrive here. */
static void example_teardown(kern_box *box, void *data, const struct kern_outcome *outcome)
{
    const struct example_state *state = data;
    (void)outcome; /* how the box ended makes no difference to a greeting */
    kern_report_int(box, "greetings", state->greetings); /* a field of --report, under "plugins" */
}

KERN_PLUGIN(EXAMPLE_MANIFEST, .state_size = sizeof(struct example_state), .prepare = example_prepare,
            .teardown = example_teardown, .check = example_check);
