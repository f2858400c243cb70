/* What the vgpio plugin changes on the machine for a box, as lines in the box's state file, and how it is undone: "owner BASE UID
 * GID PATH" (a file of /sys that belongs to the box's root, id BASE) and "pwm CHIP CHANNEL" (a channel that was exported).
 * Compiled into the plugin (teardown) and into the core (the sweep of what a killed kern left behind). Runs in kern. */
#ifndef VGPIO_SWEEP_H
#define VGPIO_SWEEP_H

/* What one line is about, for people: a path, or the line itself. NULL when there is nothing left to undo. */
const char *vgpio_sweep_shows(const char *line);
/* Undoes one line. A file that went away, or that belongs to somebody else by now, is left alone. */
void vgpio_sweep(const char *line);

#endif
