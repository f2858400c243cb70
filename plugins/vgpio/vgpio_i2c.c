/* An I2C bus of which the box has single addresses. Its node stands in the box without the right to be opened; kern hands the box
 * an open file, parked at an address where no device is, because read(2) and write(2) go past the filter to whatever address is
 * set. From there on each choice of an address and each transfer is judged here, on kern's own copy. Runs in kern's loop;
 * transfers are done by the worker. */
#include "vgpio_state.h"

#include "kern/cleanup.h"
#include "kern/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#define MESSAGE_MOST 8192u /* bytes of one message, as in the kernel */

static int find_bus(struct vgpio_state *state, int fd, struct vgpio_node_bus **ret_bus)
{
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISCHR(st.st_mode))
        return -ENOTTY;
    for (size_t i = 0; i < state->bus_count; i++) {
        if (state->bus[i].rdev == st.st_rdev) {
            *ret_bus = &state->bus[i];
            return 0;
        }
    }
    return -ENOTTY;
}

static void tell(kern_box *box, const struct vgpio_node_bus *bus, uint64_t address, const char *reason)
{
    char what[80];
    (void)snprintf(what, sizeof(what), "i2c-%u address 0x%02x", bus->bus.number,
                   (unsigned)address); /* fits */
    kern_report_denied(box, "devices", what, reason);
}

/* ---- Opening ---- */

static struct vgpio_node_bus *bus_at(struct vgpio_state *state, const char *path)
{
    for (size_t i = 0; i < state->bus_count; i++)
        if (!state->bus[i].bus.whole && strcmp(state->bus[i].path, path) == 0)
            return &state->bus[i];
    return NULL;
}

/* The kernel may go on with any other path: what the box cannot have it refuses by itself. */
int vgpio_i2c_open(kern_box *box, struct vgpio_state *state, struct kern_call *call)
{
    uint32_t at = call->call == SYS_openat ? 1 : 0;
    char path[sizeof(state->bus[0].path)] = "";
    struct vgpio_target target;
    if (vgpio_target_open(call, &target) != 0)
        return KERN_CALL_KERNEL;
    /* A short path may stand at the end of the memory there is: piece by piece. */
    size_t used = 0;
    while (used < sizeof(path) - 1 && vgpio_target_read(&target, call->arg[at] + used, path + used, 1) == 0 &&
           path[used] != '\0')
        used++;
    path[used] = '\0';
    struct vgpio_node_bus *bus = bus_at(state, path);
    int32_t answer = KERN_CALL_KERNEL;
    if (bus != NULL) {
        int fd = vgpio_pool_take(bus);
        int number = fd < 0 ? fd : vgpio_target_give(&target, fd, (call->arg[at + 1] & O_CLOEXEC) != 0);
        call->error = number < 0 ? -number : 0;
        call->result = number;
        answer = KERN_CALL_DONE;
    }
    vgpio_target_close(&target);
    (void)box; /* nothing to tell it */
    return answer;
}

/* ---- Choosing an address ---- */

static struct vgpio_chosen *find_chosen(const struct vgpio_state *state, int fd)
{
    long self = getpid();
    for (size_t i = 0; i < VGPIO_HELD; i++)
        if (state->chosen[i].fd >= 0 &&
            sys_call(SYS_kcmp, self, self, KCMP_FILE, state->chosen[i].fd, fd, 0) == 0)
            return &state->chosen[i];
    return NULL;
}

static int choose(struct vgpio_state *state, const struct vgpio_node_bus *bus, int fd, uint32_t address)
{
    struct vgpio_chosen *chosen = find_chosen(state, fd);
    uint32_t real = bus->bus.readonly[address] ? VGPIO_PARKED : address;
    if (ioctl(fd, I2C_SLAVE, (unsigned long)real) != 0)
        return -errno;
    if (chosen != NULL)
        kern_close_fd(&chosen->fd);
    if (!bus->bus.readonly[address])
        return 0;
    chosen = &state->chosen[state->next_chosen++ % VGPIO_HELD];
    kern_close_fd(&chosen->fd); /* the bus that was opened longest ago is parked again: its transfers fail */
    *chosen = (struct vgpio_chosen){.fd = fcntl(fd, F_DUPFD_CLOEXEC, 3), .address = address};
    return chosen->fd < 0 ? -errno : 0;
}

static int begin_setting(kern_box *box, struct vgpio_state *state, const struct vgpio_node_bus *bus,
                         const struct kern_call *call, int fd)
{
    uint32_t request = (uint32_t)call->arg[1];
    const char *reason = NULL;
    if (bus->bus.whole)
        return ioctl(fd, request, (unsigned long)call->arg[2]) == 0 ? 0 : -errno;
    if (request == I2C_TENBIT && call->arg[2] == 0)
        return 0;
    if (request == I2C_SLAVE_FORCE)
        reason = "taken from its driver by force";
    else if (request != I2C_SLAVE)
        reason = "a setting of the whole bus";
    else if (vgpio_judge_address(&bus->bus, call->arg[2], &reason) == 0)
        return choose(state, bus, fd, (uint32_t)call->arg[2]);
    tell(box, bus, request == I2C_SLAVE || request == I2C_SLAVE_FORCE ? call->arg[2] : 0, reason);
    return -EPERM;
}

/* ---- Transfers ---- */

static int read_messages(const struct vgpio_target *target, struct i2c_msg *message, uint32_t *ret_count)
{
    struct i2c_rdwr_ioctl_data request;
    int failed = vgpio_target_read(target, target->call.arg[2], &request, sizeof(request));
    if (failed != 0)
        return failed;
    if (request.msgs == NULL || request.nmsgs == 0 || request.nmsgs > I2C_RDWR_IOCTL_MAX_MSGS)
        return -EINVAL;
    failed = vgpio_target_read(target, (uintptr_t)request.msgs, message, request.nmsgs * sizeof(*message));
    *ret_count = request.nmsgs;
    for (uint32_t i = 0; failed == 0 && i < request.nmsgs; i++)
        failed = message[i].len > MESSAGE_MOST ? -EINVAL : 0;
    return failed;
}

/* Headers, then the bytes of all messages: those to be read, too, for their first byte may say how many follow. */
static int fill_order(const struct vgpio_target *target, const struct i2c_msg *message, uint32_t count,
                      struct vgpio_order *order)
{
    size_t used = count * sizeof(struct vgpio_message);
    *order = (struct vgpio_order){
        .kind = VGPIO_ORDER_MESSAGES, .request = I2C_RDWR, .count = count, .address = -1};
    for (uint32_t i = 0; i < count; i++) {
        struct vgpio_message header = {
            .address = message[i].addr, .flags = message[i].flags, .length = message[i].len};
        memcpy(order->bytes + i * sizeof(header), &header, sizeof(header));
        if (used + message[i].len > sizeof(order->bytes))
            return -EMSGSIZE;
        int failed = message[i].len == 0 ? 0
                                         : vgpio_target_read(target, (uintptr_t)message[i].buf,
                                                             order->bytes + used, message[i].len);
        if (failed != 0)
            return failed;
        used += message[i].len;
    }
    order->length = (uint32_t)used;
    return 0;
}

static int begin_messages(kern_box *box, struct vgpio_state *state, const struct vgpio_target *target,
                          struct vgpio_node_bus *bus, int fd)
{
    struct i2c_msg message[I2C_RDWR_IOCTL_MAX_MSGS];
    uint32_t count = 0, address = 0;
    const char *reason = NULL;
    int failed = read_messages(target, message, &count);
    if (failed == 0)
        failed = vgpio_judge_messages(&bus->bus, message, count, &address, &reason);
    if (failed == -EPERM && reason != NULL)
        tell(box, bus, address, reason);
    if (failed == 0)
        failed = fill_order(target, message, count, state->order);
    /* Where the bytes that are read belong, for the end. */
    for (uint32_t i = 0; failed == 0 && i < count; i++)
        state->i2c_buffer[i] = (message[i].flags & I2C_M_RD) != 0 ? (uintptr_t)message[i].buf : 0;
    return failed != 0 ? failed : vgpio_dispatch(state, &state->i2c, fd);
}

/* How many bytes of its union a kind of transfer uses, as the kernel copies them. */
static size_t data_size(const struct i2c_smbus_ioctl_data *request)
{
    switch (request->size) {
    case I2C_SMBUS_QUICK:
        return 0;
    case I2C_SMBUS_BYTE:
        return request->read_write == I2C_SMBUS_READ ? 1 : 0;
    case I2C_SMBUS_BYTE_DATA:
        return 1;
    case I2C_SMBUS_WORD_DATA:
    case I2C_SMBUS_PROC_CALL:
        return 2;
    default:
        return sizeof(union i2c_smbus_data);
    }
}

static int begin_smbus(kern_box *box, struct vgpio_state *state, const struct vgpio_target *target,
                       struct vgpio_node_bus *bus, int fd)
{
    struct vgpio_order *order = state->order;
    struct i2c_smbus_ioctl_data request;
    int failed = vgpio_target_read(target, target->call.arg[2], &request, sizeof(request));
    if (failed != 0)
        return failed;
    size_t size = data_size(&request);
    *order = (struct vgpio_order){.kind = VGPIO_ORDER_SMBUS,
                                  .request = I2C_SMBUS,
                                  .address = -1,
                                  .length = (uint32_t)(sizeof(request) + size)};
    if (size > 0)
        failed = request.data == NULL ? -EINVAL
                                      : vgpio_target_read(target, (uintptr_t)request.data,
                                                          order->bytes + sizeof(request), size);
    if (failed != 0)
        return failed;
    memcpy(order->bytes, &request, sizeof(request));
    const struct vgpio_chosen *chosen = bus->bus.whole ? NULL : find_chosen(state, fd);
    if (chosen == NULL)
        return vgpio_dispatch(state, &state->i2c, fd); /* to the address that the open file is set to */
    const char *reason = NULL;
    failed = vgpio_judge_smbus(&bus->bus, chosen->address, &request, &reason);
    if (failed != 0) {
        tell(box, bus, chosen->address, reason);
        return failed;
    }
    order->address = (int32_t)chosen->address;
    return vgpio_dispatch(state, &state->i2c, bus->own);
}

int vgpio_i2c_begin(kern_box *box, struct vgpio_state *state, const struct vgpio_target *target,
                    struct kern_call *call)
{
    struct vgpio_node_bus *bus = NULL;
    auto_fd fd = -1;
    int failed = vgpio_target_fd(target, call->arg[0], &fd);
    if (failed == 0)
        failed = find_bus(state, fd, &bus);
    if (failed != 0)
        return failed;
    uint32_t request = (uint32_t)call->arg[1];
    if (request == I2C_RDWR)
        return begin_messages(box, state, target, bus, fd);
    if (request == I2C_SMBUS)
        return begin_smbus(box, state, target, bus, fd);
    failed = begin_setting(box, state, bus, call, fd);
    if (failed == 0)
        vgpio_answer(box, call, 0, 0);
    return failed;
}

/* ---- End ---- */

static int return_messages(const struct vgpio_state *state)
{
    const struct vgpio_order *order = state->order;
    const uint8_t *at = order->bytes + order->count * sizeof(struct vgpio_message);
    for (uint32_t i = 0; i < order->count; i++) {
        struct vgpio_message header;
        memcpy(&header, order->bytes + i * sizeof(header), sizeof(header));
        int failed = state->i2c_buffer[i] != 0 && header.length > 0
                         ? vgpio_target_write(&state->i2c.target, state->i2c_buffer[i], at, header.length)
                         : 0;
        if (failed != 0)
            return failed;
        at += header.length;
    }
    return 0;
}

static int return_data(const struct vgpio_state *state)
{
    const struct vgpio_order *order = state->order;
    struct i2c_smbus_ioctl_data request;
    memcpy(&request, order->bytes, sizeof(request));
    size_t size = order->length - sizeof(request);
    int reads = request.read_write == I2C_SMBUS_READ || request.size == I2C_SMBUS_PROC_CALL ||
                request.size == I2C_SMBUS_BLOCK_PROC_CALL;
    return reads && size > 0 ? vgpio_target_write(&state->i2c.target, (uintptr_t)request.data,
                                                  order->bytes + sizeof(request), size)
                             : 0;
}

void vgpio_i2c_end(kern_box *box, struct vgpio_state *state)
{
    const struct vgpio_order *order = state->order;
    int result = order->result;
    if (result >= 0) {
        int failed = order->kind == VGPIO_ORDER_MESSAGES ? return_messages(state) : return_data(state);
        result = failed != 0 ? failed : result;
    }
    if (result != -ESRCH)
        vgpio_answer(box, &state->i2c.target.call, result < 0 ? -result : 0, result > 0 ? result : 0);
}
