/* Orders and the worker that carries them out; see vgpio_order.h. vgpio_work() runs in the worker, the rest on both sides. */
#include "vgpio_order.h"

#include "kern/cleanup.h"
#include "kern/sys.h"

#include <errno.h>
#include <linux/gpio.h>
#include <linux/i2c-dev.h>
#include <linux/i2c.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

int vgpio_order_send(int socket, const struct vgpio_order *order, int fd)
{
    size_t length = offsetof(struct vgpio_order, bytes) + order->length;
    long sent = sys_send_fds(socket, order, length, &fd, fd >= 0, 0);
    if (sent < 0)
        return (int)sent;
    return sent == (long)length ? 0 : -EIO;
}

int vgpio_order_receive(int socket, struct vgpio_order *ret_order, int *ret_fd, int wait)
{
    size_t count = 0;
    *ret_fd = -1;
    long got =
        sys_receive_fds(socket, ret_order, sizeof(*ret_order), ret_fd, 1, &count, wait ? 0 : MSG_DONTWAIT);
    if (got <= 0)
        return got < 0 ? (int)got : -EPIPE;
    return (size_t)got >= offsetof(struct vgpio_order, bytes) &&
                   (size_t)got == offsetof(struct vgpio_order, bytes) + ret_order->length
               ? 0
               : -EPROTO;
}

/* ---- In the worker ---- */

static int transfer(int fd, struct vgpio_order *order)
{
    struct i2c_msg message[I2C_RDWR_IOCTL_MAX_MSGS];
    struct vgpio_message header[I2C_RDWR_IOCTL_MAX_MSGS];
    memcpy(header, order->bytes, order->count * sizeof(header[0]));
    uint8_t *at = order->bytes + order->count * sizeof(header[0]);
    for (uint32_t i = 0; i < order->count; i++) {
        message[i] = (struct i2c_msg){
            .addr = header[i].address, .flags = header[i].flags, .len = header[i].length, .buf = at};
        at += header[i].length;
    }
    struct i2c_rdwr_ioctl_data request = {.msgs = message, .nmsgs = order->count};
    return ioctl(fd, I2C_RDWR, &request);
}

static int smbus(int fd, struct vgpio_order *order)
{
    struct i2c_smbus_ioctl_data request;
    union i2c_smbus_data data;
    size_t length = order->length - sizeof(request);
    memcpy(&request, order->bytes, sizeof(request));
    memcpy(&data, order->bytes + sizeof(request), length);
    request.data = length > 0 ? &data : NULL;
    int result = ioctl(fd, I2C_SMBUS, &request);
    memcpy(order->bytes + sizeof(request), &data, length);
    return result;
}

static int carry_out(int fd, struct vgpio_order *order)
{
    if (order->address >= 0 && ioctl(fd, I2C_SLAVE, (unsigned long)order->address) != 0)
        return -errno;
    int result = order->kind == VGPIO_ORDER_MESSAGES ? transfer(fd, order)
                 : order->kind == VGPIO_ORDER_SMBUS  ? smbus(fd, order)
                                                     : ioctl(fd, order->request, order->bytes);
    return result < 0 ? -errno : result;
}

/* The descriptor of lines that the kernel put into the structure. */
static int line_fd(const struct vgpio_order *order)
{
    struct gpio_v2_line_request lines;
    struct gpiohandle_request handle;
    struct gpioevent_request event;
    switch (order->result == 0 ? order->request : 0) {
    case GPIO_V2_GET_LINE_IOCTL:
        memcpy(&lines, order->bytes, sizeof(lines));
        return lines.fd;
    case GPIO_GET_LINEHANDLE_IOCTL:
        memcpy(&handle, order->bytes, sizeof(handle));
        return handle.fd;
    case GPIO_GET_LINEEVENT_IOCTL:
        memcpy(&event, order->bytes, sizeof(event));
        return event.fd;
    default:
        return -1;
    }
}

int32_t vgpio_work(kern_box *box, void *state, const int32_t *fds, uint32_t count)
{
    (void)box, (void)state, (void)count; /* an order has all that is needed */
    struct vgpio_order *order = calloc(1, sizeof(*order));
    if (order == NULL)
        return 1;
    for (;;) {
        auto_fd fd = -1;
        int failed = vgpio_order_receive(fds[0], order, &fd, 1);
        if (failed == -EINTR)
            continue;
        if (failed != 0)
            break; /* kern is gone, or will end us */
        order->result = carry_out(fd, order);
        auto_fd lines = line_fd(order);
        if (vgpio_order_send(fds[0], order, lines) != 0)
            break;
    }
    free(order);
    return 1;
}
