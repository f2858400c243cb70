/* The pure parts of a box's life: lines of a log, names of signals, words of --secret. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "attach_client.h"
#include "box.h"
#include "cleanup.h"
#include "engine.h"
#include "logfile.h"
#include "restart.h"
#include "secrets.h"
#include "signals.h"
#include "supervise.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <unistd.h>

static int parse(const char *text, struct core_log_line *ret_line)
{
    return core_logfile_parse(text, strlen(text), ret_line);
}

static void lines_of_a_log(void **state)
{
    (void)state;
    struct core_log_line line;
    assert_int_equal(parse("2026-01-02T03:04:05.123456789Z stdout F hello", &line), 0);
    assert_int_equal(line.stream, 1);
    assert_true(line.whole);
    assert_int_equal(line.length, 5);
    assert_memory_equal(line.text, "hello", 5);
    assert_int_equal(line.time_length, 30);
    assert_int_equal(parse("2026-01-02T03:04:05.123456789Z stderr P ", &line), 0);
    assert_int_equal(line.stream, 2);
    assert_false(line.whole);
    assert_int_equal(line.length, 0);
    static const char *const wrong[] = {"",
                                        " ",
                                        "hello",
                                        "2026-01-02T03:04:05.123456789Z",
                                        "2026-01-02T03:04:05.123456789Z stdout F",
                                        "2026-01-02T03:04:05.123456789Z stdout X x",
                                        "2026-01-02T03:04:05.123456789Z stdin F x",
                                        "short stdout F x",
                                        "2026-01-02T03:04:05.1234567890123456789Z stdout F x"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_int_not_equal(parse(wrong[i], &line), 0);
}

static void names_of_signals(void **state)
{
    (void)state;
    assert_int_equal(core_signal_number("SIGTERM"), SIGTERM);
    assert_int_equal(core_signal_number("term"), SIGTERM);
    assert_int_equal(core_signal_number("sigusr1"), SIGUSR1);
    assert_int_equal(core_signal_number("9"), SIGKILL);
    assert_int_equal(core_signal_number("64"), 64);
    assert_int_equal(core_signal_number("SIGRTMIN+3"), SIGRTMIN + 3);
    assert_int_equal(core_signal_number("rtmax-1"), SIGRTMAX - 1);
    assert_int_equal(core_signal_number("RTMIN"), SIGRTMIN);
    static const char *const wrong[] = {"",       "0",      "65",       "-1",      "100",
                                        "9x",     "SIG",    "TERMS",    " TERM",   "1 ",
                                        "RTMIN3", "RTMIN+", "RTMIN+99", "RTMAX+1", "RTMIN-1"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_int_equal(core_signal_number(wrong[i]), 0);
}

static void words_of_secrets(void **state)
{
    (void)state;
    struct core_secret secret;
    struct kern_error err = {0};
    assert_int_equal(core_secret_parse("/a/b", &secret, &err), 0);
    assert_string_equal(secret.path, "/a/b");
    assert_string_equal(secret.name, "b");
    assert_int_equal(core_secret_parse("a:b:c", &secret, &err), 0);
    assert_string_equal(secret.path, "a:b");
    assert_string_equal(secret.name, "c");
    assert_int_equal(core_secret_parse("key=-", &secret, &err), 0);
    assert_string_equal(secret.path, "-");
    assert_string_equal(secret.name, "key");
    static const char *const wrong[] = {"",      "=-",  ":",   ":x", "x:",   "x:a/b", "a/",
                                        "a b=-", ".=-", "x:.", "/",  "x:..", "../a=-"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        if (core_secret_parse(wrong[i], &secret, &err) == 0)
            fail_msg("\"%s\" was taken", wrong[i]);
}

static void words_of_restart(void **state)
{
    (void)state;
    enum core_restart policy = CORE_RESTART_NO;
    int64_t most = 10;
    assert_int_equal(core_restart_parse("always", &policy, &most), 0);
    assert_int_equal(policy, CORE_RESTART_ALWAYS);
    assert_int_equal(core_restart_parse("on-failure", &policy, &most), 0);
    assert_int_equal(policy, CORE_RESTART_FAILURE);
    assert_int_equal(most, 10);
    assert_int_equal(core_restart_parse("on-failure:3", &policy, &most), 0);
    assert_int_equal(most, 3);
    assert_int_equal(core_restart_parse("no", &policy, &most), 0);
    assert_int_equal(policy, CORE_RESTART_NO);
    static const char *const wrong[] = {
        "", "on-failure:", "on-failure:-1", "on-failure:1x", "on-failure:9999999", "yes"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_int_not_equal(core_restart_parse(wrong[i], &policy, &most), 0);
}

static void pauses_grow_to_a_minute(void **state)
{
    (void)state;
    assert_int_equal(core_restart_delay(0), 100);
    assert_int_equal(core_restart_delay(1), 200);
    assert_int_equal(core_restart_delay(5), 3200);
    assert_int_equal(core_restart_delay(50), 60000);
    assert_int_equal(core_restart_delay(UINT32_MAX), 60000);
}

static void keys_that_leave(void **state)
{
    (void)state;
    char out[16];
    size_t length = 0;
    bool held = false;
    assert_false(core_attach_keys(&held, "ab\x11", 3, out, &length));
    assert_int_equal(length, 3);
    assert_false(core_attach_keys(&held, "a\x10", 2, out, &length));
    assert_int_equal(length, 1);
    assert_false(core_attach_keys(&held, "q", 1, out, &length));
    assert_int_equal(length, 2);
    assert_memory_equal(out, "\x10q", 2);
    assert_false(core_attach_keys(&held, "\x10\x10", 2, out, &length));
    assert_int_equal(length, 1);
    assert_true(core_attach_keys(&held, "\x11zzz", 4, out, &length));
    assert_int_equal(length, 0);
    assert_false(held);
    assert_true(core_attach_keys(&held, "x\x10\x11", 3, out, &length));
    assert_int_equal(length, 1);
}

/* It would end kern, and the box would look killed. */
static void a_signal_between_two_runs_waits_for_the_next(void **state)
{
    (void)state;
    kern_box box;
    struct core_catalog catalog = {0};
    struct kern_error err = {0};
    struct signalfd_siginfo info;
    uint64_t first;
    core_box_init(&box);
    box.catalog = &catalog;
    box.shared = mmap(NULL, sizeof(*box.shared), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(box.shared, MAP_FAILED);
    memset(box.shared->tree, 0xff, sizeof(box.shared->tree)); /* all -1 */
    box.shared->inner_pidfd = box.shared->root_tree = -1;
    assert_int_equal(core_supervise_prepare(&box, &err), 0);
    first = box.child_sigmask;
    assert_int_equal(raise(SIGTERM), 0);
    core_restart_renew(&box);
    assert_int_equal(core_supervise_prepare(&box, &err), 0);
    assert_true(box.child_sigmask == first);
    assert_int_equal(read(box.signal_fd, &info, sizeof(info)), sizeof(info));
    assert_int_equal(info.ssi_signo, SIGTERM);
    core_box_clear(&box);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_of_a_log),
        cmocka_unit_test(names_of_signals),
        cmocka_unit_test(words_of_secrets),
        cmocka_unit_test(words_of_restart),
        cmocka_unit_test(keys_that_leave),
        cmocka_unit_test(pauses_grow_to_a_minute),
        cmocka_unit_test(a_signal_between_two_runs_waits_for_the_next),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
