/* The flags of the verbs other than box, and what is made of the tables: help and man pages. Pure; no privileges. */
#include "args.h"
#include "error.h"
#include "help.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first. */
#include <cmocka.h>

#define MAX_WORDS 32

struct kit {
    struct core_catalog catalog;
    struct kern_error err;
    char *argv[MAX_WORDS + 1];
    int argc;
};

static int set_up(void **state)
{
    struct kit *kit = calloc(1, sizeof(*kit));
    assert_non_null(kit);
    assert_int_equal(core_catalog_builtin(&kit->catalog, &kit->err), 0);
    *state = kit;
    return 0;
}

static int tear_down(void **state)
{
    struct kit *kit = *state;
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

static void test_verb(void **state)
{
    struct kit *kit = *state;
    struct kern_values values = {0};
    int words = -1;
    bool help = true;
    const struct core_verb *config = core_verb_find("config");
    split(kit, "config parse --tagged - --json=no");
    char *keep[MAX_WORDS];
    memcpy(keep, kit->argv, sizeof(keep));
    assert_int_equal(
        core_args_verb(kit->argc, kit->argv, config->options, &values, 2, &words, &help, &kit->err), 0);
    assert_int_equal(words, 2);
    assert_false(help);
    assert_ptr_equal(kit->argv[1], keep[1]);
    assert_ptr_equal(kit->argv[2], keep[3]);
    memcpy(kit->argv, keep, sizeof(keep));
    assert_int_equal(kern_get_int(&values, "tagged"), 1);
    assert_int_equal(kern_get_int(&values, "json"), 0);
    core_values_clear(&values);
}

static void verb_refuses(struct kit *kit, const char *line, int max_words, const char *message,
                         const char *hint)
{
    struct kern_values values = {0};
    int words = -1;
    bool help = false;
    split(kit, line);
    char *keep[MAX_WORDS];
    memcpy(keep, kit->argv, sizeof(keep));
    kit->err = (struct kern_error){0};
    const struct core_verb *verb = core_verb_find(kit->argv[0]);
    assert_true(core_args_verb(kit->argc, kit->argv, verb->options, &values, max_words, &words, &help,
                               &kit->err) < 0);
    memcpy(kit->argv, keep, sizeof(keep));
    assert_string_equal(kit->err.message, message);
    assert_string_equal(kit->err.hint, hint);
    assert_int_equal(kit->err.category, KERN_ERROR_REFUSED);
    assert_int_equal(words, -1);
    core_values_clear(&values);
}

static void test_verb_mistakes(void **state)
{
    struct kit *kit = *state;
    verb_refuses(kit, "doctor --jsno", 0, "unknown option \"--jsno\"",
                 "did you mean --json? All options: kern doctor --help");
    verb_refuses(kit, "doctor now", 0, "unexpected word \"now\"", "kern doctor --help");
    verb_refuses(kit, "config list a b", 2, "unexpected word \"b\"", "kern config --help");
    verb_refuses(kit, "version --memory 1g", 0, "unknown option \"--memory\"",
                 "all options: kern version --help");
    verb_refuses(kit, "validate -- --x --y", 1, "unexpected word \"--y\"", "kern validate --help");
}

static void test_verb_help(void **state)
{
    struct kit *kit = *state;
    int words = -1;
    bool help = false;
    split(kit, "version a -h");
    assert_int_equal(core_args_verb(kit->argc, kit->argv, NULL, NULL, 0, &words, &help, &kit->err), 0);
    assert_true(help);
    assert_false(core_error_is_set(&kit->err));
}

/* Every verb can be explained, and no option that help shows is one that would be refused. */
static void test_help_text(void **state)
{
    struct kit *kit = *state;
    for (const struct core_verb *verb = core_verbs(); verb->name != NULL; verb++) {
        char *text = NULL;
        size_t size = 0;
        FILE *out = open_memstream(&text, &size);
        assert_non_null(out);
        core_help_verb(out, verb, &kit->catalog, 80);
        assert_int_equal(fclose(out), 0);
        assert_non_null(strstr(text, verb->usage[0] != '\0' ? verb->name : "?"));
        for (const char *line = text; *line != '\0'; line += strcspn(line, "\n") + 1)
            assert_in_range(strcspn(line, "\n"), 0, 82);
        if (strcmp(verb->name, "box") == 0) {
            assert_non_null(strstr(text, "  -m, --memory SIZE         memory cap (default: 512m)\n"));
            assert_non_null(strstr(text, "      --read-only, --ro     read-only root\n"));
            assert_non_null(strstr(text, "\ncgroup: "));
        }
        if (strcmp(verb->name, "run") == 0) /* the defaults of a box do not bind there */
            assert_non_null(strstr(text, "  -m, --memory SIZE         memory cap\n"));
        free(text);
    }
}

static void test_option_lines(void **state)
{
    (void)state;
    static const char *const words[] = {"red", "blue", NULL};
    const struct kern_option option = {.name = "colour",
                                       .type = KERN_ENUM,
                                       .flags = KERN_OPT_FLAG | KERN_OPT_LIST | KERN_OPT_REQUIRED,
                                       .fallback = "red",
                                       .help = "a colour",
                                       .choices = words};
    char text[512];
    core_help_line(&option, text, sizeof(text));
    assert_string_equal(text, "a colour (one of red, blue, default: red, repeatable, required)");
    char small[12];
    core_help_line(&option, small, sizeof(small));
    assert_string_equal(small, "a colour (o");
}

static void roff(struct kit *kit, const char *template, int expected, char **ret_text)
{
    char copy[256];
    size_t size = 0;
    (void)snprintf(copy, sizeof(copy), "%s", template); /* short literals */
    FILE *in = fmemopen(copy, strlen(copy), "r");
    FILE *out = open_memstream(ret_text, &size);
    assert_non_null(in);
    assert_non_null(out);
    kit->err = (struct kern_error){0};
    assert_int_equal(core_help_roff(in, out, &kit->catalog, &kit->err) < 0, expected < 0);
    assert_int_equal(fclose(in), 0);
    assert_int_equal(fclose(out), 0);
}

static void test_roff(void **state)
{
    struct kit *kit = *state;
    char *text = NULL;
    roff(kit, "@title KERN 1\n.SH X\n@box-options\n", 0, &text);
    assert_non_null(strstr(text, ".TH KERN 1 \"\" \"kern "));
    assert_non_null(strstr(text, "\n.SH X\n.SS core\n"));
    assert_non_null(
        strstr(text, "\n.TP\n\\fB\\-m\\fR, \\fB\\-\\-memory\\fR \\fISIZE\\fR\nmemory cap (default: 512m)\n"));
    assert_null(strstr(text, "stop-signal")); /* of later builds */
    free(text);
    roff(kit, "@tilte KERN 1\n", -1, &text);
    assert_string_equal(kit->err.message, "unknown directive \"@tilte KERN 1\" in a man page template");
    free(text);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_verb),      TEST(test_verb_mistakes), TEST(test_verb_help),
        TEST(test_help_text), TEST(test_option_lines),  TEST(test_roff),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
