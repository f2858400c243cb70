/* Orders and the worker that carries them out; see vgpio_order.h. vgpio_work() runs in the worker, the rest on both sides. */
#include "vgpio_order.h"

#include "kern/cleanup.h"

#include <errno.h>
#include <linux/gpio.h>
#include <linux/i2c-dev.h>
#include <linux/i2c.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

union control {
    char bytes[CMSG_SPACE(sizeof(int))];
    struct cmsghdr align;
};

int vgpio_order_send(int socket, const struct vgpio_order *order, int fd)
{
    union control control = {.bytes = {0}};
    struct iovec data = {.iov_base = (void *)(uintptr_t)order,
                         .iov_len = offsetof(struct vgpio_order, bytes) + order->length};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1};
    if (fd >= 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof(control.bytes);
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(header), &fd, sizeof(int));
    }
    return sendmsg(socket, &message, MSG_NOSIGNAL) == (ssize_t)data.iov_len ? 0 : -errno;
}

int vgpio_order_receive(int socket, struct vgpio_order *ret_order, int *ret_fd, int wait)
{
    union control control;
    struct iovec data = {.iov_base = ret_order, .iov_len = sizeof(*ret_order)};
    struct msghdr message = {.msg_iov = &data,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
    ssize_t got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | (wait ? 0 : MSG_DONTWAIT));
    if (got < 0)
        return -errno;
    *ret_fd = -1;
    const struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (header != NULL && header->cmsg_type == SCM_RIGHTS)
        memcpy(ret_fd, CMSG_DATA(header), sizeof(int));
    if (got == 0)
        return -EPIPE;
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
