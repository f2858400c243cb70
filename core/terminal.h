/* A terminal of the box's own; see terminal.c. These functions run in kern. */
#ifndef CORE_TERMINAL_H
#define CORE_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>
#include <termios.h>

#define CORE_TAG_TERMINAL 0xffff0001u /* kern_send_fd: the master of the box's terminal */

struct core_relay {
    char bytes[4096];
    size_t length, done;
    bool closed;
};

struct core_terminal {
    int master; /* -1: none */
    bool raw;
    struct termios saved;
    struct core_relay in, out;
};

int core_terminal_start(struct core_terminal *terminal, int master);
void core_terminal_resize(struct core_terminal *terminal);
/* Moves what is there in the directions that are ready. Never blocks on input; output goes to the caller's stdout. */
void core_terminal_pump(struct core_terminal *terminal, bool input, bool output);
/* Drains, closes, and puts the caller's terminal back. Harmless when there is none. */
void core_terminal_stop(struct core_terminal *terminal);

#endif
