/* The 32-bit interface of the kernel: asks /dev/gpiochip0 for a line as a program of another architecture does. Exits 0 with the
 * line, else 1. Stands alone, for there is no 32-bit library.
 * usage: attack32 (it wants line 3) */
#include <linux/gpio.h>

#define EXIT  1
#define OPEN  5
#define IOCTL 54

static int call(int number, long a, long b, long c)
{
    int result;
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(number), "b"(a), "c"(b), "d"(c) : "memory");
    return result;
}

void _start(void)
{
    static struct gpio_v2_line_request request = {
        .num_lines = 1, .offsets = {3}, .config = {.flags = GPIO_V2_LINE_FLAG_INPUT}};
    int chip = call(OPEN, (long)"/dev/gpiochip0", 2, 0);
    int result = chip < 0 ? chip : call(IOCTL, chip, GPIO_V2_GET_LINE_IOCTL, (long)&request);
    call(EXIT, result != 0, 0, 0);
}
