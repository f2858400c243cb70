/* What this machine could hand out to a box: for `kern probe`, which opens the vgpio plugin for it. Runs in kern, on the host. */
#ifndef VGPIO_PROBE_H
#define VGPIO_PROBE_H

#include "kern/plugin.h"

#include <stdint.h>

struct vgpio_finding {
    const char *kind;   /* the key of [[vgpio]]: pins, i2c, ...; "chip" for a GPIO chip; "cpu" and "disk" */
    const char *name;   /* as it is written in a profile */
    const char *detail; /* a label, a driver; or "" */
    const char *state;  /* "used by X", a reason why it cannot be had; or "" */
    int64_t number;     /* lines of a chip, CPUs, bytes; or -1 */
};

typedef void (*vgpio_found_fn)(void *data, const struct vgpio_finding *finding);

/* Calls `found` for each thing, by kind. `scan_i2c`: also asks each address of each bus whether a device answers, which some
 * devices take amiss. */
typedef void (*vgpio_probe_fn)(vgpio_found_fn found, void *data, int scan_i2c);
KERN_EXPORT void vgpio_probe(vgpio_found_fn found, void *data, int scan_i2c);

#endif
