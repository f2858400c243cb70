/* The words of a [[vgpio]] profile as plain data. Pure: no device is touched, so it is tested without any. Runs in kern, on the
 * host. */
#ifndef VGPIO_WORDS_H
#define VGPIO_WORDS_H

#include "kern/plugin.h"

#include <stdbool.h>

#define VGPIO_ANY_DIRECTION 0u
#define VGPIO_IN            1u
#define VGPIO_OUT           2u

#define VGPIO_BIAS_FREE 0u /* the box chooses */
#define VGPIO_BIAS_OFF  1u
#define VGPIO_BIAS_UP   2u
#define VGPIO_BIAS_DOWN 3u

#define VGPIO_EXIT_NONE 0u /* kern does nothing about the line */
#define VGPIO_EXIT_HOLD \
    1u /* the line keeps its value as long as the box lives, also when a program lets go of it */
#define VGPIO_EXIT_LOW   2u
#define VGPIO_EXIT_HIGH  3u
#define VGPIO_EXIT_INPUT 4u

/* What may be done with a line, and what is done to it. */
struct vgpio_terms {
    uint8_t direction, bias, on_exit, active_low;
};

struct vgpio_pin {
    char chip[64]; /* label or name; "" where the pool or the machine says which */
    char line[64]; /* its name, or "" when it is a number */
    uint32_t offset;
    struct vgpio_terms terms;
};

#define VGPIO_WHOLE_BUS (-1)

struct vgpio_i2c {
    uint32_t bus;
    uint32_t count; /* 0: the whole bus */
    uint8_t address[128];
    bool readonly;
};

/* One item of `pins` or `i2c`. On failure the error names the item and says how it is written. 0 or -errno. */
int vgpio_read_pin(const char *text, struct vgpio_pin *ret_pin, struct kern_error *err);
int vgpio_read_i2c(const char *text, struct vgpio_i2c *ret_i2c, struct kern_error *err);

/* The number that `text` is, after `prefix` where it has that. -EINVAL when it is none. */
int vgpio_read_number(const char *text, const char *prefix, uint32_t *ret_number);

#endif
