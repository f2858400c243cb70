/* Writing JSON: escapes, bytes that are no UTF-8, nesting and commas, numbers. Pure. */
#include "json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void assert_quoted(const char *value, const char *expected)
{
    struct core_json json = {0};
    core_json_string(&json, NULL, value);
    assert_false(json.failed);
    assert_string_equal(json.text, expected);
    assert_int_equal(json.length, strlen(expected));
    core_json_free(&json);
    assert_null(json.text);
}

static void test_escapes(void **state)
{
    (void)state;
    assert_quoted("", "\"\"");
    assert_quoted("plain /text'", "\"plain /text'\"");
    assert_quoted("a\"b\\c", "\"a\\\"b\\\\c\"");
    assert_quoted("\n\t\r\x01\x1b\x7f", "\"\\u000a\\u0009\\u000d\\u0001\\u001b\\u007f\"");
    assert_quoted(NULL, "null");
}

static void test_valid_utf8_is_kept(void **state)
{
    (void)state;
    assert_quoted("\xc2\x80", "\"\xc2\x80\"");
    assert_quoted("\xdf\xbf", "\"\xdf\xbf\"");
    assert_quoted("\xe0\xa0\x80 \xed\x9f\xbf \xee\x80\x80 \xef\xbf\xbf",
                  "\"\xe0\xa0\x80 \xed\x9f\xbf \xee\x80\x80 \xef\xbf\xbf\"");
    assert_quoted("\xf0\x90\x80\x80 \xf4\x8f\xbf\xbf", "\"\xf0\x90\x80\x80 \xf4\x8f\xbf\xbf\"");
}

/* Each byte that belongs to no character is replaced, and what follows is read afresh. */
static void test_invalid_utf8_is_replaced(void **state)
{
    (void)state;
    assert_quoted("\x80", "\"\\ufffd\"");
    assert_quoted("a\xff\xfe"
                  "b",
                  "\"a\\ufffd\\ufffdb\"");
    assert_quoted("\xc0\xaf", "\"\\ufffd\\ufffd\"");                       /* overlong */
    assert_quoted("\xe0\x80\x80", "\"\\ufffd\\ufffd\\ufffd\"");            /* overlong */
    assert_quoted("\xf0\x8f\xbf\xbf", "\"\\ufffd\\ufffd\\ufffd\\ufffd\""); /* overlong */
    assert_quoted("\xed\xa0\x80", "\"\\ufffd\\ufffd\\ufffd\"");            /* a surrogate */
    assert_quoted("\xf4\x90\x80\x80", "\"\\ufffd\\ufffd\\ufffd\\ufffd\""); /* above U+10FFFF */
    assert_quoted("\xf5\x80\x80\x80", "\"\\ufffd\\ufffd\\ufffd\\ufffd\"");
    assert_quoted("\xc3"
                  "a",
                  "\"\\ufffda\"");
}

static void test_a_cut_character_at_the_end(void **state)
{
    (void)state;
    assert_quoted("\xc3", "\"\\ufffd\"");
    assert_quoted("\xe2\x82", "\"\\ufffd\\ufffd\"");
    assert_quoted("\xf0\x9f\x98", "\"\\ufffd\\ufffd\\ufffd\"");
    assert_quoted("\xe2\x82\"", "\"\\ufffd\\ufffd\\\"\"");
}

static void test_nesting_and_commas(void **state)
{
    (void)state;
    struct core_json json = {0};
    core_json_open(&json, NULL, '{');
    core_json_open(&json, "empty", '{');
    core_json_close(&json, '}');
    core_json_open(&json, "list", '[');
    core_json_int(&json, NULL, 1);
    core_json_open(&json, NULL, '[');
    core_json_close(&json, ']');
    core_json_string(&json, NULL, "x");
    core_json_close(&json, ']');
    core_json_bool(&json, "yes", true);
    core_json_bool(&json, "no", false);
    core_json_null(&json, "a\"b");
    core_json_close(&json, '}');
    assert_false(json.failed);
    assert_string_equal(
        json.text,
        "{\"empty\": {}, \"list\": [1, [], \"x\"], \"yes\": true, \"no\": false, \"a\\\"b\": null}");
    core_json_free(&json);
}

static void test_numbers(void **state)
{
    (void)state;
    struct core_json json = {0};
    core_json_open(&json, NULL, '[');
    core_json_int(&json, NULL, INT64_MIN);
    core_json_int(&json, NULL, INT64_MAX);
    core_json_int(&json, NULL, 0);
    core_json_known(&json, NULL, 0);
    core_json_known(&json, NULL, 7);
    core_json_known(&json, NULL, -1);
    core_json_double(&json, NULL, 0);
    core_json_double(&json, NULL, 12.3456);
    core_json_double(&json, NULL, -0.5);
    core_json_close(&json, ']');
    assert_string_equal(json.text,
                        "[-9223372036854775808, 9223372036854775807, 0, 0, 7, null, 0.000, 12.346, -0.500]");
    core_json_free(&json);
}

static void test_it_grows(void **state)
{
    (void)state;
    static char value[5000];
    memset(value, 'v', sizeof(value) - 1);
    struct core_json json = {0};
    core_json_open(&json, NULL, '[');
    for (int i = 0; i < 20; i++)
        core_json_string(&json, NULL, value);
    core_json_close(&json, ']');
    assert_false(json.failed);
    assert_int_equal(json.length, 20 * (sizeof(value) - 1 + 2) + 19 * 2 + 2);
    assert_int_equal(strlen(json.text), json.length);
    core_json_free(&json);
    core_json_free(&json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_escapes),
        cmocka_unit_test(test_valid_utf8_is_kept),
        cmocka_unit_test(test_invalid_utf8_is_replaced),
        cmocka_unit_test(test_a_cut_character_at_the_end),
        cmocka_unit_test(test_nesting_and_commas),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_it_grows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
