/* Which ids a box gets, as whom and how it is written into the kernel's maps; hostnames; sysctls. Pure. */
#include "namespace_ids.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void assert_range(const char *text, uint32_t start, uint32_t count)
{
    struct namespace_range range = namespace_find_range(text, "ann", 1000);
    if (range.start != start || range.count != count)
        fail_msg("%s: got %u:%u", text, range.start, range.count);
}

static void test_find_range(void **state)
{
    (void)state;
    assert_range("ann:100000:65536\n", 100000, 65536);
    assert_range("ann:100000:65536", 100000, 65536); /* no newline at the end */
    assert_range("bob:1:9\nann:200000:1000\n", 200000, 1000);
    assert_range("1000:300000:65536\n", 300000, 65536); /* by number */
    assert_range("bob:1:9\n\n\nann:5:6\n", 5, 6);
    assert_range("\nann:5:6\n", 5, 6);
    assert_range("ann:5:6\nann:7:8\n", 5, 6); /* the first counts */
    assert_range("ann:4294901760:65535\n", 4294901760u, 65535);
}

static void test_no_range(void **state)
{
    (void)state;
    assert_range("", 0, 0);
    assert_range(NULL, 0, 0);
    assert_range("\n\n", 0, 0);
    assert_range("bob:100000:65536\n", 0, 0);
    assert_range("anna:100000:65536\nan:100000:65536\n", 0, 0);
    assert_range("10000:100000:65536\n100:100000:65536\n", 0, 0);
    assert_range("#ann:100000:65536\n", 0, 0);
    assert_range(" ann:100000:65536\n", 0, 0);
    assert_range("ann\n", 0, 0);
    assert_range("ann:\n", 0, 0);
    assert_range("ann:100000\n", 0, 0);
    assert_range("ann:100000:\n", 0, 0);
    assert_range("ann::65536\n", 0, 0);
    assert_range("ann:-1:65536\n", 0, 0);
    assert_range("ann: 100000:65536\n", 0, 0);
    assert_range("ann:x:65536\n", 0, 0);
    assert_range("ann:100000:x\n", 0, 0);
    assert_range("ann:100000\n:65536\n", 0, 0); /* a line ends where it ends */
}

static void test_ranges_that_are_of_no_use(void **state)
{
    (void)state;
    assert_range("ann:0:65536\n", 0, 0); /* would be root's own id */
    assert_range("ann:100000:0\n", 0, 0);
    assert_range("ann:100000:1\n", 0, 0);
    assert_range("ann:100000:2\n", 100000, 2);
    assert_range("ann:4294967296:65536\n", 0, 0);
    assert_range("ann:100000:99999999999999999999999\n", 0, 0);
    assert_range("ann:bad:9\nann:0:9\nann:7:9\n", 7, 9); /* the next one is looked at */
}

static void test_a_user_without_a_name(void **state)
{
    (void)state;
    struct namespace_range range = namespace_find_range("ann:5:6\n1000:7:8\n", NULL, 1000);
    assert_int_equal(range.start, 7);
    assert_int_equal(namespace_find_range("ann:5:6\n", NULL, 1000).count, 0);
}

static const struct namespace_caller ann = {.uid = 1000, .gid = 1001, .user = "ann"};
static const struct namespace_caller root = {.real_root = 1, .user = "root"};
static const struct namespace_range none = {0}, big = {100000, 1000000}, small = {200000, 1000};

static struct kern_ids chosen(const struct namespace_caller *caller, uint32_t mode, int want_range,
                              struct namespace_range uids, struct namespace_range gids)
{
    struct kern_ids ids = {0};
    struct kern_error err = {0};
    assert_int_equal(namespace_choose(caller, mode, want_range, uids, gids, &ids, &err), 0);
    assert_int_equal(err.category, KERN_ERROR_NONE);
    return ids;
}

static void assert_maps(const struct kern_ids *ids, const char *uid, const char *gid, const char *inner_uid,
                        const char *inner_gid)
{
    assert_string_equal(ids->uid_map, uid);
    assert_string_equal(ids->gid_map, gid);
    assert_string_equal(ids->inner_uid_map, inner_uid);
    assert_string_equal(ids->inner_gid_map, inner_gid);
}

static void test_a_user_is_root_of_a_single_id(void **state)
{
    (void)state;
    /* A range that nobody asked for changes nothing. */
    for (int i = 0; i < 2; i++) {
        struct kern_ids ids = chosen(&ann, NAMESPACE_AUTO, 0, i == 0 ? none : big, i == 0 ? none : big);
        assert_maps(&ids, "0 1000 1\n", "0 1001 1\n", "0 0 1\n", "0 0 1\n");
        assert_int_equal(ids.how, KERN_IDS_SELF);
        assert_int_equal(ids.count, 1);
        assert_int_equal(ids.inside, 0);
        assert_int_equal(ids.base, 1000);
        assert_int_equal(ids.shifted, 0);
    }
}

static void test_a_user_keeps_the_id(void **state)
{
    (void)state;
    struct kern_ids ids = chosen(&ann, NAMESPACE_KEEP, 1, big, big);
    assert_maps(&ids, "1000 1000 1\n", "1001 1001 1\n", "1000 1000 1\n", "1001 1001 1\n");
    assert_int_equal(ids.how, KERN_IDS_SELF);
    assert_int_equal(ids.inside, 1000);
}

static void test_a_user_with_a_range(void **state)
{
    (void)state;
    struct kern_ids ids = chosen(&ann, NAMESPACE_AUTO, 1, big, small);
    assert_maps(&ids, "0 1000 1 1 100000 65536", "0 1001 1 1 200000 1000", "0 0 1\n1 1 65536\n",
                "0 0 1\n1 1 1000\n");
    assert_int_equal(ids.how, KERN_IDS_HELPER);
    assert_int_equal(ids.become, 1);
    assert_int_equal(ids.base, 1000);
    assert_int_equal(ids.count, 1001); /* the smaller of both, and the caller's own */
}

static void assert_refused(uint32_t mode, struct namespace_range uids, struct namespace_range gids,
                           const char *part, const char *hint)
{
    struct kern_ids ids = {.count = 77};
    struct kern_error err = {0};
    assert_true(namespace_choose(&ann, mode, 1, uids, gids, &ids, &err) < 0);
    assert_int_equal(ids.count, 77);
    assert_int_equal(err.category, KERN_ERROR_REFUSED);
    assert_non_null(strstr(err.message, part));
    assert_non_null(strstr(err.hint, hint));
}

static void test_what_a_user_is_refused(void **state)
{
    (void)state;
    assert_refused(NAMESPACE_HOST, big, big, "--userns=host", "");
    assert_refused(NAMESPACE_AUTO, none, big, "/etc/subuid has no line for \"ann\"", "usermod --add-subuids");
    assert_refused(NAMESPACE_AUTO, big, none, "/etc/subgid has no line for \"ann\"",
                   "ann, or leave out --uid-range");
}

static void test_root_gets_a_range_of_the_box(void **state)
{
    (void)state;
    for (int want = 0; want < 2; want++) {
        struct kern_ids ids = chosen(&root, NAMESPACE_AUTO, want, big, small);
        assert_maps(&ids, "0 100000 1000\n", "0 200000 1000\n", "0 0 1000\n", "0 0 1000\n");
        assert_int_equal(ids.how, KERN_IDS_PARENT);
        assert_int_equal(ids.become, 1);
        assert_int_equal(ids.shifted, 1);
        assert_int_equal(ids.base, 100000);
        assert_int_equal(ids.gid_base, 200000);
        assert_int_equal(ids.count, 1000);
    }
    struct kern_ids ids = chosen(&root, NAMESPACE_AUTO, 0, big, big);
    assert_maps(&ids, "0 100000 65536\n", "0 100000 65536\n", "0 0 65536\n", "0 0 65536\n");
}

static void test_root_keeps_its_ids_or_has_no_namespace(void **state)
{
    (void)state;
    struct kern_ids ids = chosen(&root, NAMESPACE_KEEP, 0, big, big);
    assert_maps(&ids, "0 0 4294967295\n", "0 0 4294967295\n", "0 0 4294967295\n", "0 0 4294967295\n");
    assert_int_equal(ids.how, KERN_IDS_PARENT);
    assert_int_equal(ids.shifted, 0);
    ids = chosen(&root, NAMESPACE_HOST, 0, big, big);
    assert_maps(&ids, "", "", "", "");
    assert_int_equal(ids.how, KERN_IDS_NONE);
}

/* The largest numbers fit into the texts of the maps. */
static void test_the_longest_maps(void **state)
{
    (void)state;
    const struct namespace_caller last = {.uid = 4294967294u, .gid = 4294967294u, .user = "last"};
    const struct namespace_range high = {4294901760u, 65535};
    struct kern_ids ids = chosen(&last, NAMESPACE_AUTO, 1, high, high);
    assert_maps(&ids, "0 4294967294 1 1 4294901760 65535", "0 4294967294 1 1 4294901760 65535",
                "0 0 1\n1 1 65535\n", "0 0 1\n1 1 65535\n");
    ids = chosen(&last, NAMESPACE_KEEP, 0, none, none);
    assert_string_equal(ids.inner_uid_map, "4294967294 4294967294 1\n");
}

static void test_hostnames(void **state)
{
    (void)state;
    char longest[66];
    memset(longest, 'h', 64);
    longest[64] = '\0';
    const char *const good[] = {"a", "box", "a-b.c", "web_1", "9", "A", "a-", longest};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        assert_int_equal(namespace_check_hostname(good[i]), 0);
    char longer[66];
    memset(longer, 'h', 65);
    longer[65] = '\0';
    const char *const bad[] = {"", "-a", ".a", "a b", "a/b", "a\n", "a:b", "\xc3\xa9", "a\"", "a,b", longer};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(namespace_check_hostname(bad[i]), -EINVAL);
}

static void test_sysctls_of_the_box(void **state)
{
    (void)state;
    static const struct {
        const char *key, *path;
        int own_network;
    } rows[] = {
        {"kernel.shmmax", "sys/kernel/shmmax", 0},
        {"kernel.shm_rmid_forced", "sys/kernel/shm_rmid_forced", 1},
        {"kernel.domainname", "sys/kernel/domainname", 0},
        {"kernel.sem", "sys/kernel/sem", 0},
        {"fs.mqueue.msg_max", "sys/fs/mqueue/msg_max", 0},
        {"net.ipv4.ip_forward", "sys/net/ipv4/ip_forward", 1},
        {"net.core.somaxconn", "sys/net/core/somaxconn", 1},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char path[128] = "";
        assert_int_equal(namespace_sysctl_path(rows[i].key, rows[i].own_network, path, sizeof(path)), 0);
        assert_string_equal(path, rows[i].path);
    }
}

static void test_sysctls_of_the_host(void **state)
{
    (void)state;
    const char *const bad[] = {"",
                               "kernel",
                               "kernel.core_pattern",
                               "kernel.hostname2",
                               "kernel.shmmaxx",
                               "kernel.modprobe",
                               "vm.overcommit_memory",
                               "fs.file-max",
                               "fs.mqueue",
                               "user.max_user_namespaces",
                               "net",
                               "kernel/shmmax",
                               "net/ipv4/ip_forward",
                               "net.ipv4/../../kernel/core_pattern",
                               "net...kernel.core_pattern",
                               "net..core",
                               "fs.mqueue..",
                               "fs.mqueue...",
                               "../kernel.shmmax",
                               "/kernel.shmmax"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char path[128] = "untouched";
        if (namespace_sysctl_path(bad[i], 1, path, sizeof(path)) != -EINVAL)
            fail_msg("\"%s\" was allowed", bad[i]);
        assert_string_equal(path, "untouched");
    }
    char path[128] = "untouched";
    assert_int_equal(namespace_sysctl_path("net.ipv4.ip_forward", 0, path, sizeof(path)), -EINVAL);
    assert_string_equal(path, "untouched");
}

static void test_a_sysctl_that_does_not_fit(void **state)
{
    (void)state;
    char path[18];
    assert_int_equal(namespace_sysctl_path("kernel.shmmax", 0, path, sizeof(path)), 0);
    assert_string_equal(path, "sys/kernel/shmmax");
    assert_int_equal(namespace_sysctl_path("kernel.shmmax", 0, path, sizeof(path) - 1), -ENAMETOOLONG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_find_range),
        cmocka_unit_test(test_no_range),
        cmocka_unit_test(test_ranges_that_are_of_no_use),
        cmocka_unit_test(test_a_user_without_a_name),
        cmocka_unit_test(test_a_user_is_root_of_a_single_id),
        cmocka_unit_test(test_a_user_keeps_the_id),
        cmocka_unit_test(test_a_user_with_a_range),
        cmocka_unit_test(test_what_a_user_is_refused),
        cmocka_unit_test(test_root_gets_a_range_of_the_box),
        cmocka_unit_test(test_root_keeps_its_ids_or_has_no_namespace),
        cmocka_unit_test(test_the_longest_maps),
        cmocka_unit_test(test_hostnames),
        cmocka_unit_test(test_sysctls_of_the_box),
        cmocka_unit_test(test_sysctls_of_the_host),
        cmocka_unit_test(test_a_sysctl_that_does_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
