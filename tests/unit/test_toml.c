/* The TOML reader, rule by rule: what TOML 1.0 allows becomes the expected JSON, what it forbids is refused
 * at the expected line and column. Pure code, runs anywhere. */
#include "error.h"
#include "toml.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct toml_doc *parse(const char *text, size_t length)
{
    struct kern_error err = {0};
    struct toml_doc *doc = NULL;
    if (core_toml_parse(text, length, "t.toml", &doc, &err) != 0)
        fail_msg("refused: %s", err.message);
    assert_false(core_error_is_set(&err));
    return doc;
}

static void accept_as(const char *text, size_t length, int tagged, const char *expected)
{
    struct toml_doc *doc = parse(text, length);
    char *json = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&json, &size);
    assert_non_null(out);
    assert_int_equal(core_toml_print_json(core_toml_root(doc), out, tagged), 0);
    assert_int_equal(fclose(out), 0);
    assert_string_equal(json, expected);
    free(json);
    core_toml_free(doc);
}

/* `expected` is "LINE:COLUMN: how the message starts". */
static void refuse_with(const char *text, size_t length, const char *expected)
{
    struct kern_error err = {0};
    struct toml_doc *untouched = NULL;
    assert_int_equal(core_toml_parse(text, length, "t.toml", &untouched, &err), -EINVAL);
    assert_null(untouched);
    assert_int_equal(err.category, KERN_ERROR_REFUSED);
    char start[256];
    (void)snprintf(start, sizeof(start), "t.toml:%s", expected); /* the texts below are short */
    char message[sizeof(err.message)];
    memcpy(message, err.message, sizeof(message));
    if (strlen(message) > strlen(start))
        message[strlen(start)] = '\0';
    assert_string_equal(message, start);
}

#define ACCEPT(text, json)      accept_as(text, sizeof(text) - 1, 0, json)
#define ACCEPT_TAGS(text, json) accept_as(text, sizeof(text) - 1, 1, json)
#define REFUSE(text, expected)  refuse_with(text, sizeof(text) - 1, expected)

static void test_characters(void **state)
{
    (void)state;
    ACCEPT("", "{}");
    accept_as(NULL, 0, 0, "{}");
    ACCEPT("\xEF\xBB\xBFx=1", "{\"x\":1}");
    REFUSE("\xEF\xBB\xBFx=", "1:3: expected a value, found the end of the file");
    REFUSE("a=1\n\xEF\xBB\xBF", "2:1: expected a key, found \"\\uFEFF\"");
    ACCEPT("# \xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80\tx\r\n \t \na=1#", "{\"a\":1}");
    REFUSE("a='\xC3\xA9\xC3'", "1:5: the byte 0xC3 is not valid UTF-8 here");
    REFUSE("a='\x80'", "1:4: the byte 0x80");
    REFUSE("\n# \xC0\xAF", "2:3: the byte 0xC0");
    REFUSE("# \xE0\x80\xAF", "1:3: the byte 0xE0");
    REFUSE("# \xF0\x80\x80\xAF", "1:3: the byte 0xF0");
    REFUSE("# \xED\xA0\x80", "1:3: the byte 0xED");
    REFUSE("# \xF4\x90\x80\x80", "1:3: the byte 0xF4");
    REFUSE("# \xF8\x88\x80\x80\x80", "1:3: the byte 0xF8");
    REFUSE("# \xE2\x82", "1:3: the byte 0xE2");
    REFUSE("a=1\n# \x01", "2:3: the control character \"\\u0001\"");
    REFUSE("a='\x1F'", "1:4: the control character \"\\u001F\"");
    REFUSE("a=\"\x7F\"", "1:4: the control character \"\\u007F\"");
    REFUSE("a=\"\"\"\n\x0B\"\"\"", "2:1: the control character \"\\u000B\"");
    REFUSE("a\0=1", "1:2: the control character \"\\u0000\"");
    ACCEPT("a=1\r\nb=2\r\n", "{\"a\":1,\"b\":2}");
    REFUSE("a=1\rb=2", "1:4: a carriage return must be followed by a line feed");
    REFUSE("# x\r", "1:4: a carriage return");
    REFUSE("a='''\r'''", "1:6: a carriage return");
}

static void test_statements(void **state)
{
    (void)state;
    REFUSE("a=1 b=2", "1:5: expected the end of the line after the value, found \"b\"");
    REFUSE("[a] b=2", "1:5: expected the end of the line after the header, found \"b\"");
    REFUSE("a", "1:2: expected \"=\" after the key \"a\", found the end of the file");
    REFUSE("a\n=1", "1:2: expected \"=\" after the key \"a\", found the end of the line");
    REFUSE("a=\n1", "1:3: expected a value, found the end of the line");
    REFUSE("a=\r\n1", "1:3: expected a value, found the end of the line");
    REFUSE("a b=1", "1:3: expected \"=\" after the key \"a\", found \"b\"");
    REFUSE("=1", "1:1: expected a key, found \"=\"");
    REFUSE("a==1", "1:3: expected a value, found \"=\"");
    REFUSE("[a", "1:3: expected \"]\" after the name of the table, found the end of the file");
    REFUSE("[[a]", "1:4: expected \"]]\" after the name of the table, found \"]\"");
    REFUSE("[[a] ]", "1:4: expected \"]]\"");
    REFUSE("[ [a]]", "1:3: expected a key, found \"[\"");
    REFUSE("[a]]", "1:4: expected the end of the line");
    REFUSE("[]", "1:2: expected a key, found \"]\"");
    REFUSE("[a.]", "1:4: expected a key, found \"]\"");
}

static void test_keys(void **state)
{
    (void)state;
    ACCEPT("A-z_09=1\n1234=2\n-=3", "{\"A-z_09\":1,\"1234\":2,\"-\":3}");
    ACCEPT("\"a.\\u00e9\\n\"=1\n'\\b\"'=2\n\"\"=3", "{\"a.\xC3\xA9\\n\":1,\"\\\\b\\\"\":2,\"\":3}");
    ACCEPT("a . \"b\".'c'\t= 1\n3.14=2", "{\"a\":{\"b\":{\"c\":1}},\"3\":{\"14\":2}}");
    ACCEPT("[ a . 'b' ]\nc=1", "{\"a\":{\"b\":{\"c\":1}}}");
    REFUSE("\xC3\xA9=1", "1:1: expected a key, found \"\xC3\xA9\"");
    REFUSE("a.=1", "1:3: expected a key, found \"=\"");
    REFUSE(".a=1", "1:1: expected a key, found \".a\"");
    REFUSE("a..b=1", "1:3: expected a key, found \".b\"");
    REFUSE("a\xC3\xA9.b!=1", "1:2: expected \"=\" after the key \"a\", found \"\xC3\xA9\"");
    REFUSE("\"\"\"a\"\"\"=1", "1:1: a multi-line string cannot be a key");
    REFUSE("'''a'''=1", "1:1: a multi-line string cannot be a key");
    REFUSE("\"a\nb\"=1", "1:1: the string has no closing \" on its line");
}

static void test_strings(void **state)
{
    (void)state;
    ACCEPT("a=\"\"\nb=''\nc=\"x'y\"\nd='x\"\\y'",
           "{\"a\":\"\",\"b\":\"\",\"c\":\"x'y\",\"d\":\"x\\\"\\\\y\"}");
    ACCEPT("a=\"\\b\\t\\n\\f\\r\\\"\\\\/\"", "{\"a\":\"\\b\\t\\n\\f\\r\\\"\\\\/\"}");
    ACCEPT("a=\"\\u0041\\u00E9\\u20ac\\U0001F600\\U0010ffff\\u0000\"",
           "{\"a\":\"A\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\xF4\x8F\xBF\xBF\\u0000\"}");
    REFUSE("a=\"x\\e\"", "1:5: a backslash before \"e\" is no escape of TOML 1.0");
    REFUSE("a=\"x\\x41\"", "1:5: a backslash before \"x41\" is no escape");
    REFUSE("a=\"\\ \"", "1:4: a backslash before \" \" is no escape");
    REFUSE("a=\"\\u12g4\"", "1:4: the escape \\u needs 4 hexadecimal digits");
    REFUSE("a=\"\\U0000004\"", "1:4: the escape \\U needs 8 hexadecimal digits");
    REFUSE("a=\"\\ud800\"", "1:4: the escape \\ud800 is not a Unicode character");
    REFUSE("a=\"\\uDFFF\"", "1:4: the escape \\uDFFF is not a Unicode character");
    REFUSE("a=\"\\U00110000\"", "1:4: the escape \\U00110000 is not a Unicode character");
    REFUSE("a=\"\\", "1:4: the file ends inside an escape");
    REFUSE("a=1\nb=\"x", "2:3: the string has no closing \" on its line");
    REFUSE("b='x\n'", "1:3: the string has no closing ' on its line");
    REFUSE("b='x\r\n'", "1:3: the string has no closing ' on its line");
    REFUSE("a='x'y'", "1:6: expected the end of the line after the value, found \"y\"");
}

static void test_multiline_strings(void **state)
{
    (void)state;
    ACCEPT("a=\"\"\"\nx\ny\"\"\"\nb='''\r\nx\\\r\n'''", "{\"a\":\"x\\ny\",\"b\":\"x\\\\\\n\"}");
    ACCEPT("a=\"\"\"\n\nx\"\"\"", "{\"a\":\"\\nx\"}");
    ACCEPT("a=\"\"\"x \\\n  \t\n y \\ \t\r\n\r\n\"\"\"", "{\"a\":\"x y \"}");
    ACCEPT("a=\"\"\"\\\"\"\" \\u0041\"\"\"", "{\"a\":\"\\\"\\\"\\\" A\"}");
    ACCEPT("a=\"\"\"\"\"\"\nb=''''''", "{\"a\":\"\",\"b\":\"\"}");
    ACCEPT("a=\"\"\"\"\"\"\"\nb=''''''''", "{\"a\":\"\\\"\",\"b\":\"''\"}");
    ACCEPT("a=\"\"\"x\"y\"\"z\"\"\"\"\nb='''x'y''z'''''",
           "{\"a\":\"x\\\"y\\\"\\\"z\\\"\",\"b\":\"x'y''z''\"}");
    REFUSE("a=\"\"\"x\"\"\"\"\"\"", "1:12: expected the end of the line after the value, found \"\\\"\"");
    REFUSE("\na=\"\"\"x\n\"\"", "2:3: the multi-line string has no closing \"\"\"");
    REFUSE("a='''x\n''", "1:3: the multi-line string has no closing '''");
    REFUSE("a=\"\"\"\nx \\ y\"\"\"", "2:3: a backslash before \" \" is no escape");
    REFUSE("a=\"\"\"\nx\\", "2:2: the file ends inside an escape");
}

static void test_integers(void **state)
{
    (void)state;
    ACCEPT("a=0\nb=+0\nc=-0\nd=+99\ne=1_000_0", "{\"a\":0,\"b\":0,\"c\":0,\"d\":99,\"e\":10000}");
    ACCEPT("a=0xDEAD_beef\nb=0o755\nc=0b1101\nd=0x00", "{\"a\":3735928559,\"b\":493,\"c\":13,\"d\":0}");
    ACCEPT("a=9223372036854775807\nb=-9223372036854775808\nc=0x7fffffffffffffff",
           "{\"a\":9223372036854775807,\"b\":-9223372036854775808,\"c\":9223372036854775807}");
    REFUSE("a=9223372036854775808", "1:3: the integer \"9223372036854775808\" does not fit into 64 bits");
    REFUSE("a=-9223372036854775809", "1:3: the integer");
    REFUSE("a=0xffffffffffffffff", "1:3: the integer");
    REFUSE("a=99999999999999999999999", "1:3: the integer");
    REFUSE("a=01", "1:3: the number \"01\" starts with a zero");
    REFUSE("a=-00", "1:4: the number \"-00\" starts with a zero");
    REFUSE("a=0_1", "1:3: the number \"0_1\" starts with a zero");
    REFUSE("a=1__0", "1:4: an underscore in the number \"1__0\" must stand between digits");
    REFUSE("a=1_", "1:4: an underscore");
    REFUSE("a=_1", "1:3: \"_1\" is not a value; text needs \"quotes\"");
    REFUSE("a=0x_1", "1:5: an underscore");
    REFUSE("a=0b2", "1:5: expected a digit in the number \"0b2\"");
    REFUSE("a=0o18", "1:6: unexpected \"8\" in the number \"0o18\"");
    REFUSE("a=0x", "1:5: expected a digit in the number \"0x\"");
    REFUSE("a=0X1", "1:4: unexpected \"X\"");
    REFUSE("a=+0x1", "1:3: the number \"+0x1\" has a prefix and so cannot have a sign");
    REFUSE("a=++1", "1:3: \"++1\" is not a value");
    REFUSE("memory = 512m", "1:13: unexpected \"m\" in the number \"512m\"; text needs \"quotes\"");
}

static void test_floats(void **state)
{
    (void)state;
    ACCEPT("a=1.0\nb=-0.0\nc=+3.1415\nd=5e+22\ne=1e06\nf=-2E-2\ng=6.626e-34\nh=9_2.1_5e1_0",
           "{\"a\":1.0,\"b\":-0.0,\"c\":3.1415,\"d\":5e+22,\"e\":1000000.0,\"f\":-0.02,\"g\":6.626e-34,"
           "\"h\":921500000000.0}");
    ACCEPT("a=0.1\nb=1.7976931348623157e308\nc=5e-324\nd=1e999",
           "{\"a\":0.1,\"b\":1.7976931348623157e+308,\"c\":4.94065645841247e-324,\"d\":\"inf\"}");
    ACCEPT("a=inf\nb=+inf\nc=-inf\nd=nan\ne=-nan\nf=+nan",
           "{\"a\":\"inf\",\"b\":\"inf\",\"c\":\"-inf\",\"d\":\"nan\",\"e\":\"nan\",\"f\":\"nan\"}");
    REFUSE("a=1.", "1:5: expected a digit in the number \"1.\"");
    REFUSE("a=.5", "1:3: \".5\" is not a value");
    REFUSE("a=-.5", "1:3: \"-.5\" is not a value");
    REFUSE("a=1.e5", "1:5: expected a digit");
    REFUSE("a=1e", "1:5: expected a digit");
    REFUSE("a=1e+", "1:6: expected a digit");
    REFUSE("a=1e5.0", "1:6: unexpected \".\"");
    REFUSE("a=1.2.3", "1:6: unexpected \".\"");
    REFUSE("a=01.5", "1:3: the number \"01.5\" starts with a zero");
    REFUSE("a=1_.5", "1:4: an underscore");
    REFUSE("a=1._5", "1:5: an underscore");
    REFUSE("a=1e_5", "1:5: an underscore");
    REFUSE("a=1.5_", "1:6: an underscore");
    REFUSE("a=Inf", "1:3: \"Inf\" is not a value");
    REFUSE("a=NaN", "1:3: \"NaN\" is not a value");
    REFUSE("a=0x1.8", "1:6: unexpected \".\"");
}

static void test_booleans(void **state)
{
    (void)state;
    ACCEPT("a=true\nb=false", "{\"a\":true,\"b\":false}");
    REFUSE("a=True", "1:3: \"True\" is not a value; text needs \"quotes\"");
    REFUSE("a=FALSE", "1:3: \"FALSE\" is not a value");
    REFUSE("a=tru", "1:3: \"tru\" is not a value");
    REFUSE("a=truer", "1:3: \"truer\" is not a value");
    REFUSE("a=yes", "1:3: \"yes\" is not a value");
}

static void test_dates(void **state)
{
    (void)state;
    ACCEPT_TAGS("a=1979-05-27\nb=0000-01-01\nc=9999-12-31",
                "{\"a\":{\"type\":\"date-local\",\"value\":\"1979-05-27\"},"
                "\"b\":{\"type\":\"date-local\",\"value\":\"0000-01-01\"},"
                "\"c\":{\"type\":\"date-local\",\"value\":\"9999-12-31\"}}");
    ACCEPT("a=2000-02-29\nb=2024-02-29 # x", "{\"a\":\"2000-02-29\",\"b\":\"2024-02-29\"}");
    REFUSE("a=1900-02-29", "1:11: the day 29 is not in the range 01 to 28");
    REFUSE("a=2023-02-29", "1:11: the day 29 is not in the range 01 to 28");
    REFUSE("a=2024-02-30", "1:11: the day 30 is not in the range 01 to 29");
    REFUSE("a=2024-04-31", "1:11: the day 31 is not in the range 01 to 30");
    REFUSE("a=2024-12-32", "1:11: the day 32 is not in the range 01 to 31");
    REFUSE("a=2024-01-00", "1:11: the day 00 is not in the range");
    REFUSE("a=2024-13-01", "1:8: the month 13 is not in the range 01 to 12");
    REFUSE("a=2024-00-01", "1:8: the month 00 is not in the range");
    REFUSE("a=87-01-01", "1:5: expected a digit (years have four)");
    REFUSE("a=10000-01-01", "1:7: expected \"-\" in the date or time \"10000-01-01\"");
    REFUSE("a=2024-1-01", "1:9: expected a digit (fields have two)");
    REFUSE("a=2024-01-1", "1:12: expected a digit (fields have two)");
    REFUSE("a=2024-01-011", "1:13: unexpected \"1\" after the local date");
    REFUSE("a=2024-01", "1:10: expected \"-\"");
}

static void test_times(void **state)
{
    (void)state;
    ACCEPT_TAGS("a=07:32:00\nb=23:59:60.999999999999",
                "{\"a\":{\"type\":\"time-local\",\"value\":\"07:32:00\"},"
                "\"b\":{\"type\":\"time-local\",\"value\":\"23:59:60.999999999999\"}}");
    ACCEPT_TAGS("a=1979-05-27t07:32:00\nb=1979-05-27 07:32:00.5 #",
                "{\"a\":{\"type\":\"datetime-local\",\"value\":\"1979-05-27T07:32:00\"},"
                "\"b\":{\"type\":\"datetime-local\",\"value\":\"1979-05-27T07:32:00.5\"}}");
    ACCEPT_TAGS("a=1979-05-27 07:32:00z\nb=1979-05-27T00:32:00.9-07:00\nc=1979-05-27T00:00:00+23:59",
                "{\"a\":{\"type\":\"datetime\",\"value\":\"1979-05-27T07:32:00Z\"},"
                "\"b\":{\"type\":\"datetime\",\"value\":\"1979-05-27T00:32:00.9-07:00\"},"
                "\"c\":{\"type\":\"datetime\",\"value\":\"1979-05-27T00:00:00+23:59\"}}");
    REFUSE("a=07:32", "1:8: expected \":\" and the seconds in the date or time \"07:32\"");
    REFUSE("a=1979-05-27T07:32Z", "1:19: expected \":\" and the seconds");
    REFUSE("a=24:00:00", "1:3: the hour 24 is not in the range 00 to 23");
    REFUSE("a=00:60:00", "1:6: the minute 60 is not in the range 00 to 59");
    REFUSE("a=00:00:61", "1:9: the second 61 is not in the range 00 to 60");
    REFUSE("a=7:32:00", "1:4: expected a digit (fields have two)");
    REFUSE("a=07:32:00.", "1:12: expected a digit after the point");
    REFUSE("a=07:32:00Z", "1:11: unexpected \"Z\" after the local time");
    REFUSE("a=1979-05-27T", "1:14: expected a digit");
    REFUSE("a=1979-05-27  07:32:00",
           "1:15: expected the end of the line after the value, found \"07:32:00\"");
    REFUSE("a=1979-05-27T00:00:00+24:00", "1:23: the offset hour 24 is not in the range 00 to 23");
    REFUSE("a=1979-05-27T00:00:00+00:60", "1:26: the offset minute 60");
    REFUSE("a=1979-05-27T00:00:00+0000", "1:25: expected \":\"");
    REFUSE("a=1979-05-27T00:00:00Z1", "1:23: unexpected \"1\" after the offset date-time");
}

static void test_arrays(void **state)
{
    (void)state;
    ACCEPT("a=[]\nb=[ ]\nc=[1,2,]\nd=[[1],['x',{}],true]",
           "{\"a\":[],\"b\":[],\"c\":[1,2],\"d\":[[1],[\"x\",{}],true]}");
    ACCEPT("a=[ # x\n\n 1 # ]\n , # y\r\n 2\n]\n", "{\"a\":[1,2]}");
    REFUSE("a=[1 2]", "1:6: expected \",\" or \"]\" in the array, found \"2\"");
    REFUSE("a=[,1]", "1:4: expected a value, found \",\"");
    REFUSE("a=[1,,2]", "1:6: expected a value, found \",\"");
    REFUSE("\na=[1,\n2\n", "2:3: the array has no closing \"]\"");
    REFUSE("a=[1 # ]", "1:3: the array has no closing \"]\"");
    REFUSE("a=[1}", "1:5: expected \",\" or \"]\" in the array, found \"}\"");
}

static void test_inline_tables(void **state)
{
    (void)state;
    ACCEPT("a={}\nb={ x = 1 , 'y z' = 2 }\nc={p.q=1,p.r={s=[\n1,\n]}}",
           "{\"a\":{},\"b\":{\"x\":1,\"y z\":2},\"c\":{\"p\":{\"q\":1,\"r\":{\"s\":[1]}}}}");
    REFUSE("a={x=1,}", "1:8: an inline table cannot end in a comma");
    REFUSE("a={x=1, }", "1:9: an inline table cannot end in a comma");
    REFUSE("a={,}", "1:4: expected a key, found \",\"");
    REFUSE("a={x=1 y=2}", "1:8: expected \",\" or \"}\" in the inline table, found \"y\"");
    REFUSE("a={\nx=1}", "1:4: an inline table must end on its line, found the end of the line");
    REFUSE("a={x=1\n}", "1:7: an inline table must end on its line");
    REFUSE("a={x=1,\ny=2}", "1:8: an inline table must end on its line");
    REFUSE("a={x=1 # c\n}", "1:8: an inline table must end on its line, found \"#\"");
    REFUSE("a={x=1", "1:7: expected \",\" or \"}\" in the inline table, found the end of the file");
    REFUSE("a={x=1,x=2}", "1:8: the key \"x\" is defined already (line 1, column 4)");
    REFUSE("a={x.y=1,x=2}", "1:10: the key \"x\" is defined already");
    REFUSE("a={x={},x.y=2}", "1:9: the key \"x\" is an inline table, nothing can be added to it");
    REFUSE("a={}\na.b=1",
           "2:1: the key \"a\" is an inline table, nothing can be added to it (line 1, column 1)");
    REFUSE("a={b.c=1}\na.b.d=1", "2:1: the key \"a\" is an inline table");
    REFUSE("a={}\n[a.b]", "2:2: the key \"a\" is an inline table");
    REFUSE("a={b={}}\n[a.b]", "2:2: the key \"a\" is an inline table");
    REFUSE("a={}\n[a]", "2:2: the key \"a\" is defined already");
    REFUSE("a={}\n[[a]]", "2:3: the key \"a\" is a table already, not an array of tables");
}

static void test_duplicates_and_dotted_keys(void **state)
{
    (void)state;
    ACCEPT("a.b=1\na.c.d=2\nx=3\na.c.e=4", "{\"a\":{\"b\":1,\"c\":{\"d\":2,\"e\":4}},\"x\":3}");
    REFUSE("a=1\n'a'=2", "2:1: the key \"a\" is defined already (line 1, column 1)");
    REFUSE("[t]\n \"\\u0061\" = 1\na=2", "3:1: the key \"a\" is defined already (line 2, column 2)");
    REFUSE("a=1\na.b=2", "2:1: the key \"a\" has a value already, it is no table");
    REFUSE("a.b=1\na=2", "2:1: the key \"a\" is defined already");
    REFUSE("a.b=1\na.b.c=2", "2:3: the key \"b\" has a value already, it is no table (line 1, column 3)");
    REFUSE("a=[{}]\na.b=1", "2:1: the key \"a\" is an array, a dotted key cannot add to it");
    REFUSE("[[t.a]]\n[t]\na.b=1", "3:1: the key \"a\" is an array, a dotted key cannot add to it");
    ACCEPT("[t.a.x]\n[t]\na.b=1", "{\"t\":{\"a\":{\"x\":{},\"b\":1}}}");
    REFUSE("[t.a]\n[t]\na.b=1", "3:1: the key \"a\" is a table with a header of its own");
    REFUSE("[t.a.b]\n[t]\na.b.c=1", "3:3: the key \"b\" is a table with a header of its own");
    REFUSE("[t.a.x]\n[t]\na=1", "3:1: the key \"a\" is defined already");
}

static void test_table_headers(void **state)
{
    (void)state;
    ACCEPT("[x.y.z]\na=1\n[x]\nb=2\n[x.y]\nc=3", "{\"x\":{\"y\":{\"z\":{\"a\":1},\"c\":3},\"b\":2}}");
    ACCEPT("[f]\na.c=1\n[f.a.t]\nx=2\n[[f.a.u]]", "{\"f\":{\"a\":{\"c\":1,\"t\":{\"x\":2},\"u\":[{}]}}}");
    REFUSE("[a]\n[a]", "2:2: the key \"a\" is defined already (line 1, column 2)");
    REFUSE("[a.b]\n[a]\n[a]", "3:2: the key \"a\" is defined already (line 2, column 2)");
    REFUSE("[a]\nb=1\n[a.b]", "3:4: the key \"b\" has a value already");
    REFUSE("a=1\n[a.b]", "2:2: the key \"a\" has a value already, it is no table");
    REFUSE("[f]\na.b.c=1\n[f.a]", "3:4: the key \"a\" is defined already (line 2, column 1)");
    REFUSE("[f]\na.b.c=1\n[f.a.b]", "3:6: the key \"b\" is defined already");
    REFUSE("[t.a.x]\n[t]\na.b=1\n[t.a]", "4:4: the key \"a\" is defined already");
}

static void test_arrays_of_tables(void **state)
{
    (void)state;
    ACCEPT("[[a]]\nn=1\n[a.s]\nx=1\n[[a.b]]\n[[a.b]]\ny=2\n[[a]]\n[a.s]",
           "{\"a\":[{\"n\":1,\"s\":{\"x\":1},\"b\":[{},{\"y\":2}]},{\"s\":{}}]}");
    ACCEPT("[[a.b]]\n[a]\nc=1", "{\"a\":{\"b\":[{}],\"c\":1}}");
    REFUSE("a=[]\n[[a]]",
           "2:3: the key \"a\" is an inline array, nothing can be added to it (line 1, column 1)");
    REFUSE("a=[{}]\n[a.b]", "2:2: the key \"a\" is an inline array, nothing can be added to it");
    REFUSE("a=[{}]\n[[a.b]]", "2:3: the key \"a\" is an inline array");
    REFUSE("[[a]]\n[a]", "2:2: the key \"a\" is an array of tables, its header needs [[ and ]]");
    REFUSE("[a]\n[[a]]", "2:3: the key \"a\" is a table already, not an array of tables");
    REFUSE("[a.b]\n[[a]]", "2:3: the key \"a\" is a table already");
    REFUSE("[[a.b]]\n[[a]]", "2:3: the key \"a\" is a table already");
    REFUSE("a=1\n[[a]]", "2:3: the key \"a\" has a value already");
    REFUSE("[[a]]\n[a.s]\n[a.s]", "3:4: the key \"s\" is defined already (line 2, column 4)");
}

/* "a=" and then `depth` opening and closing brackets: the root lies above them. */
static char *nested_arrays(size_t depth, size_t *ret_length)
{
    char *text = malloc(2 + 2 * depth);
    assert_non_null(text);
    memcpy(text, "a=", 2);
    memset(text + 2, '[', depth);
    memset(text + 2 + depth, ']', depth);
    *ret_length = 2 + 2 * depth;
    return text;
}

static void test_depth_is_bounded(void **state)
{
    (void)state;
    size_t length;
    char *text = nested_arrays(CORE_TOML_MAX_DEPTH, &length);
    core_toml_free(parse(text, length));
    free(text);
    text = nested_arrays(CORE_TOML_MAX_DEPTH + 1, &length);
    refuse_with(text, length, "1:131: tables and arrays are nested more than 128 deep");
    free(text);

    /* Headers and dotted keys count as well: [a.a. ... .a] of 128 parts is the deepest table. */
    char path[2 * CORE_TOML_MAX_DEPTH + 16] = "[";
    for (unsigned i = 0; i < CORE_TOML_MAX_DEPTH; i++)
        memcpy(path + 1 + 2 * (size_t)i, "a.", 2);
    size_t end = 2 * (size_t)CORE_TOML_MAX_DEPTH;
    memcpy(path + end, "]\nb=1", 5);
    core_toml_free(parse(path, end + 5));
    memcpy(path + end, "]\nb={}", 6);
    refuse_with(path, end + 6, "2:3: tables and arrays are nested more than 128 deep");
    memcpy(path + end, "]\nb.c=1", 7);
    refuse_with(path, end + 7, "2:1: tables and arrays are nested more than 128 deep");
    memcpy(path + end, ".b]", 3);
    refuse_with(path, end + 3, "1:258: tables and arrays are nested more than 128 deep");
}

static void test_size_is_bounded(void **state)
{
    (void)state;
    char *text = malloc(CORE_TOML_MAX_SIZE + 1);
    assert_non_null(text);
    memset(text, '\n', CORE_TOML_MAX_SIZE + 1);
    core_toml_free(parse(text, CORE_TOML_MAX_SIZE));
    refuse_with(text, CORE_TOML_MAX_SIZE + 1,
                "1:1: the document has 4194305 bytes, at most 4194304 are read");
    free(text);
}

static void assert_place(const struct toml_node *node, unsigned line, unsigned column, unsigned value_line,
                         unsigned value_column)
{
    assert_non_null(node);
    assert_int_equal(node->line, line);
    assert_int_equal(node->column, column);
    assert_int_equal(node->value_line, value_line);
    assert_int_equal(node->value_column, value_column);
}

static void test_places(void **state)
{
    (void)state;
    static const char text[] = "\xEF\xBB\xBF'\xC3\xA9' = 1\n"
                               "list = [ 1,\n\t'x' ]\n"
                               "[imp.head]\n a.b = { c = 2 }\n"
                               "[[many]]\n[[many]]\n[imp]\n";
    struct toml_doc *doc = parse(text, sizeof(text) - 1);
    const struct toml_node *root = core_toml_root(doc);
    assert_place(root, 1, 1, 1, 1);
    assert_place(core_toml_get(root, "\xC3\xA9"), 1, 1, 1, 7);
    const struct toml_node *list = core_toml_get(root, "list");
    assert_place(list, 2, 1, 2, 8);
    assert_place(core_toml_at(list, 0), 2, 10, 2, 10);
    assert_place(core_toml_at(list, 1), 3, 2, 3, 2);
    const struct toml_node *implied = core_toml_get(root, "imp");
    assert_place(implied, 8, 2, 8, 2);
    const struct toml_node *head = core_toml_get(implied, "head");
    assert_place(head, 4, 6, 4, 6);
    const struct toml_node *dotted = core_toml_get(head, "a");
    assert_place(dotted, 5, 2, 5, 2);
    assert_place(core_toml_get(dotted, "b"), 5, 4, 5, 8);
    assert_place(core_toml_get(core_toml_get(dotted, "b"), "c"), 5, 10, 5, 14);
    const struct toml_node *many = core_toml_get(root, "many");
    assert_place(many, 6, 3, 6, 3);
    assert_place(core_toml_at(many, 1), 7, 3, 7, 3);
    core_toml_free(doc);
}

static void test_tree(void **state)
{
    (void)state;
    static const char text[] =
        "s='x'\n\"z\\u0000y\"=\"p\\u0000q\"\ni=-7\nf=2.5\nb=true\nl=[{}]\nt=07:32:00\n[[m]]\n";
    struct toml_doc *doc = parse(text, sizeof(text) - 1);
    const struct toml_node *root = core_toml_root(doc);
    assert_null(root->key);
    assert_int_equal(root->type, TOML_TABLE);
    assert_int_equal(core_toml_count(root), 8);
    const struct toml_node *with_nul = core_toml_find(root, "z\0y", 3);
    assert_ptr_equal(with_nul, core_toml_at(root, 1));
    assert_int_equal(with_nul->key_length, 3);
    assert_int_equal(with_nul->as.text.length, 3);
    assert_memory_equal(with_nul->as.text.bytes, "p\0q", 4);
    assert_null(core_toml_get(root, "z"));
    assert_int_equal(core_toml_get(root, "i")->as.integer, -7);
    assert_true(core_toml_get(root, "f")->as.real == 2.5);
    assert_true(core_toml_get(root, "b")->as.boolean);
    assert_string_equal(core_toml_get(root, "t")->as.text.bytes, "07:32:00");
    assert_string_equal(core_toml_type_name(core_toml_get(root, "t")->type), "local time");
    assert_false(core_toml_is_array_of_tables(core_toml_get(root, "l")));
    assert_true(core_toml_is_array_of_tables(core_toml_get(root, "m")));
    assert_null(core_toml_at(core_toml_get(root, "l"), 0)->key);
    assert_null(core_toml_at(root, 8));
    assert_null(core_toml_get(core_toml_get(root, "s"), "x"));
    assert_null(core_toml_get(NULL, "x"));
    assert_int_equal(core_toml_count(core_toml_get(root, "s")), 0);
    core_toml_free(doc);
    core_toml_free(NULL); /* must do nothing */
}

#define MANY 5000

/* Past a few keys a table is searched through its index: every key is found, order stays, a duplicate shows. */
static void test_many_keys(void **state)
{
    (void)state;
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    assert_non_null(out);
    for (int i = 0; i < MANY; i++)
        (void)fprintf(out, "key-%d = %d\n", i * 7, i); /* memory streams fail at fclose */
    (void)fprintf(out, "key-0 = 1\n");                 /* the same */
    assert_int_equal(fclose(out), 0);
    refuse_with(text, length, "5001:1: the key \"key-0\" is defined already (line 1, column 1)");

    struct toml_doc *doc = parse(text, length - strlen("key-0 = 1\n"));
    const struct toml_node *root = core_toml_root(doc);
    assert_int_equal(core_toml_count(root), MANY);
    for (int i = 0; i < MANY; i++) {
        char key[32];
        (void)snprintf(key, sizeof(key), "key-%d", i * 7); /* fits */
        const struct toml_node *node = core_toml_get(root, key);
        assert_ptr_equal(node, core_toml_at(root, (size_t)i));
        assert_int_equal(node->as.integer, i);
    }
    assert_null(core_toml_get(root, "key-1"));
    core_toml_free(doc);
    free(text);
}

static void test_json(void **state)
{
    (void)state;
    ACCEPT_TAGS(
        "a=1\nb=1.5\nc=true\nd='x'\ne=[2,{f=inf}]",
        "{\"a\":{\"type\":\"integer\",\"value\":\"1\"},\"b\":{\"type\":\"float\",\"value\":\"1.5\"},"
        "\"c\":{\"type\":\"bool\",\"value\":\"true\"},\"d\":{\"type\":\"string\",\"value\":\"x\"},"
        "\"e\":[{\"type\":\"integer\",\"value\":\"2\"},{\"f\":{\"type\":\"float\",\"value\":\"inf\"}}]}");
    ACCEPT("a=\"\\u0001\\u001f\\u007f\"", "{\"a\":\"\\u0001\\u001f\\u007f\"}");
    struct toml_doc *doc = parse("a=1", 3);
    FILE *full = fopen("/dev/full", "w");
    assert_non_null(full);
    assert_int_equal(setvbuf(full, NULL, _IONBF, 0), 0);
    assert_int_equal(core_toml_print_json(core_toml_root(doc), full, 0), -EIO);
    assert_int_equal(fclose(full), 0);
    core_toml_free(doc);
}

/* Nothing of a document reaches a terminal raw, and nothing pushes the cause out of the message. */
static void test_messages(void **state)
{
    (void)state;
    REFUSE("\"\\u001b[2J\\u202e\\u009b\"=1\n\"\\u001b[2J\\u202e\\u009b\"=1",
           "2:1: the key \"\\u001B[2J\\u202E\\u009B\" is defined already");
    char text[1300] = "";
    memset(text, 'k', 1200);
    char expected[160];
    (void)snprintf(expected, sizeof(expected), "1:1201: expected \"=\" after the key \"%.90s...\", found the",
                   text); /* fits */
    refuse_with(text, 1200, expected);

    char file_name[1000];
    memset(file_name, 'd', sizeof(file_name) - 1);
    file_name[sizeof(file_name) - 1] = '\0';
    struct kern_error err = {0};
    struct toml_doc *untouched = NULL;
    assert_int_equal(core_toml_parse("a", 1, file_name, &untouched, &err), -EINVAL);
    assert_memory_equal(err.message, "...ddd", 6);
    assert_non_null(strstr(err.message, "d:1:2: expected \"=\""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_characters),
        cmocka_unit_test(test_statements),
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_strings),
        cmocka_unit_test(test_multiline_strings),
        cmocka_unit_test(test_integers),
        cmocka_unit_test(test_floats),
        cmocka_unit_test(test_booleans),
        cmocka_unit_test(test_dates),
        cmocka_unit_test(test_times),
        cmocka_unit_test(test_arrays),
        cmocka_unit_test(test_inline_tables),
        cmocka_unit_test(test_duplicates_and_dotted_keys),
        cmocka_unit_test(test_table_headers),
        cmocka_unit_test(test_arrays_of_tables),
        cmocka_unit_test(test_depth_is_bounded),
        cmocka_unit_test(test_size_is_bounded),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_tree),
        cmocka_unit_test(test_many_keys),
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
