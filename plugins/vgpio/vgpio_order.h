/* Orders to the plugin's workers: what waits for hardware is done there, so that a slow bus never keeps kern's own loop from its
 * deadline. A worker has no capabilities; the open file that an order is about travels along. */
#ifndef VGPIO_ORDER_H
#define VGPIO_ORDER_H

#include "kern/plugin.h"

#include <stddef.h>

#define VGPIO_ORDER_ROOM 49152u /* bytes of one order: more in one I2C transfer is refused */

#define VGPIO_ORDER_STRUCT   1u /* ioctl with a structure, which comes back */
#define VGPIO_ORDER_MESSAGES 2u /* I2C_RDWR: `count` headers, then the bytes of all messages */
#define VGPIO_ORDER_SMBUS    3u /* I2C_SMBUS: the request, then its data */

struct vgpio_order {
    uint32_t kind;
    uint32_t request; /* of ioctl(2) */
    uint32_t count;
    int32_t address; /* the I2C address to choose first, or -1 */
    int32_t result;  /* of the ioctl, or -errno: set by the worker */
    uint32_t length; /* of bytes */
    uint8_t bytes[VGPIO_ORDER_ROOM];
};

struct vgpio_message { /* header of an I2C message in an order */
    uint16_t address, flags, length, unused;
};

/* A seqpacket socket each way. `fd`: goes along where it is not -1. 0 or -errno. */
int vgpio_order_send(int socket, const struct vgpio_order *order, int fd);
/* *ret_fd is -1 when none came. -EAGAIN: nothing there; -EPIPE: the other side is gone. */
int vgpio_order_receive(int socket, struct vgpio_order *ret_order, int *ret_fd, int wait);

/* The worker: fds[0] is its socket. Never returns while the socket lives. */
int32_t vgpio_work(kern_box *box, void *state, const int32_t *fds, uint32_t count);

#endif
