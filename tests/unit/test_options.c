/* Options and their values: syntax of sizes, durations and numbers, bounds, ranks, lists, getters, the
 * nearest word, and the judgement of [[vcpu]] profiles. Pure; no privileges, no files but the ones that must
 * exist. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "catalog.h"
#include "options.h"
#include "vcpu/vcpu_check.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const words[] = {"none", "host", NULL};

static const struct kern_option table[] = {
    {.name = "memory",
     .type = KERN_SIZE,
     .flags = KERN_OPT_FLAG,
     .fallback = "512m",
     .min = 1,
     .max = INT64_MAX},
    {.name = "pids-limit",
     .type = KERN_INT,
     .flags = KERN_OPT_FLAG,
     .fallback = "512",
     .min = 2,
     .max = 4194304},
    {.name = "cpus", .type = KERN_FLOAT, .flags = KERN_OPT_FLAG, .min = 1, .max = 4096000},
    {.name = "timeout", .type = KERN_DURATION, .flags = KERN_OPT_FLAG, .min = 1, .max = 3600000},
    {.name = "init", .type = KERN_BOOL, .flags = KERN_OPT_FLAG},
    {.name = "net",
     .type = KERN_ENUM,
     .flags = KERN_OPT_FLAG | KERN_OPT_OPTIONAL,
     .fallback = "none",
     .implied = "host",
     .choices = words},
    {.name = "env", .type = KERN_STRING, .flags = KERN_OPT_FLAG | KERN_OPT_LIST},
    {.name = "cap-drop", .type = KERN_STRING, .flags = KERN_OPT_FLAG | KERN_OPT_LIST | KERN_OPT_COMMAS},
    {.name = "there", .type = KERN_PATH, .flags = KERN_OPT_FLAG | KERN_OPT_MUST_EXIST},
    {.name = "detach", .type = KERN_BOOL, .flags = KERN_OPT_FLAG | KERN_OPT_LATER},
    {.name = "other", .type = KERN_STRING, .flags = KERN_OPT_PROFILE},
    {.name = NULL},
};

static int make_values(void **state)
{
    struct kern_values *values = calloc(1, sizeof(*values));
    *state = values;
    return values != NULL ? core_values_add(values, table, KERN_OPT_FLAG, NULL) : -ENOMEM;
}

static int drop_values(void **state)
{
    core_values_clear(*state);
    free(*state);
    return 0;
}

static int set(void **state, const char *name, const char *text, int32_t source, struct kern_error *err)
{
    char where[32];
    (void)snprintf(where, sizeof(where), "--%s", name);
    return core_value_set(core_values_find(*state, name), text, source, where, err);
}

static void assert_refused(void **state, const char *name, const char *text, const char *message)
{
    struct kern_error err = {0};
    assert_true(set(state, name, text, KERN_FROM_FLAG, &err) < 0);
    assert_string_equal(err.message, message);
    assert_int_equal(err.category, KERN_ERROR_REFUSED);
}

static void sizes_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {
        {"0", 0},
        {"1", 1},
        {"512m", UINT64_C(512) << 20},
        {"2 GB", UINT64_C(2) << 30},
        {"2g", UINT64_C(2) << 30},
        {"2GiB", UINT64_C(2) << 30},
        {"1.5g", UINT64_C(3) << 29},
        {"0.5k", 512},
        {".5k", 512},
        {"10 B", 10},
        {"3KB", 3072},
        {"1t", UINT64_C(1) << 40},
        {"18446744073709551615", UINT64_MAX},
        {"0.0000000000000000000000001k", 0},
        {"16777215t", UINT64_C(16777215) << 40},
    };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        uint64_t bytes = 77;
        assert_int_equal(core_parse_size(good[i].text, "--memory", &bytes, NULL), 0);
        assert_int_equal(bytes, good[i].bytes);
    }
}

static void bad_sizes_are_refused_with_their_text(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "m",
                                      "-1",
                                      "+1",
                                      "1x",
                                      "1 ",
                                      "1.",
                                      ".",
                                      ".g",
                                      "-.5g",
                                      "1.g",
                                      "1 mm",
                                      "1e3",
                                      "1,5g",
                                      "0x10",
                                      "nan",
                                      "18446744073709551616",
                                      "16777216t",
                                      "99999999999999999999g"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        uint64_t bytes = 77;
        struct kern_error err = {0};
        assert_true(core_parse_size(bad[i], "--memory", &bytes, &err) < 0);
        assert_int_equal(bytes, 77);
        assert_non_null(strstr(err.message, "--memory"));
        assert_non_null(strstr(err.message, bad[i]));
    }
}

static void durations_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t ms;
    } good[] = {{"1", 1000},       {"1.5", 1500},  {".5", 500},     {"0.001", 1},
                {"500ms", 500},    {"2m", 120000}, {"1h", 3600000}, {"3 s", 3000},
                {"0.5h", 1800000}, {"0", 0},       {"0.0001", 0}};
    static const char *const bad[] = {"",  "-1", "1d", "s", "1.5.5", "nan", "inf", "9223372036854775807",
                                      "1 "};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        int64_t ms = 77;
        assert_int_equal(core_parse_duration(good[i].text, "--timeout", &ms, NULL), 0);
        assert_int_equal(ms, good[i].ms);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        int64_t ms = 77;
        struct kern_error err = {0};
        assert_true(core_parse_duration(bad[i], "--timeout", &ms, &err) < 0);
        assert_int_equal(ms, 77);
        assert_non_null(strstr(err.message, bad[i]));
    }
}

static void numbers_are_read(void **state)
{
    (void)state;
    int64_t number = 0;
    double real = 0;
    assert_int_equal(core_parse_int("-9223372036854775808", "n", &number, NULL), 0);
    assert_true(number == INT64_MIN);
    assert_int_equal(core_parse_int("+7", "n", &number, NULL), 0);
    assert_int_equal(number, 7);
    static const char *const bad_int[] = {"",   "-", "1.0", "0x1", "1_0", " 1", "1 ", "9223372036854775808",
                                          "nan"};
    for (size_t i = 0; i < sizeof(bad_int) / sizeof(bad_int[0]); i++)
        assert_true(core_parse_int(bad_int[i], "n", &number, NULL) < 0);
    assert_int_equal(number, 7);
    assert_int_equal(core_parse_float("-1.5e2", "x", &real, NULL), 0);
    assert_true(fabs(real + 150.0) < 1e-9);
    static const char *const bad_float[] = {"",   "nan", "inf",   "-inf",  "0x1p3", " 1",
                                            "1 ", "1e",  "1e999", "1.2.3", "."};
    for (size_t i = 0; i < sizeof(bad_float) / sizeof(bad_float[0]); i++)
        assert_true(core_parse_float(bad_float[i], "x", &real, NULL) < 0);
    assert_true(fabs(real + 150.0) < 1e-9);
}

static void bounds_are_named(void **state)
{
    assert_refused(state, "memory", "0", "--memory: \"0\" is out of range: it must be at least 1 byte");
    assert_refused(state, "memory", "9223372036854775808",
                   "--memory: \"9223372036854775808\" is larger than any limit the kernel knows");
    assert_refused(state, "pids-limit", "1",
                   "--pids-limit: \"1\" is out of range: it must be from 2 to 4194304");
    assert_refused(state, "cpus", "-1", "--cpus: \"-1\" is out of range: it must be from 0.001 to 4096");
    assert_refused(state, "cpus", "0", "--cpus: \"0\" is out of range: it must be from 0.001 to 4096");
    assert_refused(state, "cpus", "nan", "--cpus: \"nan\" is not a number");
    assert_refused(state, "cpus", "inf", "--cpus: \"inf\" is not a number");
    assert_refused(state, "timeout", "0",
                   "--timeout: \"0\" is out of range: it must be from 1 ms to 3600 seconds");
    assert_refused(state, "init", "maybe", "--init: \"maybe\" is neither true nor false");
    assert_refused(state, "there", "/no/such/path",
                   "--there: cannot find \"/no/such/path\": No such file or directory");
    assert_refused(state, "there", "", "--there: the path is empty");
    assert_refused(state, "cpus", NULL, "--cpus needs a value: a number");
    assert_refused(state, "detach", NULL, "--detach is not available in this build");
    assert_int_equal(kern_get_int(*state, "memory"), INT64_C(512) << 20);
}

static void a_wrong_word_gets_the_choices_and_the_nearest(void **state)
{
    struct kern_error err = {0};
    assert_true(set(state, "net", "hots", KERN_FROM_FLAG, &err) < 0);
    assert_string_equal(err.message, "--net: \"hots\" is not known; it can be: none, host");
    assert_string_equal(err.hint, "did you mean \"host\"?");
}

static void messages_cannot_write_to_a_terminal(void **state)
{
    struct kern_error err = {0};
    assert_true(set(state, "pids-limit", "\033[2J", KERN_FROM_FLAG, &err) < 0);
    assert_null(strchr(err.message, '\033'));
}

static void a_place_in_a_file_is_named_with_the_key(void **state)
{
    struct kern_error err = {0};
    struct core_value *value = core_values_find(*state, "memory");
    assert_true(core_value_set(value, "0", KERN_FROM_CONFIG, "kern.toml:12:3", &err) < 0);
    assert_string_equal(err.message,
                        "kern.toml:12:3: memory: \"0\" is out of range: it must be at least 1 byte");
}

static void a_higher_rank_wins_whatever_comes_first(void **state)
{
    assert_int_equal(kern_get_source(*state, "memory"), KERN_FROM_DEFAULT);
    assert_int_equal(set(state, "memory", "1g", KERN_FROM_FLAG, NULL), 0);
    assert_int_equal(set(state, "memory", "2g", KERN_FROM_PROFILE, NULL), 0);
    assert_int_equal(kern_get_int(*state, "memory"), INT64_C(1) << 30);
    assert_int_equal(kern_get_source(*state, "memory"), KERN_FROM_FLAG);
    assert_int_equal(set(state, "memory", "3g", KERN_FROM_FLAG, NULL), 0);
    assert_string_equal(kern_get_string(*state, "memory"), "3g");
    /* Wrong is wrong, even where another value counts. */
    assert_true(set(state, "memory", "0", KERN_FROM_CONFIG, NULL) < 0);
}

static void lists_grow_in_a_rank_and_are_replaced_by_a_higher(void **state)
{
    assert_int_equal(set(state, "env", "A=1", KERN_FROM_CONFIG, NULL), 0);
    assert_int_equal(set(state, "env", "B=2,3", KERN_FROM_CONFIG, NULL), 0);
    assert_int_equal(kern_get_count(*state, "env"), 2);
    assert_string_equal(kern_get_item(*state, "env", 1), "B=2,3");
    assert_int_equal(set(state, "env", "C=3", KERN_FROM_FLAG, NULL), 0);
    assert_int_equal(set(state, "env", "D=4", KERN_FROM_CONFIG, NULL), 0);
    assert_int_equal(kern_get_count(*state, "env"), 1);
    assert_string_equal(kern_get_item(*state, "env", 0), "C=3");
    assert_string_equal(kern_get_string(*state, "env"), "C=3");
    assert_null(kern_get_item(*state, "env", 1));
}

static void commas_split_only_where_the_table_says_so(void **state)
{
    assert_int_equal(set(state, "cap-drop", "CHOWN,KILL", KERN_FROM_FLAG, NULL), 0);
    assert_int_equal(kern_get_count(*state, "cap-drop"), 2);
    assert_string_equal(kern_get_item(*state, "cap-drop", 1), "KILL");
    assert_refused(state, "cap-drop", "FOWNER,,MKNOD", "--cap-drop: an item of the list is empty");
    assert_int_equal(kern_get_count(*state, "cap-drop"), 2);
}

static void a_value_may_be_left_out_where_that_means_something(void **state)
{
    assert_int_equal(set(state, "net", NULL, KERN_FROM_FLAG, NULL), 0);
    assert_string_equal(kern_get_string(*state, "net"), "host");
    assert_int_equal(set(state, "init", NULL, KERN_FROM_FLAG, NULL), 0);
    assert_int_equal(kern_get_int(*state, "init"), 1);
    assert_int_equal(set(state, "init", "OFF", KERN_FROM_FLAG, NULL), 0);
    assert_string_equal(kern_get_string(*state, "init"), "false");
}

static void getters_answer_for_what_is_not_there(void **state)
{
    assert_null(kern_get_string(*state, "nothing"));
    assert_null(kern_get_string(NULL, "memory"));
    assert_null(kern_get_string(*state, "cpus"));
    assert_int_equal(kern_get_int(*state, "nothing"), 0);
    assert_int_equal(kern_get_count(*state, "nothing"), 0);
    assert_int_equal(kern_get_count(*state, "cpus"), 0);
    assert_int_equal(kern_get_count(*state, "memory"), 1);
    assert_string_equal(kern_get_item(*state, "memory", 0), "512m");
    assert_null(kern_get_item(*state, "memory", 1));
    assert_null(core_values_find(*state, "other")); /* its flags do not meet the mask */
    assert_true(kern_get_float(*state, "pids-limit") > 511.9);
}

static void a_table_with_a_bad_default_leaves_the_values_as_they_were(void **state)
{
    static const struct kern_option faulty[] = {
        {.name = "good", .type = KERN_STRING, .flags = KERN_OPT_FLAG, .fallback = "x"},
        {.name = "bad", .type = KERN_INT, .flags = KERN_OPT_FLAG, .fallback = "x"},
        {.name = NULL},
    };
    struct kern_values *values = *state;
    size_t before = values->count;
    struct kern_error err = {0};
    assert_true(core_values_add(values, faulty, KERN_OPT_FLAG, &err) < 0);
    assert_int_equal(values->count, before);
    assert_string_equal(err.message, "default: bad: \"x\" is not a whole number");
}

static void the_end_of_a_long_place_is_kept(void **state)
{
    char where[200];
    memset(where, 'x', sizeof(where));
    memcpy(where + sizeof(where) - sizeof("kern.toml:12:3"), "kern.toml:12:3", sizeof("kern.toml:12:3"));
    struct core_value *value = core_values_find(*state, "memory");
    assert_int_equal(core_value_set(value, "1g", KERN_FROM_CONFIG, where, NULL), 0);
    assert_int_equal(strlen(value->where), sizeof(value->where) - 1);
    assert_memory_equal(value->where, "...xxx", 6);
    assert_non_null(strstr(value->where, "kern.toml:12:3"));
}

static void the_nearest_word_is_found(void **state)
{
    (void)state;
    static const char *const known[] = {"memory", "memory-swap-max", "pids-limit", "cpus", "net", "nice",
                                        NULL};
    assert_string_equal(core_nearest("memroy", known), "memory");
    assert_string_equal(core_nearest("Memory", known), "memory");
    assert_string_equal(core_nearest("pids_limt", known), "pids-limit");
    assert_string_equal(core_nearest("cpu", known), "cpus");
    assert_string_equal(core_nearest("nte", known), "net");
    assert_string_equal(core_nearest("mem", known), "memory");
    assert_string_equal(core_nearest("memory-swap", known), "memory-swap-max");
    assert_null(core_nearest("me", known));
    assert_null(core_nearest("volume", known));
    assert_null(core_nearest("x", known));
    assert_null(core_nearest("", known));
    char endless[300];
    memset(endless, 'm', sizeof(endless) - 1);
    endless[sizeof(endless) - 1] = '\0';
    assert_null(core_nearest(endless, known));
}

/* ---- The catalog, and the judgement of vcpu ----------------------------------------------------------- */

static void the_catalog_knows_its_rows(void **state)
{
    (void)state;
    static const char *const always[] = {"core", "namespace", "rootfs",  "cgroup",
                                         "net",  "creds",     "seccomp", NULL};
    struct core_catalog catalog = {0};
    assert_int_equal(core_catalog_builtin(&catalog, NULL), 0);
    assert_string_equal(catalog.plugin[0].name, "core");
    for (const char *const *name = always; *name != NULL; name++) {
        assert_non_null(core_catalog_find(&catalog, *name));
        assert_true(core_catalog_find(&catalog, *name)->always);
    }
    assert_false(core_catalog_find(&catalog, "vcpu")->always);
    assert_false(core_catalog_find(&catalog, "example")->wanted);
    assert_ptr_equal(core_catalog_kind(&catalog, "vcpu"), core_catalog_find(&catalog, "vcpu"));
    assert_null(core_catalog_kind(&catalog, "cpu"));
    assert_null(core_catalog_kind(&catalog, "nosuch"));

    struct core_plugin *added = NULL;
    struct kern_error err = {0};
    const struct kern_plugin thief = {.name = "thief", .profile = "cpu"};
    assert_true(core_catalog_add(&catalog, &thief, "/x.so", &added, &err) < 0);
    assert_string_equal(err.message, "cannot add plugin \"thief\": plugin \"vcpu\" already serves \"cpu\"");
    const struct kern_plugin greedy = {.name = "greedy", .profile = "box"};
    assert_true(core_catalog_add(&catalog, &greedy, NULL, &added, NULL) < 0);
    const struct kern_plugin twin = {.name = "net"};
    assert_true(core_catalog_add(&catalog, &twin, NULL, &added, NULL) < 0);
    assert_null(added);
    const struct kern_plugin hello = {.name = "hello", .profile = "hello", .options = table};
    assert_int_equal(core_catalog_add(&catalog, &hello, "/hello.so", &added, NULL), 0);
    assert_string_equal(added->path, "/hello.so");
    assert_string_equal(kern_get_string(&added->own, "memory"), "512m");
    core_catalog_clear(&catalog);
    core_catalog_clear(NULL);
}

struct judged {
    const char *cpus, *memory, *cpuset, *numa;
};

static void fill(struct kern_values *values, uint32_t mask, const char *cpus, const struct judged *with)
{
    struct core_catalog catalog = {0};
    assert_int_equal(core_catalog_builtin(&catalog, NULL), 0);
    const struct kern_plugin *vcpu = core_catalog_find(&catalog, "vcpu")->table;
    assert_int_equal(core_values_add(values, vcpu->options, mask, NULL), 0);
    const char *const names[] = {cpus, "memory", "cpuset", "numa"};
    const char *const texts[] = {with->cpus, with->memory, with->cpuset, with->numa};
    for (int i = 0; i < 4; i++)
        if (texts[i] != NULL)
            assert_int_equal(
                core_value_set(core_values_find(values, names[i]), texts[i], KERN_FROM_CONFIG, "x", NULL), 0);
    core_catalog_clear(&catalog);
}

static void assert_judged(struct judged profile, const struct judged *pool, const char *message)
{
    struct kern_values mine = {0}, its = {0};
    struct kern_error err = {0};
    fill(&mine, KERN_OPT_PROFILE, "cpus", &profile);
    if (pool != NULL) {
        fill(&its, KERN_OPT_POOL, "cores", pool);
        assert_int_equal(core_value_set(core_values_find(&its, "id"), "p", KERN_FROM_CONFIG, "x", NULL), 0);
    }
    int r = vcpu_check(&mine, pool != NULL ? &its : NULL, &err);
    assert_string_equal(err.message, message);
    assert_int_equal(r < 0, message[0] != '\0');
    core_values_clear(&mine);
    core_values_clear(&its);
}

static void a_profile_may_not_outgrow_its_pool(void **state)
{
    (void)state;
    const struct judged pool = {.cpus = "2", .memory = "1g", .cpuset = "0-2,5", .numa = "0"};
    const struct judged empty = {0};
    assert_judged((struct judged){.cpus = "64"}, NULL, "");
    assert_judged((struct judged){.cpus = "64", .memory = "9g", .cpuset = "7", .numa = "3"}, &empty, "");
    assert_judged((struct judged){.cpus = "2", .memory = "1024m", .cpuset = "1-2,5", .numa = "0"}, &pool, "");
    assert_judged((struct judged){.cpus = "2.001"}, &pool,
                  "cpus = 2.001 is more than the 2 cores of pool \"p\"");
    assert_judged((struct judged){.memory = "2g"}, &pool, "memory = 2g is more than the 1g of pool \"p\"");
    assert_judged((struct judged){.cpuset = "0-3"}, &pool,
                  "cpuset \"0-3\" wants CPU 3, which pool \"p\" (cpuset \"0-2,5\") does not have");
    assert_judged((struct judged){.numa = "1"}, &pool, "numa = 1 is not the node of pool \"p\", which is 0");
}

static void a_cpuset_must_be_one(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "", "x", "1-", "-1", "2-1", "1,,2", "1,", "1 2", "8192", "99999999999999", "1-2-3"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char message[160];
        (void)snprintf(message, sizeof(message),
                       "the profile: cpuset \"%s\" is not a list of CPUs such as \"0-2,4\"", bad[i]);
        assert_judged((struct judged){.cpuset = bad[i]}, NULL, message);
    }
    assert_judged((struct judged){.cpuset = "0-8191"}, NULL, "");
}

#define WITH_VALUES(test) cmocka_unit_test_setup_teardown(test, make_values, drop_values)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_read),
        cmocka_unit_test(bad_sizes_are_refused_with_their_text),
        cmocka_unit_test(durations_are_read),
        cmocka_unit_test(numbers_are_read),
        WITH_VALUES(bounds_are_named),
        WITH_VALUES(a_wrong_word_gets_the_choices_and_the_nearest),
        WITH_VALUES(messages_cannot_write_to_a_terminal),
        WITH_VALUES(a_place_in_a_file_is_named_with_the_key),
        WITH_VALUES(a_higher_rank_wins_whatever_comes_first),
        WITH_VALUES(lists_grow_in_a_rank_and_are_replaced_by_a_higher),
        WITH_VALUES(commas_split_only_where_the_table_says_so),
        WITH_VALUES(a_value_may_be_left_out_where_that_means_something),
        WITH_VALUES(getters_answer_for_what_is_not_there),
        WITH_VALUES(a_table_with_a_bad_default_leaves_the_values_as_they_were),
        WITH_VALUES(the_end_of_a_long_place_is_kept),
        cmocka_unit_test(the_nearest_word_is_found),
        cmocka_unit_test(the_catalog_knows_its_rows),
        cmocka_unit_test(a_profile_may_not_outgrow_its_pool),
        cmocka_unit_test(a_cpuset_must_be_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
