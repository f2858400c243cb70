/* The command line of box and run: each rule, each message. Pure; no privileges. */
#include "args.h"
#include "error.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first. */
#include <cmocka.h>

#define MAX_WORDS 32

static const struct kern_option hello_options[] = {
    {.name = "text", .type = KERN_STRING, .flags = KERN_OPT_FLAG, .letter = "z", .help = "a text"},
    {.name = "loud", .type = KERN_BOOL, .flags = KERN_OPT_FLAG, .help = "a switch"},
    {.name = "tone", .type = KERN_STRING, .flags = KERN_OPT_PROFILE, .help = "no flag"},
    {.name = NULL},
};

static const struct kern_plugin hello = {.struct_size = sizeof(struct kern_plugin),
                                         .abi = KERN_ABI,
                                         .name = "hello",
                                         .version = "1",
                                         .summary = "a third-party plugin",
                                         .stage = KERN_STAGE_MOUNT,
                                         .profile = "hello",
                                         .options = hello_options};

struct kit {
    struct core_catalog catalog;
    struct core_plugin *hello;
    struct kern_values box;
    struct core_args args;
    struct kern_error err;
    char *argv[MAX_WORDS + 1];
    int argc;
    int result;
};

static int set_up(void **state)
{
    struct kit *kit = calloc(1, sizeof(*kit));
    assert_non_null(kit);
    assert_int_equal(core_catalog_builtin(&kit->catalog, &kit->err), 0);
    assert_int_equal(core_catalog_add(&kit->catalog, &hello, NULL, &kit->hello, &kit->err), 0);
    for (size_t i = 0; i < kit->catalog.count; i++) {
        const struct core_plugin *plugin = &kit->catalog.plugin[i];
        if (plugin->builtin)
            assert_int_equal(
                core_values_add(&kit->box, plugin->table->options, KERN_OPT_FLAG | KERN_OPT_BOX, &kit->err),
                0);
    }
    *state = kit;
    return 0;
}

static int tear_down(void **state)
{
    struct kit *kit = *state;
    core_args_clear(&kit->args);
    core_values_clear(&kit->box);
    core_catalog_clear(&kit->catalog);
    for (int i = 0; i < kit->argc; i++)
        free(kit->argv[i]);
    free(kit);
    return 0;
}

/* `line` is cut at single blanks; "" between two of them is an empty word. */
static void split(struct kit *kit, const char *line)
{
    for (int i = 0; i < kit->argc; i++)
        free(kit->argv[i]);
    kit->argc = 0;
    for (;;) {
        size_t length = strcspn(line, " ");
        assert_true(kit->argc < MAX_WORDS);
        kit->argv[kit->argc++] = strndup(line, length);
        if (line[length] == '\0')
            break;
        line += length + 1;
    }
    kit->argv[kit->argc] = NULL;
}

static void parse(struct kit *kit, const char *line)
{
    split(kit, line);
    core_args_clear(&kit->args);
    kit->err = (struct kern_error){0};
    kit->result = core_args_parse(kit->argc, kit->argv, &kit->catalog, &kit->box, &kit->args, &kit->err);
}

static void accept(struct kit *kit, const char *line)
{
    parse(kit, line);
    if (kit->result != 0)
        fail_msg("\"%s\": %s", line, kit->err.message);
    assert_false(core_error_is_set(&kit->err));
}

/* The exact message and hint; always exit code 1; the result untouched. */
static void refuse(struct kit *kit, const char *line, const char *message, const char *hint)
{
    parse(kit, line);
    assert_string_equal(kit->err.message, message);
    assert_string_equal(kit->err.hint, hint);
    assert_int_equal(kit->err.category, KERN_ERROR_REFUSED);
    assert_true(kit->result < 0);
    assert_null(kit->args.name);
    assert_null(kit->args.token);
    assert_null(kit->args.command);
}

static const char *text_of(const struct kit *kit, const char *name)
{
    const char *text = kern_get_string(&kit->box, name);
    return text != NULL ? text : "(none)";
}

static void test_nothing_at_all(void **state)
{
    struct kit *kit = *state;
    accept(kit, "box");
    assert_null(kit->args.name);
    assert_int_equal(kit->args.token_count, 0);
    assert_null(kit->args.command);
    assert_int_equal(kit->args.command_count, 0);
    assert_false(kit->args.help);
}

static void test_command(void **state)
{
    struct kit *kit = *state;
    accept(kit, "box one -- ls -- --memory 1");
    assert_string_equal(kit->args.name, "one");
    assert_int_equal(kit->args.command_count, 4);
    assert_string_equal(kit->args.command[0], "ls");
    assert_string_equal(kit->args.command[1], "--");
    assert_null(kit->args.command[4]);
    assert_string_equal(text_of(kit, "memory"), "512m");
    accept(kit, "box --");
    assert_null(kit->args.command);
    assert_int_equal(kit->args.command_count, 0);
}

#define RULE                                                                                               \
    "up to 64 letters, digits, \"_\", \".\" and \"-\", the first a letter, a digit or \"_\"; the command " \
    "goes "                                                                                                \
    "after --"

static void test_names(void **state)
{
    struct kit *kit = *state;
    accept(kit, "box a.B-9_");
    assert_string_equal(kit->args.name, "a.B-9_");
    accept(kit, "box _a");
    accept(kit, "box 9");
    refuse(kit, "box .a", "\".a\" is not a name for a box", RULE);
    refuse(kit, "box /bin/ls", "\"/bin/ls\" is not a name for a box", RULE);
    refuse(kit, "box ", "\"\" is not a name for a box", RULE);
    refuse(kit, "box -", "\"-\" is not a name for a box", RULE);
    refuse(kit, "box a\xc3\xa4", "\"a\xc3\xa4\" is not a name for a box", RULE);

    char line[80] = "box ";
    memset(line + 4, 'x', 64);
    accept(kit, line);
    assert_int_equal(strlen(kit->args.name), 64);
    line[68] = 'x';
    parse(kit, line);
    assert_true(kit->result < 0);
    assert_string_equal(kit->err.hint, RULE);
}

static void test_second_word(void **state)
{
    struct kit *kit = *state;
    refuse(kit, "box web ls", "unexpected word \"ls\" after the name \"web\"",
           "the command goes after --: kern box web -- ls");
    refuse(kit, "box web --init true", "unexpected word \"true\" after the name \"web\"",
           "the command goes after --: kern box web -- true");
}

static void test_profiles(void **state)
{
    struct kit *kit = *state;
    accept(kit, "box vcpu:heavy one --memory 1g hello:a greeting:b:c --init vcpu:x -- vgpio:no");
    assert_string_equal(kit->args.name, "one");
    assert_int_equal(kit->args.token_count, 4);
    assert_string_equal(kit->args.token[0].kind, "vcpu");
    assert_string_equal(kit->args.token[0].profile, "heavy");
    assert_string_equal(kit->args.token[1].kind, "hello");
    assert_string_equal(kit->args.token[2].profile, "b:c");
    assert_string_equal(kit->args.token[3].profile, "x");
    refuse(kit, "box vcup:heavy", "unknown kind of profile \"vcup\" in \"vcup:heavy\"",
           "the kinds are: egress, vcpu, vdisk, vgpio, timens, gpu, greeting, hello. All profiles: kern "
           "config list");
    refuse(kit, "box one :x", "unknown kind of profile \"\" in \":x\"",
           "the kinds are: egress, vcpu, vdisk, vgpio, timens, gpu, greeting, hello. All profiles: kern "
           "config list");
    refuse(kit, "box vcpu:", "\"vcpu:\" names no profile", "all profiles: kern config list");
}

static void test_long_values(void **state)
{
    struct kit *kit = *state;
    accept(kit, "box --memory 1g --hostname=h=1 --nice -5 --workdir --init");
    assert_int_equal(kern_get_int(&kit->box, "memory"), INT64_C(1) << 30);
    assert_int_equal(kern_get_source(&kit->box, "memory"), KERN_FROM_FLAG);
    assert_string_equal(core_values_find(&kit->box, "memory")->where, "--memory");
    assert_string_equal(text_of(kit, "hostname"), "h=1");
    assert_int_equal(kern_get_int(&kit->box, "nice"), -5);
    /* What follows a flag that wants a value is its value. */
    assert_string_equal(text_of(kit, "workdir"), "--init");
    assert_int_equal(kern_get_int(&kit->box, "init"), 0);
    accept(kit, "box --memory=2g --memory=3g");
    assert_int_equal(kern_get_int(&kit->box, "memory"), INT64_C(3) << 30);
    refuse(kit, "box --memory", "--memory needs a value", "--memory SIZE");
    refuse(kit, "box --memory -- ls", "--memory needs a value", "--memory SIZE");
    refuse(kit, "box --ro=maybe", "--ro: \"maybe\" is neither true nor false", "");
}

static void test_letters(void **state)
{
    struct kit *kit = *state;
    accept(kit, "box -m 1g -w/srv -e A=1 -eB=2 -it");
    assert_int_equal(kern_get_int(&kit->box, "memory"), INT64_C(1) << 30);
    assert_string_equal(core_values_find(&kit->box, "memory")->where, "--memory");
    assert_string_equal(text_of(kit, "workdir"), "/srv");
    assert_int_equal(kern_get_count(&kit->box, "env"), 2);
    assert_string_equal(kern_get_item(&kit->box, "env", 0), "A=1");
    assert_string_equal(kern_get_item(&kit->box, "env", 1), "B=2");
    assert_int_equal(kern_get_int(&kit->box, "tty"), 1);
    assert_int_equal(kern_get_int(&kit->box, "interactive"), 1);
    accept(kit, "box -i=false -m=2g");
    assert_int_equal(kern_get_int(&kit->box, "interactive"), 0);
    assert_int_equal(kern_get_int(&kit->box, "memory"), INT64_C(2) << 30);
    accept(kit, "box -t=no -tiqm3g");
    assert_int_equal(kern_get_int(&kit->box, "tty"), 1);
    assert_int_equal(kern_get_int(&kit->box, "quiet"), 1);
    assert_int_equal(kern_get_int(&kit->box, "memory"), INT64_C(3) << 30);
    refuse(kit, "box -m", "--memory needs a value", "--memory SIZE");
    refuse(kit, "box -k", "unknown option \"-k\"", "all options: kern box --help");
    refuse(kit, "box -tk", "unknown option \"-tk\"", "all options: kern box --help");
    refuse(kit, "box -init", "unknown option \"-init\"", "did you mean --init? All options: kern box --help");
}

static void test_booleans(void **state)
{
    struct kit *kit = *state;
    accept(kit, "box --init");
    assert_int_equal(kern_get_int(&kit->box, "init"), 1);
    accept(kit, "box --init=false");
    assert_int_equal(kern_get_int(&kit->box, "init"), 0);
    /* A boolean eats nothing: the next word is a name. */
    accept(kit, "box --init false");
    assert_int_equal(kern_get_int(&kit->box, "init"), 1);
    assert_string_equal(kit->args.name, "false");
    accept(kit, "box --ro");
    assert_int_equal(kern_get_int(&kit->box, "read-only"), 1);
}

static void test_net(void **state)
{
    struct kit *kit = *state;
    accept(kit, "box");
    assert_string_equal(text_of(kit, "net"), "none");
    accept(kit, "box --net web");
    assert_string_equal(text_of(kit, "net"), "host");
    assert_string_equal(kit->args.name, "web");
    accept(kit, "box --net none");
    assert_string_equal(text_of(kit, "net"), "none");
    assert_null(kit->args.name);
    accept(kit, "box --net host none");
    assert_string_equal(text_of(kit, "net"), "host");
    assert_string_equal(kit->args.name, "none");
    accept(kit, "box --net=none --net -- host");
    assert_string_equal(text_of(kit, "net"), "host");
    accept(kit, "box --net --init");
    accept(kit, "box --network none");
    assert_string_equal(text_of(kit, "net"), "none");
    /* Not the host's network for a box called "bridge". */
    refuse(kit, "box --network bridge", "--network: \"bridge\" is not known; it can be: none, host", "");
    refuse(kit, "box --network", "--network needs a value", "--network host|none");
    refuse(kit, "box --net=lan", "--net: \"lan\" is not known; it can be: none, host", "");
}

static void test_unknown(void **state)
{
    struct kit *kit = *state;
    refuse(kit, "box --memroy 1g", "unknown option \"--memroy\"",
           "did you mean --memory? All options: kern box --help");
    refuse(kit, "box --memroy=1g", "unknown option \"--memroy\"",
           "did you mean --memory? All options: kern box --help");
    refuse(kit, "box --completely-different", "unknown option \"--completely-different\"",
           "all options: kern box --help");
    refuse(kit, "box --=x", "unknown option \"--\"", "all options: kern box --help");
    /* Keys of profiles are no flags, and a prefix of a flag is none either. */
    refuse(kit, "box --numa 1", "unknown option \"--numa\"", "all options: kern box --help");
    refuse(kit, "box --memor 1g", "unknown option \"--memor\"",
           "did you mean --memory? All options: kern box --help");
    refuse(kit, "box --scratc ram", "unknown option \"--scratc\"",
           "did you mean --scratch? All options: kern box --help");
    char line[1200] = "box --";
    memset(line + 6, 'y', sizeof(line) - 7);
    parse(kit, line);
    assert_true(kit->result < 0);
    assert_string_equal(kit->err.hint, "all options: kern box --help");
}

static void test_detached(void **state)
{
    struct kit *kit = *state;
    accept(kit, "box -d");
    accept(kit, "box -itd -l a=b --stop-signal USR1 --stop-timeout 2 --log-max 1m");
    accept(kit, "box --scratch ram");
}

static void test_third_party(void **state)
{
    struct kit *kit = *state;
    accept(kit, "box --hello-text hi --hello-loud");
    assert_string_equal(kern_get_string(&kit->hello->own, "text"), "hi");
    assert_int_equal(kern_get_int(&kit->hello->own, "loud"), 1);
    assert_string_equal(core_values_find(&kit->hello->own, "text")->where, "--hello-text");
    accept(kit, "box --hello-text=ho");
    assert_string_equal(kern_get_string(&kit->hello->own, "text"), "ho");
    refuse(kit, "box --text hi", "unknown option \"--text\"", "all options: kern box --help");
    refuse(kit, "box --hello-tetx hi", "unknown option \"--hello-tetx\"",
           "did you mean --hello-text? All options: kern box --help");
    refuse(kit, "box --hello-tone x", "unknown option \"--hello-tone\"",
           "did you mean --hello-text? All options: kern box --help");
    refuse(kit, "box --hello-", "unknown option \"--hello-\"",
           "did you mean --hello-text? All options: kern box --help");
    /* Letters are kern's own. */
    refuse(kit, "box -z hi", "unknown option \"-z\"", "all options: kern box --help");
}

static void test_lists(void **state)
{
    struct kit *kit = *state;
    accept(kit, "box --cap-drop CHOWN,KILL --cap-drop=FOWNER");
    assert_int_equal(kern_get_count(&kit->box, "cap-drop"), 3);
    assert_string_equal(kern_get_item(&kit->box, "cap-drop", 1), "KILL");
    assert_string_equal(kern_get_item(&kit->box, "cap-drop", 2), "FOWNER");
    refuse(kit, "box --cap-drop A,,B", "--cap-drop: an item of the list is empty",
           "write A,B with something on both sides of each comma, or leave the option out");
    /* Only lists that say so are split. */
    accept(kit, "box -e A=1,2");
    assert_int_equal(kern_get_count(&kit->box, "env"), 1);
}

static void test_bad_values(void **state)
{
    struct kit *kit = *state;
    parse(kit, "box --memory 0");
    assert_non_null(strstr(kit->err.message, "--memory: \"0\" is out of range"));
    assert_int_equal(kit->err.category, KERN_ERROR_REFUSED);
    parse(kit, "box --pids-limit 1");
    assert_non_null(strstr(kit->err.message, "--pids-limit: \"1\" is out of range"));
    parse(kit, "box --cpus -1");
    assert_non_null(strstr(kit->err.message, "--cpus"));
    assert_int_equal(kit->err.category, KERN_ERROR_REFUSED);
    parse(kit, "box --memory=");
    assert_non_null(strstr(kit->err.message, "--memory"));
    assert_int_equal(kit->err.category, KERN_ERROR_REFUSED);
}

static void test_exclusions(void **state)
{
    struct kit *kit = *state;
    refuse(kit, "box --require-limits --allow-uncapped",
           "require-limits and allow-uncapped exclude each other",
           "leave one of them out (set by --require-limits and --allow-uncapped)");
    accept(kit, "box --require-limits --allow-uncapped=false");
    accept(kit, "box --require-limits=false");
    refuse(kit, "box --no-uid-range --uid-range", "uid-range and no-uid-range exclude each other",
           "leave one of them out (set by --uid-range and --no-uid-range)");
}

static void from_config(struct kit *kit, const char *name, const char *text)
{
    struct core_value *value = core_values_find(&kit->box, name);
    assert_non_null(value);
    assert_int_equal(core_value_set(value, text, KERN_FROM_CONFIG, "kern.toml:3:1", &kit->err), 0);
}

static void test_flag_beats_config(void **state)
{
    struct kit *kit = *state;
    from_config(kit, "no-uid-range", "true");
    from_config(kit, "memory", "1g");
    accept(kit, "box --uid-range --memory 2g");
    assert_int_equal(kern_get_int(&kit->box, "uid-range"), 1);
    assert_int_equal(kern_get_int(&kit->box, "no-uid-range"), 0);
    assert_string_equal(core_values_find(&kit->box, "no-uid-range")->where, "--uid-range");
    from_config(kit, "memory", "3g");
    assert_int_equal(kern_get_int(&kit->box, "memory"), INT64_C(2) << 30);
}

static void test_config_against_itself(void **state)
{
    struct kit *kit = *state;
    from_config(kit, "require-limits", "true");
    from_config(kit, "allow-uncapped", "true");
    refuse(kit, "box", "require-limits and allow-uncapped exclude each other",
           "leave one of them out (set by kern.toml:3:1 and kern.toml:3:1)");
}

static void test_bind_rootfs(void **state)
{
    struct kit *kit = *state;
    refuse(kit, "box --bind-rootfs", "bind-rootfs needs rootfs (set by --bind-rootfs)", "--rootfs DIR");
    accept(kit, "box --bind-rootfs --rootfs /srv");
}

static void test_bind_rootfs_of_config(void **state)
{
    struct kit *kit = *state;
    from_config(kit, "rootfs", "/srv");
    accept(kit, "box --bind-rootfs");
}

static void test_help(void **state)
{
    struct kit *kit = *state;
    accept(kit, "box --help");
    assert_true(kit->args.help);
    accept(kit, "box web -it -h");
    assert_true(kit->args.help);
    accept(kit, "box -th");
    assert_true(kit->args.help);
    /* Help comes also after, and in spite of, a mistake. */
    accept(kit, "box --memroy 1g a b --help");
    assert_true(kit->args.help);
    accept(kit, "box -- ls --help");
    assert_false(kit->args.help);
    assert_int_equal(kit->args.command_count, 2);
    refuse(kit, "box --memroy -- --help", "unknown option \"--memroy\"",
           "did you mean --memory? All options: kern box --help");
    accept(kit, "box -w --help");
    assert_false(kit->args.help);
    assert_string_equal(text_of(kit, "workdir"), "--help");
}

static void test_run(void **state)
{
    struct kit *kit = *state;
    accept(kit, "run -m 1g vcpu:heavy --timeout 2 -- ls");
    assert_int_equal(kit->args.token_count, 1);
    assert_int_equal(kit->args.command_count, 1);
    assert_int_equal(kern_get_int(&kit->box, "timeout"), 2000);
    refuse(kit, "run --rootfs /srv -- ls", "--rootfs needs a box",
           "\"kern run\" makes no box; use: kern box");
    refuse(kit, "run -w /srv -- ls", "-w, --workdir needs a box", "\"kern run\" makes no box; use: kern box");
    refuse(kit, "run ls", "unexpected word \"ls\"", "the command goes after --: kern run -- ls");
    refuse(kit, "run --memroy", "unknown option \"--memroy\"",
           "did you mean --memory? All options: kern run --help");
}

static void test_peek(void **state)
{
    struct kit *kit = *state;
    split(kit, "box --config a.toml --memory 1g --config=b.toml -- --config c.toml");
    assert_string_equal(core_args_peek(kit->argc, kit->argv, "--config"), "b.toml");
    split(kit, "box one --config a.toml");
    assert_string_equal(core_args_peek(kit->argc, kit->argv, "--config"), "a.toml");
    split(kit, "box --configx a --config");
    assert_null(core_args_peek(kit->argc, kit->argv, "--config"));
    split(kit, "box --config -- x");
    assert_null(core_args_peek(kit->argc, kit->argv, "--config"));
    split(kit, "box --config=");
    assert_string_equal(core_args_peek(kit->argc, kit->argv, "--config"), "");
}

static void test_many_words(void **state)
{
    struct kit *kit = *state;
    enum { COUNT = 20000 };
    static char flag[] = "--env";
    static char value[] = "K=V";
    static char token[] = "vcpu:heavy";
    char **argv = calloc(3 * COUNT + 2, sizeof(*argv));
    assert_non_null(argv);
    static char verb[] = "box";
    argv[0] = verb;
    for (int i = 0; i < COUNT; i++) {
        argv[3 * i + 1] = flag;
        argv[3 * i + 2] = value;
        argv[3 * i + 3] = token;
    }
    kit->result = core_args_parse(3 * COUNT + 1, argv, &kit->catalog, &kit->box, &kit->args, &kit->err);
    free(argv);
    assert_int_equal(kit->result, 0);
    assert_int_equal(kit->args.token_count, COUNT);
    assert_int_equal(kern_get_count(&kit->box, "env"), COUNT);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_nothing_at_all),
        TEST(test_command),
        TEST(test_names),
        TEST(test_second_word),
        TEST(test_profiles),
        TEST(test_long_values),
        TEST(test_letters),
        TEST(test_booleans),
        TEST(test_net),
        TEST(test_unknown),
        TEST(test_detached),
        TEST(test_third_party),
        TEST(test_lists),
        TEST(test_bad_values),
        TEST(test_exclusions),
        TEST(test_flag_beats_config),
        TEST(test_config_against_itself),
        TEST(test_bind_rootfs),
        TEST(test_bind_rootfs_of_config),
        TEST(test_help),
        TEST(test_run),
        TEST(test_peek),
        TEST(test_many_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
