/* The words of [[vgpio]] profiles: pins and i2c. Pure. */
#include "vgpio_words.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct vgpio_pin pin_of(const char *text)
{
    struct vgpio_pin pin;
    struct kern_error err = {0};
    assert_int_equal(vgpio_read_pin(text, &pin, &err), 0);
    return pin;
}

static void refuse_pin(const char *text, const char *part)
{
    struct vgpio_pin pin;
    struct kern_error err = {0};
    assert_true(vgpio_read_pin(text, &pin, &err) < 0);
    assert_non_null(strstr(err.message, part));
    assert_true(err.hint[0] != '\0' || strstr(err.message, "one of") != NULL);
}

static void test_short_pins(void **state)
{
    (void)state;
    struct vgpio_pin pin = pin_of("17");
    assert_int_equal(pin.offset, 17);
    assert_string_equal(pin.chip, "");
    assert_string_equal(pin.line, "");
    assert_string_equal(pin_of("GPIO17").line, "GPIO17");
    pin = pin_of("gpiochip0:17");
    assert_string_equal(pin.chip, "gpiochip0");
    assert_int_equal(pin.offset, 17);
    pin = pin_of("pinctrl-bcm2711:SDA1");
    assert_string_equal(pin.chip, "pinctrl-bcm2711");
    assert_string_equal(pin.line, "SDA1");
}

static void test_bad_pins(void **state)
{
    (void)state;
    refuse_pin("", "neither");
    refuse_pin("4096", "that many lines");
    refuse_pin("99999999999", "that many lines");
    refuse_pin(":17", "neither");
    refuse_pin("gpiochip0:", "neither");
    refuse_pin("{", "no line");
    refuse_pin("{\"chip\": \"x\"}", "no line");
    refuse_pin("{\"line\": 1, \"colour\": 2}", "colour");
    refuse_pin("{\"line\": -1}", "number or a name");
    refuse_pin("{\"line\": true}", "number or a name");
    refuse_pin("{\"line\": 1, \"direction\": \"up\"}", "any, in, out");
    refuse_pin("{\"line\": 1, \"bias\": 3}", "pull-up");
    refuse_pin("{\"line\": 1, \"active_low\": 1}", "active_low");
    refuse_pin("{\"line\": 1, \"direction\": \"in\", \"on_exit\": \"high\"}", "only read");
}

static void test_pins_on_terms(void **state)
{
    (void)state;
    struct vgpio_pin pin =
        pin_of("{\"chip\": \"c\", \"line\": \"L\", \"direction\": \"out\", \"bias\": \"pull-down\", "
               "\"on_exit\": \"high\", \"active_low\": true}");
    assert_string_equal(pin.chip, "c");
    assert_string_equal(pin.line, "L");
    assert_int_equal(pin.terms.direction, VGPIO_OUT);
    assert_int_equal(pin.terms.bias, VGPIO_BIAS_DOWN);
    assert_int_equal(pin.terms.on_exit, VGPIO_EXIT_HIGH);
    assert_int_equal(pin.terms.active_low, 1);
}

static struct vgpio_i2c i2c_of(const char *text)
{
    struct vgpio_i2c i2c;
    struct kern_error err = {0};
    assert_int_equal(vgpio_read_i2c(text, &i2c, &err), 0);
    return i2c;
}

static void test_buses(void **state)
{
    (void)state;
    assert_int_equal(i2c_of("1").bus, 1);
    assert_int_equal(i2c_of("i2c-3").bus, 3);
    assert_int_equal(i2c_of("/dev/i2c-11").bus, 11);
    assert_int_equal(i2c_of("1").count, 0);
    struct vgpio_i2c i2c = i2c_of("{\"bus\": 1, \"address\": [64, 80], \"readonly\": true}");
    assert_int_equal(i2c.count, 2);
    assert_int_equal(i2c.address[0], 64);
    assert_int_equal(i2c.address[1], 80);
    assert_true(i2c.readonly);
    assert_int_equal(i2c_of("{\"bus\": \"2\", \"address\": 3}").address[0], 3);
}

static void refuse_i2c(const char *text, const char *part)
{
    struct vgpio_i2c i2c;
    struct kern_error err = {0};
    assert_true(vgpio_read_i2c(text, &i2c, &err) < 0);
    assert_non_null(strstr(err.message, part));
    assert_true(err.hint[0] != '\0');
}

static void test_bad_buses(void **state)
{
    (void)state;
    refuse_i2c("", "no number of a bus");
    refuse_i2c("/dev/sda", "no number of a bus");
    refuse_i2c("1024", "no number of a bus");
    refuse_i2c("{\"address\": 64}", "no bus");
    refuse_i2c("{\"bus\": true, \"address\": 64}", "its keys"); /* and not bus 0 */
    refuse_i2c("{\"bus\": 1.5, \"address\": 64}", "its keys");
    refuse_i2c("{\"bus\": null, \"address\": 64}", "its keys");
    refuse_i2c("{\"bus\": 1, \"address\": 128}", "0x03 to 0x77");
    refuse_i2c("{\"bus\": 1, \"address\": 0}", "0x03 to 0x77");
    refuse_i2c("{\"bus\": 1, \"address\": []}", "1 to 128");
    refuse_i2c("{\"bus\": 1, \"address\": [64, \"x\"]}", "0x03 to 0x77");
    refuse_i2c("{\"bus\": 1, \"speed\": 1}", "its keys");
    refuse_i2c("{\"bus\": 1, \"readonly\": true}", "whole bus");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_short_pins),    cmocka_unit_test(test_bad_pins),
        cmocka_unit_test(test_pins_on_terms), cmocka_unit_test(test_buses),
        cmocka_unit_test(test_bad_buses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
