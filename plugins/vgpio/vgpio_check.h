/* Judges a [[vgpio]] profile by its words alone, when kern.toml is read. */
#ifndef VGPIO_CHECK_H
#define VGPIO_CHECK_H

#include "kern/plugin.h"

int vgpio_check(const kern_values *profile, const kern_values *pool, struct kern_error *err);

#endif
