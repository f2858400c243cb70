/* Which GPIO lines a box may have, and on what terms: judges the requests of both uAPIs (linux/gpio.h). Pure: works on kern's own
 * copy of a request, never on the box's memory. Runs in kern. */
#ifndef VGPIO_LINES_H
#define VGPIO_LINES_H

#include "vgpio_words.h"

#include <linux/gpio.h>
#include <stddef.h>

struct vgpio_line {
    uint32_t offset;
    struct vgpio_terms terms;
};

struct vgpio_lines {
    struct vgpio_line *line;
    size_t count;
};

/* NULL when the line is not the box's. */
const struct vgpio_line *vgpio_line_find(const struct vgpio_lines *lines, uint32_t offset);

/* Why a request was refused. */
struct vgpio_refusal {
    uint32_t offset;
    const char *reason; /* a literal */
};

/* Each judges one request and puts the terms of its lines into it (active low, bias). 0; -EPERM with the refusal set; -EINVAL
 * for one that the kernel would refuse too, or whose lines have terms that cannot stand in one request. */
int vgpio_judge_v2(const struct vgpio_lines *lines, struct gpio_v2_line_request *request,
                   struct vgpio_refusal *ret_refusal);
int vgpio_judge_handle(const struct vgpio_lines *lines, struct gpiohandle_request *request,
                       struct vgpio_refusal *ret_refusal);
int vgpio_judge_event(const struct vgpio_lines *lines, struct gpioevent_request *request,
                      struct vgpio_refusal *ret_refusal);
/* The same for a new configuration of lines that were requested before. */
int vgpio_judge_config(const struct vgpio_lines *lines, const uint32_t *offsets, uint32_t count,
                       struct gpio_v2_line_config *config, struct vgpio_refusal *ret_refusal);
int vgpio_judge_handle_config(const struct vgpio_lines *lines, const uint32_t *offsets, uint32_t count,
                              struct gpiohandle_config *config, struct vgpio_refusal *ret_refusal);

#endif
