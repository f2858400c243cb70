/* The pure half of the creds plugin: capability names and sets, --user and account lines, --ulimit; and what is written for
 * --apparmor. */
#include "creds_apparmor.h"
#include "creds_caps.h"
#include "creds_text.h"
#include "creds_ulimit.h"
#include "creds_user.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define BIT(number)  (UINT64_C(1) << (number))

/* ---- numbers and near misses ---- */

static void decimals(void **state)
{
    (void)state; /* no fixture */
    uint64_t number = 0;
    assert_int_equal(creds_decimal("0", 1, 9, &number), 0);
    assert_int_equal(number, 0);
    assert_int_equal(creds_decimal("9", 1, 9, &number), 0);
    assert_int_equal(number, 9);
    assert_int_equal(creds_decimal("10", 2, 9, &number), -ERANGE);
    assert_int_equal(creds_decimal("18446744073709551615", 20, UINT64_MAX, &number), 0);
    assert_true(number == UINT64_MAX);
    assert_int_equal(creds_decimal("18446744073709551616", 20, UINT64_MAX, &number), -ERANGE);
    assert_int_equal(creds_decimal("99999999999999999999999", 23, UINT64_MAX, &number), -ERANGE);
    static const char *const no[] = {"", " 1", "1 ", "+1", "-1", "0x1", "01", "00", "1a", "1\n"};
    for (size_t i = 0; i < COUNT(no); i++)
        assert_int_equal(creds_decimal(no[i], strlen(no[i]), UINT64_MAX, &number), -EINVAL);
    assert_true(number == UINT64_MAX); /* untouched by failures */
}

static void near_misses(void **state)
{
    (void)state; /* no fixture */
    static const char *const words[] = {"nofile", "nproc", "as"};
    assert_string_equal(creds_nearest("nofiles", words, 3), "nofile");
    assert_string_equal(creds_nearest("NPROC", words, 3), "nproc");
    assert_null(creds_nearest("elephant", words, 3));
    assert_null(creds_nearest("", words, 3));
    assert_null(creds_nearest("xy", words, 3));
    assert_null(creds_nearest("a word that is much longer than any in the table", words, 3));
}

/* ---- capabilities ---- */

static void cap_names(void **state)
{
    (void)state; /* no fixture */
    assert_int_equal(creds_cap_number("NET_RAW"), CAP_NET_RAW);
    assert_int_equal(creds_cap_number("CAP_NET_RAW"), CAP_NET_RAW);
    assert_int_equal(creds_cap_number("cap_net_raw"), CAP_NET_RAW);
    assert_int_equal(creds_cap_number("chown"), 0);
    assert_int_equal(creds_cap_number("Checkpoint_Restore"), 40);
    static const char *const no[] = {"", "CAP_", "CAP_CAP_CHOWN", "NET-RAW", "NET_RAW ", "0", "13"};
    for (size_t i = 0; i < COUNT(no); i++)
        assert_int_equal(creds_cap_number(no[i]), -1);
    for (int i = 0; i < CREDS_CAP_COUNT; i++)
        assert_int_equal(creds_cap_number(creds_cap_name(i)), i);
    assert_null(creds_cap_name(-1));
    assert_null(creds_cap_name(CREDS_CAP_COUNT));
}

static void cap_default_lacks_the_sixteen(void **state)
{
    (void)state; /* no fixture */
    static const char *const sixteen[] = {"NET_ADMIN",     "SYS_MODULE",   "SYS_RAWIO", "SYS_PTRACE",
                                          "SYS_PACCT",     "SYS_ADMIN",    "SYS_BOOT",  "SYS_TIME",
                                          "AUDIT_CONTROL", "MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG",
                                          "WAKE_ALARM",    "AUDIT_READ",   "PERFMON",   "BPF"};
    uint64_t lacking = 0;
    for (size_t i = 0; i < COUNT(sixteen); i++)
        lacking |= BIT(creds_cap_number(sixteen[i]));
    assert_int_equal(__builtin_popcountll(lacking), 16);
    assert_true(creds_caps_default() == (CREDS_CAPS_ALL & ~lacking));
}

static void cap_list_items(void **state)
{
    (void)state; /* no fixture */
    struct creds_cap_list list = {0};
    struct kern_error err = {0};
    assert_int_equal(creds_cap_list_add(&list, "cap-drop", "chown", &err), 0);
    assert_int_equal(creds_cap_list_add(&list, "cap-drop", "CAP_KILL", &err), 0);
    assert_true(list.named == (BIT(CAP_CHOWN) | BIT(CAP_KILL)));
    assert_false(list.all);
    assert_int_equal(creds_cap_list_add(&list, "cap-drop", "all", &err), 0);
    assert_true(list.all);
    assert_int_equal(err.category, KERN_ERROR_NONE);

    assert_true(creds_cap_list_add(&list, "cap-drop", "CAP_NET_RAV", &err) < 0);
    assert_int_equal(err.category, KERN_ERROR_REFUSED);
    assert_non_null(strstr(err.message, "\"CAP_NET_RAV\""));
    assert_non_null(strstr(err.hint, "--cap-drop NET_RAW"));

    struct kern_error far = {0};
    assert_true(creds_cap_list_add(&list, "cap-add", "elephantiasis", &far) < 0);
    assert_non_null(strstr(far.hint, "capabilities(7)"));
}

struct cap_row {
    const char *what;
    struct creds_cap_list drop, add;
    uint64_t kept;
};

static void cap_sets(void **state)
{
    (void)state; /* no fixture */
    const uint64_t usual = creds_caps_default();
    const uint64_t raw = BIT(CAP_NET_RAW), admin = BIT(CAP_SYS_ADMIN), chown = BIT(CAP_CHOWN);
    const struct cap_row row[] = {
        {"nothing said", {0}, {0}, usual},
        {"drop one", {.named = raw, .rank = 3}, {0}, usual & ~raw},
        {"add one of the sixteen", {0}, {.named = admin, .rank = 3}, usual | admin},
        {"drop ALL", {.all = true, .rank = 3}, {0}, 0},
        {"drop ALL, add one", {.all = true, .rank = 3}, {.named = chown, .rank = 3}, chown},
        {"add ALL", {0}, {.all = true, .rank = 3}, CREDS_CAPS_ALL},
        {"add ALL, drop one", {.named = raw, .rank = 3}, {.all = true, .rank = 3}, CREDS_CAPS_ALL & ~raw},
        {"flag adds what the file drops", {.named = raw, .rank = 1}, {.named = raw, .rank = 3}, usual},
        {"flag drops what the file adds", {.named = admin, .rank = 3}, {.named = admin, .rank = 1}, usual},
        {"flag drops ALL, file adds", {.all = true, .rank = 3}, {.named = admin, .rank = 1}, 0},
        {"file drops ALL, flag adds", {.all = true, .rank = 1}, {.named = admin, .rank = 3}, admin},
    };
    for (size_t i = 0; i < COUNT(row); i++) {
        struct kern_error err = {0};
        uint64_t kept = 0;
        if (creds_caps_resolve(&row[i].drop, &row[i].add, &kept, &err) != 0 || kept != row[i].kept)
            fail_msg("%s: got %llx, want %llx", row[i].what, (unsigned long long)kept,
                     (unsigned long long)row[i].kept);
    }
}

static void cap_contradictions(void **state)
{
    (void)state; /* no fixture */
    const struct creds_cap_list raw = {.named = BIT(CAP_NET_RAW), .rank = 3}, all = {.all = true, .rank = 3};
    struct kern_error err = {0};
    uint64_t kept = 42;
    assert_true(creds_caps_resolve(&raw, &raw, &kept, &err) < 0);
    assert_non_null(strstr(err.message, "\"NET_RAW\""));
    struct kern_error both = {0};
    assert_true(creds_caps_resolve(&all, &all, &kept, &both) < 0);
    assert_non_null(strstr(both.message, "\"ALL\""));
    assert_int_equal(kept, 42);
}

/* ---- --user ---- */

static void user_strings_that_are_refused(void **state)
{
    (void)state; /* no fixture */
    static const char *const no[] = {
        "",           "0x0",      "4294967296", "4294967295", "18446744073709551616",
        "-1",         "-0",       "0 ",         " 0",         "0\n",
        "root\n",     "root ",    " root",      "1:2:3",      ":5",
        "5:",         ":",        "::",         "+0",         "+",
        "00",         "010",      "0.0",        "1e3",        "0:0:",
        "root:",      ":root",    "ro ot",      "root/x",     "../root",
        "1000:0x5",   "1000:-1",  "1000:00",    "1000: 5",    "1000:4294967295",
        "r\xc3\xb6t", "a$b",      "$",          "-root",      ".",
        "0,0",        "\xd9\xa0", "#0",         "0\t",        "root:root:root",
    };
    for (size_t i = 0; i < COUNT(no); i++) {
        struct kern_error err = {0};
        struct creds_user user = {.user = {.number = 77}};
        if (creds_user_parse(no[i], &user, &err) == 0)
            fail_msg("\"%s\" was taken for a user", no[i]);
        assert_int_equal(err.category, KERN_ERROR_REFUSED);
        assert_non_null(strstr(err.message, "cannot use --user"));
        assert_int_equal(user.user.number, 77); /* untouched */
    }
    char long_name[65];
    memset(long_name, 'a', sizeof(long_name) - 1);
    long_name[64] = '\0';
    struct creds_user user;
    struct kern_error err = {0};
    assert_true(creds_user_parse(long_name, &user, &err) < 0);
    long_name[63] = '\0';
    struct kern_error none = {0};
    assert_int_equal(creds_user_parse(long_name, &user, &none), 0);
    assert_string_equal(user.user.name, long_name);
}

static void user_strings_that_are_taken(void **state)
{
    (void)state; /* no fixture */
    static const struct {
        const char *text, *user, *group;
        uint32_t uid, gid;
        bool has_group;
    } row[] = {
        {"0", "", "", 0, 0, false},
        {"1000", "", "", 1000, 0, false},
        {"4294967294", "", "", 4294967294u, 0, false},
        {"1000:5", "", "", 1000, 5, true},
        {"0:0", "", "", 0, 0, true},
        {"root", "root", "", 0, 0, false},
        {"www-data", "www-data", "", 0, 0, false},
        {"_apt:nogroup", "_apt", "nogroup", 0, 0, true},
        {"app:33", "app", "", 0, 33, true},
        {"33:web", "", "web", 33, 0, true},
        {"pc$", "pc$", "", 0, 0, false},
        {"x0", "x0", "", 0, 0, false},
    };
    for (size_t i = 0; i < COUNT(row); i++) {
        struct kern_error err = {0};
        struct creds_user user;
        assert_int_equal(creds_user_parse(row[i].text, &user, &err), 0);
        assert_true(user.user.given);
        assert_string_equal(user.user.name, row[i].user);
        assert_int_equal(user.user.number, row[i].uid);
        assert_int_equal(user.group.given, row[i].has_group);
        assert_string_equal(user.group.name, row[i].group);
        assert_int_equal(user.group.number, row[i].gid);
    }
}

static int match(const char *line, const char *name, uint32_t number, struct creds_account *account)
{
    struct creds_id wanted = {.given = true, .number = number};
    strcpy(wanted.name, name);
    return creds_user_match_passwd(line, strlen(line), &wanted, account);
}

static void passwd_lines_by_name(void **state)
{
    (void)state; /* no fixture */
    struct creds_account account = {.uid = 77, .gid = 77};
    assert_int_equal(match("app:x:1000:100:App,,,:/home/app:/bin/sh", "app", 0, &account), 1);
    assert_int_equal(account.uid, 1000);
    assert_int_equal(account.gid, 100);
    assert_string_equal(account.home, "/home/app");
    assert_int_equal(match("app:x:5:6", "app", 0, &account), 1);
    assert_string_equal(account.home, "/");

    account = (struct creds_account){.uid = 77, .gid = 77};
    static const char *const other[] = {"apple:x:1:1::/:", "ap:x:1:1::/:",  "App:x:1:1::/:", "", ":",
                                        "#app:x:1:1::/:",  " app:x:1:1::/:"};
    for (size_t i = 0; i < COUNT(other); i++)
        assert_int_equal(match(other[i], "app", 0, &account), 0);
    static const char *const unsound[] = {
        "app",          "app:x",       "app:x:1",      "app:x::1::/:",
        "app:x:0x0:1:", "app:x:-1:1:", "app:x:1:-1:",  "app:x:4294967296:1:",
        "app:x: 0:1:",  "app:x:00:1:", "app:x:root:1", "app:x:4294967295:1:",
        "app:x:1::::",  "app:x:+0:1:"};
    for (size_t i = 0; i < COUNT(unsound); i++)
        if (match(unsound[i], "app", 0, &account) != -EINVAL)
            fail_msg("\"%s\" was taken", unsound[i]);
    assert_int_equal(account.uid, 77);
    assert_int_equal(account.gid, 77);
}

static void passwd_lines_by_number(void **state)
{
    (void)state; /* no fixture */
    struct creds_account account = {.uid = 77};
    assert_int_equal(match("app:x:1000:100::/home/app:/bin/sh", "", 1000, &account), 1);
    assert_int_equal(account.gid, 100);
    assert_int_equal(match("app:x:1000:100::/home/app:/bin/sh", "", 100, &account), 0);
    /* A line that cannot be read says nothing about any number, least of all about 0. */
    static const char *const unsound[] = {"app", "app:x:::/", "app:x:x:0:", "app:x:0x0:0:", "1000:x:y:0", ""};
    for (size_t i = 0; i < COUNT(unsound); i++)
        assert_int_equal(match(unsound[i], "", 0, &account), 0);
}

static void homes(void **state)
{
    (void)state; /* no fixture */
    struct creds_account account;
    static const char *const odd[] = {
        "a:x:1:1:::", "a:x:1:1::relative:", "a:x:1:1::/x\x1b[2J:", "a:x:1:1::/x\x7f:"};
    for (size_t i = 0; i < COUNT(odd); i++) {
        assert_int_equal(match(odd[i], "a", 0, &account), 1);
        assert_string_equal(account.home, "/");
    }
    char line[400] = "a:x:1:1::/";
    memset(line + strlen(line), 'h', 254); /* 255 characters: the longest that fits */
    assert_int_equal(match(line, "a", 0, &account), 1);
    assert_int_equal(strlen(account.home), 255);
    line[strlen(line)] = 'h';
    assert_int_equal(match(line, "a", 0, &account), 1);
    assert_string_equal(account.home, "/");
}

static void group_lines(void **state)
{
    (void)state; /* no fixture */
    const struct creds_id web = {.given = true, .name = "web"};
    uint32_t gid = 77;
    assert_int_equal(creds_user_match_group("web:x:33:a,b", 12, &web, &gid), 1);
    assert_int_equal(gid, 33);
    assert_int_equal(creds_user_match_group("web:x:34", 8, &web, &gid), 1);
    assert_int_equal(gid, 34);
    assert_int_equal(creds_user_match_group("webb:x:1:", 9, &web, &gid), 0);
    assert_int_equal(creds_user_match_group("web:x:0x0:", 10, &web, &gid), -EINVAL);
    assert_int_equal(creds_user_match_group("web:x", 5, &web, &gid), -EINVAL);
    assert_int_equal(creds_user_match_group("web:x::", 7, &web, &gid), -EINVAL);
    assert_int_equal(gid, 34);
}

/* ---- --ulimit ---- */

static void ulimits_that_are_taken(void **state)
{
    (void)state; /* no fixture */
    static const struct {
        const char *text;
        int resource;
        rlim_t soft, hard;
    } row[] = {
        {"nofile=1024", RLIMIT_NOFILE, 1024, 1024},
        {"nofile=1024:2048", RLIMIT_NOFILE, 1024, 2048},
        {"core=0", RLIMIT_CORE, 0, 0},
        {"core=0:-1", RLIMIT_CORE, 0, RLIM_INFINITY},
        {"stack=unlimited", RLIMIT_STACK, RLIM_INFINITY, RLIM_INFINITY},
        {"as=1:unlimited", RLIMIT_AS, 1, RLIM_INFINITY},
        {"rttime=18446744073709551614", RLIMIT_RTTIME, RLIM_INFINITY - 1, RLIM_INFINITY - 1},
    };
    for (size_t i = 0; i < COUNT(row); i++) {
        struct kern_error err = {0};
        struct creds_ulimit got;
        assert_int_equal(creds_ulimit_parse(row[i].text, &got, &err), 0);
        assert_int_equal(got.resource, row[i].resource);
        assert_true(got.limit.rlim_cur == row[i].soft);
        assert_true(got.limit.rlim_max == row[i].hard);
    }
}

static void every_ulimit_has_its_name(void **state)
{
    (void)state; /* no fixture */
    static const char *const names[] = {"nofile", "nproc",  "core",       "as",       "cpu",  "data",
                                        "fsize",  "locks",  "memlock",    "msgqueue", "nice", "rss",
                                        "rtprio", "rttime", "sigpending", "stack"};
    assert_int_equal(COUNT(names), RLIM_NLIMITS);
    uint32_t seen = 0;
    for (size_t i = 0; i < COUNT(names); i++) {
        char text[32];
        (void)snprintf(text, sizeof(text), "%s=1", names[i]); /* short names */
        struct kern_error err = {0};
        struct creds_ulimit got;
        assert_int_equal(creds_ulimit_parse(text, &got, &err), 0);
        assert_string_equal(creds_ulimit_name(got.resource), names[i]);
        seen |= 1u << got.resource;
    }
    assert_int_equal(seen, 0xffff);
}

static void ulimits_that_are_refused(void **state)
{
    (void)state; /* no fixture */
    static const struct {
        const char *text, *why;
    } row[] = {
        {"", "unknown limit"},
        {"=1", "unknown limit"},
        {"nofiles=1", "unknown limit \"nofiles\""},
        {"NOFILE=1", "unknown limit"},
        {"nofile", "whole number"},
        {"nofile=", "whole number"},
        {"nofile=:5", "whole number"},
        {"nofile=5:", "whole number"},
        {"nofile=1:2:3", "whole number"},
        {"nofile=-2", "whole number"},
        {"nofile=1k", "whole number"},
        {"nofile= 1", "whole number"},
        {"nofile=+1", "whole number"},
        {"nofile=18446744073709551615", "whole number"},
        {"nofile=18446744073709551616", "whole number"},
        {"nofile=2:1", "above the hard"},
        {"nofile=unlimited:5", "above the hard"},
    };
    for (size_t i = 0; i < COUNT(row); i++) {
        struct kern_error err = {0};
        struct creds_ulimit got = {.resource = 99};
        if (creds_ulimit_parse(row[i].text, &got, &err) == 0 || strstr(err.message, row[i].why) == NULL)
            fail_msg("\"%s\": %s", row[i].text, err.message);
        assert_int_equal(err.category, KERN_ERROR_REFUSED);
        assert_int_equal(got.resource, 99);
    }
    struct kern_error err = {0};
    struct creds_ulimit got;
    assert_true(creds_ulimit_parse("nofil=5:6", &got, &err) < 0);
    assert_string_equal(err.hint, "did you mean --ulimit nofile=5:6?");
}

static void limits_as_text(void **state)
{
    (void)state; /* no fixture */
    assert_string_equal(creds_ulimit_format(RLIM_INFINITY).text, "unlimited");
    assert_string_equal(creds_ulimit_format(RLIM_INFINITY - 1).text, "18446744073709551614");
    assert_string_equal(creds_ulimit_format(0).text, "0");
}

/* ---- AppArmor ---- */

/* A tracer sees what is written, whether or not this kernel has AppArmor. Returns the length, 0 where nothing was written. */
static size_t watch_write(pid_t child, char *text, size_t room)
{
    struct __ptrace_syscall_info call;
    int status = 0;
    size_t length = 0;
    while (ptrace(PTRACE_SYSCALL, child, NULL, NULL) == 0 && waitpid(child, &status, 0) == child &&
           WIFSTOPPED(status)) {
        if (ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof(call), &call) <= 0 ||
            call.op != PTRACE_SYSCALL_INFO_ENTRY || call.entry.nr != SYS_write || call.entry.args[2] >= room)
            continue;
        struct iovec to = {.iov_base = text, .iov_len = (size_t)call.entry.args[2]};
        struct iovec from = {.iov_base = (void *)(uintptr_t)call.entry.args[1], .iov_len = to.iov_len};
        length = (size_t)process_vm_readv(child, &to, 1, &from, 1, 0);
    }
    return length;
}

static void the_profile_is_asked_for(void **state)
{
    (void)state; /* no fixture */
    char text[64] = "";
    int root = open("/", O_PATH | O_DIRECTORY);
    assert_true(root >= 0);
    if (access("/proc/self/attr/exec", F_OK) != 0)
        skip(); /* a kernel without security modules */
    pid_t child = fork();
    if (child == 0) {
        struct kern_error err = {0};
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0 || raise(SIGSTOP) != 0)
            _exit(2);
        _exit(creds_apparmor_ask(root, "kern-no-such profile", &err) < 0 ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFSTOPPED(status))
        skip(); /* nobody may trace here */
    assert_int_equal(ptrace(PTRACE_SETOPTIONS, child, NULL, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL), 0);
    size_t length = watch_write(child, text, sizeof(text));
    assert_int_equal(length, strlen("exec kern-no-such profile"));
    assert_memory_equal(text, "exec kern-no-such profile", length);
    (void)close(root); /* only a place */
}

/* An image may have any file at that name: what is written there confines nobody. */
static void a_made_up_proc_is_not_written_to(void **state)
{
    (void)state; /* no fixture */
    char folder[] = "/tmp/kern-creds-XXXXXX", path[64];
    static const char *const parts[] = {"/proc", "/proc/self", "/proc/self/attr"};
    assert_non_null(mkdtemp(folder));
    for (size_t i = 0; i < COUNT(parts); i++) {
        (void)snprintf(path, sizeof(path), "%s%s", folder, parts[i]); /* fits */
        assert_int_equal(mkdir(path, 0755), 0);
    }
    (void)snprintf(path, sizeof(path), "%s/proc/self/attr/exec", folder); /* fits */
    int file = open(path, O_CREAT | O_RDWR, 0644), root = open(folder, O_PATH | O_DIRECTORY);
    struct kern_error err = {0};
    struct stat st;
    assert_int_equal(creds_apparmor_ask(root, "any", &err), -EXDEV);
    assert_int_equal(fstat(file, &st), 0);
    assert_int_equal(st.st_size, 0);
    (void)close(file), (void)close(root), (void)unlink(path); /* leaves nothing */
    for (size_t i = COUNT(parts); i > 0; i--) {
        (void)snprintf(path, sizeof(path), "%s%s", folder, parts[i - 1]); /* fits */
        (void)rmdir(path);                                                /* as above */
    }
    (void)rmdir(folder); /* as above */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decimals),
        cmocka_unit_test(near_misses),
        cmocka_unit_test(cap_names),
        cmocka_unit_test(cap_default_lacks_the_sixteen),
        cmocka_unit_test(cap_list_items),
        cmocka_unit_test(cap_sets),
        cmocka_unit_test(cap_contradictions),
        cmocka_unit_test(user_strings_that_are_refused),
        cmocka_unit_test(user_strings_that_are_taken),
        cmocka_unit_test(passwd_lines_by_name),
        cmocka_unit_test(passwd_lines_by_number),
        cmocka_unit_test(homes),
        cmocka_unit_test(group_lines),
        cmocka_unit_test(ulimits_that_are_taken),
        cmocka_unit_test(every_ulimit_has_its_name),
        cmocka_unit_test(ulimits_that_are_refused),
        cmocka_unit_test(limits_as_text),
        cmocka_unit_test(the_profile_is_asked_for),
        cmocka_unit_test(a_made_up_proc_is_not_written_to),
    };
    return cmocka_run_group_tests_name("creds", tests, NULL, NULL);
}
