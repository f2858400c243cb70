/* The order in which plugins enter: stages, wishes, stability, cycles. Pure. */
#include "order.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define MOST 6

/* A catalog of plugins that are nothing but a name, a stage and wishes. */
struct world {
    struct kern_plugin table[MOST];
    struct core_plugin plugin[MOST];
    struct core_catalog catalog;
    struct core_plugin *order[MOST];
    size_t count;
    struct kern_error err;
};

static void add(struct world *world, const char *name, uint32_t stage, const char *const *after,
                const char *const *before)
{
    size_t i = world->catalog.count++;
    assert_true(i < MOST);
    world->catalog.plugin = world->plugin;
    world->table[i] = (struct kern_plugin){.name = name, .stage = stage, .after = after, .before = before};
    world->plugin[i] = (struct core_plugin){.name = name, .table = &world->table[i], .wanted = true};
}

/* The names in their order, or "cycle". */
static void assert_order(struct world *world, const char *expected)
{
    char names[128] = "";
    world->count = 99;
    int failed = core_order(&world->catalog, world->order, &world->count, &world->err);
    assert_int_equal(failed, 0);
    for (size_t i = 0; i < world->count; i++) {
        size_t used = strlen(names);
        (void)snprintf(names + used, sizeof(names) - used, "%s%s", i > 0 ? " " : "",
                       world->order[i]->name); /* a handful of short names */
    }
    assert_string_equal(names, expected);
}

static void assert_cycle(struct world *world, const char *among[], size_t count)
{
    world->count = 99;
    assert_true(core_order(&world->catalog, world->order, &world->count, &world->err) < 0);
    assert_int_equal(world->err.category, KERN_ERROR_REFUSED);
    assert_int_equal(world->count, 99);
    int named = 0;
    for (size_t i = 0; i < count; i++) {
        char quoted[40];
        (void)snprintf(quoted, sizeof(quoted), "\"%s\"", among[i]); /* fits */
        named += strstr(world->err.message, quoted) != NULL;
    }
    assert_int_equal(named, 2);
}

static void test_stages_come_first(void **state)
{
    (void)state;
    struct world world = {.count = 0};
    add(&world, "filter", KERN_STAGE_FILTER, NULL, NULL);
    add(&world, "root", KERN_STAGE_ROOT, NULL, NULL);
    add(&world, "net", KERN_STAGE_NETWORK, NULL, NULL);
    add(&world, "limit", KERN_STAGE_LIMIT, NULL, NULL);
    assert_order(&world, "limit root net filter");
}

static void test_a_wish_does_not_cross_stages(void **state)
{
    (void)state;
    static const char *const filter[] = {"filter", NULL}, *const limit[] = {"limit", NULL};
    struct world world = {.count = 0};
    add(&world, "limit", KERN_STAGE_LIMIT, filter, NULL);
    add(&world, "filter", KERN_STAGE_FILTER, NULL, limit);
    assert_order(&world, "limit filter");
}

static void test_after_and_before(void **state)
{
    (void)state;
    static const char *const c[] = {"c", NULL}, *const a[] = {"a", NULL};
    struct world world = {.count = 0};
    add(&world, "a", KERN_STAGE_MOUNT, c, NULL);
    add(&world, "b", KERN_STAGE_MOUNT, NULL, a);
    add(&world, "c", KERN_STAGE_MOUNT, NULL, NULL);
    assert_order(&world, "b c a");
}

static void test_several_wishes(void **state)
{
    (void)state;
    static const char *const all[] = {"b", "c", "d", NULL}, *const b[] = {"c", "b", NULL};
    struct world world = {.count = 0};
    add(&world, "a", KERN_STAGE_MOUNT, all, NULL);
    add(&world, "b", KERN_STAGE_MOUNT, NULL, NULL);
    add(&world, "c", KERN_STAGE_MOUNT, NULL, NULL);
    add(&world, "d", KERN_STAGE_MOUNT, NULL, b);
    assert_order(&world, "d b c a");
}

static void test_without_wishes_the_catalog_decides(void **state)
{
    (void)state;
    static const char *const a[] = {"a", NULL};
    struct world world = {.count = 0};
    add(&world, "d", KERN_STAGE_MOUNT, NULL, NULL);
    add(&world, "b", KERN_STAGE_MOUNT, a, NULL);
    add(&world, "c", KERN_STAGE_MOUNT, NULL, NULL);
    add(&world, "a", KERN_STAGE_MOUNT, NULL, NULL);
    add(&world, "e", KERN_STAGE_MOUNT, NULL, NULL);
    assert_order(&world, "d c a b e");
}

static void test_absent_and_unwanted_names_do_not_count(void **state)
{
    (void)state;
    static const char *const nobody[] = {"nobody", NULL}, *const b[] = {"b", NULL};
    struct world world = {.count = 0};
    add(&world, "a", KERN_STAGE_MOUNT, b, nobody);
    add(&world, "b", KERN_STAGE_MOUNT, NULL, NULL);
    add(&world, "c", KERN_STAGE_MOUNT, nobody, NULL);
    world.plugin[1].wanted = false;
    assert_order(&world, "a c");
}

/* The core's own row has no hooks and no stage. */
static void test_a_plugin_without_a_stage_takes_no_part(void **state)
{
    (void)state;
    struct world world = {.count = 0};
    assert_order(&world, "");
    add(&world, "core", 0, NULL, NULL);
    add(&world, "a", KERN_STAGE_MOUNT, NULL, NULL);
    assert_order(&world, "a");
}

static void test_a_cycle_of_two(void **state)
{
    (void)state;
    static const char *const one[] = {"one", NULL}, *const two[] = {"two", NULL};
    struct world world = {.count = 0};
    add(&world, "free", KERN_STAGE_MOUNT, NULL, NULL);
    add(&world, "one", KERN_STAGE_MOUNT, two, NULL);
    add(&world, "two", KERN_STAGE_MOUNT, one, NULL);
    assert_cycle(&world, (const char *[]){"one", "two"}, 2);
    assert_null(strstr(world.err.message, "free"));
}

static void test_after_and_before_the_same_plugin(void **state)
{
    (void)state;
    static const char *const two[] = {"two", NULL};
    struct world world = {.count = 0};
    add(&world, "one", KERN_STAGE_MOUNT, two, two);
    add(&world, "two", KERN_STAGE_MOUNT, NULL, NULL);
    assert_cycle(&world, (const char *[]){"one", "two"}, 2);
}

static void test_a_cycle_of_three(void **state)
{
    (void)state;
    static const char *const one[] = {"one", NULL}, *const two[] = {"two", NULL},
                             *const three[] = {"three", NULL};
    struct world world = {.count = 0};
    add(&world, "one", KERN_STAGE_MOUNT, two, NULL);
    add(&world, "two", KERN_STAGE_MOUNT, three, NULL);
    add(&world, "three", KERN_STAGE_MOUNT, one, NULL);
    assert_cycle(&world, (const char *[]){"one", "two", "three"}, 3);
}

static void test_a_cycle_in_a_later_stage(void **state)
{
    (void)state;
    static const char *const one[] = {"one", NULL}, *const two[] = {"two", NULL};
    struct world world = {.count = 0};
    add(&world, "first", KERN_STAGE_LIMIT, NULL, NULL);
    add(&world, "one", KERN_STAGE_DEVICE, two, NULL);
    add(&world, "two", KERN_STAGE_DEVICE, one, NULL);
    assert_cycle(&world, (const char *[]){"one", "two"}, 2);
    world.plugin[1].wanted = false;
    world.err = (struct kern_error){0};
    assert_order(&world, "first two");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stages_come_first),
        cmocka_unit_test(test_a_wish_does_not_cross_stages),
        cmocka_unit_test(test_after_and_before),
        cmocka_unit_test(test_several_wishes),
        cmocka_unit_test(test_without_wishes_the_catalog_decides),
        cmocka_unit_test(test_absent_and_unwanted_names_do_not_count),
        cmocka_unit_test(test_a_plugin_without_a_stage_takes_no_part),
        cmocka_unit_test(test_a_cycle_of_two),
        cmocka_unit_test(test_after_and_before_the_same_plugin),
        cmocka_unit_test(test_a_cycle_of_three),
        cmocka_unit_test(test_a_cycle_in_a_later_stage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
