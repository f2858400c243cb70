/* Which requests for GPIO lines are let through, in both uAPIs, and what becomes of their flags. Pure. */
#include "vgpio_lines.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct vgpio_line granted[] = {
    {.offset = 1},
    {.offset = 2, .terms = {.direction = VGPIO_IN}},
    {.offset = 3, .terms = {.direction = VGPIO_OUT, .active_low = 1}},
    {.offset = 4, .terms = {.bias = VGPIO_BIAS_UP}},
};
static const struct vgpio_lines lines = {.line = granted, .count = 4};

static int judge(struct gpio_v2_line_request *request, uint32_t *ret_refused)
{
    struct vgpio_refusal refusal = {0};
    int result = vgpio_judge_v2(&lines, request, &refusal);
    *ret_refused = refusal.offset;
    return result;
}

static void test_granted_and_not(void **state)
{
    (void)state;
    uint32_t refused;
    struct gpio_v2_line_request one = {.num_lines = 1, .offsets = {1}};
    assert_int_equal(judge(&one, &refused), 0);
    one.offsets[0] = 5;
    assert_int_equal(judge(&one, &refused), -EPERM);
    assert_int_equal(refused, 5);
    struct gpio_v2_line_request many = {
        .num_lines = 3, .offsets = {1, 4, 0}, .config = {.flags = GPIO_V2_LINE_FLAG_INPUT}};
    assert_int_equal(judge(&many, &refused), -EPERM);
    assert_int_equal(refused, 0);
    struct gpio_v2_line_request none = {.num_lines = 0};
    assert_int_equal(judge(&none, &refused), -EINVAL);
    struct gpio_v2_line_request far = {.num_lines = 65, .offsets = {1}};
    assert_int_equal(judge(&far, &refused), -EINVAL);
    struct gpio_v2_line_request attributes = {.num_lines = 1, .offsets = {1}, .config = {.num_attrs = 11}};
    assert_int_equal(judge(&attributes, &refused), -EINVAL);
    /* The lines past the count do not count. */
    struct gpio_v2_line_request rest = {.num_lines = 1, .offsets = {1, 9}};
    assert_int_equal(judge(&rest, &refused), 0);
}

static void test_directions(void **state)
{
    (void)state;
    uint32_t refused;
    struct gpio_v2_line_request in = {
        .num_lines = 1, .offsets = {2}, .config = {.flags = GPIO_V2_LINE_FLAG_INPUT}};
    assert_int_equal(judge(&in, &refused), 0);
    in.config.flags = GPIO_V2_LINE_FLAG_OUTPUT;
    assert_int_equal(judge(&in, &refused), -EPERM);
    in.config.flags = 0; /* as it is: it may be an output */
    assert_int_equal(judge(&in, &refused), -EPERM);
    /* An exception for one line counts for that line. */
    in.config.flags = GPIO_V2_LINE_FLAG_INPUT;
    in.config.num_attrs = 1;
    in.config.attrs[0].mask = 1;
    in.config.attrs[0].attr.id = GPIO_V2_LINE_ATTR_ID_FLAGS;
    in.config.attrs[0].attr.flags = GPIO_V2_LINE_FLAG_OUTPUT;
    assert_int_equal(judge(&in, &refused), -EPERM);
    in.config.attrs[0].mask = 2;
    assert_int_equal(judge(&in, &refused), 0);
}

static void test_terms_are_put_in(void **state)
{
    (void)state;
    uint32_t refused;
    struct gpio_v2_line_request request = {
        .num_lines = 2,
        .offsets = {1, 3},
        .config = {.flags = GPIO_V2_LINE_FLAG_OUTPUT,
                   .num_attrs = 1,
                   .attrs = {{.attr = {.id = GPIO_V2_LINE_ATTR_ID_OUTPUT_VALUES, .values = 3}, .mask = 3}}}};
    assert_int_equal(judge(&request, &refused), 0);
    assert_int_equal(request.config.flags, GPIO_V2_LINE_FLAG_OUTPUT);
    assert_int_equal(request.config.num_attrs, 2);
    assert_int_equal(request.config.attrs[0].attr.id, GPIO_V2_LINE_ATTR_ID_OUTPUT_VALUES);
    assert_int_equal(request.config.attrs[1].attr.id, GPIO_V2_LINE_ATTR_ID_FLAGS);
    assert_int_equal(request.config.attrs[1].mask, 2);
    assert_int_equal(request.config.attrs[1].attr.flags,
                     GPIO_V2_LINE_FLAG_OUTPUT | GPIO_V2_LINE_FLAG_ACTIVE_LOW);
    struct gpio_v2_line_request bias = {
        .num_lines = 1,
        .offsets = {4},
        .config = {.flags = GPIO_V2_LINE_FLAG_INPUT | GPIO_V2_LINE_FLAG_BIAS_PULL_DOWN}};
    assert_int_equal(judge(&bias, &refused), 0);
    assert_int_equal(bias.config.flags, GPIO_V2_LINE_FLAG_INPUT | GPIO_V2_LINE_FLAG_BIAS_PULL_UP);
}

static void test_too_many_kinds_of_flags(void **state)
{
    (void)state;
    uint32_t refused;
    struct gpio_v2_line_request request = {
        .num_lines = 2, .offsets = {1, 3}, .config = {.flags = GPIO_V2_LINE_FLAG_OUTPUT}};
    request.config.num_attrs = GPIO_V2_LINE_NUM_ATTRS_MAX;
    for (int i = 0; i < GPIO_V2_LINE_NUM_ATTRS_MAX; i++)
        request.config.attrs[i].attr.id = GPIO_V2_LINE_ATTR_ID_DEBOUNCE;
    assert_int_equal(judge(&request, &refused), -EINVAL);
}

static void test_first_uapi(void **state)
{
    (void)state;
    struct vgpio_refusal refusal = {0};
    struct gpiohandle_request handle = {.lines = 1, .lineoffsets = {3}, .flags = GPIOHANDLE_REQUEST_OUTPUT};
    assert_int_equal(vgpio_judge_handle(&lines, &handle, &refusal), 0);
    assert_int_equal(handle.flags, GPIOHANDLE_REQUEST_OUTPUT | GPIOHANDLE_REQUEST_ACTIVE_LOW);
    handle =
        (struct gpiohandle_request){.lines = 2, .lineoffsets = {1, 3}, .flags = GPIOHANDLE_REQUEST_OUTPUT};
    assert_int_equal(vgpio_judge_handle(&lines, &handle, &refusal), -EINVAL);
    handle =
        (struct gpiohandle_request){.lines = 2, .lineoffsets = {1, 7}, .flags = GPIOHANDLE_REQUEST_INPUT};
    assert_int_equal(vgpio_judge_handle(&lines, &handle, &refusal), -EPERM);
    assert_int_equal(refusal.offset, 7);
    struct gpioevent_request event = {.lineoffset = 2};
    assert_int_equal(vgpio_judge_event(&lines, &event, &refusal), 0);
    event.lineoffset = 3;
    assert_int_equal(vgpio_judge_event(&lines, &event, &refusal), -EPERM);
    struct gpiohandle_config config = {.flags = GPIOHANDLE_REQUEST_OUTPUT};
    const uint32_t offsets[] = {2};
    assert_int_equal(vgpio_judge_handle_config(&lines, offsets, 1, &config, &refusal), -EPERM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_granted_and_not),  cmocka_unit_test(test_directions),
        cmocka_unit_test(test_terms_are_put_in), cmocka_unit_test(test_too_many_kinds_of_flags),
        cmocka_unit_test(test_first_uapi),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
