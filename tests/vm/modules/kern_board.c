/* A board without hardware for the tests of kern's virtual machine; a module of that machine, no part of kern. It has
 * - an I2C bus that takes plain messages (i2c-stub takes SMBus only), with devices of 256 registers at 0x40 and 0x41 and one at
 *   0x60 that keeps its master waiting for two seconds; parameter `seen` counts the messages that reached each address;
 * - a PWM chip of two channels, an ADC of one, a 1-Wire bus with one device, an LED. */
#include <linux/delay.h>
#include <linux/i2c.h>
#include <linux/iio/iio.h>
#include <linux/leds.h>
#include <linux/module.h>
#include <linux/platform_device.h>
#include <linux/pwm.h>
#include <linux/w1.h>

/* ---- I2C ---- */

struct registers {
    u16 address;
    u8 pointer, at[256];
};

static struct registers devices[] = {{.address = 0x40}, {.address = 0x41}, {.address = 0x60}};
static unsigned int seen[128];
module_param_array(seen, uint, NULL, 0444);

static struct registers *device_at(u16 address)
{
    size_t i;

    for (i = 0; i < ARRAY_SIZE(devices); i++)
        if (devices[i].address == address)
            return &devices[i];
    return NULL;
}

static int transfer(struct i2c_adapter *adapter, struct i2c_msg *messages, int count)
{
    int i, k;

    for (i = 0; i < count; i++) {
        struct i2c_msg *message = &messages[i];
        struct registers *device = device_at(message->addr);

        seen[message->addr & 0x7f]++;
        if (device == NULL)
            return -ENXIO;
        if (device->address == 0x60)
            msleep(2000);
        if ((message->flags & I2C_M_RD) == 0 && message->len > 0)
            device->pointer = message->buf[0];
        for (k = message->flags & I2C_M_RD ? 0 : 1; k < message->len; k++) {
            if (message->flags & I2C_M_RD)
                message->buf[k] = device->at[device->pointer++];
            else
                device->at[device->pointer++] = message->buf[k];
        }
    }
    return count;
}

static u32 functions(struct i2c_adapter *adapter)
{
    return I2C_FUNC_I2C | I2C_FUNC_SMBUS_EMUL;
}

static const struct i2c_algorithm algorithm = {.master_xfer = transfer, .functionality = functions};
static struct i2c_adapter bus = {.owner = THIS_MODULE, .algo = &algorithm, .name = "kern-board"};

/* ---- PWM ---- */

static int apply(struct pwm_chip *chip, struct pwm_device *channel, const struct pwm_state *state)
{
    return 0;
}

static const struct pwm_ops pwm_operations = {.apply = apply, .owner = THIS_MODULE};
static struct pwm_chip pwm = {.ops = &pwm_operations, .npwm = 2};

/* ---- ADC ---- */

static int read_raw(struct iio_dev *adc, const struct iio_chan_spec *channel, int *value, int *value2,
                    long mask)
{
    *value = 1234;
    return IIO_VAL_INT;
}

static const struct iio_info adc_info = {.read_raw = read_raw};
static const struct iio_chan_spec adc_channel = {
    .type = IIO_VOLTAGE, .indexed = 1, .channel = 0, .info_mask_separate = BIT(IIO_CHAN_INFO_RAW)};

static int add_adc(struct device *parent)
{
    struct iio_dev *adc = devm_iio_device_alloc(parent, 0);

    if (adc == NULL)
        return -ENOMEM;
    adc->name = "kern-adc";
    adc->info = &adc_info;
    adc->channels = &adc_channel;
    adc->num_channels = 1;
    return devm_iio_device_register(parent, adc);
}

/* ---- 1-Wire ---- */

#define SERIAL 0x0000316a2795bfULL

static u8 touch_bit(void *data, u8 bit)
{
    return 1;
}

static u8 reset_bus(void *data)
{
    return 0;
}

static void search(void *data, struct w1_master *master, u8 type, w1_slave_found_callback found)
{
    u64 number = SERIAL << 8 | 0x01;
    __le64 bytes = cpu_to_le64(number);

    found(master, number | (u64)w1_calc_crc8((u8 *)&bytes, 7) << 56);
}

static struct w1_bus_master onewire = {.touch_bit = touch_bit, .reset_bus = reset_bus, .search = search};

/* ---- The board ---- */

static int set_led(struct led_classdev *led, enum led_brightness brightness)
{
    return 0;
}

static struct led_classdev led = {
    .name = "kern-led", .max_brightness = 255, .brightness_set_blocking = set_led};
static struct platform_device *board;

static int add_all(struct device *parent)
{
    int result;

    bus.dev.parent = parent;
    pwm.dev = parent;
    result = i2c_add_adapter(&bus);
    if (result == 0)
        result = pwmchip_add(&pwm);
    if (result == 0)
        result = add_adc(parent);
    if (result == 0)
        result = w1_add_master_device(&onewire);
    if (result == 0)
        result = led_classdev_register(parent, &led);
    return result;
}

/* It is never unloaded: the machine ends. */
static int __init kern_board_init(void)
{
    board = platform_device_register_simple("kern-board", -1, NULL, 0);
    return IS_ERR(board) ? PTR_ERR(board) : add_all(&board->dev);
}

module_init(kern_board_init);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("I2C, PWM, ADC, 1-Wire and LED without hardware");
