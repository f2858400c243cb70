/* How lines are left when the box ends (on_exit). Runs in kern, in teardown: the box is gone, and kern holds the lines that it
 * requested, so nobody else gets them in between. */
#include "vgpio_state.h"

#include "kern/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

#define CONSUMER "kern on exit"

static int is_set(const struct vgpio_line *line)
{
    return line->terms.on_exit >= VGPIO_EXIT_LOW;
}

/* One line of its own, asked of the chip anew. The value is the pin's own, whatever active_low says. */
static int leave(int chip, const struct vgpio_line *line)
{
    struct gpio_v2_line_request request = {.num_lines = 1, .offsets = {line->offset}, .consumer = CONSUMER};
    if (line->terms.on_exit == VGPIO_EXIT_INPUT) {
        request.config.flags = GPIO_V2_LINE_FLAG_INPUT;
    } else {
        request.config.flags = GPIO_V2_LINE_FLAG_OUTPUT;
        request.config.num_attrs = 1;
        request.config.attrs[0].mask = 1;
        request.config.attrs[0].attr.id = GPIO_V2_LINE_ATTR_ID_OUTPUT_VALUES;
        request.config.attrs[0].attr.values = line->terms.on_exit == VGPIO_EXIT_HIGH;
    }
    if (ioctl(chip, GPIO_V2_GET_LINE_IOCTL, &request) != 0)
        return -errno;
    auto_fd fd = request.fd; /* the chip keeps what was set when it is closed */
    return 0;
}

/* While kern still has the box's own request: all of its lines get a value, those without on_exit the one they have. */
static void set_held(const struct vgpio_held *held)
{
    struct gpio_v2_line_values values = {.mask = 0};
    if (held->generation != 2)
        return;
    for (uint32_t i = 0; i < held->count; i++) {
        const struct vgpio_line *line = vgpio_line_find(&held->chip->granted, held->offset[i]);
        if (line == NULL || line->terms.on_exit < VGPIO_EXIT_LOW || line->terms.on_exit > VGPIO_EXIT_HIGH)
            continue;
        values.mask |= UINT64_C(1) << i;
        if ((line->terms.on_exit == VGPIO_EXIT_HIGH) != (line->terms.active_low != 0))
            values.bits |= UINT64_C(1) << i;
    }
    if (values.mask != 0)
        (void)ioctl(held->fd, GPIO_V2_LINE_SET_VALUES_IOCTL,
                    &values); /* EPERM: an input; it is asked for anew below */
}

static void leave_chip(kern_box *box, struct vgpio_chip *chip)
{
    char path[40];
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", chip->fd); /* fits: a number is short */
    auto_fd fd = open(path, O_RDWR | O_CLOEXEC);
    for (size_t i = 0; i < chip->granted.count; i++) {
        const struct vgpio_line *line = &chip->granted.line[i];
        if (!chip->touched[i] || !is_set(line))
            continue;
        int failed = fd < 0 ? -ENODEV : leave(fd, line);
        if (failed != 0)
            kern_warn(box, "cannot leave line %u of %s as on_exit says: %s", line->offset, chip->name,
                      strerror(-failed));
    }
}

void vgpio_leave_lines(kern_box *box, struct vgpio_state *state)
{
    for (size_t i = 0; state->held != NULL && i < VGPIO_HELD; i++) {
        if (state->held[i].fd >= 0)
            set_held(&state->held[i]);
        kern_close_fd(&state->held[i].fd);
    }
    for (size_t i = 0; i < state->chip_count; i++)
        leave_chip(box, &state->chip[i]);
}
