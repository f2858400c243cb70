/* The error object: the first cause wins, hints, context in front, and texts that do not fit. Pure. */
#include "error.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void test_what_a_failure_holds(void **state)
{
    (void)state;
    struct kern_error err = {0};
    assert_false(core_error_is_set(&err));
    assert_int_equal(kern_fail(&err, EACCES, "cannot open \"%s\"", "/x"), -EACCES);
    assert_true(core_error_is_set(&err));
    assert_int_equal(err.category, KERN_ERROR_BUILD);
    assert_int_equal(err.code, EACCES);
    assert_string_equal(err.message, "cannot open \"/x\": Permission denied");
    assert_string_equal(err.hint, "");
}

static void test_a_refusal_without_an_errno(void **state)
{
    (void)state;
    struct kern_error err = {0};
    assert_int_equal(kern_refuse(&err, 0, "unknown profile %d", 7), -EINVAL);
    assert_int_equal(err.category, KERN_ERROR_REFUSED);
    assert_int_equal(err.code, 0);
    assert_string_equal(err.message, "unknown profile 7");
    err = (struct kern_error){0};
    assert_int_equal(kern_refuse(&err, 99999, "odd"), -99999);
    assert_string_equal(err.message, "odd: unknown error");
}

static void test_the_first_cause_wins(void **state)
{
    (void)state;
    struct kern_error err = {0};
    (void)kern_fail(&err, ENOENT, "first"); /* seen in err */
    assert_int_equal(kern_refuse(&err, EBUSY, "second"), -EBUSY);
    assert_string_equal(err.message, "first: No such file or directory");
    assert_int_equal(err.category, KERN_ERROR_BUILD);
    assert_int_equal(err.code, ENOENT);
}

static void test_the_first_hint_stays(void **state)
{
    (void)state;
    struct kern_error err = {0};
    (void)kern_refuse(&err, 0, "no"); /* seen in err */
    kern_hint(&err, "chmod %o %s", 0755u, "x");
    kern_hint(&err, "another");
    assert_string_equal(err.hint, "chmod 755 x");
}

static void test_context_goes_in_front(void **state)
{
    (void)state;
    struct kern_error err = {0};
    (void)kern_fail(&err, EIO, "cannot read"); /* seen in err */
    assert_int_equal(kern_wrap(&err, "kern.toml line %d", 3), -EIO);
    assert_string_equal(err.message, "kern.toml line 3: cannot read: Input/output error");
    assert_int_equal(kern_wrap(&err, "config"), -EIO);
    assert_string_equal(err.message, "config: kern.toml line 3: cannot read: Input/output error");
    assert_int_equal(err.code, EIO);
}

static void test_nothing_to_wrap(void **state)
{
    (void)state;
    struct kern_error err = {0};
    assert_int_equal(kern_wrap(&err, "config"), -EINVAL);
    assert_false(core_error_is_set(&err));
    assert_string_equal(err.message, "");
    (void)kern_refuse(&err, 0, "no"); /* seen in err */
    assert_int_equal(kern_wrap(&err, "config"), -EINVAL);
    assert_string_equal(err.message, "config: no");
}

static void test_nobody_wants_to_know(void **state)
{
    (void)state;
    assert_int_equal(kern_fail(NULL, EPERM, "x"), -EPERM);
    assert_int_equal(kern_refuse(NULL, 0, "x"), -EINVAL);
    assert_int_equal(kern_wrap(NULL, "x"), -EINVAL);
    kern_hint(NULL, "x");
}

/* A guard behind the message shows whether a byte too many is written. */
static void test_a_text_that_does_not_fit_is_cut(void **state)
{
    (void)state;
    char text[2000];
    memset(text, 't', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    struct kern_error err = {0};
    assert_int_equal(kern_fail(&err, EIO, "%s", text), -EIO);
    assert_int_equal(strlen(err.message), sizeof(err.message) - 1);
    assert_string_equal(err.hint, "");
    assert_int_equal(kern_wrap(&err, "front"), -EIO);
    assert_memory_equal(err.message, "front: ttt", 10);
    assert_int_equal(strlen(err.message), sizeof(err.message) - 1);
    assert_string_equal(err.hint, "");
    kern_hint(&err, "%s", text);
    assert_int_equal(strlen(err.hint), sizeof(err.hint) - 1);
}

static void test_a_reason_that_does_not_fit_is_cut(void **state)
{
    (void)state;
    for (size_t length = sizeof(((struct kern_error *)NULL)->message) - 40;
         length < sizeof(((struct kern_error *)NULL)->message) + 4; length++) {
        struct kern_error err = {0};
        char text[600] = "";
        memset(text, 't', length);
        (void)kern_fail(&err, EIO, "%s", text); /* seen in err */
        size_t kept = length < sizeof(err.message) - 1 ? length : sizeof(err.message) - 1;
        assert_memory_equal(err.message, text, kept);
        assert_true(strlen(err.message) >= kept && strlen(err.message) < sizeof(err.message));
        assert_string_equal(err.hint, "");
    }
}

/* Context that leaves no room for the cause is dropped: the cause counts. */
static void test_context_that_does_not_fit_is_dropped(void **state)
{
    (void)state;
    char text[600];
    memset(text, 'c', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    struct kern_error err = {0};
    (void)kern_fail(&err, EIO, "cause"); /* seen in err */
    assert_int_equal(kern_wrap(&err, "%s", text), -EIO);
    assert_string_equal(err.message, "cause: Input/output error");
}

static void test_who_was_at_work(void **state)
{
    (void)state;
    struct kern_error err = {0};
    core_error_context(&err, NULL, "load");
    core_error_context(&err, "vcpu", "prepare");
    core_error_context(&err, "seccomp", "enter");
    assert_string_equal(err.plugin, "vcpu");
    assert_string_equal(err.phase, "load");
    struct kern_error other = {0};
    core_error_context(&other, "a-name-that-is-longer-than-any-plugin-may-have", "a-very-long-phase-name");
    assert_int_equal(strlen(other.plugin), sizeof(other.plugin) - 1);
    assert_int_equal(strlen(other.phase), sizeof(other.phase) - 1);
    assert_string_equal(other.message, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_a_failure_holds),
        cmocka_unit_test(test_a_refusal_without_an_errno),
        cmocka_unit_test(test_the_first_cause_wins),
        cmocka_unit_test(test_the_first_hint_stays),
        cmocka_unit_test(test_context_goes_in_front),
        cmocka_unit_test(test_nothing_to_wrap),
        cmocka_unit_test(test_nobody_wants_to_know),
        cmocka_unit_test(test_a_text_that_does_not_fit_is_cut),
        cmocka_unit_test(test_a_reason_that_does_not_fit_is_cut),
        cmocka_unit_test(test_context_that_does_not_fit_is_dropped),
        cmocka_unit_test(test_who_was_at_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
