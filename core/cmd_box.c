/* `kern box` and `kern run`: from the words of the command line to a box and its exit code. Host side. */
#include "cmd.h"
#include "declared.h"

#include "args.h"
#include "cleanup.h"
#include "detach.h"
#include "engine.h"
#include "guard.h"
#include "help.h"
#include "log.h"
#include "plan.h"
#include "plugin.h"
#include "registry.h"
#include "report.h"
#include "restart.h"
#include "signals.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define EXIT_REFUSED 1

static void config_note(void *data, const char *text)
{
    kern_note(data, "%s", text);
}

/* ---- Which plugins, which values ---- */

static int add_builtin_values(kern_box *box, struct kern_error *err)
{
    for (size_t i = 0; i < box->catalog->count; i++) {
        const struct core_plugin *plugin = &box->catalog->plugin[i];
        int failed =
            core_values_add(&box->options, plugin->table->options, KERN_OPT_FLAG | KERN_OPT_BOX, err);
        if (failed != 0)
            return failed;
    }
    return 0;
}

static int apply_tokens(kern_box *box, const struct core_args *args, struct kern_error *err)
{
    for (size_t i = 0; i < args->token_count; i++) {
        const struct core_args_token *token = &args->token[i];
        struct core_plugin *plugin = core_catalog_kind(box->catalog, token->kind);
        if (box->bare && !core_catalog_runs_bare(plugin)) {
            kern_refuse(err, 0, "%s:%s needs a box", token->kind, token->profile);
            kern_hint(err, "\"kern run\" makes no box; use: kern box");
            return -EINVAL;
        }
        plugin->wanted = true;
        int failed = core_plugin_load_wanted(box->catalog, err);
        if (failed == 0)
            failed = core_config_profile(box->config, plugin, token->profile, err);
        if (failed == 0)
            failed = core_config_apply_profile(&plugin->profile[plugin->profile_count - 1], token->kind,
                                               &box->options, config_note, box, err);
        if (failed != 0)
            return failed;
    }
    return 0;
}

/* Tables [KIND] that are for every box. */
static int apply_standing(kern_box *box, struct kern_error *err)
{
    for (size_t i = 0; !box->bare && i < box->catalog->count; i++) {
        struct core_plugin *plugin = &box->catalog->plugin[i];
        int there = core_config_standing(box->config, plugin, err);
        if (there > 0) {
            plugin->wanted = true;
            there = core_config_apply_profile(&plugin->profile[plugin->profile_count - 1],
                                              plugin->table->profile, &box->options, config_note, box, err);
            there = there < 0 ? there : core_plugin_load_wanted(box->catalog, err);
        }
        if (there < 0)
            return there;
    }
    return 0;
}

static int read_environment(kern_box *box, struct kern_error *err)
{
    static const struct {
        const char *variable, *option;
        bool is_switch; /* set to anything but 0 */
    } known[] = {{"KERN_REQUIRE_LIMITS", "require-limits", true},
                 {"KERN_ALLOW_UNCAPPED", "allow-uncapped", true},
                 {"KERN_FLEET_MEMORY_MAX", "fleet-memory-max", false},
                 {"KERN_FLEET_PIDS_MAX", "fleet-pids-max", false},
                 {"KERN_MAX_CONCURRENT", "max-concurrent", false}};
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        const char *value = getenv(known[i].variable);
        if (value == NULL || value[0] == '\0')
            continue;
        if (known[i].is_switch)
            value = strcmp(value, "0") == 0 ? "false" : "true";
        struct core_value *option = core_values_find(&box->options, known[i].option);
        int failed = core_value_set(option, value, KERN_FROM_CONFIG, known[i].variable, err);
        if (failed != 0)
            return failed;
    }
    return 0;
}

/* ---- The command ---- */

/* Without a command: a shell, with a terminal of its own where kern has one, else reading standard input. */
static int choose_command(kern_box *box, const struct core_args *args, struct kern_error *err)
{
    if (box->bare && args->command_count == 0) {
        kern_refuse(err, 0, "no command to run");
        kern_hint(err, "it goes after --: kern run -m 1g -- make");
        return -EINVAL;
    }
    bool terminal = isatty(STDIN_FILENO) != 0 && isatty(STDOUT_FILENO) != 0;
    box->own_terminal =
        !box->bare && (kern_get_int(&box->options, "tty") != 0 || (args->command_count == 0 && terminal));
    box->shell[0] = box->shell_name;
    box->command_given = args->command_count > 0;
    box->command = box->command_given ? args->command : box->shell;
    if (kern_get_int(&box->options, "detach") != 0)
        box->own_terminal = kern_get_int(&box->options, "tty") != 0;
    else if (box->own_terminal && !terminal) {
        kern_refuse(err, 0, "cannot give the box a terminal: kern's own input and output are not one");
        kern_hint(err, "leave out -t, or run kern from a terminal");
        return -ENOTTY;
    }
    if (box->own_terminal && ioctl(STDIN_FILENO, TIOCGWINSZ, &box->window) != 0)
        box->window = (struct winsize){.ws_row = 24, .ws_col = 80};
    return 0;
}

/* untrusted is a name for several options; it only ever makes things tighter. */
static int apply_security_profile(kern_box *box, struct kern_error *err)
{
    const char *profile = kern_get_string(&box->options, "security-profile");
    box->untrusted = profile != NULL;
    box->privileged = kern_get_int(&box->options, "privileged") != 0;
    if (!box->untrusted)
        return 0;
    if (box->privileged)
        return kern_refuse(err, 0, "cannot use --privileged with --security-profile untrusted");
    int failed = core_value_set(core_values_find(&box->options, "read-only"), "true", KERN_FROM_FLAG,
                                "--security-profile", err);
    return failed != 0 ? failed
                       : core_value_set(core_values_find(&box->options, "cap-drop"), "ALL", KERN_FROM_FLAG,
                                        "--security-profile", err);
}

/* What a table of options cannot say. */
static int check_words(const kern_box *box, struct kern_error *err)
{
    const char *signal = kern_get_string(&box->options, "stop-signal");
    if (core_signal_number(signal) == 0)
        return kern_refuse(err, 0, "--stop-signal: \"%s\" is not a signal", signal);
    if (core_restart_check(box, err) != 0)
        return -EINVAL;
    for (uint32_t i = 0; i < kern_get_count(&box->options, "label"); i++) {
        const char *label = kern_get_item(&box->options, "label", i);
        if (label[0] == '=' || strchr(label, '=') == NULL)
            return kern_refuse(err, 0, "cannot use --label \"%s\": write it as KEY=VALUE", label);
    }
    return 0;
}

/* Before anything can be noted: kern.toml is read before the flags are. */
static bool wants_quiet(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "-q") == 0 || strcmp(argv[i], "--quiet") == 0)
            return true;
    return false;
}

static void settle_switches(kern_box *box)
{
    box->want_init = kern_get_int(&box->options, "init") != 0;
    box->strict = kern_get_int(&box->options, "require-limits") != 0;
    box->read_only = kern_get_int(&box->options, "read-only") != 0;
    core_log_set_quiet(kern_get_int(&box->options, "quiet") != 0);
    if (box->untrusted)
        core_log_profile(kern_get_string(&box->options, "security-profile"));
}

/* A plugin of kern's that is not in each box takes part when one of its options was given. */
static bool is_asked_for(const kern_box *box, const struct core_plugin *plugin)
{
    const struct kern_option *option = plugin->builtin ? plugin->table->options : NULL;
    for (; option != NULL && option->name != NULL; option++)
        if ((option->flags & (KERN_OPT_FLAG | KERN_OPT_BOX)) != 0 &&
            kern_get_source(&box->options, option->name) != KERN_FROM_DEFAULT)
            return true;
    return false;
}

/* A command of the host: its limits, and third parties' plugins that know of such. */
static void want_for_run(kern_box *box)
{
    for (size_t i = 0; i < box->catalog->count; i++) {
        struct core_plugin *plugin = &box->catalog->plugin[i];
        plugin->wanted = !plugin->builtin && plugin->wanted && core_catalog_runs_bare(plugin);
    }
    core_catalog_find(box->catalog, "cgroup")->wanted = true;
}

static void want_plugins(kern_box *box)
{
    if (box->bare) {
        want_for_run(box);
        return;
    }
    for (size_t i = 0; i < box->catalog->count; i++)
        box->catalog->plugin[i].wanted = box->catalog->plugin[i].wanted || box->catalog->plugin[i].always ||
                                         is_asked_for(box, &box->catalog->plugin[i]);
    if (kern_get_int(&box->options, "no-view") != 0) /* not even opened: that is a part of what it costs */
        core_catalog_find(box->catalog, "view")->wanted = false;
    if (kern_get_string(&box->options, "image") != NULL)
        core_catalog_find(box->catalog, "image")->wanted = true;
    if (kern_has_egress(box) || kern_get_count(&box->options, "publish") > 0)
        core_catalog_find(box->catalog, "egress")->wanted = true;
}

/* Everything up to the point where a run and a plan part. */
static int read_spec(kern_box *box, int argc, char **argv, struct core_args *args, struct kern_error *err)
{
    core_log_set_quiet(wants_quiet(argc, argv));
    int failed = core_catalog_builtin(box->catalog, err);
    if (failed == 0)
        failed = add_builtin_values(box, err);
    if (failed == 0)
        failed = core_config_load(core_args_peek(argc, argv, "--config"), box->catalog, &box->config,
                                  config_note, box, err);
    if (failed == 0)
        failed = core_declared_add(box->catalog, box->config, err);
    if (failed == 0)
        failed = core_config_bind(box->config, box->catalog, config_note, box, err);
    if (failed == 0 && !box->bare) /* its defaults are for boxes */
        failed = core_config_box(box->config, &box->options, err);
    if (failed == 0)
        failed = read_environment(box, err);
    if (failed == 0)
        failed = core_args_parse(argc, argv, box->catalog, &box->options, args, err);
    if (failed != 0 || args->help)
        return failed;
    want_plugins(box);
    failed = apply_standing(box, err);
    if (failed == 0)
        failed = apply_tokens(box, args, err);
    if (failed == 0)
        failed = apply_security_profile(box, err);
    if (failed == 0)
        failed = core_args_settle(&box->options, err);
    if (failed == 0)
        failed = check_words(box, err);
    if (failed == 0)
        failed = choose_command(box, args, err);
    if (failed == 0 && args->name != NULL) {
        (void)snprintf(box->name, sizeof(box->name), "%s", args->name); /* checked by the parser */
        box->named = true;
    }
    settle_switches(box);
    return failed;
}

static void print_failure(const struct core_outcome *outcome, const struct kern_error *err)
{
    if (outcome->exit_code == 126 || outcome->exit_code == 127) {
        core_log_failure("%s", err->message); /* contract: kern: cannot start 'X' in box: REASON */
        return;
    }
    core_log_error(err);
}

static int run(kern_box *box)
{
    struct core_outcome outcome = {0};
    struct kern_error err = {0};
    int parted = 0;
    if (kern_get_int(&box->options, "detach") != 0 && core_detach(box, &parted))
        return parted;
    core_engine_run(box, &outcome, &err);
    while (box->restart) {
        core_restart_renew(box);
        outcome = (struct core_outcome){0};
        err = (struct kern_error){0};
        core_engine_run(box, &outcome, &err);
    }
    if (err.category != KERN_ERROR_NONE)
        print_failure(&outcome, &err);
    core_report_started(box, &outcome);
    int failed = core_report_write(box, &outcome);
    if (failed != 0)
        core_log_failure("cannot write the report to \"%s\": %s", kern_get_string(&box->options, "report"),
                         strerror(-failed));
    return outcome.exit_code;
}

static int plan(kern_box *box)
{
    struct kern_error err = {0};
    core_engine_plan(box, core_plan_print, &err);
    if (err.category == KERN_ERROR_NONE)
        return core_log_close_stdout();
    core_log_error(&err);
    return err.category == KERN_ERROR_REFUSED ? EXIT_REFUSED : 125;
}

static bool has_foreign(const struct core_catalog *catalog)
{
    for (size_t i = 0; i < catalog->count; i++)
        if (!catalog->plugin[i].builtin)
            return true;
    return false;
}

/* What a third party registered to run at exit is not run: it could hide how the box ended. */
static int leave(bool foreign, int code)
{
    if (!foreign)
        return code;
    (void)fflush(NULL); /* standard output was closed where it matters */
    _exit(code);
}

static int start(int argc, char **argv, bool bare)
{
    const char *last = argv[argc - 1];
    kern_box box;
    struct core_catalog catalog = {0};
    struct core_args args = {0};
    struct kern_error err = {0};
    core_box_init(&box);
    box.catalog = &catalog;
    box.bare = bare;
    box.words = program_invocation_name;
    box.words_size = (size_t)(last + strlen(last) + 1 - program_invocation_name);
    int code = EXIT_REFUSED;
    int failed = core_secure_descriptors(&err);
    if (failed == 0)
        failed = read_spec(&box, argc, argv, &args, &err);
    if (failed != 0) {
        core_log_error(&err);
        core_report_refusal(&box, core_args_peek(argc, argv, "--report"), &err);
    } else if (args.help)
        code = core_help_print(core_verb_find(argv[0]));
    else if (kern_get_int(&box.options, "show-config") != 0)
        code = core_plan_show_config(&box);
    else if (kern_get_int(&box.options, "plan") != 0)
        code = plan(&box);
    else
        code = run(&box);
    core_box_clear(&box);
    core_values_clear(&box.options);
    core_args_clear(&args);
    core_config_free(box.config);
    bool foreign = has_foreign(&catalog);
    core_catalog_clear(&catalog);
    return leave(foreign, code);
}

int core_cmd_box(struct core_call *call, struct kern_error *err)
{
    (void)err; /* printed before the report is written */
    return start(call->argc, call->argv, false);
}

int core_cmd_run(struct core_call *call, struct kern_error *err)
{
    (void)err; /* as above */
    return start(call->argc, call->argv, true);
}
