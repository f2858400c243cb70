/* Judges requests to an I2C bus; see vgpio_bus.h. Pure. */
#include "vgpio_bus.h"

#include <errno.h>
#include <string.h>

#define POINTER_MOST 1 /* what is written ahead of a read chooses a register; one byte more would set it */

void vgpio_bus_add(struct vgpio_bus *bus, const struct vgpio_i2c *i2c)
{
    bus->number = i2c->bus;
    bus->whole = bus->whole || i2c->count == 0;
    for (uint32_t i = 0; i < i2c->count && i < sizeof(i2c->address); i++) {
        uint8_t address = i2c->address[i] & 0x7f;
        /* Of two items for one address the wider one counts, whichever stands first. */
        bus->readonly[address] = i2c->readonly && (!bus->granted[address] || bus->readonly[address]);
        bus->granted[address] = 1;
    }
}

static int refuse(const char **ret_reason, const char *reason)
{
    *ret_reason = reason;
    return -EPERM;
}

int vgpio_judge_address(const struct vgpio_bus *bus, uint64_t address, const char **ret_reason)
{
    if (bus->whole)
        return 0;
    if (address > 0x7f || !bus->granted[address])
        return refuse(ret_reason, "not granted");
    return 0;
}

/* Only what cannot change where a message goes or which way its data runs. */
static bool is_plain(const struct i2c_msg *message)
{
    return (message->flags & (uint16_t) ~(I2C_M_RD | I2C_M_RECV_LEN | I2C_M_STOP)) == 0;
}

/* A short write that chooses the register which the next message reads. */
static bool is_pointer(const struct i2c_msg *messages, uint32_t count, uint32_t index)
{
    const struct i2c_msg *message = &messages[index];
    return message->len <= POINTER_MOST && (message->flags & I2C_M_STOP) == 0 && index + 1 < count &&
           messages[index + 1].addr == message->addr && (messages[index + 1].flags & I2C_M_RD) != 0 &&
           messages[index + 1].len > 0;
}

int vgpio_judge_messages(const struct vgpio_bus *bus, const struct i2c_msg *messages, uint32_t count,
                         uint32_t *ret_address, const char **ret_reason)
{
    for (uint32_t i = 0; !bus->whole && i < count; i++) {
        const struct i2c_msg *message = &messages[i];
        *ret_address = message->addr;
        int failed = vgpio_judge_address(bus, message->addr, ret_reason);
        if (failed == 0 && !is_plain(message))
            failed = refuse(ret_reason, "with flags that could lead it elsewhere");
        if (failed == 0 && bus->readonly[message->addr] && (message->flags & I2C_M_RD) == 0 &&
            !is_pointer(messages, count, i))
            failed = refuse(ret_reason, "granted for reading only");
        if (failed != 0)
            return failed;
    }
    return 0;
}

int vgpio_judge_smbus(const struct vgpio_bus *bus, uint32_t address,
                      const struct i2c_smbus_ioctl_data *request, const char **ret_reason)
{
    int failed = vgpio_judge_address(bus, address, ret_reason);
    if (failed != 0 || bus->whole || !bus->readonly[address])
        return failed;
    /* Both kinds of process call send data, and are reads to this field all the same. */
    if (request->read_write != I2C_SMBUS_READ || request->size == I2C_SMBUS_PROC_CALL ||
        request->size == I2C_SMBUS_BLOCK_PROC_CALL)
        return refuse(ret_reason, "granted for reading only");
    return 0;
}
