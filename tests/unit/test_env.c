/* The lines of an --env-file. Pure. */
#include "env.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* Parses a copy of the text; the variables joined with '|' stand in `ret_joined`. */
static int parse(const char *text, char *ret_joined, size_t size, struct kern_error *err)
{
    char copy[512];
    assert_true(strlen(text) < sizeof(copy));
    (void)snprintf(copy, sizeof(copy), "%s", text); /* fits */
    struct core_list list = {0};
    int failed = core_env_parse(copy, "my.env", &list, err);
    ret_joined[0] = '\0';
    for (size_t i = 0; i < list.count; i++) {
        size_t used = strlen(ret_joined);
        (void)snprintf(ret_joined + used, size - used, "%s%s", i > 0 ? "|" : "", list.item[i]); /* short */
    }
    core_list_clear(&list);
    return failed;
}

static void assert_parsed(const char *text, const char *expected)
{
    char joined[512];
    struct kern_error err = {0};
    assert_int_equal(parse(text, joined, sizeof(joined), &err), 0);
    assert_string_equal(joined, expected);
    assert_int_equal(err.category, KERN_ERROR_NONE);
}

static void assert_bad(const char *text, const char *line, const char *why)
{
    char joined[512];
    struct kern_error err = {0};
    assert_true(parse(text, joined, sizeof(joined), &err) < 0);
    assert_int_equal(err.category, KERN_ERROR_REFUSED);
    assert_non_null(strstr(err.message, "\"my.env\""));
    assert_non_null(strstr(err.message, line));
    assert_non_null(strstr(err.message, why));
    assert_non_null(strstr(err.hint, "NAME=VALUE"));
}

static void test_lines(void **state)
{
    (void)state;
    assert_parsed("", "");
    assert_parsed("A=1", "A=1");
    assert_parsed("A=1\nB=2\n", "A=1|B=2");
    assert_parsed("A=1\nA=2\n", "A=1|A=2"); /* which one wins is decided later */
    assert_parsed("A=\n", "A=");
}

static void test_trimming(void **state)
{
    (void)state;
    assert_parsed("  A=1\t \n\tB=2\r\n", "A=1|B=2");
    assert_parsed("A= 1 2 ", "A= 1 2"); /* what stands inside is kept */
    assert_parsed("A =1", "A =1");
    assert_parsed("A=1\v\f", "A=1");
    assert_parsed("A=\xc3\xa9\n", "A=\xc3\xa9");
}

static void test_comments_and_blank_lines(void **state)
{
    (void)state;
    assert_parsed("# A=1\n\n   \n\t# no equals sign\n#\r\nB=2", "B=2");
    assert_parsed("A=1 # kept\n", "A=1 # kept");
    assert_parsed("A#=1\n", "A#=1");
}

static void test_the_first_equals_sign_splits(void **state)
{
    (void)state;
    assert_parsed("A=b=c==\n", "A=b=c==");
    assert_parsed("A==\n", "A==");
}

static void test_quotes_and_dollars_are_text(void **state)
{
    (void)state;
    assert_parsed("A=\"x y\"\nB='z'\nC=$A ${A} `id`\nD=a\\nb\n", "A=\"x y\"|B='z'|C=$A ${A} `id`|D=a\\nb");
    assert_parsed("export A=1\n", "export A=1");
}

static void test_bad_lines_are_numbered(void **state)
{
    (void)state;
    assert_bad("A", "line 1 ", "has no \"=\"");
    assert_bad("A=1\n\n# comment\nbad line\nB=2\n", "line 4 ", "has no \"=\"");
    assert_bad("=1", "line 1 ", "has no name");
    assert_bad("A=1\n  =1\n", "line 2 ", "has no name");
    assert_bad("A=1\n=\n", "line 2 ", "has no name");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_trimming),
        cmocka_unit_test(test_comments_and_blank_lines),
        cmocka_unit_test(test_the_first_equals_sign_splits),
        cmocka_unit_test(test_quotes_and_dollars_are_text),
        cmocka_unit_test(test_bad_lines_are_numbered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
