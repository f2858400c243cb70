/* What the files about options share: one text judged against one table entry. Pure; host side. Included by
 * options*.c and by the bridge to libconfuse (config_confuse.c), and by nobody else. */
#ifndef CORE_OPTION_CHECK_H
#define CORE_OPTION_CHECK_H

#include "options.h"

struct core_parsed {
    int64_t number;
    double real;
};

/* A quoted, shortened copy for messages, so that no file can write to a terminal. */
struct core_quoted {
    char text[80];
};
struct core_quoted core_option_quote(const char *text);

/* Parses `text` as `def` wants it and holds it against the bounds or the choices. `prefix` opens each
 * message: "--memory", or "kern.toml:12:3: memory". */
int core_option_parse(const struct kern_option *def, const char *text, const char *prefix,
                      struct core_parsed *ret_parsed, struct kern_error *err);

/* The bounds alone, for numbers that never were text. `shown` is the number as the user wrote it. */
int core_option_check_number(const struct kern_option *def, int64_t number, const char *shown,
                             const char *prefix, struct kern_error *err);
int core_option_check_real(const struct kern_option *def, double real, const char *shown, const char *prefix,
                           struct kern_error *err);

/* "a size such as 512m or 2g", "true or false": what a value of this option is. */
const char *core_option_wanted(const struct kern_option *def);

/* Key spelling: `_` counts as `-`. True when `typed` (of `length` bytes) is the name of the option. */
bool core_option_is_named(const char *name, const char *typed, size_t length);

#endif
