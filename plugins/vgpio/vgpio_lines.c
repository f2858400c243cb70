/* Judges requests for GPIO lines; see vgpio_lines.h. Pure. */
#include "vgpio_lines.h"

#include <errno.h>
#include <string.h>

const struct vgpio_line *vgpio_line_find(const struct vgpio_lines *lines, uint32_t offset)
{
    for (size_t i = 0; i < lines->count; i++)
        if (lines->line[i].offset == offset)
            return &lines->line[i];
    return NULL;
}

static int refuse(struct vgpio_refusal *refusal, uint32_t offset, const char *reason)
{
    *refusal = (struct vgpio_refusal){.offset = offset, .reason = reason};
    return -EPERM;
}

/* The words of the two uAPIs for the same things. */
struct dialect {
    uint64_t in, out, active_low, bias_off, bias_up, bias_down;
};

static const struct dialect second = {.in = GPIO_V2_LINE_FLAG_INPUT,
                                      .out = GPIO_V2_LINE_FLAG_OUTPUT,
                                      .active_low = GPIO_V2_LINE_FLAG_ACTIVE_LOW,
                                      .bias_off = GPIO_V2_LINE_FLAG_BIAS_DISABLED,
                                      .bias_up = GPIO_V2_LINE_FLAG_BIAS_PULL_UP,
                                      .bias_down = GPIO_V2_LINE_FLAG_BIAS_PULL_DOWN};

static const struct dialect first = {.in = GPIOHANDLE_REQUEST_INPUT,
                                     .out = GPIOHANDLE_REQUEST_OUTPUT,
                                     .active_low = GPIOHANDLE_REQUEST_ACTIVE_LOW,
                                     .bias_off = GPIOHANDLE_REQUEST_BIAS_DISABLE,
                                     .bias_up = GPIOHANDLE_REQUEST_BIAS_PULL_UP,
                                     .bias_down = GPIOHANDLE_REQUEST_BIAS_PULL_DOWN};

static uint64_t bias_of(const struct dialect *dialect, uint8_t bias)
{
    return bias == VGPIO_BIAS_UP     ? dialect->bias_up
           : bias == VGPIO_BIAS_DOWN ? dialect->bias_down
                                     : dialect->bias_off;
}

/* One line's flags, put on its terms. A request that says nothing of the direction leaves the line as it is, which may be the
 * direction that is not allowed. */
static int judge_flags(const struct dialect *dialect, const struct vgpio_line *line, uint64_t *flags,
                       struct vgpio_refusal *refusal)
{
    const struct vgpio_terms *terms = &line->terms;
    if (terms->direction == VGPIO_IN && (*flags & (dialect->in | dialect->out)) != dialect->in)
        return refuse(refusal, line->offset, "the profile gives it as an input");
    if (terms->direction == VGPIO_OUT && (*flags & (dialect->in | dialect->out)) != dialect->out)
        return refuse(refusal, line->offset, "the profile gives it as an output");
    if (terms->active_low)
        *flags |= dialect->active_low;
    /* A bias goes with a direction only. */
    if (terms->bias != VGPIO_BIAS_FREE && (*flags & (dialect->in | dialect->out)) != 0) {
        *flags &= ~(dialect->bias_off | dialect->bias_up | dialect->bias_down);
        *flags |= bias_of(dialect, terms->bias);
    }
    return 0;
}

static int find_granted(const struct vgpio_lines *lines, uint32_t offset, const struct vgpio_line **ret_line,
                        struct vgpio_refusal *refusal)
{
    const struct vgpio_line *line = vgpio_line_find(lines, offset);
    if (line == NULL)
        return refuse(refusal, offset, "not granted");
    *ret_line = line;
    return 0;
}

/* ---- The second uAPI: flags for all lines, and up to ten exceptions by mask ---- */

/* The first exception that names the line wins, as in the kernel. */
static uint64_t flags_of(const struct gpio_v2_line_config *config, uint32_t index)
{
    for (uint32_t i = 0; i < config->num_attrs; i++)
        if (config->attrs[i].attr.id == GPIO_V2_LINE_ATTR_ID_FLAGS &&
            (config->attrs[i].mask >> index & 1) != 0)
            return config->attrs[i].attr.flags;
    return config->flags;
}

/* Rewrites the flags of all lines: those of line 0 for all, and an exception for each other set of flags. */
static int write_flags(struct gpio_v2_line_config *config, const uint64_t *flags, uint32_t count)
{
    struct gpio_v2_line_config made = *config;
    made.flags = flags[0];
    made.num_attrs = 0;
    memset(made.attrs, 0, sizeof(made.attrs));
    for (uint32_t i = 0; i < config->num_attrs; i++)
        if (config->attrs[i].attr.id != GPIO_V2_LINE_ATTR_ID_FLAGS)
            made.attrs[made.num_attrs++] = config->attrs[i];
    uint32_t kept = made.num_attrs;
    for (uint32_t i = 1; i < count; i++) {
        uint32_t at = kept;
        if (flags[i] == flags[0])
            continue;
        while (at < made.num_attrs && made.attrs[at].attr.flags != flags[i])
            at++;
        if (at == GPIO_V2_LINE_NUM_ATTRS_MAX)
            return -EINVAL;
        if (at == made.num_attrs) {
            made.attrs[at].attr.id = GPIO_V2_LINE_ATTR_ID_FLAGS;
            made.attrs[at].attr.flags = flags[i];
            made.num_attrs++;
        }
        made.attrs[at].mask |= UINT64_C(1) << i;
    }
    *config = made;
    return 0;
}

int vgpio_judge_config(const struct vgpio_lines *lines, const uint32_t *offsets, uint32_t count,
                       struct gpio_v2_line_config *config, struct vgpio_refusal *ret_refusal)
{
    if (count == 0 || count > GPIO_V2_LINES_MAX || config->num_attrs > GPIO_V2_LINE_NUM_ATTRS_MAX)
        return -EINVAL;
    uint64_t flags[GPIO_V2_LINES_MAX];
    bool changed = false;
    for (uint32_t i = 0; i < count; i++) {
        const struct vgpio_line *line = NULL;
        int failed = find_granted(lines, offsets[i], &line, ret_refusal);
        uint64_t wanted = flags_of(config, i);
        flags[i] = wanted;
        if (failed == 0)
            failed = judge_flags(&second, line, &flags[i], ret_refusal);
        if (failed != 0)
            return failed;
        changed = changed || flags[i] != wanted;
    }
    return changed ? write_flags(config, flags, count) : 0;
}

int vgpio_judge_v2(const struct vgpio_lines *lines, struct gpio_v2_line_request *request,
                   struct vgpio_refusal *ret_refusal)
{
    return vgpio_judge_config(lines, request->offsets, request->num_lines, &request->config, ret_refusal);
}

/* ---- The first uAPI: one set of flags for all lines of a request ---- */

static int judge_first(const struct vgpio_lines *lines, const uint32_t *offsets, uint32_t count,
                       uint32_t *flags, struct vgpio_refusal *refusal)
{
    uint64_t all = 0;
    if (count == 0 || count > GPIOHANDLES_MAX)
        return -EINVAL;
    for (uint32_t i = 0; i < count; i++) {
        const struct vgpio_line *line = NULL;
        uint64_t own = *flags;
        int failed = find_granted(lines, offsets[i], &line, refusal);
        if (failed == 0)
            failed = judge_flags(&first, line, &own, refusal);
        if (failed != 0)
            return failed;
        if (i > 0 && own != all)
            return -EINVAL; /* the lines are on terms that one set of flags cannot say */
        all = own;
    }
    *flags = (uint32_t)all;
    return 0;
}

int vgpio_judge_handle(const struct vgpio_lines *lines, struct gpiohandle_request *request,
                       struct vgpio_refusal *ret_refusal)
{
    return judge_first(lines, request->lineoffsets, request->lines, &request->flags, ret_refusal);
}

int vgpio_judge_event(const struct vgpio_lines *lines, struct gpioevent_request *request,
                      struct vgpio_refusal *ret_refusal)
{
    uint32_t flags =
        request->handleflags | GPIOHANDLE_REQUEST_INPUT; /* an event is of an input, said or not */
    int failed = judge_first(lines, &request->lineoffset, 1, &flags, ret_refusal);
    if (failed == 0)
        request->handleflags = flags;
    return failed;
}

int vgpio_judge_handle_config(const struct vgpio_lines *lines, const uint32_t *offsets, uint32_t count,
                              struct gpiohandle_config *config, struct vgpio_refusal *ret_refusal)
{
    return judge_first(lines, offsets, count, &config->flags, ret_refusal);
}
