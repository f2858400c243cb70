/* The plan of a root as a list: what it copies, what it owns, what it refuses. Needs no privileges and mounts
 * nothing. */
#include "rootfs_host.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* A directory with a file, a link to the file and a pipe, and an empty plan. */
struct fixture {
    char *path;
    char below[PATH_MAX]; /* what below() said last */
    struct rootfs_plan plan;
    struct kern_error err;
};

static const char *below(struct fixture *fixture, const char *name)
{
    /* a temporary path is short */
    (void)snprintf(fixture->below, sizeof(fixture->below), "%s/%s", fixture->path, name);
    return fixture->below;
}

static int make_fixture(void **state)
{
    char path[] = "/tmp/kern-test-plan-XXXXXX";
    assert_non_null(mkdtemp(path));
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    assert_non_null(fixture);
    fixture->path = realpath(path, NULL);
    int fd = open(below(fixture, "file"), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(close(fd), 0);
    assert_int_equal(symlink("file", below(fixture, "link")), 0);
    assert_int_equal(mkfifo(below(fixture, "pipe"), 0644), 0);
    *state = fixture;
    return 0;
}

static int remove_fixture(void **state)
{
    struct fixture *fixture = *state;
    rootfs_plan_clear(&fixture->plan);
    int result = unlink(below(fixture, "file")) | unlink(below(fixture, "link"));
    result |= unlink(below(fixture, "pipe")) | rmdir(fixture->path);
    free(fixture->path);
    free(fixture);
    return result;
}

static void test_entries_are_copies(void **state)
{
    struct fixture *fixture = *state;
    struct rootfs_plan *plan = &fixture->plan;
    char path[] = "/a", text[] = "text";
    assert_int_equal(rootfs_plan_dir(plan, path, 01777, &fixture->err), 0);
    path[1] = 'b';
    assert_int_equal(rootfs_plan_symlink(plan, path, text, &fixture->err), 0);
    path[1] = 'c';
    assert_int_equal(rootfs_plan_file(plan, path, 0600, text, 4, &fixture->err), 0);
    path[1] = 'd';
    assert_int_equal(rootfs_plan_file(plan, path, 0644, NULL, 0, &fixture->err), 0);
    path[1] = text[0] = 'x';

    assert_int_equal(plan->count, 4);
    assert_string_equal(plan->entry[0].path, "/a");
    assert_int_equal(plan->entry[0].kind, ROOTFS_DIR);
    assert_int_equal(plan->entry[0].mode, 01777);
    assert_string_equal(plan->entry[1].source, "text");
    assert_int_equal(plan->entry[2].mode, 0600);
    assert_memory_equal(plan->entry[2].bytes, "text", 4);
    assert_int_equal(plan->entry[3].length, 0);
    for (size_t i = 0; i < plan->count; i++)
        assert_int_equal(plan->entry[i].fd, -1);
}

static void test_many_entries(void **state)
{
    struct fixture *fixture = *state;
    char path[16];
    for (int i = 0; i < 300; i++) {
        (void)snprintf(path, sizeof(path), "/%d", i);
        assert_int_equal(rootfs_plan_dir(&fixture->plan, path, 0755, &fixture->err), 0);
    }
    assert_int_equal(fixture->plan.count, 300);
    assert_string_equal(fixture->plan.entry[299].path, "/299");
}

static void test_path_must_be_below_the_root(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(rootfs_plan_dir(&fixture->plan, "etc", 0755, &fixture->err), -EINVAL);
    assert_non_null(strstr(fixture->err.message, "\"etc\""));
    assert_int_equal(rootfs_plan_dir(&fixture->plan, "/", 0755, &fixture->err), -EINVAL);
    assert_int_equal(fixture->plan.count, 0);
}

static void test_bind_resolves_links(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(rootfs_plan_bind(&fixture->plan, "/a", fixture->path, 1, &fixture->err), 0);
    assert_int_equal(rootfs_plan_bind(&fixture->plan, "/b", below(fixture, "link"), 1, &fixture->err), 0);
    const struct rootfs_entry *entry = fixture->plan.entry;
    assert_int_equal(entry[0].kind, ROOTFS_BIND);
    assert_string_equal(entry[0].path, "/a");
    assert_string_equal(entry[0].source, fixture->path);
    assert_true(S_ISDIR(entry[0].mode));
    assert_string_equal(entry[1].source, below(fixture, "file"));
    assert_true(S_ISREG(entry[1].mode));
}

static void test_bind_descriptor_lives_with_the_plan(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(rootfs_plan_bind(&fixture->plan, "/a", fixture->path, 1, &fixture->err), 0);
    int fd = fixture->plan.entry[0].fd;
    assert_true(fcntl(fd, F_GETFL) & O_PATH);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    rootfs_plan_clear(&fixture->plan);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
}

static void test_bind_of_what_is_missing(void **state)
{
    struct fixture *fixture = *state;
    const char *path = below(fixture, "nowhere");
    assert_int_equal(rootfs_plan_bind(&fixture->plan, "/x", path, 0, &fixture->err), 0);
    assert_int_equal(fixture->err.category, KERN_ERROR_NONE);
    assert_int_equal(rootfs_plan_bind(&fixture->plan, "/x", path, 1, &fixture->err), -ENOENT);
    assert_non_null(strstr(fixture->err.message, path));
    assert_int_equal(fixture->plan.count, 0);
}

static void test_bind_of_a_pipe(void **state)
{
    struct fixture *fixture = *state;
    assert_true(rootfs_plan_bind(&fixture->plan, "/x", below(fixture, "pipe"), 0, &fixture->err) < 0);
    assert_non_null(strstr(fixture->err.message, "neither a file nor a directory"));
    assert_int_equal(fixture->plan.count, 0);
}

static void test_bind_takes_the_descriptor_only_on_success(void **state)
{
    struct fixture *fixture = *state;
    int fd = open(fixture->path, O_PATH | O_CLOEXEC);
    int kept = fd;
    assert_true(rootfs_plan_bind_fd(&fixture->plan, "relative", &fd, &fixture->err) < 0);
    assert_int_equal(fd, kept);
    assert_true(fcntl(kept, F_GETFD) >= 0);
    assert_int_equal(rootfs_plan_bind_fd(&fixture->plan, "/a", &fd, &fixture->err), 0);
    assert_int_equal(fd, -1);
    assert_int_equal(fixture->plan.entry[0].fd, kept);
}

static void test_clear(void **state)
{
    struct fixture *fixture = *state;
    rootfs_plan_clear(NULL);
    assert_int_equal(rootfs_plan_dir(&fixture->plan, "/a", 0755, &fixture->err), 0);
    rootfs_plan_clear(&fixture->plan);
    assert_int_equal(fixture->plan.count, 0);
    assert_null(fixture->plan.entry);
    rootfs_plan_clear(&fixture->plan);
}

#define on_fixture(test) cmocka_unit_test_setup_teardown(test, make_fixture, remove_fixture)

int main(void)
{
    const struct CMUnitTest tests[] = {
        on_fixture(test_entries_are_copies),
        on_fixture(test_many_entries),
        on_fixture(test_path_must_be_below_the_root),
        on_fixture(test_bind_resolves_links),
        on_fixture(test_bind_descriptor_lives_with_the_plan),
        on_fixture(test_bind_of_what_is_missing),
        on_fixture(test_bind_of_a_pipe),
        on_fixture(test_bind_takes_the_descriptor_only_on_success),
        on_fixture(test_clear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
