/* Requests for GPIO lines, performed by kern for the box: one copy of the request, judged and then used; the box's memory is
 * never judged and used later. Runs in kern's loop; what touches hardware is done by the worker. */
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

#define REQUEST_MOST 1024u /* bytes of the largest structure, with room */

/* Which kind of open file a request is made on, how much of the caller's memory it names. */
struct shape {
    uint32_t request;
    uint32_t size;
    uint32_t on; /* ON_* */
};

#define ON_CHIP 0u
#define ON_INFO 1u /* a chip too: answered at once */
#define ON_LINE 2u

static const struct shape shapes[] = {
    {GPIO_V2_GET_LINE_IOCTL, sizeof(struct gpio_v2_line_request), ON_CHIP},
    {GPIO_GET_LINEHANDLE_IOCTL, sizeof(struct gpiohandle_request), ON_CHIP},
    {GPIO_GET_LINEEVENT_IOCTL, sizeof(struct gpioevent_request), ON_CHIP},
    {GPIO_V2_GET_LINEINFO_IOCTL, sizeof(struct gpio_v2_line_info), ON_INFO},
    {GPIO_V2_GET_LINEINFO_WATCH_IOCTL, sizeof(struct gpio_v2_line_info), ON_INFO},
    {GPIO_GET_LINEINFO_IOCTL, sizeof(struct gpioline_info), ON_INFO},
    {GPIO_GET_LINEINFO_WATCH_IOCTL, sizeof(struct gpioline_info), ON_INFO},
    {GPIO_V2_LINE_SET_CONFIG_IOCTL, sizeof(struct gpio_v2_line_config), ON_LINE},
    {GPIOHANDLE_SET_CONFIG_IOCTL, sizeof(struct gpiohandle_config), ON_LINE},
};

/* The structure of a request, of whichever kind. */
union body {
    struct gpio_v2_line_request lines;
    struct gpiohandle_request handle;
    struct gpioevent_request event;
    struct gpio_v2_line_info info;
    struct gpioline_info old_info;
    struct gpio_v2_line_config config;
    struct gpiohandle_config handle_config;
    uint8_t bytes[REQUEST_MOST];
};

static const struct shape *shape_of(uint32_t request)
{
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
        if (shapes[i].request == request)
            return &shapes[i];
    return NULL;
}

/* ---- What the box's descriptor is ---- */

/* By its number, and by what the chip calls itself: after an unplugging the number may mean another chip. */
static int find_chip(struct vgpio_state *state, int fd, struct vgpio_chip **ret_chip)
{
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISCHR(st.st_mode))
        return -ENOTTY;
    for (size_t i = 0; i < state->chip_count; i++) {
        struct vgpio_chip *chip = &state->chip[i];
        if (chip->rdev != st.st_rdev)
            continue;
        struct gpiochip_info info = {0};
        if (ioctl(fd, GPIO_GET_CHIPINFO_IOCTL, &info) != 0)
            return -errno;
        int same = strcmp(info.name, chip->name) == 0 && strcmp(info.label, chip->label) == 0 &&
                   info.lines == chip->line_count;
        *ret_chip = chip;
        return same ? 0 : -ENODEV;
    }
    return -ENOTTY;
}

/* The kernel names such files itself; no file system can hold one of that name. */
static int is_lines(int fd)
{
    char link[40], name[64];
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd); /* fits: a number is short */
    ssize_t length = readlink(link, name, sizeof(name) - 1);
    if (length <= 0)
        return 0;
    name[length] = '\0';
    return strncmp(name, "anon_inode:", 11) == 0 && strstr(name, "gpio-") != NULL;
}

static int same_file(int a, int b)
{
    long self = getpid();
    return sys_call(SYS_kcmp, self, self, KCMP_FILE, a, b, 0) == 0;
}

static struct vgpio_held *find_held(const struct vgpio_state *state, int fd)
{
    for (size_t i = 0; i < VGPIO_HELD; i++)
        if (state->held[i].fd >= 0 && same_file(state->held[i].fd, fd))
            return &state->held[i];
    return NULL;
}

/* ---- Refusals ---- */

static void tell(kern_box *box, const struct vgpio_chip *chip, const struct vgpio_refusal *refusal)
{
    char what[80];
    (void)snprintf(what, sizeof(what), "%s line %u", chip->name, refusal->offset); /* fits */
    kern_report_denied(box, "devices", what, refusal->reason);
}

static int judge(const struct vgpio_chip *chip, uint32_t request, union body *body,
                 struct vgpio_refusal *refusal)
{
    if (request == GPIO_V2_GET_LINE_IOCTL)
        return vgpio_judge_v2(&chip->granted, &body->lines, refusal);
    if (request == GPIO_GET_LINEHANDLE_IOCTL)
        return vgpio_judge_handle(&chip->granted, &body->handle, refusal);
    return vgpio_judge_event(&chip->granted, &body->event, refusal);
}

/* ---- Begin ---- */

static int send_body(struct vgpio_state *state, const struct shape *shape, const union body *body, int fd)
{
    struct vgpio_order *order = state->order;
    *order = (struct vgpio_order){
        .kind = VGPIO_ORDER_STRUCT, .request = shape->request, .address = -1, .length = shape->size};
    memcpy(order->bytes, body, shape->size);
    return vgpio_dispatch(state, &state->gpio, fd);
}

/* Which lines a judged request is about. */
static uint32_t lines_of(uint32_t request, const union body *body, const uint32_t **ret_offset)
{
    switch (request) {
    case GPIO_V2_GET_LINE_IOCTL:
        *ret_offset = body->lines.offsets;
        return body->lines.num_lines;
    case GPIO_GET_LINEHANDLE_IOCTL:
        *ret_offset = body->handle.lineoffsets;
        return body->handle.lines;
    default:
        *ret_offset = &body->event.lineoffset;
        return 1;
    }
}

static int overlaps(const struct vgpio_held *held, const uint32_t *offset, uint32_t count)
{
    for (uint32_t i = 0; i < held->count; i++)
        for (uint32_t k = 0; k < count; k++)
            if (held->offset[i] == offset[k])
                return 1;
    return 0;
}

/* A line that kern alone still holds is free for the box; one that the box itself holds stays busy, as anywhere. */
static void let_go(struct vgpio_state *state, const struct vgpio_chip *chip, const uint32_t *offset,
                   uint32_t count)
{
    for (size_t i = 0; i < VGPIO_HELD; i++) {
        struct vgpio_held *held = &state->held[i];
        if (held->fd >= 0 && held->chip == chip && overlaps(held, offset, count))
            kern_close_fd(&held->fd);
    }
}

static int begin_request(kern_box *box, struct vgpio_state *state, const struct shape *shape,
                         union body *body, int fd)
{
    struct vgpio_chip *chip = NULL;
    struct vgpio_refusal refusal = {0};
    int failed = find_chip(state, fd, &chip);
    if (failed == 0)
        failed = judge(chip, shape->request, body, &refusal);
    if (failed == -EPERM)
        tell(box, chip, &refusal);
    if (failed != 0)
        return failed;
    const uint32_t *offset = NULL;
    uint32_t count = lines_of(shape->request, body, &offset);
    let_go(state, chip, offset, count);
    state->gpio.chip = chip;
    return send_body(state, shape, body, fd);
}

/* What is not the box's looks taken, so that no program tries it. */
static int answer_info(kern_box *box, struct vgpio_state *state, const struct vgpio_target *target,
                       const struct shape *shape, union body *body, int fd)
{
    struct vgpio_chip *chip = NULL;
    int failed = find_chip(state, fd, &chip);
    if (failed != 0)
        return failed;
    if (ioctl(fd, shape->request, body->bytes) != 0)
        return -errno;
    if (shape->size == sizeof(body->info) && vgpio_line_find(&chip->granted, body->info.offset) == NULL)
        body->info.flags |= GPIO_V2_LINE_FLAG_USED;
    if (shape->size == sizeof(body->old_info) &&
        vgpio_line_find(&chip->granted, body->old_info.line_offset) == NULL)
        body->old_info.flags |= GPIOLINE_FLAG_KERNEL;
    failed = vgpio_target_write(target, target->call.arg[2], body, shape->size);
    if (failed == 0)
        vgpio_answer(box, &target->call, 0, 0);
    return failed;
}

static int begin_config(kern_box *box, struct vgpio_state *state, const struct shape *shape, union body *body,
                        int fd)
{
    if (!is_lines(fd))
        return -ENOTTY;
    struct vgpio_held *held = state->has_terms ? find_held(state, fd) : NULL;
    if (state->has_terms && held == NULL)
        return -EPERM; /* what kern does not know cannot be judged */
    struct vgpio_refusal refusal = {0};
    int failed = 0;
    if (held != NULL)
        failed =
            shape->request == GPIO_V2_LINE_SET_CONFIG_IOCTL
                ? vgpio_judge_config(&held->chip->granted, held->offset, held->count, &body->config, &refusal)
                : vgpio_judge_handle_config(&held->chip->granted, held->offset, held->count,
                                            &body->handle_config, &refusal);
    if (failed == -EPERM)
        tell(box, held->chip, &refusal);
    state->gpio.chip = NULL;
    return failed != 0 ? failed : send_body(state, shape, body, fd);
}

int vgpio_gpio_begin(kern_box *box, struct vgpio_state *state, const struct vgpio_target *target,
                     struct kern_call *call)
{
    union body body = {.bytes = {0}};
    const struct shape *shape = shape_of((uint32_t)call->arg[1]);
    auto_fd fd = -1;
    int failed = shape == NULL ? -ENOTTY : vgpio_target_fd(target, call->arg[0], &fd);
    if (failed == 0)
        failed = vgpio_target_read(target, call->arg[2], &body, shape->size);
    if (failed != 0)
        return failed;
    switch (shape->on) {
    case ON_CHIP:
        return begin_request(box, state, shape, &body, fd);
    case ON_INFO:
        return answer_info(box, state, target, shape, &body, fd);
    default:
        return begin_config(box, state, shape, &body, fd);
    }
}

/* ---- End ---- */

static void keep(struct vgpio_state *state, struct vgpio_chip *chip, uint32_t request, const union body *body,
                 int fd)
{
    const uint32_t *offset = NULL;
    uint32_t count = lines_of(request, body, &offset);
    for (size_t i = 0; i < chip->granted.count; i++)
        for (uint32_t k = 0; k < count; k++)
            if (chip->granted.line[i].offset == offset[k])
                chip->touched[i] = 1;
    if (!state->has_terms)
        return;
    struct vgpio_held *held = &state->held[state->next_held++ % VGPIO_HELD];
    kern_close_fd(&held->fd);
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    *held = (struct vgpio_held){.fd = copy, /* -1: then it cannot be configured anew, which is refused */
                                .chip = chip,
                                .count = count,
                                .generation = request == GPIO_V2_GET_LINE_IOCTL ? 2 : 1};
    memcpy(held->offset, offset, count * sizeof(offset[0]));
}

/* Where the kernel puts the new descriptor. */
static size_t fd_at(uint32_t request)
{
    return request == GPIO_V2_GET_LINE_IOCTL      ? offsetof(struct gpio_v2_line_request, fd)
           : request == GPIO_GET_LINEHANDLE_IOCTL ? offsetof(struct gpiohandle_request, fd)
                                                  : offsetof(struct gpioevent_request, fd);
}

/* The structure is written ahead of the descriptor: where the memory cannot be written, nothing is given. */
static int hand_over(struct vgpio_state *state, union body *body, int fd)
{
    const struct vgpio_order *order = state->order;
    const struct vgpio_target *target = &state->gpio.target;
    size_t at = fd_at(order->request);
    int32_t number = -1;
    memcpy(body->bytes + at, &number, sizeof(number));
    int failed = vgpio_target_write(target, target->call.arg[2], body, order->length);
    if (failed != 0)
        return failed;
    number = vgpio_target_give(target, fd, 1);
    if (number < 0)
        return number;
    return vgpio_target_write(target, target->call.arg[2] + at, &number, sizeof(number));
}

static void explain_busy(kern_box *box, const struct vgpio_chip *chip, uint32_t request,
                         const union body *body)
{
    const uint32_t *offset = NULL;
    uint32_t count = lines_of(request, body, &offset);
    kern_note(box, "%s line %u%s: taken by another program or box", chip->name, offset[0],
              count > 1 ? " or one requested with it" : "");
}

void vgpio_gpio_end(kern_box *box, struct vgpio_state *state, int fd)
{
    const struct vgpio_order *order = state->order;
    struct vgpio_chip *chip = state->gpio.chip;
    union body body = {.bytes = {0}};
    memcpy(&body, order->bytes, order->length < sizeof(body) ? order->length : sizeof(body));
    int result = order->result;
    if (chip != NULL && result == 0) {
        keep(state, chip, order->request, &body, fd);
        result = hand_over(state, &body, fd);
    } else if (chip != NULL && result == -EBUSY) {
        explain_busy(box, chip, order->request, &body);
    }
    if (result != -ESRCH)
        vgpio_answer(box, &state->gpio.target.call, result < 0 ? -result : 0, result > 0 ? result : 0);
}
