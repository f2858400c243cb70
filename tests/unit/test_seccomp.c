/* The built-in filters of both architectures, run through the interpreter. Pure: any machine tests both. */
#include "seccomp_kit.h"
#include "seccomp_table.h"

#include <linux/sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

/* Like the 24, written out: the lists are a promise to users. */
static const char *const the_11[] = {
    "clone3",      "io_uring_setup",  "io_uring_enter",   "io_uring_register",
    "userfaultfd", "perf_event_open", "add_key",          "request_key",
    "keyctl",      "syslog",          "open_by_handle_at"};
static const char *const the_five[] = {"unshare", "setns", "mount", "umount2", "pivot_root"};
static const char *const ordinary[] = {"read",
                                       "write",
                                       "openat",
                                       "openat2",
                                       "execve",
                                       "execveat",
                                       "mmap",
                                       "futex",
                                       "exit_group",
                                       "wait4",
                                       "chroot",
                                       "fchmodat2",
                                       "cachestat",
                                       "mseal",
                                       "map_shadow_stack",
                                       "futex_wake",
                                       "futex_wait",
                                       "futex_requeue",
                                       "futex_waitv",
                                       "landlock_create_ruleset",
                                       "landlock_add_rule",
                                       "landlock_restrict_self",
                                       "memfd_secret",
                                       "process_mrelease",
                                       "epoll_pwait2",
                                       "pidfd_open",
                                       "pidfd_send_signal",
                                       "statmount",
                                       "listmount",
                                       "setxattrat",
                                       "close_range",
                                       "rseq",
                                       "seccomp",
                                       "clock_nanosleep",
                                       "getrandom",
                                       "socketpair",
                                       "sendmsg",
                                       "statx",
                                       "io_setup"};
static const char *const unlisted[] = {
    "pidfd_getfd", "process_madvise", "kcmp",     "acct",         "settimeofday",  "clock_settime",
    "sethostname", "setdomainname",   "quotactl", "quotactl_fd",  "fanotify_init", "lsm_get_self_attr",
    "mbind",       "set_mempolicy",   "vhangup",  "file_setattr", "listns",        "nfsservctl"};

static void test_killing_and_hidden_calls(void **state)
{
    (void)state; /* cmocka's signature */
    for (EACH_MACHINE(machine)) {
        for (int variant = 0; variant < 12; variant++) {
            int privileged = variant / 2 % 2, listener = variant % 2;
            struct program program = built_in(machine, (uint32_t)variant / 4, privileged, listener);
            for (size_t i = 0; i < COUNT(the_24); i++) {
                int relaxed = privileged && stands_in(the_five, COUNT(the_five), the_24[i]);
                expect(&program, the_24[i], 0, 0, relaxed ? ALLOW : listener ? NOTIFY : KILL);
            }
            for (size_t i = 0; i < COUNT(the_11); i++)
                expect(&program, the_11[i], 0, 0, NOSYS);
            expect(&program, "open_tree_attr", 0, 0, NOSYS);
        }
    }
}

static void test_allowed_and_unlisted_calls(void **state)
{
    (void)state; /* cmocka's signature */
    for (EACH_MACHINE(machine)) {
        for (int variant = 0; variant < 12; variant++) {
            uint32_t mode = (uint32_t)variant / 4;
            struct program program = built_in(machine, mode, variant / 2 % 2, variant % 2);
            uint32_t audit = variant % 2 ? NOTIFY : SECCOMP_RET_LOG;
            uint32_t other = mode == SECCOMP_MODE_ALLOWLIST  ? NOSYS
                             : mode == SECCOMP_MODE_DENYLIST ? ALLOW
                                                             : audit;
            for (size_t i = 0; i < COUNT(ordinary); i++)
                expect(&program, ordinary[i], 0, 0, ALLOW);
            for (size_t i = 0; i < COUNT(unlisted); i++)
                expect(&program, unlisted[i], 0, 0, other);
            expect_number(&program, 9999, 0, 0, other);
            expect_number(&program, -1, 0, 0, other);
            expect_number(&program, 600, 0, 0, other);
        }
    }
}

static void test_only_one_architecture_has_it(void **state)
{
    (void)state; /* cmocka's signature */
    struct program x86 = built_in(&machines[0], SECCOMP_MODE_ALLOWLIST, 0, 1);
    expect(&x86, "open", 0, 0, ALLOW);
    expect(&x86, "fork", 0, 0, ALLOW);
    expect(&x86, "arch_prctl", 0, 0, ALLOW);
    expect(&x86, "modify_ldt", 0, 0, ALLOW);
    expect(&x86, "uretprobe", 0, 0, ALLOW);
    expect(&x86, "iopl", 0, 0, NOSYS);
    expect(&x86, "ioperm", 0, 0, NOSYS);
    assert_int_equal(number_of(&machines[1], "open"), -1);
    assert_int_equal(number_of(&machines[1], "uretprobe"), -1);
    assert_int_equal(number_of(&machines[0], "read"), 0);
    assert_int_equal(number_of(&machines[1], "read"), 63);
}

static void test_clone_flags(void **state)
{
    (void)state; /* cmocka's signature */
    const uint64_t flags[] = {CLONE_NEWNS,  CLONE_NEWUTS, CLONE_NEWIPC,   CLONE_NEWUSER,
                              CLONE_NEWPID, CLONE_NEWNET, CLONE_NEWCGROUP};
    for (EACH_MACHINE(machine)) {
        for (int variant = 0; variant < 12; variant++) {
            int privileged = variant / 2 % 2;
            struct program program = built_in(machine, (uint32_t)variant / 4, privileged, variant % 2);
            uint32_t answer = privileged ? ALLOW : variant % 2 ? NOTIFY : KILL;
            expect(&program, "clone", 17, 0, ALLOW);
            expect(&program, "clone", CLONE_VM | CLONE_THREAD | CLONE_SIGHAND, 0, ALLOW);
            expect(&program, "clone", GARBAGE | 17, 0, ALLOW);
            for (size_t i = 0; i < COUNT(flags); i++) {
                expect(&program, "clone", flags[i], 0, answer);
                expect(&program, "clone", GARBAGE | flags[i] | CLONE_VM | 17, 0, answer);
            }
        }
    }
}

static void test_arguments(void **state)
{
    (void)state; /* cmocka's signature */
    for (EACH_MACHINE(machine)) {
        for (int variant = 0; variant < 12; variant++) {
            uint32_t mode = (uint32_t)variant / 4;
            struct program program = built_in(machine, mode, variant / 2 % 2, variant % 2);
            uint32_t strange = mode == SECCOMP_MODE_DENYLIST ? ALLOW : DENIED;
            expect(&program, "socket", AF_VSOCK, 0, NO_ONE);
            expect(&program, "socket", GARBAGE | AF_VSOCK, 0, NO_ONE);
            expect(&program, "socket", AF_INET, 0, ALLOW);
            expect(&program, "socket", AF_UNIX, AF_VSOCK, ALLOW);
            expect(&program, "ioctl", 0, TIOCSTI, DENIED);
            expect(&program, "ioctl", 0, TIOCLINUX, DENIED);
            expect(&program, "ioctl", 0, GARBAGE | TIOCSTI, DENIED);
            expect(&program, "ioctl", 0, GARBAGE | TIOCLINUX, DENIED);
            expect(&program, "ioctl", TIOCSTI, TIOCGWINSZ, ALLOW);
            expect(&program, "personality", 0, 0, ALLOW);
            expect(&program, "personality", 8, 0, ALLOW);
            expect(&program, "personality", 0x20000, 0, ALLOW);
            expect(&program, "personality", 0x20008, 0, ALLOW);
            expect(&program, "personality", UINT32_MAX, 0, ALLOW);
            expect(&program, "personality", UINT64_MAX, 0, ALLOW);
            expect(&program, "personality", 0x0040000, 0, strange);
            expect(&program, "personality", 0x0400000, 0, strange);
        }
    }
}

static void test_foreign_architectures(void **state)
{
    (void)state; /* cmocka's signature */
    unsigned steps = 0;
    for (EACH_MACHINE(machine)) {
        for (int variant = 0; variant < 12; variant++) {
            uint32_t mode = (uint32_t)variant / 4;
            struct program program = built_in(machine, mode, variant / 2 % 2, variant % 2);
            for (int nr = -1; nr < 500; nr++)
                assert_int_equal(run(&program, machine->foreign, nr, 0, 0, &steps), KILL);
            assert_int_equal(run(&program, 0, 0, 0, 0, &steps), KILL);
            if (!machine->is_x86)
                continue;
            expect_number(&program, 0x40000000, 0, 0, KILL);
            expect_number(&program, 0x40000000 | 514, 0, TIOCSTI, KILL);
            expect_number(&program, 0x7fffffff, 0, 0, KILL);
            expect_number(&program, 0xfffffffe, 0, 0, KILL);
            expect_number(&program, 512, 0, 0, NOSYS);
            expect_number(&program, 521, 0, 0, NOSYS); /* x32's ptrace without its bit */
            expect_number(&program, 547, 0, 0, NOSYS);
        }
    }
}

/* Each number of each architecture, against the lists. */
static void test_every_number(void **state)
{
    (void)state; /* cmocka's signature */
    for (EACH_MACHINE(machine)) {
        struct program program = built_in(machine, SECCOMP_MODE_ALLOWLIST, 0, 1);
        for (int nr = 0; nr < 512; nr++) {
            const char *name = seccomp_name_in(machine->arch, nr);
            uint32_t action = NOSYS;
            if (name != NULL && stands_in(seccomp_judged.names, seccomp_judged.count, name))
                continue;
            if (name != NULL && stands_in(seccomp_allowed.names, seccomp_allowed.count, name))
                action = ALLOW;
            if (name != NULL && stands_in(the_24, COUNT(the_24), name))
                action = NOTIFY;
            expect_number(&program, nr, 0, 0, action);
        }
    }
}

static void test_instruction_count(void **state)
{
    (void)state; /* cmocka's signature */
    for (EACH_MACHINE(machine)) {
        for (int variant = 0; variant < 12; variant++) {
            struct program program = built_in(machine, (uint32_t)variant / 4, variant / 2 % 2, variant % 2);
            for (int nr = -1; nr < 600; nr++) {
                const char *name = seccomp_name_in(machine->arch, nr);
                unsigned steps = 0;
                (void)run(&program, machine->arch->audit, nr, 0, 0, &steps); /* the verdict is others' */
                if (name != NULL && stands_in(seccomp_judged.names, seccomp_judged.count, name))
                    continue;
                if (steps >= 12)
                    fail_msg("%s, variant %d: call %d takes %u instructions", machine->name, variant, nr,
                             steps);
            }
        }
    }
}

static void test_lists(void **state)
{
    (void)state; /* cmocka's signature */
    const struct seccomp_list *lists[] = {&seccomp_allowed, &seccomp_killing, &seccomp_hidden,
                                          &seccomp_judged, &seccomp_kindred};
    assert_int_equal(seccomp_killing.count, 24);
    assert_int_equal(seccomp_hidden.count, 11);
    assert_int_equal(seccomp_nesting.count, 5);
    for (size_t i = 0; i < 24; i++)
        assert_true(stands_in(seccomp_killing.names, 24, the_24[i]));
    for (size_t i = 0; i < 11; i++)
        assert_true(stands_in(seccomp_hidden.names, 11, the_11[i]));
    for (size_t i = 1; i < seccomp_allowed.count; i++)
        assert_true(strcmp(seccomp_allowed.names[i - 1], seccomp_allowed.names[i]) < 0);
    for (size_t one = 0; one < COUNT(lists); one++)
        for (size_t i = 0; i < lists[one]->count; i++)
            for (size_t other = 0; other < COUNT(lists); other++)
                if (other != one && stands_in(lists[other]->names, lists[other]->count, lists[one]->names[i]))
                    fail_msg("\"%s\" stands in two lists", lists[one]->names[i]);
}

static void test_names(void **state)
{
    (void)state; /* cmocka's signature */
    for (EACH_MACHINE(machine)) {
        const struct seccomp_arch *arch = machine->arch;
        assert_int_equal(arch->killing_count, 25);
        for (size_t i = 1; i < arch->killing_count; i++)
            assert_true(arch->killing[i - 1] < arch->killing[i]);
        for (size_t i = 0; i < COUNT(the_24); i++)
            assert_true(seccomp_kills_in(arch, number_of(machine, the_24[i])));
        assert_true(seccomp_kills_in(arch, number_of(machine, "clone")));
        assert_false(seccomp_kills_in(arch, number_of(machine, "clone3")));
        assert_false(seccomp_kills_in(arch, number_of(machine, "read")));
        assert_false(seccomp_kills_in(arch, -1));
        assert_string_equal(seccomp_name_in(arch, arch->ioctl), "ioctl");
        assert_string_equal(seccomp_name_in(arch, 462), "mseal");
        assert_null(seccomp_name_in(arch, -1));
        assert_null(seccomp_name_in(arch, 400));
        assert_null(seccomp_name_in(arch, 100000));
    }
    assert_string_equal(seccomp_call_name(462), "mseal");
    assert_true(seccomp_is_killing(428)); /* open_tree everywhere */
    assert_false(seccomp_is_killing(435));
}

static void test_picking_a_program(void **state)
{
    (void)state; /* cmocka's signature */
    struct kern_error err = {.category = KERN_ERROR_NONE};
    uint32_t mode = 77;
    size_t length = 77;
    assert_int_equal(seccomp_parse_mode("allowlist", &mode, &err), 0);
    assert_int_equal(mode, SECCOMP_MODE_ALLOWLIST);
    assert_int_equal(seccomp_parse_mode("denylist", &mode, &err), 0);
    assert_int_equal(mode, SECCOMP_MODE_DENYLIST);
    assert_int_equal(seccomp_parse_mode("allowlist-audit", &mode, &err), 0);
    assert_int_equal(mode, SECCOMP_MODE_ALLOWLIST_AUDIT);
    mode = 77;
    assert_true(seccomp_parse_mode("off", &mode, &err) < 0);
    assert_int_equal(mode, 77);
    assert_int_equal(err.category, KERN_ERROR_REFUSED);
    assert_non_null(strstr(err.message, "\"off\""));
    assert_non_null(strstr(err.hint, "allowlist-audit"));
    assert_null(seccomp_program(SECCOMP_MODES, 0, 0, &length));
    assert_int_equal(length, 77);
    const struct sock_filter *first = seccomp_program(0, 0, 0, &length), *second = NULL;
    size_t first_length = length;
    second = seccomp_program(0, 0, 1, &length);
    assert_ptr_equal(second, first + first_length);
    assert_ptr_equal(seccomp_program(0, 5, 5, &length), seccomp_program(0, 1, 1, &first_length));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_killing_and_hidden_calls),
        cmocka_unit_test(test_allowed_and_unlisted_calls),
        cmocka_unit_test(test_only_one_architecture_has_it),
        cmocka_unit_test(test_clone_flags),
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_foreign_architectures),
        cmocka_unit_test(test_every_number),
        cmocka_unit_test(test_instruction_count),
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_picking_a_program),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
