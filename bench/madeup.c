/* A made-up GPIO chip for machines that have none, loaded ahead of kern (LD_PRELOAD) by bench/lines --made-up: the node is one of
 * /dev/zero, and what kern and its worker ask of the chip is answered here. A request of lines gets a copy of the descriptor in
 * place of lines, which is all that the kernel does not do then. Everything else of a request's way is kern's own and real. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/gpio.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#define NAME  "gpiochip0"
#define LABEL "made-up"
#define LINES 8

struct gpiod_chip;

/* libgpiod of the first generation, as far as kern uses it. */
struct gpiod_chip *gpiod_chip_open(const char *path)
{
    static char chip;
    (void)path;
    return (struct gpiod_chip *)&chip;
}
const char *gpiod_chip_name(struct gpiod_chip *chip)
{
    (void)chip;
    return NAME;
}
const char *gpiod_chip_label(struct gpiod_chip *chip)
{
    (void)chip;
    return LABEL;
}
unsigned gpiod_chip_num_lines(struct gpiod_chip *chip)
{
    (void)chip;
    return LINES;
}
void gpiod_chip_close(struct gpiod_chip *chip)
{
    (void)chip;
}

int ioctl(int fd, unsigned long request, ...)
{
    va_list list;
    va_start(list, request);
    void *arg = va_arg(list, void *);
    va_end(list);
    if (request == GPIO_GET_CHIPINFO_IOCTL) {
        struct gpiochip_info *info = arg;
        *info = (struct gpiochip_info){.name = NAME, .label = LABEL, .lines = LINES};
        return 0;
    }
    if (request == GPIO_V2_GET_LINE_IOCTL) {
        struct gpio_v2_line_request *lines = arg;
        lines->fd = (int)syscall(SYS_fcntl, fd, 1030 /* F_DUPFD_CLOEXEC */, 3);
        return lines->fd < 0 ? -1 : 0;
    }
    return (int)syscall(SYS_ioctl, fd, request, arg);
}

ssize_t readlink(const char *path, char *target, size_t size)
{
    static const char gpio[] = "../../bus/gpio";
    if (strcmp(path, "/sys/dev/char/1:5/subsystem") != 0)
        return (ssize_t)syscall(SYS_readlinkat, -100 /* AT_FDCWD */, path, target, size);
    memcpy(target, gpio, sizeof(gpio) - 1); /* kern's rooms for links are larger */
    return sizeof(gpio) - 1;
}
