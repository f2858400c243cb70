/* Two small readers of what a person typed: a number that is nothing but a number, and the known word that was
 * probably meant. Pure; used on both sides of the clone, so nothing here allocates. */
#ifndef CREDS_TEXT_H
#define CREDS_TEXT_H

#include <stddef.h>
#include <stdint.h>

/* Decimal digits only: no sign, no space, no 0x, and no leading zero, which some readers take for octal.
 * Returns -EINVAL for anything else and -ERANGE above `max`. */
int creds_decimal(const char *text, size_t length, uint64_t max, uint64_t *ret_number);

/* The word nearest to `typed`, whatever its case; NULL when none is near enough to suggest. */
const char *creds_nearest(const char *typed, const char *const *words, size_t count);

#endif
