/* The vgpio plugin: a [[vgpio]] profile gives a box single GPIO lines, single I2C addresses, device nodes and directories of
 * /sys, and nothing else. Lines and addresses are no boundary of the kernel's own: the calls that ask for them come to kern
 * (vgpio_calls.c), which performs them for the box. docs/HARDWARE.md says what is and what is not a boundary. */
#include "vgpio_manifest.h"

#include "vgpio_check.h"
#include "vgpio_state.h"

#include "kern/foundation.h"

static int prepare(kern_box *box, void *block, struct kern_error *err)
{
    struct vgpio_state *state = block;
    state->gpio.socket = state->gpio.far = state->i2c.socket = state->i2c.far = -1;
    if (kern_nested(box))
        return kern_refuse(err, 0, "cannot give devices to a box inside another sandbox");
    int failed = vgpio_grant(box, state, err);
    for (uint32_t i = 0; failed == 0 && i < kern_profile_count(box); i++) {
        failed = vgpio_add_nodes(box, kern_profile(box, i), err);
        if (failed == 0)
            failed = vgpio_add_sysfs(box, state, kern_profile(box, i), err);
    }
    if (failed == 0)
        failed = vgpio_pool_prepare(box, state, err);
    return failed == 0 ? vgpio_calls_prepare(box, state, err) : failed;
}

/* Needs the box's mount namespace, CAP_SYS_ADMIN in the user namespace that owns it, and the host's /dev still in sight. */
static int enter(kern_box *box, void *block, struct kern_error *err)
{
    return vgpio_pool_enter(box, block, err);
}

static void teardown(kern_box *box, void *block, const struct kern_outcome *outcome)
{
    struct vgpio_state *state = block;
    (void)outcome; /* lines are left the same way however the box ended */
    vgpio_leave_lines(box, state);
    vgpio_calls_clear(state);
    vgpio_grant_clear(state);
    vgpio_sysfs_clear(state);
}

KERN_PLUGIN(VGPIO_MANIFEST, .state_size = sizeof(struct vgpio_state), .prepare = prepare, .enter = enter,
            .teardown = teardown, .check = vgpio_check);
