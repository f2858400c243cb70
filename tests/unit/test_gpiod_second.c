/* vgpio_gpiod.c as it is built where libgpiod is of the second generation, with a made-up chip of three lines. */
#include "gpiod.h"

#define KERN_LIBGPIOD_2
#include "vgpio_gpiod.c" /* the file itself: the build's own copy may be that of the first generation */

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

struct gpiod_chip {
    int open;
};
struct gpiod_chip_info {
    int taken;
};
struct gpiod_line_info {
    unsigned int offset;
};

static struct gpiod_chip the_chip;
static struct gpiod_chip_info the_info;
static struct gpiod_line_info the_line;
static int infos; /* that nobody has given back */

struct gpiod_chip *gpiod_chip_open(const char *path)
{
    if (strcmp(path, "/dev/gpiochip7") != 0) {
        errno = ENODEV;
        return NULL;
    }
    the_chip.open++;
    return &the_chip;
}

void gpiod_chip_close(struct gpiod_chip *chip)
{
    chip->open--;
}

struct gpiod_chip_info *gpiod_chip_get_info(struct gpiod_chip *chip)
{
    assert_true(chip->open > 0);
    infos++;
    return &the_info;
}

void gpiod_chip_info_free(struct gpiod_chip_info *info)
{
    assert_ptr_equal(info, &the_info);
    infos--;
}

const char *gpiod_chip_info_get_name(struct gpiod_chip_info *info)
{
    (void)info;
    return "gpiochip7";
}

const char *gpiod_chip_info_get_label(struct gpiod_chip_info *info)
{
    (void)info;
    return "pinctrl-made-up";
}

size_t gpiod_chip_info_get_num_lines(struct gpiod_chip_info *info)
{
    (void)info;
    return 3;
}

struct gpiod_line_info *gpiod_chip_get_line_info(struct gpiod_chip *chip, unsigned int offset)
{
    assert_true(chip->open > 0 && offset < 3);
    infos++;
    the_line.offset = offset;
    return &the_line;
}

void gpiod_line_info_free(struct gpiod_line_info *info)
{
    assert_ptr_equal(info, &the_line);
    infos--;
}

const char *gpiod_line_info_get_name(struct gpiod_line_info *info)
{
    return info->offset == 1 ? "GPIO1" : NULL;
}

const char *gpiod_line_info_get_consumer(struct gpiod_line_info *info)
{
    return info->offset == 2 ? "somebody" : NULL;
}

bool gpiod_line_info_is_used(struct gpiod_line_info *info)
{
    return info->offset == 2;
}

enum gpiod_line_direction gpiod_line_info_get_direction(struct gpiod_line_info *info)
{
    return info->offset == 2 ? GPIOD_LINE_DIRECTION_OUTPUT : GPIOD_LINE_DIRECTION_INPUT;
}

static int note(void *data, uint32_t offset, const struct vgpio_line_facts *line)
{
    struct vgpio_line_facts *facts = data;
    facts[offset] = *line;
    return 0;
}

static int stop(void *data, uint32_t offset, const struct vgpio_line_facts *line)
{
    (void)line;
    ++*(int *)data;
    return offset == 1 ? 77 : 0;
}

static void test_lines(void **state)
{
    (void)state;
    struct vgpio_line_facts facts[3] = {0};
    assert_int_equal(vgpio_gpiod_lines("/dev/gpiochip7", note, facts), 0);
    assert_string_equal(facts[0].name, "");
    assert_string_equal(facts[1].name, "GPIO1");
    assert_string_equal(facts[2].consumer, "somebody");
    assert_true(!facts[0].used && !facts[0].output && facts[2].used && facts[2].output);
    int calls = 0;
    assert_int_equal(vgpio_gpiod_lines("/dev/gpiochip7", stop, &calls), 77);
    assert_int_equal(calls, 2);
    assert_int_equal(vgpio_gpiod_lines("/dev/gpiochip8", note, facts), -ENODEV);
    assert_int_equal(the_chip.open, 0);
    assert_int_equal(infos, 0);
}

static void test_a_chip(void **state)
{
    (void)state;
    struct vgpio_chip_facts chip = {0};
    assert_int_equal(look("/dev/gpiochip7", &chip), 0);
    assert_string_equal(chip.name, "gpiochip7");
    assert_string_equal(chip.label, "pinctrl-made-up");
    assert_int_equal(chip.lines, 3);
    assert_int_equal(look("/dev/gpiochip8", &chip), ENODEV);
    assert_int_equal(the_chip.open, 0);
    assert_int_equal(infos, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_lines), cmocka_unit_test(test_a_chip)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
