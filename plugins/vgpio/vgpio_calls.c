/* The plugin's side of the filter: which calls come to kern, and the two lines in which they wait for a worker. Runs in kern's
 * loop and never blocks there. */
#include "vgpio_state.h"

#include "kern/cleanup.h"
#include "kern/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5) /* since 5.19 */
#endif

#define WAITING_MOST 65536u /* calls in line: a box with more threads than that waits elsewhere */

void vgpio_answer(kern_box *box, const struct kern_call *call, int error, int64_t result)
{
    struct kern_call answer = *call;
    answer.error = error;
    answer.result = result;
    kern_finish_call(box, &answer);
}

int vgpio_dispatch(struct vgpio_state *state, struct vgpio_lane *lane, int fd)
{
    int failed = vgpio_order_send(lane->socket, state->order, fd);
    return failed == 0 ? 1 : failed;
}

/* ---- The lines ---- */

static int push(struct vgpio_lane *lane, const struct kern_call *call)
{
    if (lane->first > 0 && lane->first + lane->count == lane->room) {
        memmove(lane->waiting, lane->waiting + lane->first, lane->count * sizeof(*lane->waiting));
        lane->first = 0;
    }
    if (lane->first + lane->count == lane->room) {
        size_t room = lane->room * 2 + 16;
        struct kern_call *grown =
            room <= WAITING_MOST ? reallocarray(lane->waiting, room, sizeof(*grown)) : NULL;
        if (grown == NULL)
            return -ENOMEM;
        lane->waiting = grown;
        lane->room = room;
    }
    lane->waiting[lane->first + lane->count++] = *call;
    return 0;
}

/* Starts one call. Returns whether the worker has it now. */
static int start(kern_box *box, struct vgpio_state *state, struct vgpio_lane *lane, struct kern_call *call)
{
    struct vgpio_target target;
    int result = vgpio_target_open(call, &target);
    if (result == -ESRCH)
        return 0; /* nobody waits any more */
    if (result == 0) {
        result = lane == &state->gpio ? vgpio_gpio_begin(box, state, &target, call)
                                      : vgpio_i2c_begin(box, state, &target, call);
        if (result == 1) {
            lane->target = target;
            lane->busy = 1;
            return 1;
        }
        vgpio_target_close(&target);
    }
    if (result < 0 && result != -ESRCH)
        vgpio_answer(box, call, -result, 0);
    return 0;
}

static void pump(kern_box *box, struct vgpio_state *state, struct vgpio_lane *lane)
{
    while (!lane->busy && lane->count > 0) {
        struct kern_call call = lane->waiting[lane->first++];
        if (--lane->count == 0)
            lane->first = 0;
        (void)start(box, state, lane, &call); /* it is noted in lane->busy */
    }
}

static void on_worker(kern_box *box, void *block, int32_t fd, uint32_t events)
{
    struct vgpio_state *state = block;
    struct vgpio_lane *lane = fd == state->gpio.socket ? &state->gpio : &state->i2c;
    auto_fd passed = -1;
    if ((events & EPOLLIN) == 0 || vgpio_order_receive(fd, state->order, &passed, 0) != 0) {
        kern_unwatch(box, fd); /* the worker is gone, and with it the box soon */
        return;
    }
    if (lane == &state->gpio)
        vgpio_gpio_end(box, state, passed);
    else
        vgpio_i2c_end(box, state);
    vgpio_target_close(&lane->target);
    lane->busy = 0;
    pump(box, state, lane);
}

/* ---- The calls ---- */

static int is_gpio(uint32_t request)
{
    return (request >> 8 & 0xff) == 0xb4;
}

static int32_t on_ioctl(kern_box *box, void *block, struct kern_call *call)
{
    struct vgpio_state *state = block;
    struct vgpio_lane *lane = is_gpio((uint32_t)call->arg[1]) ? &state->gpio : &state->i2c;
    if (lane->socket < 0 || push(lane, call) != 0) {
        call->error = lane->socket < 0 ? ENOTTY : EAGAIN;
        return KERN_CALL_DONE;
    }
    pump(box, state, lane);
    return KERN_CALL_LATER;
}

static int32_t on_open(kern_box *box, void *block, struct kern_call *call)
{
    return vgpio_i2c_open(box, block, call);
}

static int trap(kern_box *box, uint32_t request, struct kern_error *err)
{
    struct kern_rule rule = {
        .struct_size = sizeof(rule),
        .call = SYS_ioctl,
        .action = KERN_RULE_NOTIFY,
        .arg_count = 1,
        /* The kernel takes 32 bits of it. */
        .arg = {{.index = 1, .op = KERN_ARG_EQUAL, .mask = UINT32_MAX, .value = request}}};
    return kern_add_rule(box, &rule, err);
}

/* Only what opens an existing file for both reading and writing, as programs open a bus. Any other way to open a bus of which
 * the box has single addresses fails in the kernel, because the node stands in the box without the right to be opened. */
static int trap_open(kern_box *box, int call, uint32_t flags_at, struct kern_error *err)
{
    const uint64_t telling = O_ACCMODE | O_CREAT | O_DIRECTORY | O_PATH;
    struct kern_rule rule = {
        .struct_size = sizeof(rule),
        .call = call,
        .action = KERN_RULE_NOTIFY,
        .arg_count = 1,
        .arg = {{.index = flags_at, .op = KERN_ARG_EQUAL, .mask = telling, .value = O_RDWR}}};
    int failed = kern_add_rule(box, &rule, err);
    return failed == 0 ? kern_on_call(box, call, on_open, err) : failed;
}

static int trap_all(kern_box *box, const struct vgpio_state *state, struct kern_error *err)
{
    static const uint32_t gpio[] = {
        GPIO_GET_LINEHANDLE_IOCTL,   GPIO_GET_LINEEVENT_IOCTL,      GPIO_V2_GET_LINE_IOCTL,
        GPIOHANDLE_SET_CONFIG_IOCTL, GPIO_V2_LINE_SET_CONFIG_IOCTL, GPIO_GET_LINEINFO_IOCTL,
        GPIO_V2_GET_LINEINFO_IOCTL,  GPIO_GET_LINEINFO_WATCH_IOCTL, GPIO_V2_GET_LINEINFO_WATCH_IOCTL,
    };
    static const uint32_t i2c[] = {I2C_RDWR,   I2C_SMBUS,   I2C_SLAVE,  I2C_SLAVE_FORCE,
                                   I2C_TENBIT, I2C_TIMEOUT, I2C_RETRIES};
    int failed = 0;
    for (size_t i = 0; failed == 0 && state->chip_count > 0 && i < sizeof(gpio) / sizeof(gpio[0]); i++)
        failed = trap(box, gpio[i], err);
    for (size_t i = 0; failed == 0 && state->has_restricted && i < sizeof(i2c) / sizeof(i2c[0]); i++)
        failed = trap(box, i2c[i], err);
#ifdef SYS_open
    if (failed == 0 && state->has_restricted)
        failed = trap_open(box, SYS_open, 1, err);
#endif
    if (failed == 0 && state->has_restricted)
        failed = trap_open(box, SYS_openat, 2, err);
    return failed == 0 ? kern_on_call(box, SYS_ioctl, on_ioctl, err) : failed;
}

static int open_lane(kern_box *box, struct vgpio_lane *lane, struct kern_error *err)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
        return kern_fail(err, errno, "cannot make the socket of a worker");
    lane->socket = pair[0];
    lane->far = pair[1];
    int32_t far = lane->far;
    int failed = kern_add_worker(box, vgpio_work, &far, 1, err);
    return failed == 0 ? kern_watch(box, lane->socket, EPOLLIN, on_worker, err) : failed;
}

/* A signal must not make a call that kern answers start anew: only since Linux 5.19 can it be kept from that. */
static int need_killable(struct kern_error *err)
{
    long result =
        sys_call(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                 SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, 0, 0, 0, 0);
    if (result == -EFAULT)
        return 0; /* the flags are known, only the program is missing */
    int failed =
        kern_refuse(err, 0,
                    "cannot enforce pins and I2C addresses: this kernel cannot wait for kern's answer "
                    "without being interrupted");
    kern_hint(err, "Linux 5.19 or later has it (uname -r); a whole bus (i2c = [\"1\"]) works without");
    return failed;
}

int vgpio_calls_prepare(kern_box *box, struct vgpio_state *state, struct kern_error *err)
{
    if (state->chip_count == 0 && !state->has_restricted)
        return 0;
    state->order = calloc(1, sizeof(*state->order));
    state->held = calloc(VGPIO_HELD, sizeof(*state->held));
    state->chosen = calloc(VGPIO_HELD, sizeof(*state->chosen));
    /* Before anything else can fail: what is cleared then must hold no descriptor, which 0 would be. */
    for (size_t i = 0; state->held != NULL && i < VGPIO_HELD; i++)
        state->held[i].fd = -1;
    for (size_t i = 0; state->chosen != NULL && i < VGPIO_HELD; i++)
        state->chosen[i].fd = -1;
    int failed = state->order == NULL || state->held == NULL || state->chosen == NULL
                     ? kern_fail(err, ENOMEM, "cannot keep the calls of the box")
                     : need_killable(err);
    if (failed == 0 && state->chip_count > 0)
        failed = open_lane(box, &state->gpio, err);
    if (failed == 0 && state->has_restricted)
        failed = open_lane(box, &state->i2c, err);
    return failed == 0 ? trap_all(box, state, err) : failed;
}

static void clear_lane(struct vgpio_lane *lane)
{
    if (lane->busy)
        vgpio_target_close(&lane->target);
    kern_close_fd(&lane->socket);
    kern_close_fd(&lane->far);
    free(lane->waiting);
}

void vgpio_calls_clear(struct vgpio_state *state)
{
    clear_lane(&state->gpio);
    clear_lane(&state->i2c);
    for (size_t i = 0; state->held != NULL && i < VGPIO_HELD; i++)
        kern_close_fd(&state->held[i].fd);
    for (size_t i = 0; state->chosen != NULL && i < VGPIO_HELD; i++)
        kern_close_fd(&state->chosen[i].fd);
    free(state->held);
    free(state->chosen);
    free(state->order);
}
