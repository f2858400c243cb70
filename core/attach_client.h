/* `kern attach`: the keys that leave a box, and what travels over the connection. Pure. */
#ifndef CORE_ATTACH_CLIENT_H
#define CORE_ATTACH_CLIENT_H

#include <stdbool.h>
#include <stddef.h>

/* Packets to the supervisor begin with one of these. */
#define CORE_ATTACH_KEYS 'k' /* bytes for the terminal */
#define CORE_ATTACH_SIZE 's' /* struct winsize */
#define CORE_ATTACH_MOST 1024

#define CORE_KEY_LEAVE_1 0x10 /* Ctrl-P */
#define CORE_KEY_LEAVE_2 0x11 /* Ctrl-Q */

/* Looks for Ctrl-P Ctrl-Q, also across calls: a Ctrl-P is kept back until the next key tells. Copies what is for the box to
 * `ret_bytes`, which has room for one byte more than `length`. True when the keys were found. */
bool core_attach_keys(bool *held, const char *bytes, size_t length, char *ret_bytes, size_t *ret_length);

#endif
