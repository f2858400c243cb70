/* What vgpio_gpiod.c uses of libgpiod's second generation, declared as its gpiod.h declares it: so that this half of the file is
 * compiled and tested on a machine that has the first one. test_gpiod_second.c defines what stands here. */
#ifndef KERN_TEST_GPIOD_H
#define KERN_TEST_GPIOD_H

#include <stdbool.h>
#include <stddef.h>

struct gpiod_chip;
struct gpiod_chip_info;
struct gpiod_line_info;

enum gpiod_line_direction {
    GPIOD_LINE_DIRECTION_AS_IS = 1,
    GPIOD_LINE_DIRECTION_INPUT,
    GPIOD_LINE_DIRECTION_OUTPUT,
};

struct gpiod_chip *gpiod_chip_open(const char *path);
void gpiod_chip_close(struct gpiod_chip *chip);
struct gpiod_chip_info *gpiod_chip_get_info(struct gpiod_chip *chip);
void gpiod_chip_info_free(struct gpiod_chip_info *info);
const char *gpiod_chip_info_get_name(struct gpiod_chip_info *info);
const char *gpiod_chip_info_get_label(struct gpiod_chip_info *info);
size_t gpiod_chip_info_get_num_lines(struct gpiod_chip_info *info);
struct gpiod_line_info *gpiod_chip_get_line_info(struct gpiod_chip *chip, unsigned int offset);
void gpiod_line_info_free(struct gpiod_line_info *info);
const char *gpiod_line_info_get_name(struct gpiod_line_info *info);
const char *gpiod_line_info_get_consumer(struct gpiod_line_info *info);
bool gpiod_line_info_is_used(struct gpiod_line_info *info);
enum gpiod_line_direction gpiod_line_info_get_direction(struct gpiod_line_info *info);

#endif
