/* What kern knows of the vgpio plugin without opening it: its place, its options. Shared by the plugin itself and by
 * core/catalog.c, so that keys have one source. */
#ifndef VGPIO_MANIFEST_H
#define VGPIO_MANIFEST_H

#include "kern/plugin.h"

#define KEY   (KERN_OPT_PROFILE | KERN_OPT_LIST | KERN_OPT_APART)
#define BOTH  (KEY | KERN_OPT_POOL)
#define SHORT (KERN_OPT_PROFILE | KERN_OPT_APART)

static const struct kern_option vgpio_option_table[] = {
    {.name = "name",
     .type = KERN_STRING,
     .flags = SHORT | KERN_OPT_REQUIRED,
     .help = "what follows vgpio: on the command line"},
    {.name = "backend",
     .type = KERN_STRING,
     .flags = SHORT,
     .fallback = "host",
     .help = "\"host\", or the id of a [[gpio]] pool"},
    {.name = "required",
     .type = KERN_BOOL,
     .flags = SHORT,
     .fallback = "false",
     .help = "refuse to start where a device is absent, instead of a warning"},
    {.name = "pins",
     .type = KERN_ANY,
     .flags = BOTH,
     .help = "GPIO lines: 17, \"GPIO17\", \"gpiochip0:17\" or {chip = \"LABEL\", line = 17}"},
    {.name = "pwm", .type = KERN_ANY, .flags = BOTH, .help = "PWM channels: 0 or \"pwmchip0:1\""},
    {.name = "adc", .type = KERN_ANY, .flags = BOTH, .help = "ADCs: 0 or \"iio:device0\""},
    {.name = "onewire",
     .type = KERN_ANY,
     .flags = BOTH,
     .help = "1-Wire devices (\"28-0316a2795bff\"), or the line of the only bus"},
    {.name = "i2c",
     .type = KERN_ANY,
     .flags = BOTH,
     .help = "I2C: \"1\" is a whole bus, {bus = 1, address = 0x40, readonly = true} one device"},
    {.name = "spi",
     .type = KERN_ANY,
     .flags = BOTH,
     .help = "SPI chip selects: \"0.0\" or \"/dev/spidev0.0\""},
    {.name = "uart",
     .type = KERN_ANY,
     .flags = BOTH,
     .help = "serial ports: \"ttyAMA0\" or \"/dev/ttyUSB0\""},
    {.name = "can", .type = KERN_ANY, .flags = KEY, .help = "CAN interfaces, as seen in /sys: \"can0\""},
    {.name = "camera", .type = KERN_ANY, .flags = KEY, .help = "cameras: 0 or \"/dev/video0\""},
    {.name = "audio", .type = KERN_ANY, .flags = KEY, .help = "sound cards: 0, or a node of /dev/snd"},
    {.name = "midi", .type = KERN_ANY, .flags = KEY, .help = "MIDI ports: \"midiC1D0\""},
    {.name = "input", .type = KERN_ANY, .flags = KEY, .help = "input devices: \"event0\""},
    {.name = "leds", .type = KERN_ANY, .flags = BOTH, .help = "LEDs by their name in /sys/class/leds"},
    {.name = "bluetooth", .type = KERN_ANY, .flags = KEY, .help = "adapters, as seen in /sys: \"hci0\""},
    {.name = "net", .type = KERN_ANY, .flags = KEY, .help = "network interfaces, as seen in /sys: \"eth0\""},
    {.name = "display", .type = KERN_ANY, .flags = KEY, .help = "displays: \"fb0\", \"dri/card0\""},
    {.name = "usb", .type = KERN_ANY, .flags = KEY, .help = "USB devices: \"001/004\" or \"1-1.2\""},
    {.name = "extra", .type = KERN_PATH, .flags = KEY, .help = "other device nodes, by path below /dev"},
    {.name = "id",
     .type = KERN_STRING,
     .flags = KERN_OPT_POOL | KERN_OPT_REQUIRED,
     .help = "what a profile's backend names"},
    {.name = "chip",
     .type = KERN_STRING,
     .flags = KERN_OPT_POOL,
     .help = "the GPIO chip that bare numbers mean, by label or name"},
    {.name = "total-pins",
     .type = KERN_INT,
     .flags = KERN_OPT_POOL,
     .min = 1,
     .max = 4096,
     .help = "lines in the pool: numbers up to here, less one"},
    {.name = NULL},
};

#undef KEY
#undef BOTH
#undef SHORT

#define VGPIO_MANIFEST                                                                                \
    .name = "vgpio", .version = KERN_VERSION, .summary = "devices: single GPIO lines, I2C addresses", \
    .stage = KERN_STAGE_DEVICE, .flags = KERN_PLUGIN_LEAN, .profile = "vgpio", .pool = "gpio",        \
    .options = vgpio_option_table

#endif
