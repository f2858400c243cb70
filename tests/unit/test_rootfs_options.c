/* The words of --volume, --mount, --tmpfs and --add-host: what they mean, and what is refused. Pure. */
#include "rootfs_options.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void assert_refusal(int result, const struct kern_error *err, const char *text)
{
    if (result >= 0)
        fail_msg("\"%s\" was accepted", text);
    assert_int_equal(err->category, KERN_ERROR_REFUSED);
    assert_string_not_equal(err->message, "");
}

typedef int (*parse_fn)(const char *text, struct rootfs_volume *ret_volume, struct kern_error *err);

static void assert_volume(parse_fn parse, const char *text, const char *source, const char *target,
                          uint32_t read_only)
{
    struct rootfs_volume volume;
    struct kern_error err = {0};
    memset(&volume, 0x5a, sizeof(volume));
    if (parse(text, &volume, &err) != 0)
        fail_msg("\"%s\": %s", text, err.message);
    assert_string_equal(volume.source, source);
    assert_string_equal(volume.target, target);
    assert_int_equal(volume.read_only, read_only);
}

static void assert_no_volume(parse_fn parse, const char *text, const char *part)
{
    struct rootfs_volume volume = {.source = "untouched", .target = "untouched", .read_only = 7};
    struct kern_error err = {0};
    assert_refusal(parse(text, &volume, &err), &err, text);
    if (strstr(err.message, part) == NULL)
        fail_msg("\"%s\": no \"%s\" in \"%s\"", text, part, err.message);
    assert_string_equal(volume.source, "untouched");
    assert_string_equal(volume.target, "untouched");
    assert_int_equal(volume.read_only, 7);
}

static void test_volumes(void **state)
{
    (void)state;
    assert_volume(rootfs_parse_volume, "/a:/b", "/a", "/b", 0);
    assert_volume(rootfs_parse_volume, "/a:/b:ro", "/a", "/b", 1);
    assert_volume(rootfs_parse_volume, "/a:/b:rw", "/a", "/b", 0);
    assert_volume(rootfs_parse_volume, "name:/data", "name", "/data", 0);
    assert_volume(rootfs_parse_volume, "./x y:/b c", "./x y", "/b c", 0);
    assert_volume(rootfs_parse_volume, "/a,b:/c,d", "/a,b", "/c,d", 0);
    assert_volume(rootfs_parse_volume, "/shm:/dev/shm", "/shm", "/dev/shm", 0);
}

static void test_volumes_with_a_size(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t max;
    } rows[] = {
        {"/a:/b", 0},          {"/a:/b:rw", 0},         {"/a:/b:max=1m", 1 << 20}, {"/a:/b:rw,max=2k", 2048},
        {"/a:/b:max=7,rw", 7}, {"/a:/b:max=1,max=2", 2}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct rootfs_volume volume;
        struct kern_error err = {0};
        assert_int_equal(rootfs_parse_volume(rows[i].text, &volume, &err), 0);
        assert_true(volume.max == rows[i].max);
        assert_string_equal(volume.target, "/b");
    }
    struct rootfs_volume volume;
    struct kern_error err = {0};
    assert_int_equal(rootfs_parse_mount("type=bind,src=/a,dst=/b,max=3g", &volume, &err), 0);
    assert_true(volume.max == UINT64_C(3) << 30);
    assert_no_volume(rootfs_parse_volume, "/a:/b:max=", "neither ro nor rw");
    assert_no_volume(rootfs_parse_volume, "/a:/b:max=0", "at least 1 byte");
    assert_no_volume(rootfs_parse_volume, "/a:/b:max=-1", "max");
    assert_no_volume(rootfs_parse_volume, "/a:/b:max=1m,", "neither ro nor rw");
    assert_no_volume(rootfs_parse_volume, "/a:/b:,max=1m", "neither ro nor rw");
    assert_no_volume(rootfs_parse_volume, "/a:/b:ro,max=1m", "read-only");
    assert_no_volume(rootfs_parse_mount, "type=bind,src=/a,dst=/b,max=1m,ro", "read-only");
    assert_no_volume(rootfs_parse_mount, "type=bind,src=/a,dst=/b,max", "max");
}

static void test_volumes_that_are_refused(void **state)
{
    (void)state;
    assert_no_volume(rootfs_parse_volume, "", "SOURCE:TARGET");
    assert_no_volume(rootfs_parse_volume, "/a", "SOURCE:TARGET");
    assert_no_volume(rootfs_parse_volume, ":/b", "SOURCE:TARGET");
    assert_no_volume(rootfs_parse_volume, "/a:", "absolute");
    assert_no_volume(rootfs_parse_volume, "/a::ro", "absolute");
    assert_no_volume(rootfs_parse_volume, "/a:b", "absolute");
    assert_no_volume(rootfs_parse_volume, "/a:/b:", "neither ro nor rw");
    assert_no_volume(rootfs_parse_volume, "/a:/b:RO", "neither ro nor rw");
    assert_no_volume(rootfs_parse_volume, "/a:/b:z", "\"z\" is neither");
    assert_no_volume(rootfs_parse_volume, "/a:/b:ro:rw", "neither ro nor rw");
    assert_no_volume(rootfs_parse_volume, "/a:/proc", "belong to the kernel");
    assert_no_volume(rootfs_parse_volume, "/a:/proc:ro", "belong to the kernel");
}

static void test_a_volume_with_a_colon_is_told_the_way(void **state)
{
    (void)state;
    struct rootfs_volume volume;
    struct kern_error err = {0};
    assert_true(rootfs_parse_volume("/a", &volume, &err) < 0);
    assert_non_null(strstr(err.hint, "--mount type=bind,src=SOURCE,dst=TARGET"));
}

static void test_paths_that_do_not_fit(void **state)
{
    (void)state;
    char text[2 * PATH_MAX];
    memset(text, 'p', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    text[PATH_MAX] = ':';
    text[PATH_MAX + 1] = '/';
    assert_no_volume(rootfs_parse_volume, text, "File name too long");
    text[2] = ':';
    text[3] = '/';
    text[PATH_MAX] = 'p';
    assert_no_volume(rootfs_parse_volume, text, "File name too long");
    text[3 + PATH_MAX - 1] = '\0'; /* the longest that fits */
    struct rootfs_volume volume;
    struct kern_error err = {0};
    assert_int_equal(rootfs_parse_volume(text, &volume, &err), 0);
    assert_int_equal(strlen(volume.target), PATH_MAX - 1);
}

static void test_mounts(void **state)
{
    (void)state;
    assert_volume(rootfs_parse_mount, "type=bind,src=/a,dst=/b", "/a", "/b", 0);
    assert_volume(rootfs_parse_mount, "type=bind,source=/a,target=/b,ro", "/a", "/b", 1);
    assert_volume(rootfs_parse_mount, "destination=/b,src=/a,type=bind,readonly", "/a", "/b", 1);
    assert_volume(rootfs_parse_mount, "type=bind,src=/a:b,dst=/c:d", "/a:b", "/c:d", 0);
    assert_volume(rootfs_parse_mount, "type=bind,src=/a=b,dst=/c=d", "/a=b", "/c=d", 0);
    assert_volume(rootfs_parse_mount, "type=bind,src=/a,dst=/b,rw", "/a", "/b", 0);
    assert_volume(rootfs_parse_mount, "type=bind,src=/a,dst=/b,rw=false", "/a", "/b", 1);
    assert_volume(rootfs_parse_mount, "type=bind,src=/a,dst=/b,ro=true", "/a", "/b", 1);
    assert_volume(rootfs_parse_mount, "type=bind,src=/a,dst=/b,readonly=false", "/a", "/b", 0);
    assert_volume(rootfs_parse_mount, "type=bind,src=/a,dst=/b,", "/a", "/b", 0);
}

static void test_mounts_that_are_refused(void **state)
{
    (void)state;
    assert_no_volume(rootfs_parse_mount, "", "type=bind,src=SOURCE");
    assert_no_volume(rootfs_parse_mount, "type=bind", "type=bind,src=SOURCE");
    assert_no_volume(rootfs_parse_mount, "type=bind,src=/a", "type=bind,src=SOURCE");
    assert_no_volume(rootfs_parse_mount, "type=bind,dst=/b", "type=bind,src=SOURCE");
    assert_no_volume(rootfs_parse_mount, "type=bind,src=,dst=/b", "type=bind,src=SOURCE");
    assert_no_volume(rootfs_parse_mount, "type=bind,src=/a,dst", "type=bind,src=SOURCE");
    assert_no_volume(rootfs_parse_mount, "type=tmpfs,src=/a,dst=/b", "only type=bind");
    assert_no_volume(rootfs_parse_mount, "type=binder,src=/a,dst=/b", "only type=bind");
    assert_no_volume(rootfs_parse_mount, "type,src=/a,dst=/b", "only type=bind");
    assert_no_volume(rootfs_parse_mount, "type=bind,src=/a,dst=/b,bind-propagation=shared",
                     "unknown key \"bind-propagation\"");
    assert_no_volume(rootfs_parse_mount, "type=bind,srcs=/a,dst=/b", "unknown key \"srcs\"");
    assert_no_volume(rootfs_parse_mount, "type=bind,sr=/a,dst=/b", "unknown key \"sr\"");
    assert_no_volume(rootfs_parse_mount, "/a:/b", "unknown key \"/a:/b\"");
    assert_no_volume(rootfs_parse_mount, "type=bind,src=/a,dst=b", "absolute");
    assert_no_volume(rootfs_parse_mount, "type=bind,src=/a,dst=/sys/fs", "belong to the kernel");
}

static void test_tmpfs(void **state)
{
    (void)state;
    static const struct {
        const char *text, *target;
        uint64_t size;
    } rows[] = {
        {"/t", "/t", 0},
        {"/t:64m", "/t", UINT64_C(64) << 20},
        {"/t:size=1g", "/t", UINT64_C(1) << 30},
        {"/t/u:4096", "/t/u", 4096},
        {"/devices", "/devices", 0},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct rootfs_tmpfs tmpfs;
        struct kern_error err = {0};
        memset(&tmpfs, 0x5a, sizeof(tmpfs));
        assert_int_equal(rootfs_parse_tmpfs(rows[i].text, &tmpfs, &err), 0);
        assert_string_equal(tmpfs.target, rows[i].target);
        assert_int_equal(tmpfs.size, rows[i].size);
    }
}

static void test_tmpfs_that_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "t",
                                      "t:1m",
                                      "/t:",
                                      "/t:0",
                                      "/t:size=",
                                      "/t:-1",
                                      "/t:x",
                                      "/t:1m:1m",
                                      "/t:99999999999999t",
                                      "/",
                                      "/proc/x",
                                      "/sys",
                                      "/dev",
                                      "/dev/shm",
                                      "/dev/shm/x",
                                      "/dev/shm:64m",
                                      "//dev/./shm",
                                      "/a/../b",
                                      "/..",
                                      "/t:mode=0700"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct rootfs_tmpfs tmpfs = {.target = "untouched", .size = 7};
        struct kern_error err = {0};
        assert_refusal(rootfs_parse_tmpfs(bad[i], &tmpfs, &err), &err, bad[i]);
        assert_string_equal(tmpfs.target, "untouched");
        assert_int_equal(tmpfs.size, 7);
    }
}

static void test_hosts(void **state)
{
    (void)state;
    static const char *const good[][2] = {
        {"db:10.0.0.1", "10.0.0.1 db"}, {"a-b.c_d:127.0.0.1", "127.0.0.1 a-b.c_d"}, {"six:::1", "::1 six"},
        {"six:fe80::1", "fe80::1 six"}, {"gate:host-gateway", "127.0.0.1 gate"},
    };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        char line[64] = "";
        struct kern_error err = {0};
        assert_int_equal(rootfs_parse_host(good[i][0], line, sizeof(line), &err), 0);
        assert_string_equal(line, good[i][1]);
    }
    static const char *const bad[] = {"",
                                      "db",
                                      "db:",
                                      ":10.0.0.1",
                                      "db:10.0.0",
                                      "db:text",
                                      "db:1.2.3.4 ",
                                      "d b:1.2.3.4",
                                      "db:1.2.3.4\n5.6.7.8 evil",
                                      "d\nb:1.2.3.4",
                                      "db:1.2.3.256",
                                      "db:host-gateways",
                                      "db#:1.2.3.4"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char line[64] = "untouched";
        struct kern_error err = {0};
        assert_refusal(rootfs_parse_host(bad[i], line, sizeof(line), &err), &err, bad[i]);
        assert_string_equal(line, "untouched");
        assert_non_null(strstr(err.message, "--add-host"));
    }
}

static void test_a_host_that_does_not_fit(void **state)
{
    (void)state;
    char line[12];
    struct kern_error err = {0};
    assert_int_equal(rootfs_parse_host("db:10.0.0.1", line, sizeof(line), &err), 0);
    assert_int_equal(rootfs_parse_host("dbs:10.0.0.1", line, sizeof(line), &err), -ENAMETOOLONG);
    assert_non_null(strstr(err.message, "dbs:10.0.0.1"));
}

static const struct {
    const char *target;
    int volume, tmpfs; /* whether it is allowed */
} targets[] = {
    {"/a", 1, 1},
    {"/a/b", 1, 1},
    {"/a/..b", 1, 1},
    {"/a/b..", 1, 1},
    {"/...", 1, 1},
    {"/a/...", 1, 1},
    {"/process", 1, 1},
    {"/system", 1, 1},
    {"/dev.d", 1, 1},
    {"/a/proc", 1, 1},
    {"/a/dev/null", 1, 1},
    {"/dev/shm", 1, 0},
    {"/dev/shm/x", 1, 0},
    {"//dev//shm/", 1, 0},
    {"/./dev/./shm", 1, 0},
    {"/dev/shmem", 0, 0},
    {"", 0, 0},
    {"a", 0, 0},
    {"./a", 0, 0},
    {"/", 0, 0},
    {"//", 0, 0},
    {"/.", 0, 0},
    {"/./", 0, 0},
    {"/..", 0, 0},
    {"/a/..", 0, 0},
    {"/a/../b", 0, 0},
    {"/a/..//b", 0, 0},
    {"/../a", 0, 0},
    {"/a/./../proc", 0, 0},
    {"/proc", 0, 0},
    {"/proc/", 0, 0},
    {"//proc", 0, 0},
    {"/./proc", 0, 0},
    {"/.//./proc", 0, 0},
    {"/proc/sys", 0, 0},
    {"///proc/./self", 0, 0},
    {"/sys", 0, 0},
    {"//sys/fs", 0, 0},
    {"/sys/fs/cgroup", 0, 0},
    {"/dev", 0, 0},
    {"/dev/", 0, 0},
    {"//dev", 0, 0},
    {"/./dev/null", 0, 0},
    {"/dev/pts", 0, 0},
    {"/dev/shm/../null", 0, 0},
};

static void test_targets(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
        struct kern_error volume = {0}, tmpfs = {0};
        int failed = rootfs_check_target(targets[i].target, "--volume", 0, &volume);
        if ((failed == 0) != (targets[i].volume != 0))
            fail_msg("volume on \"%s\": %d", targets[i].target, failed);
        failed = rootfs_check_target(targets[i].target, "--tmpfs", 1, &tmpfs);
        if ((failed == 0) != (targets[i].tmpfs != 0))
            fail_msg("tmpfs on \"%s\": %d", targets[i].target, failed);
        assert_int_equal(volume.category, targets[i].volume != 0 ? KERN_ERROR_NONE : KERN_ERROR_REFUSED);
        assert_int_equal(tmpfs.category, targets[i].tmpfs != 0 ? KERN_ERROR_NONE : KERN_ERROR_REFUSED);
    }
}

/* What the user wrote is quoted, not what was made of it. */
static void test_a_refused_target_is_quoted(void **state)
{
    (void)state;
    struct kern_error err = {0};
    assert_true(rootfs_check_target("//./proc", "--volume", 0, &err) < 0);
    assert_non_null(strstr(err.message, "--volume onto \"//./proc\""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_volumes),
        cmocka_unit_test(test_volumes_that_are_refused),
        cmocka_unit_test(test_volumes_with_a_size),
        cmocka_unit_test(test_a_volume_with_a_colon_is_told_the_way),
        cmocka_unit_test(test_paths_that_do_not_fit),
        cmocka_unit_test(test_mounts),
        cmocka_unit_test(test_mounts_that_are_refused),
        cmocka_unit_test(test_tmpfs),
        cmocka_unit_test(test_tmpfs_that_are_refused),
        cmocka_unit_test(test_hosts),
        cmocka_unit_test(test_a_host_that_does_not_fit),
        cmocka_unit_test(test_targets),
        cmocka_unit_test(test_a_refused_target_is_quoted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
