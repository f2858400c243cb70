/* libgpiod, either generation; see vgpio_gpiod.h. */
#include "vgpio_gpiod.h"

#include "kern/cleanup.h"

#include <dirent.h>
#include <errno.h>
#include <gpiod.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void copy(char *room, size_t size, const char *text)
{
    (void)snprintf(room, size, "%.31s", text != NULL ? text : ""); /* longer names the kernel does not have */
}

#ifdef KERN_LIBGPIOD_2

static int look(const char *path, struct vgpio_chip_facts *chip)
{
    struct gpiod_chip *open = gpiod_chip_open(path);
    struct gpiod_chip_info *info = open != NULL ? gpiod_chip_get_info(open) : NULL;
    int failed = info != NULL ? 0 : errno;
    if (info != NULL) {
        copy(chip->name, sizeof(chip->name), gpiod_chip_info_get_name(info));
        copy(chip->label, sizeof(chip->label), gpiod_chip_info_get_label(info));
        chip->lines = (uint32_t)gpiod_chip_info_get_num_lines(info);
        gpiod_chip_info_free(info);
    }
    if (open != NULL)
        gpiod_chip_close(open);
    return failed;
}

static int look_at_line(struct gpiod_chip *chip, uint32_t offset, struct vgpio_line_facts *line)
{
    struct gpiod_line_info *info = gpiod_chip_get_line_info(chip, offset);
    if (info == NULL)
        return -errno;
    copy(line->name, sizeof(line->name), gpiod_line_info_get_name(info));
    copy(line->consumer, sizeof(line->consumer), gpiod_line_info_get_consumer(info));
    line->used = gpiod_line_info_is_used(info);
    line->output = gpiod_line_info_get_direction(info) == GPIOD_LINE_DIRECTION_OUTPUT;
    gpiod_line_info_free(info);
    return 0;
}

#else

static int look(const char *path, struct vgpio_chip_facts *chip)
{
    struct gpiod_chip *open = gpiod_chip_open(path);
    if (open == NULL)
        return errno;
    copy(chip->name, sizeof(chip->name), gpiod_chip_name(open));
    copy(chip->label, sizeof(chip->label), gpiod_chip_label(open));
    chip->lines = gpiod_chip_num_lines(open);
    gpiod_chip_close(open);
    return 0;
}

static int look_at_line(struct gpiod_chip *chip, uint32_t offset, struct vgpio_line_facts *line)
{
    struct gpiod_line *info = gpiod_chip_get_line(chip, offset);
    if (info == NULL)
        return -errno;
    copy(line->name, sizeof(line->name), gpiod_line_name(info));
    copy(line->consumer, sizeof(line->consumer), gpiod_line_consumer(info));
    line->used = gpiod_line_is_used(info);
    line->output = gpiod_line_direction(info) == GPIOD_LINE_DIRECTION_OUTPUT;
    return 0;
}

#endif

static int is_chip(const struct dirent *entry)
{
    return strncmp(entry->d_name, "gpiochip", 8) == 0;
}

size_t vgpio_gpiod_chips(struct vgpio_chip_facts *ret_chips, size_t most)
{
    struct dirent **entries = NULL;
    int count = scandir("/dev", &entries, is_chip, versionsort);
    size_t found = 0;
    for (int i = 0; i < count; i++) {
        struct vgpio_chip_facts chip = {0};
        int length = snprintf(chip.path, sizeof(chip.path), "/dev/%s", entries[i]->d_name);
        if (length > 0 && (size_t)length < sizeof(chip.path)) {
            copy(chip.name, sizeof(chip.name), entries[i]->d_name);
            chip.error = look(chip.path, &chip);
            if (found < most)
                ret_chips[found] = chip;
            found++;
        }
        free(entries[i]);
    }
    free(entries);
    return found;
}

int vgpio_gpiod_lines(const char *path,
                      int (*fn)(void *data, uint32_t offset, const struct vgpio_line_facts *line), void *data)
{
    struct vgpio_chip_facts facts = {0};
    int result = -look(path, &facts);
    struct gpiod_chip *chip = result == 0 ? gpiod_chip_open(path) : NULL;
    if (chip == NULL)
        return result != 0 ? result : -errno;
    for (uint32_t offset = 0; result == 0 && offset < facts.lines; offset++) {
        struct vgpio_line_facts line = {0};
        result = look_at_line(chip, offset, &line);
        if (result == 0)
            result = fn(data, offset, &line);
    }
    gpiod_chip_close(chip);
    return result;
}
