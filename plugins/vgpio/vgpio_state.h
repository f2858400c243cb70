/* What the vgpio plugin knows of one box: which lines, addresses and nodes were granted, and the calls that wait for an answer.
 * Made in prepare, used by kern's loop, gone in teardown. */
#ifndef VGPIO_STATE_H
#define VGPIO_STATE_H

#include "vgpio_bus.h"
#include "vgpio_lines.h"
#include "vgpio_order.h"
#include "vgpio_target.h"

#include <sys/types.h>

#define VGPIO_CHIPS   16u
#define VGPIO_BUSES   16u
#define VGPIO_HELD    64u
#define VGPIO_POOL    32u
#define VGPIO_FOLDERS 32u

struct vgpio_chip {
    int fd; /* O_PATH: the node, whatever happens to its name */
    dev_t rdev;
    char path[64], name[32], label[32];
    uint32_t line_count;
    struct vgpio_lines granted;
    uint8_t *touched; /* for each granted line: the box requested it */
};

/* A request of the box's that kern keeps a copy of, for lines on terms: to know what a later change is about, and to have the
 * line when the box ends. */
struct vgpio_held {
    int fd;
    struct vgpio_chip *chip;
    uint32_t offset[GPIO_V2_LINES_MAX];
    uint32_t count;
    uint32_t generation; /* of the uAPI: 1 or 2 */
};

/* An I2C bus of which the box has single addresses, or all of it. */
struct vgpio_node_bus {
    int fd;  /* O_PATH: the node */
    int own; /* kern's own open file, for read-only addresses; -1 without */
    dev_t rdev;
    char path[64];
    struct vgpio_bus bus;
    int pool
        [VGPIO_POOL]; /* open files for the box, which it cannot open anew (vgpio_pool.c); -1 where there is none */
    uint32_t next; /* the one that was handed out longest ago */
};

/* A bus that the box opened and set to a read-only address: the real one stays parked. */
struct vgpio_chosen {
    int fd;
    uint32_t address;
};

/* One call at a time is with a worker; the others wait in line. */
struct vgpio_lane {
    int socket; /* kern's end, -1 without a worker */
    int far;    /* the worker's end, until it runs */
    struct kern_call *waiting;
    size_t first, count, room;
    int busy;
    struct vgpio_target target; /* of the call that is with the worker */
    struct vgpio_chip *chip;
    struct vgpio_node_bus *bus;
};

struct vgpio_state {
    struct vgpio_chip *chip;
    size_t chip_count;
    struct vgpio_node_bus *bus;
    size_t bus_count;
    int has_terms;      /* a line with a direction, a bias, ... */
    int has_restricted; /* a bus with single addresses */
    struct vgpio_lane gpio, i2c;
    struct vgpio_held *held;
    struct vgpio_chosen *chosen;
    size_t next_held, next_chosen;
    struct vgpio_order *order; /* room for one */
    uint64_t
        i2c_buffer[I2C_RDWR_IOCTL_MAX_MSGS]; /* of the transfer with the worker: where what is read belongs */
    char **changed;                          /* of the host for the box: a line of vgpio_sweep.h each */
    size_t changed_count;
    int folder[VGPIO_FOLDERS]; /* of /sys, locked while the files in it are the box's */
    size_t folder_count;
};

/* vgpio_grant.c, in prepare: lines and buses of all profiles, with their nodes. */
int vgpio_grant(kern_box *box, struct vgpio_state *state, struct kern_error *err);
void vgpio_grant_clear(struct vgpio_state *state);

/* vgpio_pool.c: open files of a bus with single addresses. */
int vgpio_pool_prepare(kern_box *box, struct vgpio_state *state, struct kern_error *err);
int vgpio_pool_enter(kern_box *box, const struct vgpio_state *state, struct kern_error *err);
/* One for the box, parked; the pool's. -errno. */
int vgpio_pool_take(struct vgpio_node_bus *bus);
void vgpio_pool_clear(struct vgpio_node_bus *bus);

/* vgpio_nodes.c, in prepare: the keys that stand for one node each (spi, uart, ...). */
int vgpio_add_nodes(kern_box *box, const kern_values *profile, struct kern_error *err);
/* Opens a device node by path, following links that stay in /dev: what is opened is looked at, never its name. `allowed`: the
 * kernel's subsystems that may be behind it, NULL-terminated; NULL: those that are not refused to anyone. 0 with the
 * descriptor; -ENOENT when it is absent (nothing is recorded then); else refused. */
int vgpio_open_node(const char *key, const char *path, const char *const *allowed, int *ret_fd,
                    struct kern_error *err);
/* Puts an open node into the box. */
int vgpio_put_node(kern_box *box, int fd, const char *path, struct kern_error *err);
/* An absent device: a warning, or refused where the profile says `required`. */
int vgpio_absent(kern_box *box, const kern_values *profile, const char *key, const char *what,
                 struct kern_error *err);

/* vgpio_sysfs.c: the keys that stand for directories of /sys. */
int vgpio_add_sysfs(kern_box *box, struct vgpio_state *state, const kern_values *profile,
                    struct kern_error *err);
void vgpio_sysfs_clear(struct vgpio_state *state);

/* vgpio_calls.c, in kern's loop: a call of the box that came here instead of the kernel. */
int vgpio_calls_prepare(kern_box *box, struct vgpio_state *state, struct kern_error *err);
void vgpio_calls_clear(struct vgpio_state *state);
/* Answers the call of the lane with an errno, or a result. */
void vgpio_answer(kern_box *box, const struct kern_call *call, int error, int64_t result);
/* Hands the order in state->order and `fd` to the lane's worker. -errno when it could not. */
int vgpio_dispatch(struct vgpio_state *state, struct vgpio_lane *lane, int fd);

/* vgpio_gpio.c and vgpio_i2c.c: begin one call (0: answered at once; 1: with the worker; -errno: to be answered with that);
 * end it when the worker's answer is in state->order. */
int vgpio_gpio_begin(kern_box *box, struct vgpio_state *state, const struct vgpio_target *target,
                     struct kern_call *call);
void vgpio_gpio_end(kern_box *box, struct vgpio_state *state, int fd);
int vgpio_i2c_begin(kern_box *box, struct vgpio_state *state, const struct vgpio_target *target,
                    struct kern_call *call);
void vgpio_i2c_end(kern_box *box, struct vgpio_state *state);
/* The box opens a file for reading and writing: is it a bus of which it has single addresses? */
int vgpio_i2c_open(kern_box *box, struct vgpio_state *state, struct kern_call *call);

/* vgpio_exit.c, in teardown: what on_exit says. */
void vgpio_leave_lines(kern_box *box, struct vgpio_state *state);

#endif
