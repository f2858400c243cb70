/* What libgpiod knows of the machine's GPIO chips. The one place that sees its two generations: 1.6 (Debian 12, Raspberry Pi OS
 * bookworm) and 2.x (trixie). Runs in kern, on the host. */
#ifndef VGPIO_GPIOD_H
#define VGPIO_GPIOD_H

#include <stddef.h>
#include <stdint.h>

struct vgpio_chip_facts {
    char path[64]; /* below /dev */
    char name[32]; /* gpiochip0 */
    char label[32];
    uint32_t lines;
    int error; /* why it could not be opened: a positive errno, or 0 */
};

struct vgpio_line_facts {
    char name[32], consumer[32];
    int used, output;
};

/* Fills at most `most` rows in the order of the chips' numbers and returns how many chips there are. Those that may not be
 * opened have `error` set. */
size_t vgpio_gpiod_chips(struct vgpio_chip_facts *ret_chips, size_t most);
/* Calls fn for each line of the chip until it returns not 0, which is returned then; -errno when the chip does not open. */
int vgpio_gpiod_lines(const char *path,
                      int (*fn)(void *data, uint32_t offset, const struct vgpio_line_facts *line),
                      void *data);

#endif
