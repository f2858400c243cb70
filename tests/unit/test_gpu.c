/* Which node a name means, against a made-up /sys/class. */
#include "gpu_check.h"
#include "gpu_find.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static void names(void **unused)
{
    (void)unused;
    static const char *const good[] = {"renderD128", "accel0", "0000:03:00.0", "platform-gpu.0",
                                       "1c20000.gpu"};
    static const char *const bad[] = {"",    "card0",          "../card0", "renderD", "render",
                                      "a b", "/dev/dri/card0", "...",      "accel-x"};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        assert_int_equal(gpu_is_id(good[i]), 1);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(gpu_is_id(bad[i]), 0);
}

struct seen {
    int count;
    struct gpu_node node[8];
};

static int keep(void *data, const struct gpu_node *node)
{
    struct seen *seen = data;
    seen->node[seen->count++] = *node;
    return 0;
}

static int stop(void *data, const struct gpu_node *node)
{
    (void)data, (void)node;
    return -7;
}

/* In the folder that $WORLD names. */
static void run(const char *command)
{
    assert_int_equal(system(command), 0);
}

static void finds(void **unused)
{
    (void)unused;
    char folder[] = "/tmp/kerngpuXXXXXX";
    assert_non_null(mkdtemp(folder));
    setenv("WORLD", folder, 1);
    run("cd \"$WORLD\" && mkdir -p pci/0000:03:00.0 pci/0000:04:00.0 drm/renderD128 drm/card0 drm/renderD129 "
        "accel/accel0 drm/renderDx && "
        "echo 0x1002 >pci/0000:03:00.0/vendor && echo 0x8086 >pci/0000:04:00.0/vendor && "
        "echo 226:128 >drm/renderD128/dev && echo 226:0 >drm/card0/dev && echo 226:129 >drm/renderD129/dev "
        "&& "
        "echo 261:0 >accel/accel0/dev && ln -s ../../pci/0000:03:00.0 drm/renderD128/device && "
        "ln -s ../../pci/0000:03:00.0 drm/card0/device && ln -s ../../pci/0000:04:00.0 drm/renderD129/device "
        "&& "
        "ln -s ../../pci/0000:04:00.0 accel/accel0/device");
    int classes = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct seen seen = {0};
    /* By address: the render node, not the one that sets modes. */
    assert_int_equal(gpu_find(classes, "0000:03:00.0", keep, &seen), 1);
    assert_string_equal(seen.node[0].path, "dri/renderD128");
    assert_string_equal(seen.node[0].class, "drm");
    assert_string_equal(seen.node[0].vendor, "0x1002");
    assert_int_equal(seen.node[0].major, 226);
    assert_int_equal(seen.node[0].minor, 128);
    /* A device with two kinds of nodes gives both. */
    assert_int_equal(gpu_find(classes, "0000:04:00.0", keep, &seen), 2);
    seen.count = 0;
    assert_int_equal(gpu_find(classes, "accel0", keep, &seen), 1);
    assert_string_equal(seen.node[0].path, "accel/accel0");
    assert_int_equal(gpu_find(classes, "card0", keep, &seen), 0);
    assert_int_equal(gpu_find(classes, "renderD200", keep, &seen), 0);
    assert_int_equal(gpu_find(classes, "renderD128", stop, &seen), -7);
    close(classes);
    run("rm -r \"$WORLD\"");
    classes = open("/var/empty", O_PATH | O_CLOEXEC); /* a machine without any: no error */
    if (classes < 0)
        classes = open("/proc/self/fdinfo", O_PATH | O_CLOEXEC);
    assert_int_equal(gpu_find(classes, "renderD128", keep, &seen), 0);
    close(classes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(names), cmocka_unit_test(finds)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
