/* The walk that takes a volume out of its project, through what a box made there. */
#include "rootfs_project.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define LEVELS 4000

static int make_levels(int top)
{
    int at = dup(top), made = 0;
    while (made < LEVELS && mkdirat(at, "d", 0755) == 0) {
        int next = openat(at, "d", O_RDONLY | O_DIRECTORY);
        (void)close(at); /* only a way down */
        at = next;
        made++;
    }
    (void)close(at); /* as above */
    return made;
}

/* From the top: names that are as long as the tree is deep cannot be used. */
static void remove_levels(int top)
{
    while (renameat(top, "d/d", top, "next") == 0) {
        (void)unlinkat(top, "d", AT_REMOVEDIR);
        (void)renameat(top, "next", top, "d");
    }
    (void)unlinkat(top, "d", AT_REMOVEDIR);
}

/* As deep as a box likes, where kern may have many descriptors: neither these nor the stack may run out. */
static void a_deep_tree_ends_nothing(void **state)
{
    (void)state;
    char path[] = "/tmp/kern-project-XXXXXX";
    struct rlimit files;
    int status = 0;
    assert_non_null(mkdtemp(path));
    int top = open(path, O_RDONLY | O_DIRECTORY);
    assert_true(top >= 0);
    int made = make_levels(top);
    pid_t child = fork();
    if (child == 0) {
        const struct rlimit stack = {.rlim_cur = 512 << 10, .rlim_max = 512 << 10};
        int ready = getrlimit(RLIMIT_NOFILE, &files) == 0;
        files.rlim_cur = files.rlim_max;
        ready = ready && setrlimit(RLIMIT_NOFILE, &files) == 0 && setrlimit(RLIMIT_STACK, &stack) == 0;
        rootfs_project_release(top, 7);
        _exit(ready ? 0 : 1);
    }
    pid_t ended = waitpid(child, &status, 0);
    remove_levels(top);
    (void)close(top); /* only read */
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(ended, child);
    assert_int_equal(made, LEVELS);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_deep_tree_ends_nothing)};
    return cmocka_run_group_tests_name("rootfs_project", tests, NULL, NULL);
}
