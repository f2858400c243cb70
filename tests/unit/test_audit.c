/* The lines of the audit record: JSON whatever the box put into them, and never longer than they may be. */
#include "audit_line.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void a_line(void **unused)
{
    (void)unused;
    struct audit_line line;
    audit_line_begin(&line, 1709251199, 7, "web", "denied");
    audit_line_text(&line, "what", "a \"b\" \\ \n \x7f \xc3\xa9 \xff");
    audit_line_text(&line, "reason", NULL);
    audit_line_number(&line, "count", -3);
    audit_line_list(&line, "command");
    audit_line_item(&line, "sh");
    audit_line_item(&line, "-c");
    audit_line_list_end(&line);
    audit_line_end(&line);
    assert_string_equal(line.text,
                        "{\"time\": \"2024-02-29T23:59:59.007Z\", \"box\": \"web\", \"event\": \"denied\", "
                        "\"what\": \"a \\\"b\\\" \\\\ \\u000a \\u007f \xc3\xa9 \\ufffd\", \"reason\": null, "
                        "\"count\": -3, \"command\": [\"sh\", \"-c\"]}\n");
    assert_int_equal(line.used, strlen(line.text));
}

static void dates(void **unused)
{
    (void)unused;
    static const struct {
        int64_t seconds;
        const char *text;
    } cases[] = {{0, "1970-01-01T00:00:00"},
                 {951782400, "2000-02-29T00:00:00"},
                 {1767225599, "2025-12-31T23:59:59"},
                 {4107542400, "2100-03-01T00:00:00"},
                 {-5, "1970-01-01T00:00:00"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct audit_line line;
        audit_line_begin(&line, cases[i].seconds, 0, "x", "y");
        assert_memory_equal(line.text + strlen("{\"time\": \""), cases[i].text, strlen(cases[i].text));
    }
}

/* The last that fits may be an escape: it stays whole, or the quote behind it would not close the text. */
static void cut_behind_an_escape(void **unused)
{
    (void)unused;
    char text[AUDIT_LINE_MOST + 1];
    memset(text, '\\', AUDIT_LINE_MOST);
    text[AUDIT_LINE_MOST] = '\0';
    for (int before = 0; before < 4; before++) {
        struct audit_line line;
        audit_line_begin(&line, 1, 1, "longer" + before, "prepare");
        audit_line_list(&line, "command");
        audit_line_item(&line, text);
        audit_line_list_end(&line);
        audit_line_end(&line);
        static const char end[] = "\"], \"cut\": true}\n";
        const char *last = line.text + line.used - strlen(end);
        assert_string_equal(last, end);
        size_t count = 0;
        while (last[-1 - (ptrdiff_t)count] == '\\')
            count++;
        assert_int_equal(count % 2, 0);
    }
}

static void cut_before_a_list(void **unused)
{
    (void)unused;
    char text[AUDIT_LINE_MOST + 1];
    memset(text, 'x', AUDIT_LINE_MOST);
    text[AUDIT_LINE_MOST] = '\0';
    struct audit_line line;
    audit_line_begin(&line, 1, 1, "box", "prepare");
    audit_line_text(&line, "what", text);
    audit_line_list(&line, "command");
    audit_line_item(&line, "sh");
    audit_line_list_end(&line);
    audit_line_end(&line);
    static const char end[] = "xx\", \"cut\": true}\n";
    assert_string_equal(line.text + line.used - strlen(end), end);
}

/* However long what comes in is, and wherever it is cut: one whole object, braces and quotes closed. */
static void cut(void **unused)
{
    (void)unused;
    char text[2 * AUDIT_LINE_MOST];
    for (size_t length = AUDIT_LINE_MOST - 200; length < AUDIT_LINE_MOST + 100; length++) {
        struct audit_line line;
        for (size_t i = 0; i < length; i++)
            text[i] = "\"\\\n\xff"
                      "a"[i % 5];
        text[length / 3] = '\0';
        audit_line_begin(&line, 1, 1, "box", "prepare");
        audit_line_text(&line, "what", text);
        text[length / 3] = 'x';
        text[length] = '\0';
        audit_line_list(&line, "command");
        audit_line_item(&line, text);
        audit_line_item(&line, text);
        audit_line_list_end(&line);
        audit_line_number(&line, "count", 1);
        audit_line_end(&line);
        assert_true(line.used < sizeof(line.text));
        assert_int_equal(line.used, strlen(line.text));
        assert_string_equal(line.text + line.used - 2, "}\n");
        assert_non_null(strstr(line.text, "\"cut\": true"));
        int quotes = 0;
        for (size_t i = 0; i < line.used; i++) {
            if (line.text[i] == '\\')
                i++;
            else if (line.text[i] == '"')
                quotes++;
        }
        assert_int_equal(quotes % 2, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_line), cmocka_unit_test(dates),
                                       cmocka_unit_test(cut), cmocka_unit_test(cut_behind_an_escape),
                                       cmocka_unit_test(cut_before_a_list)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
