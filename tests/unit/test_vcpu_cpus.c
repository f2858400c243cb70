/* Sets of CPUs of the vcpu plugin: what is a list, what is not, and that a set comes back as it went in. */
#include "vcpu_cpus.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>

static void lists_round_trip(void **state)
{
    (void)state; /* no fixture */
    static const struct {
        const char *in, *out;
    } row[] = {
        {"0", "0"},   {"0-2,4", "0-2,4"}, {"4,0-2", "0-2,4"}, {"1,2,3", "1-3"},
        {"5-5", "5"}, {"63-64", "63-64"}, {"8191", "8191"},   {"", ""},
    };
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
        struct vcpu_cpus cpus;
        static struct vcpu_cpus_text text;
        assert_int_equal(vcpu_cpus_parse(row[i].in, &cpus), 0);
        vcpu_cpus_format(&cpus, &text);
        assert_string_equal(text.text, row[i].out);
    }
}

static void every_second_cpu_fits(void **state)
{
    (void)state; /* no fixture */
    struct vcpu_cpus cpus, again;
    memset(&cpus, 0xaa, sizeof(cpus));
    static struct vcpu_cpus_text text;
    vcpu_cpus_format(&cpus, &text);
    assert_int_equal(vcpu_cpus_parse(text.text, &again), 0);
    assert_memory_equal(&cpus, &again, sizeof(cpus));
}

static void what_is_no_list_is_refused(void **state)
{
    (void)state; /* no fixture */
    static const struct {
        const char *text;
        int result;
    } row[] = {
        {"a", -EINVAL},     {"1,", -EINVAL},
        {",1", -EINVAL},    {"1-", -EINVAL},
        {"3-1", -EINVAL},   {"1 ", -EINVAL},
        {"-1", -EINVAL},    {"0-7:2", -EINVAL},
        {"8192", -ERANGE},  {"1,,2", -EINVAL},
        {"\n", -EINVAL},    {"0x1", -EINVAL},
        {"1-2-3", -EINVAL}, {"18446744073709551617", -ERANGE},
    };
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
        struct vcpu_cpus cpus = {{7}};
        assert_int_equal(vcpu_cpus_parse(row[i].text, &cpus), row[i].result);
        assert_int_equal(cpus.word[0], 7); /* untouched on failure */
    }
}

static void intersection(void **state)
{
    (void)state; /* no fixture */
    struct vcpu_cpus a, b;
    static struct vcpu_cpus_text text;
    assert_int_equal(vcpu_cpus_parse("0-7", &a), 0);
    assert_int_equal(vcpu_cpus_parse("4-12", &b), 0);
    vcpu_cpus_intersect(&a, &b);
    vcpu_cpus_format(&a, &text);
    assert_string_equal(text.text, "4-7");
    assert_int_equal(vcpu_cpus_is_empty(&a), 0);
    assert_int_equal(vcpu_cpus_parse("100", &b), 0);
    vcpu_cpus_intersect(&a, &b);
    assert_int_equal(vcpu_cpus_is_empty(&a), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_round_trip),
        cmocka_unit_test(every_second_cpu_fits),
        cmocka_unit_test(what_is_no_list_is_refused),
        cmocka_unit_test(intersection),
    };
    return cmocka_run_group_tests_name("vcpu_cpus", tests, NULL, NULL);
}
