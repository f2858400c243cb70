/* What may be said on an I2C bus of which a box has single addresses. Pure. */
#include "vgpio_bus.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct vgpio_bus bus_of(bool whole)
{
    struct vgpio_bus bus = {0};
    const struct vgpio_i2c writable = {.bus = 1, .count = 1, .address = {0x40}};
    const struct vgpio_i2c readonly = {.bus = 1, .count = 1, .address = {0x50}, .readonly = true};
    const struct vgpio_i2c all = {.bus = 1};
    vgpio_bus_add(&bus, &writable);
    vgpio_bus_add(&bus, &readonly);
    if (whole)
        vgpio_bus_add(&bus, &all);
    return bus;
}

static int judge(const struct i2c_msg *messages, uint32_t count)
{
    const struct vgpio_bus bus = bus_of(false);
    uint32_t address;
    const char *reason = NULL;
    return vgpio_judge_messages(&bus, messages, count, &address, &reason);
}

static void test_addresses(void **state)
{
    (void)state;
    const struct vgpio_bus bus = bus_of(false);
    const char *reason = NULL;
    assert_int_equal(vgpio_judge_address(&bus, 0x40, &reason), 0);
    assert_int_equal(vgpio_judge_address(&bus, 0x41, &reason), -EPERM);
    assert_int_equal(vgpio_judge_address(&bus, 0, &reason), -EPERM);
    assert_int_equal(vgpio_judge_address(&bus, 0x140, &reason), -EPERM);
    assert_int_equal(vgpio_judge_address(&bus, UINT64_MAX, &reason), -EPERM);
    const struct vgpio_bus whole = bus_of(true);
    assert_int_equal(vgpio_judge_address(&whole, 0x41, &reason), 0);
}

static void test_messages(void **state)
{
    (void)state;
    struct i2c_msg list[] = {{.addr = 0x40, .len = 9}, {.addr = 0x40, .flags = I2C_M_RD, .len = 4}};
    assert_int_equal(judge(list, 2), 0);
    list[1].addr = 0x41;
    assert_int_equal(judge(list, 2), -EPERM);
    list[1].addr = 0x40;
    list[0].flags = I2C_M_TEN;
    assert_int_equal(judge(list, 2), -EPERM);
    list[0].flags = I2C_M_NOSTART;
    assert_int_equal(judge(list, 2), -EPERM);
    list[0].flags = I2C_M_REV_DIR_ADDR;
    assert_int_equal(judge(list, 2), -EPERM);
}

static void test_readonly_messages(void **state)
{
    (void)state;
    struct i2c_msg list[] = {{.addr = 0x50, .len = 1}, {.addr = 0x50, .flags = I2C_M_RD, .len = 4}};
    assert_int_equal(judge(list, 2), 0);
    assert_int_equal(judge(list + 1, 1), 0);
    assert_int_equal(judge(list, 1), -EPERM); /* a write with no read after it */
    list[0].len = 2;                          /* a register and its value */
    assert_int_equal(judge(list, 2), -EPERM);
    list[0].len = 1;
    list[0].flags = I2C_M_STOP;
    assert_int_equal(judge(list, 2), -EPERM);
    list[0].flags = 0;
    list[1].addr = 0x40; /* the read is of another device */
    assert_int_equal(judge(list, 2), -EPERM);
}

static void test_smbus(void **state)
{
    (void)state;
    const struct vgpio_bus bus = bus_of(false);
    const char *reason = NULL;
    struct i2c_smbus_ioctl_data request = {.read_write = I2C_SMBUS_READ, .size = I2C_SMBUS_BYTE_DATA};
    assert_int_equal(vgpio_judge_smbus(&bus, 0x50, &request, &reason), 0);
    request.read_write = I2C_SMBUS_WRITE;
    assert_int_equal(vgpio_judge_smbus(&bus, 0x40, &request, &reason), 0);
    assert_int_equal(vgpio_judge_smbus(&bus, 0x50, &request, &reason), -EPERM);
    request.read_write = I2C_SMBUS_READ;
    request.size = I2C_SMBUS_PROC_CALL;
    assert_int_equal(vgpio_judge_smbus(&bus, 0x50, &request, &reason), -EPERM);
    request.size = I2C_SMBUS_BLOCK_PROC_CALL;
    assert_int_equal(vgpio_judge_smbus(&bus, 0x50, &request, &reason), -EPERM);
    assert_int_equal(vgpio_judge_smbus(&bus, 0x51, &request, &reason), -EPERM);
}

static void test_the_wider_grant_counts(void **state)
{
    (void)state;
    struct vgpio_bus bus = bus_of(false);
    const struct vgpio_i2c writable = {.bus = 1, .count = 1, .address = {0x50}};
    vgpio_bus_add(&bus, &writable);
    assert_int_equal(bus.readonly[0x50], 0);
    const struct vgpio_i2c readonly = {.bus = 1, .count = 1, .address = {0x50}, .readonly = true};
    vgpio_bus_add(&bus, &readonly);
    assert_int_equal(bus.readonly[0x50], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_readonly_messages),
        cmocka_unit_test(test_smbus),
        cmocka_unit_test(test_the_wider_grant_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
