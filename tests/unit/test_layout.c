/* The layout of what plugins define and kern reads: the table and its options are not reached from any function, so abidiff does not
 * see them. A number here changes only together with KERN_ABI; a field that is appended adds a line. */
#include "kern/plugin.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

struct place {
    const char *field;
    size_t found, recorded;
};

#define AT(type, field, offset)                                \
    {                                                          \
#type "." #field, offsetof(struct type, field), offset \
    }

static void layout(void **unused)
{
    (void)unused;
    static const struct place places[] = {
        AT(kern_plugin, struct_size, 0), AT(kern_plugin, abi, 4),       AT(kern_plugin, name, 8),
        AT(kern_plugin, version, 16),    AT(kern_plugin, summary, 24),  AT(kern_plugin, stage, 32),
        AT(kern_plugin, flags, 36),      AT(kern_plugin, after, 40),    AT(kern_plugin, before, 48),
        AT(kern_plugin, profile, 56),    AT(kern_plugin, pool, 64),     AT(kern_plugin, options, 72),
        AT(kern_plugin, state_size, 80), AT(kern_plugin, prepare, 88),  AT(kern_plugin, enter, 96),
        AT(kern_plugin, teardown, 104),  AT(kern_plugin, check, 112),   AT(kern_option, name, 0),
        AT(kern_option, type, 8),        AT(kern_option, flags, 12),    AT(kern_option, fallback, 16),
        AT(kern_option, arg, 24),        AT(kern_option, help, 32),     AT(kern_option, choices, 40),
        AT(kern_option, min, 48),        AT(kern_option, max, 56),      AT(kern_option, letter, 64),
        AT(kern_option, alias, 72),      AT(kern_option, implied, 80),  AT(kern_error, category, 0),
        AT(kern_error, code, 4),         AT(kern_error, plugin, 8),     AT(kern_error, phase, 40),
        AT(kern_error, message, 56),     AT(kern_error, hint, 568),     AT(kern_rule, call, 4),
        AT(kern_rule, arg_count, 16),    AT(kern_rule, arg, 24),        AT(kern_call, cookie, 8),
        AT(kern_call, listener, 16),     AT(kern_call, arg, 24),        AT(kern_call, result, 72),
        AT(kern_call, error, 80),        AT(kern_outcome, started, 12), AT(kern_outcome, fault, 16),
        AT(kern_event, event, 4),        AT(kern_event, count, 8),      AT(kern_event, kind, 16),
        AT(kern_event, what, 24),        AT(kern_event, reason, 32),
    };
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
        if (places[i].found != places[i].recorded)
            fail_msg("%s stands at %zu, it was at %zu", places[i].field, places[i].found, places[i].recorded);
    /* Options stand in arrays, so theirs is the one structure that cannot grow: not without another KERN_ABI. */
    assert_int_equal(sizeof(struct kern_option), 88);
    assert_int_equal(sizeof(struct kern_error), 984);
    assert_true(sizeof(struct kern_plugin) >= 120);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(layout)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
