/* What a box may say on an I2C bus of which it has single addresses: judges kern's own copies of requests (linux/i2c-dev.h).
 * Pure; runs in kern. */
#ifndef VGPIO_BUS_H
#define VGPIO_BUS_H

#include "vgpio_words.h"

#include <linux/i2c-dev.h>
#include <linux/i2c.h>

/* No device answers there (reserved): an open bus that has no address yet must not reach one, least of all address 0,
 * which all devices hear. */
#define VGPIO_PARKED 0x7fu

struct vgpio_bus {
    uint32_t number;
    bool whole;
    uint8_t granted[128];  /* 1: this address */
    uint8_t readonly[128]; /* 1: and nothing may be written to it */
};

/* Adds what one item of `i2c` grants. */
void vgpio_bus_add(struct vgpio_bus *bus, const struct vgpio_i2c *i2c);

/* 0, -EPERM (then *ret_address and *ret_reason say what was refused), or -EINVAL for what the kernel refuses too. */
int vgpio_judge_messages(const struct vgpio_bus *bus, const struct i2c_msg *messages, uint32_t count,
                         uint32_t *ret_address, const char **ret_reason);
/* A transfer to the address that was chosen before. */
int vgpio_judge_smbus(const struct vgpio_bus *bus, uint32_t address,
                      const struct i2c_smbus_ioctl_data *request, const char **ret_reason);
/* The address of I2C_SLAVE. */
int vgpio_judge_address(const struct vgpio_bus *bus, uint64_t address, const char **ret_reason);

#endif
