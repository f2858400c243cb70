/* Rules that plugins contribute, joined to the built-in filters of both architectures and run through the
 * interpreter: they win, they cost others little, and what they may not do is refused. Pure. */
#include "seccomp_kit.h"
#include "seccomp_merge.h"

#include <sys/ioctl.h>
#include <sys/socket.h>

/* A merge on the test's own stack of instructions. */
struct merged {
    struct sock_filter code[BPF_MAXINSNS];
    struct program program;
};

static void merge(struct merged *merged, const struct program *base, const struct seccomp_rule *rules,
                  size_t count)
{
    struct kern_error err = {.category = KERN_ERROR_NONE};
    merged->program.machine = base->machine;
    merged->program.code = merged->code;
    if (seccomp_merge_rules_in(base->machine->arch, base->code, base->length, rules, count, merged->code,
                               BPF_MAXINSNS, &merged->program.length, &err) != 0)
        fail_msg("merge refused: %s", err.message);
}

static void test_merge_decides_first(void **state)
{
    (void)state; /* cmocka's signature */
    static struct merged merged;
    for (EACH_MACHINE(machine)) {
        struct program base = built_in(machine, SECCOMP_MODE_ALLOWLIST, 0, 1);
        const struct seccomp_rule rules[] = {
            {.nr = number_of(machine, "socket"),
             .arg_count = 1,
             .arg = {{.index = 0, .op = SECCOMP_OP_MASKED_EQ, .value = AF_INET, .mask = UINT32_MAX}},
             .action = NOTIFY},
            {.nr = number_of(machine, "mbind"), .action = ALLOW},
            {.nr = number_of(machine, "socket"),
             .arg_count = 2,
             .arg = {{.index = 0, .op = SECCOMP_OP_EQ, .value = AF_INET6},
                     {.index = 1, .op = SECCOMP_OP_NE, .value = SOCK_STREAM}},
             .action = SECCOMP_RET_ERRNO | EACCES},
            {.nr = number_of(machine, "ptrace"), .action = SECCOMP_RET_ERRNO | EPERM},
            {.nr = 9999, .action = SECCOMP_RET_ERRNO | EIO}};
        merge(&merged, &base, rules, COUNT(rules));
        expect(&merged.program, "socket", AF_INET, 0, NOTIFY);
        expect(&merged.program, "socket", GARBAGE | AF_INET, 0, NOTIFY);
        expect(&merged.program, "socket", AF_INET6, SOCK_STREAM, ALLOW);
        expect(&merged.program, "socket", AF_INET6, SOCK_DGRAM, SECCOMP_RET_ERRNO | EACCES);
        expect(&merged.program, "socket", GARBAGE | AF_INET6, SOCK_DGRAM, ALLOW);
        expect(&merged.program, "socket", AF_VSOCK, 0, NO_ONE);
        expect(&merged.program, "mbind", 0, 0, ALLOW);
        expect(&merged.program, "ptrace", 0, 0, DENIED);
        expect_number(&merged.program, 9999, 0, 0, SECCOMP_RET_ERRNO | EIO);
        expect_number(&merged.program, 9998, 0, 0, NOSYS);
        for (int nr = -1; nr < 600; nr++) {
            unsigned before = 0, after = 0;
            uint32_t action = run(&base, machine->arch->audit, nr, AF_UNIX, 0, &before);
            if (nr == number_of(machine, "mbind") || nr == number_of(machine, "ptrace"))
                continue;
            expect_number(&merged.program, nr, AF_UNIX, 0, action);
            (void)run(&merged.program, machine->arch->audit, nr, AF_UNIX, 0, &after); /* for the count */
            if (nr != number_of(machine, "socket") && after > before + 4)
                fail_msg("%s: call %d pays %u instructions for rules about others", machine->name, nr,
                         after - before);
            assert_int_equal(run(&merged.program, machine->foreign, nr, 0, 0, &after), KILL);
        }
        if (machine->is_x86)
            expect_number(&merged.program, 0x40000000, 0, 0, KILL);
    }
}

/* The comparisons, at their edges and across the halves of an argument. */
static void test_conditions(void **state)
{
    (void)state; /* cmocka's signature */
    static struct merged merged;
    const uint64_t values[] = {0,           1,           0xfffffffe,  0xffffffff,  0x100000000,
                               0x100000001, 0x1fffffffe, 0x1ffffffff, 0x200000000, UINT64_MAX - 1,
                               UINT64_MAX};
    for (uint32_t op = SECCOMP_OP_EQ; op <= SECCOMP_OP_MASKED_NE; op++) {
        for (size_t limit = 0; limit < COUNT(values); limit++) {
            uint64_t mask = limit % 2 ? 0xffffffff00000001u : 0x1u, value = values[limit];
            int masked = op == SECCOMP_OP_MASKED_EQ || op == SECCOMP_OP_MASKED_NE;
            value &= masked ? mask : UINT64_MAX;
            struct program base = built_in(&machines[0], SECCOMP_MODE_ALLOWLIST, 0, 0);
            const struct seccomp_rule rule = {.nr = 0,
                                              .arg_count = 1,
                                              .arg = {{.index = 1, .op = op, .value = value, .mask = mask}},
                                              .action = SECCOMP_RET_ERRNO | EIO};
            merge(&merged, &base, &rule, 1);
            for (size_t i = 0; i < COUNT(values); i++) {
                uint64_t now = values[i];
                const int holds[] = {[SECCOMP_OP_EQ] = now == value,
                                     [SECCOMP_OP_NE] = now != value,
                                     [SECCOMP_OP_MASKED_EQ] = (now & mask) == value,
                                     [SECCOMP_OP_GT] = now > value,
                                     [SECCOMP_OP_GE] = now >= value,
                                     [SECCOMP_OP_LT] = now < value,
                                     [SECCOMP_OP_LE] = now <= value,
                                     [SECCOMP_OP_MASKED_NE] = (now & mask) != value};
                expect(&merged.program, "read", value, now, holds[op] ? SECCOMP_RET_ERRNO | EIO : ALLOW);
            }
        }
    }
}

/* Rules for one call: the first that fits decides. Sixty conditions are beyond the reach of a short jump. */
static void test_many_rules(void **state)
{
    (void)state; /* cmocka's signature */
    static struct merged merged;
    static struct seccomp_rule rules[SECCOMP_RULES_MAX];
    for (EACH_MACHINE(machine)) {
        struct program base = built_in(machine, SECCOMP_MODE_ALLOWLIST, 0, 1);
        for (uint32_t i = 0; i < SECCOMP_RULES_MAX; i++)
            rules[i] = (struct seccomp_rule){.nr = i % 2 ? 5000 + (int32_t)i : number_of(machine, "read"),
                                             .arg_count = 2,
                                             .arg = {{.index = 0, .op = SECCOMP_OP_LE, .value = i},
                                                     {.index = 1, .op = SECCOMP_OP_GE, .value = 7}},
                                             .action = SECCOMP_RET_ERRNO | (i + 1)};
        merge(&merged, &base, rules, SECCOMP_RULES_MAX);
        expect(&merged.program, "read", 0, 7, SECCOMP_RET_ERRNO | 1);
        expect(&merged.program, "read", 1, 7, SECCOMP_RET_ERRNO | 3);
        expect(&merged.program, "read", 253, 7, SECCOMP_RET_ERRNO | 255);
        expect(&merged.program, "read", 255, 7, ALLOW);
        expect(&merged.program, "read", 0, 6, ALLOW);
        expect(&merged.program, "write", 0, 7, ALLOW);
        expect(&merged.program, "mount", 0, 7, NOTIFY);
        expect_number(&merged.program, 5001, 1, 7, SECCOMP_RET_ERRNO | 2);
        expect_number(&merged.program, 5255, 255, 7, SECCOMP_RET_ERRNO | 256);
        expect_number(&merged.program, 5255, 256, 7, NOSYS);
        expect_number(&merged.program, 5000, 0, 7, NOSYS);
    }
}

/* Both sides of a branch at every distance around the 255 instructions that a short jump reaches. */
static void test_far_branches(void **state)
{
    (void)state; /* cmocka's signature */
    static struct sock_filter slots[BPF_MAXINSNS];
    const struct sock_filter idle = BPF_STMT(BPF_ALU | BPF_OR | BPF_K, 0);
    for (size_t between = 0; between < 4; between++) {
        for (size_t distance = 245; distance < 265; distance++) {
            struct seccomp_code code = {.slots = slots, .capacity = COUNT(slots)};
            (void)seccomp_emit_return(&code, 3); /* the end of the idle stretch, never reached */
            /* Loads, not returns: what is too far must be jumped to rather than copied. */
            seccomp_label no = seccomp_emit_load(&code, 0, seccomp_emit_return(&code, 1));
            for (size_t i = 0; i < between; i++)
                (void)seccomp_emit(&code, idle); /* only takes up room */
            seccomp_label yes = seccomp_emit_load(&code, 0, seccomp_emit_return(&code, 2));
            for (size_t i = 0; i < distance; i++)
                (void)seccomp_emit(&code, idle); /* only takes up room */
            seccomp_label at = seccomp_emit_branch(&code, BPF_JEQ, 7, yes, no);
            (void)seccomp_emit_load(&code, 0, at); /* the program's start */
            const struct program program = {&machines[0], slots + (COUNT(slots) - code.used), code.used};
            expect_number(&program, 7, 0, 0, 2);
            expect_number(&program, 8, 0, 0, 1);
        }
    }
}

static void test_merge_of_nothing(void **state)
{
    (void)state; /* cmocka's signature */
    static struct merged merged;
    struct program base = built_in(&machines[0], SECCOMP_MODE_DENYLIST, 0, 1);
    merge(&merged, &base, NULL, 0);
    assert_int_equal(merged.program.length, base.length);
    assert_memory_equal(merged.code, base.code, base.length * sizeof(*base.code));
}

/* A base of any other shape is run from its start. */
static void test_merge_with_a_strange_base(void **state)
{
    (void)state; /* cmocka's signature */
    static struct merged merged;
    const struct sock_filter base[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EIO)};
    struct program program = {&machines[0], base, 1};
    const struct seccomp_rule rule = {.nr = 1, .action = ALLOW};
    merge(&merged, &program, &rule, 1);
    expect_number(&merged.program, 1, 0, 0, ALLOW);
    expect_number(&merged.program, 2, 0, 0, SECCOMP_RET_ERRNO | EIO);
}

static void test_terminal_stays_guarded(void **state)
{
    (void)state; /* cmocka's signature */
    static struct merged merged;
    for (EACH_MACHINE(machine)) {
        struct program base = built_in(machine, SECCOMP_MODE_DENYLIST, 1, 1);
        const struct seccomp_rule rules[] = {{.nr = machine->arch->ioctl, .action = NOTIFY},
                                             {.nr = machine->arch->ioctl, .action = ALLOW}};
        for (size_t first = 0; first < 2; first++) {
            merge(&merged, &base, &rules[first], 2 - first);
            expect(&merged.program, "ioctl", 0, TIOCSTI, DENIED);
            expect(&merged.program, "ioctl", 0, GARBAGE | TIOCLINUX, DENIED);
            expect(&merged.program, "ioctl", 0, TIOCGWINSZ, rules[first].action);
        }
    }
}

static void refused(const struct machine *machine, struct seccomp_rule rule, const char *reason)
{
    static struct merged merged;
    struct program base = built_in(machine, SECCOMP_MODE_ALLOWLIST, 0, 1);
    struct kern_error err = {.category = KERN_ERROR_NONE};
    size_t length = 77;
    int result = seccomp_merge_rules_in(machine->arch, base.code, base.length, &rule, 1, merged.code,
                                        BPF_MAXINSNS, &length, &err);
    assert_true(result < 0);
    assert_int_equal(length, 77);
    assert_int_equal(err.category, KERN_ERROR_BUILD);
    if (strstr(err.message, reason) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", err.message, reason);
}

static void test_refusals(void **state)
{
    (void)state; /* cmocka's signature */
    const uint32_t runs[] = {ALLOW, SECCOMP_RET_LOG, SECCOMP_RET_TRACE | 1};
    struct seccomp_rule rule;
    for (EACH_MACHINE(machine)) {
        for (size_t i = 0; i < COUNT(runs); i++) {
            for (size_t n = 0; n < COUNT(the_24); n++) {
                rule = (struct seccomp_rule){.nr = number_of(machine, the_24[n]), .action = runs[i]};
                refused(machine, rule, the_24[n]);
            }
            refused(machine, (struct seccomp_rule){.nr = number_of(machine, "clone"), .action = runs[i]},
                    "\"clone\"");
            refused(machine, (struct seccomp_rule){.nr = 0x40000000 | 59, .action = runs[i]}, "x32");
        }
        refused(machine, (struct seccomp_rule){.nr = -1, .action = DENIED}, "not a call");
        refused(machine, (struct seccomp_rule){.nr = 1, .action = 0x12340000}, "unknown action");
        refused(machine, (struct seccomp_rule){.nr = 1, .action = SECCOMP_RET_ERRNO | 4096},
                "unknown action");
        refused(machine, (struct seccomp_rule){.nr = 1, .arg_count = 5, .action = ALLOW}, "at most 4");
        rule = (struct seccomp_rule){.nr = 1, .arg_count = 1, .arg = {{.index = 6}}, .action = ALLOW};
        refused(machine, rule, "no argument 6");
        rule.arg[0] = (struct seccomp_condition){.op = SECCOMP_OP_MASKED_NE + 1};
        refused(machine, rule, "unknown comparison");
        rule.arg[0] = (struct seccomp_condition){.op = SECCOMP_OP_MASKED_EQ, .value = 3, .mask = 1};
        refused(machine, rule, "outside its mask");
    }
}

static void test_no_room(void **state)
{
    (void)state; /* cmocka's signature */
    static struct merged merged;
    static struct seccomp_rule many[SECCOMP_RULES_MAX + 1];
    const struct seccomp_rule rule = {.nr = 1, .action = DENIED};
    struct program base = built_in(&machines[0], SECCOMP_MODE_ALLOWLIST, 0, 1);
    size_t length = 77;
    /* The rule needs a return, a comparison and the three instructions in front. */
    for (size_t room = 0; room < base.length + 5; room++) {
        struct kern_error err = {.category = KERN_ERROR_NONE};
        assert_int_equal(seccomp_merge_rules_in(machines[0].arch, base.code, base.length, &rule, 1,
                                                merged.code, room, &length, &err),
                         -ENOSPC);
        assert_int_equal(length, 77);
    }
    assert_int_equal(seccomp_merge_rules_in(machines[0].arch, base.code, base.length, &rule, 1, merged.code,
                                            base.length + 5, &length, NULL),
                     0);
    assert_int_equal(seccomp_merge_rules_in(machines[0].arch, base.code, base.length, many, COUNT(many),
                                            merged.code, BPF_MAXINSNS, &length, NULL),
                     -E2BIG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_merge_decides_first),
        cmocka_unit_test(test_conditions),
        cmocka_unit_test(test_many_rules),
        cmocka_unit_test(test_far_branches),
        cmocka_unit_test(test_merge_of_nothing),
        cmocka_unit_test(test_merge_with_a_strange_base),
        cmocka_unit_test(test_terminal_stays_guarded),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_no_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
