/* The pure parts of the cgroup plugin: where the caller stands (mountinfo and /proc/self/cgroup of several kinds of
 * machine), CPU lists, quotas, counters, and what is said about caps that do not bind. Needs no privilege. */
#include "plugins/cgroup/cgroup_limits.h"
#include "plugins/cgroup/cgroup_map.h"
#include "plugins/cgroup/cgroup_state.h"
#include "plugins/cgroup/cgroup_sweep.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void map_v1(void **unused)
{
    (void)unused;
    struct cgroup_map map;
    cgroup_map_parse("23 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"
                     "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
                     "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
                     "34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
                     "35 31 0:32 / /sys/fs/cgroup/memory rw shared:1 master:2 - cgroup cgroup rw,memory\n"
                     "39 31 0:36 / /sys/fs/cgroup/pids ro - cgroup cgroup rw,pids\n",
                     "9:name=systemd:/\n8:pids:/\n4:memory:/jobs/a\n3:cpuset:/\n1:cpu,cpuacct:/x\n", &map);
    assert_string_equal(map.v1[CGROUP_MEMORY].own, "/sys/fs/cgroup/memory/jobs/a");
    assert_int_equal(map.v1[CGROUP_MEMORY].mount_length, strlen("/sys/fs/cgroup/memory"));
    assert_int_equal(map.v1[CGROUP_MEMORY].read_only, 0);
    assert_string_equal(map.v1[CGROUP_CPU].own, "/sys/fs/cgroup/cpu,cpuacct/x");
    assert_string_equal(map.accounts.own, "/sys/fs/cgroup/cpu,cpuacct/x");
    assert_string_equal(map.v1[CGROUP_CPUSET].own, "/sys/fs/cgroup/cpuset");
    assert_string_equal(map.v1[CGROUP_PIDS].own, "/sys/fs/cgroup/pids");
    assert_int_equal(map.v1[CGROUP_PIDS].read_only, 1);
    assert_string_equal(map.v1[CGROUP_IO].own, "");
    assert_string_equal(map.v2.own, "");
}

static void map_hybrid(void **unused)
{
    (void)unused;
    struct cgroup_map map;
    cgroup_map_parse("38 31 0:35 / /sys/fs/cgroup/blkio rw - cgroup cgroup rw,blkio\n"
                     "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw,nsdelegate\n",
                     "7:blkio:/\n0::/user.slice/session-1.scope\n", &map);
    assert_string_equal(map.v1[CGROUP_IO].own, "/sys/fs/cgroup/blkio");
    assert_string_equal(map.v2.own, "/sys/fs/cgroup/unified/user.slice/session-1.scope");
}

static void map_v2_and_its_ancestors(void **unused)
{
    (void)unused;
    struct cgroup_map map;
    cgroup_map_parse("30 22 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw",
                     "0::/user.slice/user-1000.slice/s.scope", &map);
    char path[CGROUP_PATH_MAX];
    assert_int_equal(cgroup_place_ancestor(&map.v2, 0, path), 0);
    assert_string_equal(path, "/sys/fs/cgroup");
    assert_int_equal(cgroup_place_ancestor(&map.v2, 2, path), 0);
    assert_string_equal(path, "/sys/fs/cgroup/user.slice/user-1000.slice");
    assert_int_equal(cgroup_place_ancestor(&map.v2, 3, path), 0);
    assert_string_equal(path, map.v2.own);
    assert_int_equal(cgroup_place_ancestor(&map.v2, 4, path), -ENOENT);
}

static void map_container_without_namespace(void **unused)
{
    (void)unused;
    struct cgroup_map map;
    const char *mounts = "35 31 0:32 /docker/ab1 /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
                         "36 31 0:33 /docker/ab1 /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n"
                         "37 31 0:34 /docker/ab1 /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
                         "38 31 0:35 /../.. /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n";
    cgroup_map_parse(mounts, "4:memory:/docker/ab1/job\n5:pids:/docker/ab1\n6:cpu:/docker/ab12\n7:cpuset:/\n",
                     &map);
    assert_string_equal(map.v1[CGROUP_MEMORY].own, "/sys/fs/cgroup/memory/job");
    assert_string_equal(map.v1[CGROUP_PIDS].own, "/sys/fs/cgroup/pids");
    assert_string_equal(map.v1[CGROUP_CPU].own, ""); /* a name that only begins alike */
    assert_string_equal(map.accounts.own, "");
    assert_string_equal(map.v1[CGROUP_CPUSET].own, ""); /* mounted from outside of the namespace */
    cgroup_map_parse(mounts, "4:memory:/../other\n", &map);
    assert_string_equal(map.v1[CGROUP_MEMORY].own, "");
}

static void map_odd_texts(void **unused)
{
    (void)unused;
    struct cgroup_map map;
    cgroup_map_parse("35 31 0:32 /a\\040b /mnt/c\\134d\\040e rw - cgroup2 none rw\n", "0::/a b/x:y\n", &map);
    assert_string_equal(map.v2.own, "/mnt/c\\d e/x:y");
    cgroup_map_parse("", "", &map);
    assert_string_equal(map.v2.own, "");
    cgroup_map_parse("35 31 0:32 / /mnt rw\n36\n - cgroup2 x rw\n", "0::\n:\n0::/\n", &map);
    assert_string_equal(map.v2.own, "");
    char path[CGROUP_PATH_MAX + 8] = "0::/";
    memset(path + 4, 'p', sizeof(path) - 5);
    cgroup_map_parse("35 31 0:32 / /mnt rw - cgroup2 none rw\n", path, &map);
    assert_string_equal(map.v2.own, ""); /* too long counts as unknown, never as cut */
    /* A writable mount wins over a read-only one, whichever stands first. */
    const char *first = "1 1 0:1 / /ro ro - cgroup2 none rw\n2 1 0:1 / /rw rw - cgroup2 none rw\n";
    const char *second = "2 1 0:1 / /rw rw - cgroup2 none rw\n1 1 0:1 / /ro ro - cgroup2 none rw\n";
    cgroup_map_parse(first, "0::/", &map);
    assert_string_equal(map.v2.own, "/rw");
    cgroup_map_parse(second, "0::/", &map);
    assert_string_equal(map.v2.own, "/rw");
}

static void cpu_lists(void **unused)
{
    (void)unused;
    struct cgroup_cpus cpus, online, rest;
    char text[32];
    assert_int_equal(cgroup_cpus_parse("0-2,4,63-65,8191\n", &cpus), 0);
    assert_int_equal(cgroup_cpus_count(&cpus), 8);
    cgroup_cpus_format(&cpus, text, sizeof(text));
    assert_string_equal(text, "0-2,4,63-65,8191");
    assert_int_equal(cgroup_cpus_parse("0-63", &online), 0);
    assert_int_equal(cgroup_cpus_minus(&cpus, &online, &rest), 3);
    cgroup_cpus_format(&rest, text, sizeof(text));
    assert_string_equal(text, "64-65,8191");
    assert_int_equal(cgroup_cpus_minus(&online, &online, &rest), 0);
    cgroup_cpus_format(&cpus, text, 10);
    assert_string_equal(text, "0-2,4...");
    assert_int_equal(cgroup_cpus_parse("", &cpus), 0);
    assert_int_equal(cgroup_cpus_count(&cpus), 0);
    static const char *const bad[] = {"a", "1-", "-1", "1,", ",1", "1,,2", "3-1", "1 2", "0x1", "1-2-3"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(cgroup_cpus_parse(bad[i], &cpus), -EINVAL);
    assert_int_equal(cgroup_cpus_parse("8192", &cpus), -ERANGE);
    assert_int_equal(cgroup_cpus_parse("0-99999999999999999999", &cpus), -ERANGE);
}

static void quotas(void **unused)
{
    (void)unused;
    struct cgroup_quota quota = cgroup_quota(1.5);
    assert_int_equal(quota.quota_us, 150000);
    assert_int_equal(quota.period_us, 100000);
    quota = cgroup_quota(0.01);
    assert_int_equal(quota.quota_us, 1000);
    assert_int_equal(quota.period_us, 100000);
    quota = cgroup_quota(0.001); /* the smallest that the option takes still is the share that was asked */
    assert_int_equal(quota.quota_us, 1000);
    assert_int_equal(quota.period_us, 1000000);
    quota = cgroup_quota(4096);
    assert_int_equal(quota.quota_us, 409600000);
}

static void numbers_and_weights(void **unused)
{
    (void)unused;
    assert_int_equal(cgroup_number("512\n"), 512);
    assert_true(cgroup_number("max\n") == INT64_MAX);
    assert_int_equal(cgroup_number("max 100000\n") == INT64_MAX, 1);
    assert_int_equal(cgroup_number("150000 100000\n"), 150000);
    assert_int_equal(cgroup_number(""), -1);
    assert_int_equal(cgroup_number("-1\n"), -1);
    const char *events = "low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 1\n";
    assert_int_equal(cgroup_field(events, "oom"), 3);
    assert_int_equal(cgroup_field(events, "oom_kill"), 2);
    assert_int_equal(cgroup_field(events, "low"), 0);
    assert_int_equal(cgroup_field(events, "kill"), -1);
    assert_int_equal(cgroup_field("", "oom"), -1);
    assert_int_equal(cgroup_oom_kills(events), 1);
    assert_int_equal(cgroup_oom_kills("oom 1\noom_kill 3\noom_group_kill 0\n"), 3);
    assert_int_equal(cgroup_oom_kills("oom 1\noom_kill 2\n"), 2);
    assert_int_equal(cgroup_oom_kills(""), -1);
    assert_int_equal(cgroup_whole_pages(4097, 4096), 4096);
    assert_int_equal(cgroup_whole_pages(4095, 4096), 0);
    assert_int_equal(cgroup_weight_bfq(1), 1);
    assert_int_equal(cgroup_weight_bfq(100), 100);
    assert_int_equal(cgroup_weight_bfq(10000), 1000);
    assert_int_equal(cgroup_weight_blkio(1), 10);
    assert_int_equal(cgroup_weight_blkio(100), 500);
    assert_int_equal(cgroup_weight_blkio(10000), 1000);
}

static void words(void **unused)
{
    (void)unused;
    struct cgroup_bound bound[CGROUP_KINDS] = {
        [CGROUP_MEMORY] = {.why = CGROUP_NEEDS_ROOT, .code = EACCES},
        [CGROUP_PIDS] = {.why = CGROUP_NEEDS_ROOT, .code = EACCES},
        [CGROUP_CPU] = {.why = CGROUP_NEEDS_ROOT, .code = EACCES},
        [CGROUP_IO] = {.why = CGROUP_NO_FILE, .code = ENOENT},
    };
    uint32_t two = CGROUP_BIT(CGROUP_MEMORY) | CGROUP_BIT(CGROUP_PIDS);
    uint32_t all = two | CGROUP_BIT(CGROUP_CPU) | CGROUP_BIT(CGROUP_IO);
    char text[200];
    assert_int_equal(cgroup_unbound_like(bound, two, CGROUP_MEMORY, text, sizeof(text)), two);
    assert_string_equal(text, "memory and pids");
    assert_int_equal(cgroup_unbound_like(bound, all, CGROUP_MEMORY, text, sizeof(text)),
                     two | CGROUP_BIT(CGROUP_CPU));
    assert_string_equal(text, "memory, pids and cpu");
    assert_int_equal(cgroup_unbound_like(bound, all, CGROUP_IO, text, sizeof(text)), CGROUP_BIT(CGROUP_IO));
    assert_string_equal(text, "io");
    assert_int_equal(cgroup_why_v1(EROFS), CGROUP_READ_ONLY);
    assert_int_equal(cgroup_why_v1(EACCES), CGROUP_NEEDS_ROOT);
    assert_int_equal(cgroup_why_v1(ENOSPC), CGROUP_FAILED);
    for (enum cgroup_why why = CGROUP_NO_CONTROLLER; why <= CGROUP_MISREAD; why++) {
        bound[CGROUP_PIDS] = (struct cgroup_bound){.why = why, .code = EIO};
        assert_int_not_equal(cgroup_reason(&bound[CGROUP_PIDS], CGROUP_PIDS, text, sizeof(text))[0], '\0');
    }
    const char *remedy = cgroup_remedy(&bound[CGROUP_MEMORY], CGROUP_MEMORY, text, sizeof(text));
    assert_non_null(strstr(remedy, "run as root")); /* with systemd, the boot line stands before it */
}

static void missing_controllers(void **unused)
{
    (void)unused;
    const char *list = "#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpuset\t3\t2\t1\nmemory\t0\t23\t0\n";
    assert_int_equal(cgroup_why_missing(list, CGROUP_CPUSET), CGROUP_NOT_MOUNTED);
    assert_int_equal(cgroup_why_missing(list, CGROUP_CPU), CGROUP_NO_CONTROLLER);
    assert_int_equal(cgroup_why_missing(list, CGROUP_MEMORY), CGROUP_NO_CONTROLLER);
    assert_int_equal(cgroup_why_missing("", CGROUP_PIDS), CGROUP_NO_CONTROLLER);
}

static void sweep_keeps_to_its_own(void **unused)
{
    (void)unused;
    assert_int_equal(cgroup_sweep(""), -EINVAL);
    assert_int_equal(cgroup_sweep("/kern.x"), -EINVAL);
    assert_int_equal(cgroup_sweep("/sys/fs/cgroup"), -EINVAL);
    assert_int_equal(cgroup_sweep("/sys/fs/cgroup/kern."), -EINVAL);
    assert_int_equal(cgroup_sweep("/sys/fs/cgroup/kern.x/.."), -EINVAL);
    assert_int_equal(cgroup_sweep("/nowhere/kern.x"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(map_v1),
        cmocka_unit_test(map_hybrid),
        cmocka_unit_test(map_v2_and_its_ancestors),
        cmocka_unit_test(map_container_without_namespace),
        cmocka_unit_test(map_odd_texts),
        cmocka_unit_test(cpu_lists),
        cmocka_unit_test(quotas),
        cmocka_unit_test(numbers_and_weights),
        cmocka_unit_test(words),
        cmocka_unit_test(missing_controllers),
        cmocka_unit_test(sweep_keeps_to_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
