/* Custom profiles: what they say is what the compiled program does, what is wrong with one is told with its place,
 * and the floor under all of them holds. Uses libseccomp but no privilege; compiles for the running machine. */
#include "bpf_vm.h"
#include "seccomp_json.h"
#include "seccomp_names.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include <cmocka.h>

#define ALLOW  SECCOMP_RET_ALLOW
#define KILL   SECCOMP_RET_KILL_PROCESS
#define DENIED (SECCOMP_RET_ERRNO | EPERM)
#define NOSYS  (SECCOMP_RET_ERRNO | ENOSYS)

#if defined(__x86_64__)
#define NATIVE_GO      "amd64"
#define NATIVE_ARCH    "SCMP_ARCH_X86_64"
#define FOREIGN_ARCH   "SCMP_ARCH_X86"
#define FOREIGN_AUDIT  AUDIT_ARCH_I386
#define FOREIGN_IOCTL  54
#define FOREIGN_GETPID 20
#define OTHER_GO       "arm64"
#else
#define NATIVE_GO      "arm64"
#define NATIVE_ARCH    "SCMP_ARCH_AARCH64"
#define FOREIGN_ARCH   "SCMP_ARCH_ARM"
#define FOREIGN_AUDIT  AUDIT_ARCH_ARM
#define FOREIGN_IOCTL  54
#define FOREIGN_GETPID 20
#define OTHER_GO       "amd64"
#endif

#define GARBAGE      0xdeadbeef00000000u
#define X32_BIT      0x40000000
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

struct profile {
    struct sock_filter *code;
    size_t length;
    uint32_t skipped;
};

static struct profile compile(const char *text, uint64_t caps)
{
    struct kern_error err = {.category = KERN_ERROR_NONE};
    struct profile profile = {NULL, 0, 77};
    if (seccomp_json_compile(text, strlen(text), "p.json", caps, &profile.code, &profile.length,
                             &profile.skipped, &err) != 0)
        fail_msg("refused: %s", err.message);
    return profile;
}

static uint32_t run(const struct profile *profile, uint32_t audit, int nr, uint64_t first, uint64_t second,
                    unsigned *ret_steps)
{
    struct seccomp_data data = {.nr = nr, .arch = audit, .args = {first, second}};
    uint32_t action = 0;
    if (bpf_vm_run(profile->code, profile->length, &data, &action, ret_steps) != 0)
        fail_msg("not a program the kernel would take");
    return action;
}

static uint32_t verdict(const struct profile *profile, int nr, uint64_t first, uint64_t second)
{
    unsigned steps = 0;
    return run(profile, seccomp_native()->audit, nr, first, second, &steps);
}

static uint32_t foreign_verdict(const struct profile *profile, int nr, uint64_t second)
{
    unsigned steps = 0;
    return run(profile, FOREIGN_AUDIT, nr, 0, second, &steps);
}

static void refused(const char *text, const char *place, const char *reason)
{
    struct kern_error err = {.category = KERN_ERROR_NONE};
    struct sock_filter *code = NULL;
    size_t length = 77;
    uint32_t skipped = 77;
    if (seccomp_json_compile(text, strlen(text), "p.json", 0, &code, &length, &skipped, &err) == 0)
        fail_msg("accepted: %s", text);
    assert_null(code);
    assert_int_equal(length, 77);
    assert_int_equal(skipped, 77);
    assert_int_equal(err.category, KERN_ERROR_REFUSED);
    assert_non_null(strstr(err.message, "\"p.json\""));
    if (strstr(err.message, place) == NULL || strstr(err.message, reason) == NULL)
        fail_msg("\"%s\" does not say \"%s\" at \"%s\"", err.message, reason, place);
    for (const char *byte = err.message; *byte != '\0'; byte++)
        if (*byte < ' ' || *byte > '~')
            fail_msg("a byte 0x%02x of the file reached the message", (unsigned char)*byte);
}

static void test_actions(void **state)
{
    (void)state; /* cmocka's signature */
    struct profile p =
        compile("{\"defaultAction\": \"SCMP_ACT_ERRNO\", \"defaultErrnoRet\": 38, \"syscalls\": ["
                "{\"names\": [\"getpid\", \"getuid\"], \"action\": \"SCMP_ACT_ALLOW\"},"
                "{\"name\": \"getgid\", \"action\": \"SCMP_ACT_KILL_PROCESS\"},"
                "{\"name\": \"getppid\", \"action\": \"SCMP_ACT_KILL\"},"
                "{\"name\": \"getegid\", \"action\": \"SCMP_ACT_KILL_THREAD\"},"
                "{\"name\": \"geteuid\", \"action\": \"SCMP_ACT_ERRNO\"},"
                "{\"name\": \"gettid\", \"action\": \"SCMP_ACT_ERRNO\", \"errnoRet\": 5},"
                "{\"name\": \"sync\", \"action\": \"SCMP_ACT_ERRNO\", \"errno\": \"EBUSY\"},"
                "{\"name\": \"times\", \"action\": \"SCMP_ACT_TRACE\", \"errnoRet\": 7},"
                "{\"name\": \"uname\", \"action\": \"SCMP_ACT_TRAP\", \"comment\": \"x\"},"
                "{\"name\": \"umask\", \"action\": \"SCMP_ACT_LOG\"}]}",
                0);
    assert_int_equal(verdict(&p, SYS_getpid, 0, 0), ALLOW);
    assert_int_equal(verdict(&p, SYS_getuid, 0, 0), ALLOW);
    assert_int_equal(verdict(&p, SYS_getgid, 0, 0), KILL);
    assert_int_equal(verdict(&p, SYS_getppid, 0, 0), SECCOMP_RET_KILL_THREAD);
    assert_int_equal(verdict(&p, SYS_getegid, 0, 0), SECCOMP_RET_KILL_THREAD);
    assert_int_equal(verdict(&p, SYS_geteuid, 0, 0), DENIED);
    assert_int_equal(verdict(&p, SYS_gettid, 0, 0), SECCOMP_RET_ERRNO | 5);
    assert_int_equal(verdict(&p, SYS_sync, 0, 0), SECCOMP_RET_ERRNO | EBUSY);
    assert_int_equal(verdict(&p, SYS_times, 0, 0), SECCOMP_RET_TRACE | 7);
    assert_int_equal(verdict(&p, SYS_uname, 0, 0), SECCOMP_RET_TRAP);
    assert_int_equal(verdict(&p, SYS_umask, 0, 0), SECCOMP_RET_LOG);
    assert_int_equal(verdict(&p, SYS_read, 0, 0), NOSYS);
    assert_int_equal(verdict(&p, 9999, 0, 0), NOSYS);
    assert_int_equal(p.skipped, 0);
    free(p.code);
}

static void test_defaults(void **state)
{
    (void)state; /* cmocka's signature */
    struct profile p = compile("{\"defaultAction\": \"SCMP_ACT_ERRNO\"}", 0);
    assert_int_equal(verdict(&p, SYS_read, 0, 0), DENIED);
    free(p.code);
    p = compile(
        "{\"defaultAction\": \"SCMP_ACT_ERRNO\", \"defaultErrno\": \"ENOSYS\", \"defaultErrnoRet\": null}",
        0);
    assert_int_equal(verdict(&p, SYS_read, 0, 0), NOSYS);
    free(p.code);
    p = compile(
        "{\"defaultAction\": \"SCMP_ACT_ALLOW\", \"syscalls\": [], \"flags\": [\"SECCOMP_FILTER_FLAG_LOG\"]}",
        0);
    assert_int_equal(verdict(&p, SYS_read, 0, 0), ALLOW);
    free(p.code);
}

static void test_conditions(void **state)
{
    (void)state; /* cmocka's signature */
    static const struct {
        const char *op;
        uint64_t argument;
        int holds;
    } cases[] = {{"EQ", 5, 1},         {"EQ", 6, 0},         {"NE", 5, 0},        {"NE", 6, 1},
                 {"LT", 4, 1},         {"LT", 5, 0},         {"LE", 5, 1},        {"LE", 6, 0},
                 {"GE", 5, 1},         {"GE", 4, 0},         {"GT", 6, 1},        {"GT", 5, 0},
                 {"MASKED_EQ", 13, 0}, {"MASKED_EQ", 12, 1}, {"MASKED_EQ", 6, 1}, {"EQ", GARBAGE | 5, 0},
                 {"GT", GARBAGE, 1},   {"LT", GARBAGE, 0}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        char text[400];
        (void)snprintf(text, sizeof(text),
                       "{\"defaultAction\": \"SCMP_ACT_ERRNO\", \"syscalls\": [{\"names\": [\"dup\"], "
                       "\"action\": \"SCMP_ACT_ALLOW\", \"args\": [{\"index\": 1, \"value\": 5, "
                       "\"valueTwo\": 4, \"op\": \"SCMP_CMP_%s\"}]}]}",
                       cases[i].op); /* fits */
        struct profile p = compile(text, 0);
        if (verdict(&p, SYS_dup, 5, cases[i].argument) != (cases[i].holds ? ALLOW : DENIED))
            fail_msg("%s of %llu", cases[i].op, (unsigned long long)cases[i].argument);
        free(p.code);
    }
}

/* On different arguments all must hold; on the same one they are alternatives. */
static void test_several_conditions(void **state)
{
    (void)state; /* cmocka's signature */
    struct profile p = compile("{\"defaultAction\": \"SCMP_ACT_ERRNO\", \"syscalls\": [{\"name\": \"dup\", "
                               "\"action\": \"SCMP_ACT_ALLOW\", \"args\": ["
                               "{\"index\": 0, \"value\": 1, \"op\": \"SCMP_CMP_EQ\"},"
                               "{\"index\": 1, \"value\": 2, \"op\": \"SCMP_CMP_EQ\"}]},"
                               "{\"name\": \"fsync\", \"action\": \"SCMP_ACT_ALLOW\", \"args\": ["
                               "{\"index\": 0, \"value\": 1, \"op\": \"SCMP_CMP_EQ\"},"
                               "{\"index\": 0, \"value\": 2, \"op\": \"SCMP_CMP_EQ\"}]}]}",
                               0);
    assert_int_equal(verdict(&p, SYS_dup, 1, 2), ALLOW);
    assert_int_equal(verdict(&p, SYS_dup, 1, 3), DENIED);
    assert_int_equal(verdict(&p, SYS_dup, 2, 2), DENIED);
    assert_int_equal(verdict(&p, SYS_fsync, 1, 0), ALLOW);
    assert_int_equal(verdict(&p, SYS_fsync, 2, 0), ALLOW);
    assert_int_equal(verdict(&p, SYS_fsync, 3, 0), DENIED);
    free(p.code);
}

static uint32_t under(const char *filter, uint64_t caps)
{
    char text[400];
    (void)snprintf(text, sizeof(text),
                   "{\"defaultAction\": \"SCMP_ACT_ERRNO\", \"syscalls\": [{\"names\": [\"mount\"], "
                   "\"action\": \"SCMP_ACT_ALLOW\", %s}]}",
                   filter); /* fits */
    struct profile p = compile(text, caps);
    uint32_t action = verdict(&p, SYS_mount, 0, 0);
    free(p.code);
    return action;
}

static void test_includes_and_excludes(void **state)
{
    (void)state; /* cmocka's signature */
    const uint64_t admin = 1ULL << CAP_SYS_ADMIN, both = admin | 1ULL << CAP_CHECKPOINT_RESTORE;
    const char *one = "\"includes\": {\"caps\": [\"CAP_SYS_ADMIN\"]}";
    const char *two = "\"includes\": {\"caps\": [\"CAP_SYS_ADMIN\", \"CAP_CHECKPOINT_RESTORE\"]}";
    assert_int_equal(under(one, admin), ALLOW);
    assert_int_equal(under(one, ~admin), DENIED);
    assert_int_equal(under(two, both), ALLOW);
    assert_int_equal(under(two, admin), DENIED);
    assert_int_equal(under("\"excludes\": {\"caps\": [\"CAP_SYS_ADMIN\"]}", admin), DENIED);
    assert_int_equal(under("\"excludes\": {\"caps\": [\"CAP_SYS_ADMIN\"]}", 0), ALLOW);
    assert_int_equal(under("\"includes\": {\"arches\": [\"s390x\", \"" NATIVE_GO "\"]}", 0), ALLOW);
    assert_int_equal(under("\"includes\": {\"arches\": [\"s390x\", \"" OTHER_GO "\"]}", 0), DENIED);
    assert_int_equal(under("\"excludes\": {\"arches\": [\"" NATIVE_GO "\"]}", 0), DENIED);
    assert_int_equal(under("\"excludes\": {\"arches\": [\"" OTHER_GO "\"]}", 0), ALLOW);
    assert_int_equal(under("\"includes\": {\"minKernel\": \"1.0\"}", 0), ALLOW);
    assert_int_equal(under("\"includes\": {\"minKernel\": \"999.0\"}", 0), DENIED);
    assert_int_equal(under("\"excludes\": {\"minKernel\": \"1.0\"}", 0), DENIED);
    assert_int_equal(under("\"excludes\": {\"minKernel\": \"999.0\"}", 0), ALLOW);
    assert_int_equal(under("\"includes\": {}, \"excludes\": null, \"args\": null", 0), ALLOW);
    assert_int_equal(under("\"includes\": {\"minKernel\": \"1.0\", \"caps\": [\"CAP_SYS_ADMIN\"]}", 0),
                     DENIED);
}

static void test_names(void **state)
{
    (void)state; /* cmocka's signature */
    struct profile p = compile("{\"defaultAction\": \"SCMP_ACT_ERRNO\", \"syscalls\": [{\"names\": "
                               "[\"read\", \"nosuchcall\", \"mseal\", \"chown32\", \"nosuchothercall\"], "
                               "\"action\": \"SCMP_ACT_ALLOW\"}]}",
                               0);
    assert_int_equal(p.skipped, 2); /* chown32 is known, only not here */
    assert_int_equal(verdict(&p, SYS_read, 0, 0), ALLOW);
    assert_int_equal(verdict(&p, 462, 0, 0), ALLOW); /* mseal is younger than libseccomp 2.5 */
    assert_int_equal(verdict(&p, SYS_write, 0, 0), DENIED);
    free(p.code);
}

static void test_floor(void **state)
{
    (void)state; /* cmocka's signature */
    struct profile p =
        compile("{\"defaultAction\": \"SCMP_ACT_ALLOW\", \"syscalls\": [{\"names\": [\"ioctl\"], "
                "\"action\": \"SCMP_ACT_LOG\"}]}",
                ~0ULL);
    assert_int_equal(verdict(&p, SYS_ioctl, 0, TIOCSTI), DENIED);
    assert_int_equal(verdict(&p, SYS_ioctl, 0, TIOCLINUX), DENIED);
    assert_int_equal(verdict(&p, SYS_ioctl, 0, GARBAGE | TIOCSTI), DENIED);
    assert_int_equal(verdict(&p, SYS_ioctl, 0, TIOCGWINSZ), SECCOMP_RET_LOG);
    assert_int_equal(verdict(&p, SYS_read, 0, TIOCSTI), ALLOW);
    assert_int_equal(verdict(&p, -1, 0, 0), ALLOW);
    assert_int_equal(foreign_verdict(&p, FOREIGN_GETPID, 0), KILL);
    assert_int_equal(foreign_verdict(&p, FOREIGN_IOCTL, 0), KILL);
#if defined(__x86_64__)
    assert_int_equal(verdict(&p, X32_BIT, 0, 0), KILL);
    assert_int_equal(verdict(&p, X32_BIT | 514, 0, TIOCSTI), KILL);
#endif
    free(p.code);
}

static void check_foreign(const char *text)
{
    struct profile p = compile(text, 0);
    assert_int_equal(p.skipped, 1); /* not once for each architecture */
    assert_int_equal(foreign_verdict(&p, FOREIGN_GETPID, 0), ALLOW);
    assert_int_equal(foreign_verdict(&p, FOREIGN_IOCTL, TIOCGWINSZ), ALLOW);
    assert_int_equal(foreign_verdict(&p, FOREIGN_IOCTL, TIOCSTI), DENIED);
    assert_int_equal(foreign_verdict(&p, FOREIGN_IOCTL, GARBAGE | TIOCLINUX), DENIED);
    assert_int_equal(foreign_verdict(&p, 3, 0), DENIED);
    assert_int_equal(verdict(&p, SYS_getpid, 0, 0), ALLOW);
    assert_int_equal(verdict(&p, SYS_ioctl, 0, TIOCSTI), DENIED);
    assert_int_equal(verdict(&p, SYS_read, 0, 0), DENIED);
#if defined(__x86_64__)
    uint32_t x32 = strstr(text, "X32") != NULL ? ALLOW : KILL;
    assert_int_equal(verdict(&p, X32_BIT | SYS_getpid, 0, 0), x32);
    assert_int_equal(verdict(&p, X32_BIT | 514, 0, TIOCGWINSZ), x32);
    assert_int_equal(verdict(&p, X32_BIT | 514, 0, TIOCSTI), x32 == ALLOW ? DENIED : KILL);
    assert_int_equal(verdict(&p, X32_BIT | 514, 0, GARBAGE | TIOCLINUX), x32 == ALLOW ? DENIED : KILL);
    assert_int_equal(verdict(&p, -1, 0, 0), DENIED);
#endif
    unsigned steps = 0;
    assert_int_equal(run(&p, AUDIT_ARCH_S390X, 20, 0, 0, &steps), KILL);
    free(p.code);
}

#define TWO_CALLS \
    "\"syscalls\": [{\"names\": [\"getpid\", \"ioctl\", \"nosuchcall\"], \"action\": \"SCMP_ACT_ALLOW\"}]"

static void test_architectures(void **state)
{
    (void)state; /* cmocka's signature */
    check_foreign("{\"defaultAction\": \"SCMP_ACT_ERRNO\", \"architectures\": [\"" NATIVE_ARCH
                  "\", \"" FOREIGN_ARCH "\", \"SCMP_ARCH_S390X\"], " TWO_CALLS "}");
    check_foreign("{\"defaultAction\": \"SCMP_ACT_ERRNO\", \"archMap\": [{\"architecture\": \"" NATIVE_ARCH
                  "\", \"subArchitectures\": [\"" FOREIGN_ARCH "\", \"SCMP_ARCH_X32\"]}, {\"architecture\": "
                  "\"SCMP_ARCH_RISCV64\", \"subArchitectures\": null}], " TWO_CALLS "}");
    struct profile p =
        compile("{\"defaultAction\": \"SCMP_ACT_ERRNO\", \"archMap\": [{\"architecture\": "
                "\"SCMP_ARCH_MIPS\", \"subArchitectures\": [\"" FOREIGN_ARCH "\"]}], " TWO_CALLS "}",
                0);
    assert_int_equal(foreign_verdict(&p, FOREIGN_GETPID, 0), KILL);
    free(p.code);
}

/* A profile of Docker's size must not become a chain of comparisons. */
static void test_large_profile_is_a_tree(void **state)
{
    (void)state; /* cmocka's signature */
    static char text[40000];
    size_t used = (size_t)snprintf(text, sizeof(text),
                                   "{\"defaultAction\": \"SCMP_ACT_ERRNO\", \"syscalls\": "
                                   "[{\"action\": \"SCMP_ACT_ALLOW\", \"names\": [\"read\"");
    for (int nr = 0; nr < 450; nr += 1 + nr % 3) {
        const char *name = seccomp_call_name(nr);
        if (name != NULL)
            used += (size_t)snprintf(text + used, sizeof(text) - used, ", \"%s\"", name);
    }
    (void)snprintf(text + used, sizeof(text) - used, "]}]}"); /* fits */
    struct profile p = compile(text, 0);
    unsigned steps = 0;
    for (int nr = 0; nr < 450; nr++) {
        (void)run(&p, seccomp_native()->audit, nr, 0, 0, &steps); /* only the count matters here */
        if (nr != SYS_ioctl && steps > 25)
            fail_msg("call %d takes %u instructions", nr, steps);
    }
    free(p.code);
}

#define ERRNO_DEFAULT "{\"defaultAction\": \"SCMP_ACT_ERRNO\", "
#define ONE_CALL(rest) \
    ERRNO_DEFAULT "\"syscalls\": [{\"name\": \"read\", \"action\": \"SCMP_ACT_ALLOW\"}, {" rest "}]}"
#define CALL_WITH(rest) ONE_CALL("\"name\": \"dup\", \"action\": \"SCMP_ACT_ALLOW\", " rest)
#define ARG(rest)       CALL_WITH("\"args\": [{" rest "}]")

static void test_refusals(void **state)
{
    (void)state; /* cmocka's signature */
    refused("", "line 1", "JSON");
    refused("{\n\"defaultAction\": \"SCMP_ACT_ALLOW\",\n}", "line 3, column", "JSON");
    refused("{\"defaultAction\": \"\033[31m\"}", "line 1", "JSON");
    refused("{\"defaultAction\": \"\\u001b[31m\"}", "defaultAction", "unknown action");
    refused("{\"defaultAction\": 1, \"defaultAction\": 2}", "line 1", "duplicate");
    refused("[]", "the document", "object");
    refused("{}", "defaultAction", "missing");
    refused("{\"defaultAction\": 7}", "defaultAction", "a string is expected: 7");
    refused("{\"defaultAction\": \"SCMP_ACT_DENY\"}", "defaultAction", "unknown action: \"SCMP_ACT_DENY\"");
    refused("{\"defaultAction\": \"SCMP_ACT_NOTIFY\"}", "defaultAction", "kern's own");
    refused(ERRNO_DEFAULT "\"listenerPath\": \"/x\"}", "listenerPath", "kern's own");
    refused(ERRNO_DEFAULT "\"syscall\": []}", "the document", "unknown key: \"syscall\"");
    refused(ERRNO_DEFAULT "\"defaultErrnoRet\": 4096}", "defaultErrnoRet", "not an errno");
    refused(ERRNO_DEFAULT "\"defaultErrno\": \"ENOPE\"}", "defaultErrno", "not an errno");
    refused(ERRNO_DEFAULT "\"syscalls\": {}}", "syscalls", "an array is expected");
    refused(ERRNO_DEFAULT "\"syscalls\": [3]}", "syscalls[0]", "an object is expected");
    refused(ERRNO_DEFAULT "\"architectures\": [\"amd64\"]}", "architectures[0]", "not an architecture");
    refused(ERRNO_DEFAULT "\"archMap\": [{\"architecture\": 1}]}", "archMap[0].architecture", "a string");
    refused(ERRNO_DEFAULT "\"archMap\": [{\"subArchitectures\": [\"X\"]}]}", "archMap[0].subArchitectures[0]",
            "not an architecture");
    refused(ONE_CALL("\"action\": \"SCMP_ACT_ALLOW\""), "syscalls[1]", "neither names nor name");
    refused(ONE_CALL("\"action\": \"SCMP_ACT_ALLOW\", \"name\": \"a\", \"names\": [\"b\"]"), "syscalls[1]",
            "both");
    refused(ONE_CALL("\"action\": \"SCMP_ACT_ALLOW\", \"names\": [\"b\", 4]"), "syscalls[1].names[1]",
            "a string");
    refused(ONE_CALL("\"name\": \"dup\""), "syscalls[1].action", "missing");
    refused(ONE_CALL("\"name\": \"dup\", \"action\": \"allow\""), "syscalls[1].action", "unknown action");
    refused(CALL_WITH("\"include\": {}"), "syscalls[1]", "unknown key: \"include\"");
    refused(CALL_WITH("\"errnoRet\": -1"), "syscalls[1].errnoRet", "not an errno");
    refused(CALL_WITH("\"args\": [1]"), "syscalls[1].args[0]", "an object is expected");
    refused(ARG("\"index\": 6, \"op\": \"SCMP_CMP_EQ\""), "syscalls[1].args[0].index", "out of range");
    refused(ARG("\"value\": -1, \"op\": \"SCMP_CMP_EQ\""), "syscalls[1].args[0].value", "out of range");
    refused(ARG("\"value\": \"1\", \"op\": \"SCMP_CMP_EQ\""), "syscalls[1].args[0].value", "a number");
    refused(ARG("\"value\": 1"), "syscalls[1].args[0].op", "missing");
    refused(ARG("\"value\": 1, \"op\": \"EQ\""), "syscalls[1].args[0].op", "unknown comparison: \"EQ\"");
    refused(ARG("\"val\": 1, \"op\": \"SCMP_CMP_EQ\""), "syscalls[1].args[0]", "unknown key");
    refused(CALL_WITH("\"includes\": []"), "syscalls[1].includes", "an object is expected");
    refused(CALL_WITH("\"includes\": {\"cap\": []}"), "syscalls[1].includes", "unknown key");
    refused(CALL_WITH("\"includes\": {\"caps\": [\"CAP_X\"]}"), "syscalls[1].includes.caps[0]",
            "not a capability");
    refused(CALL_WITH("\"excludes\": {\"arches\": [1]}"), "syscalls[1].excludes.arches[0]", "a string");
    refused(CALL_WITH("\"includes\": {\"minKernel\": \"new\"}"), "syscalls[1].includes.minKernel",
            "not a version");
    refused(CALL_WITH("\"includes\": {\"minKernel\": \"4.8x\"}"), "syscalls[1].includes.minKernel",
            "not a version");
    refused(
        CALL_WITH("\"args\": [{\"index\": 0, \"value\": 3, \"op\": \"SCMP_CMP_EQ\"}]}, {\"name\": \"dup\", "
                  "\"action\": \"SCMP_ACT_KILL\", \"args\": [{\"index\": 0, \"value\": 3, \"op\": "
                  "\"SCMP_CMP_EQ\"}]"),
        "\"dup\"", "two actions");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_actions),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_conditions),
        cmocka_unit_test(test_several_conditions),
        cmocka_unit_test(test_includes_and_excludes),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_floor),
        cmocka_unit_test(test_architectures),
        cmocka_unit_test(test_large_profile_is_a_tree),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
