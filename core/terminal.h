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
    bool waiting; /* what is in it could not be written yet: its source is not listened to */
};

struct core_terminal {
    int master; /* -1: none */
    int out_fd; /* the caller's terminal again, opened so that it never blocks us; -1: standard output as it is */
    bool raw;
    int tap; /* who is attached and sees what the box shows; -1 */
    struct termios saved;
    struct core_relay in, out;
};

int core_terminal_start(struct core_terminal *terminal, int master);
/* Of a detached box: nobody's keys, and what it shows goes to `log`. */
void core_terminal_detached(struct core_terminal *terminal, int master, int log);
void core_terminal_resize(struct core_terminal *terminal);
/* Moves what is there in one direction, as far as it goes without waiting. */
void core_terminal_input(struct core_terminal *terminal);
void core_terminal_output(struct core_terminal *terminal);
/* Keys from elsewhere; what the terminal does not take at once is lost. */
void core_terminal_keys(const struct core_terminal *terminal, const char *bytes, size_t length);
/* Drains, closes, and puts the caller's terminal back. Harmless when there is none. */
void core_terminal_stop(struct core_terminal *terminal);

#endif
