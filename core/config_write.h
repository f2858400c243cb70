/* Changing kern.toml without losing what its owner wrote around the change: comments, order, spacing. The text functions are
 * pure; config_write_save() touches the disk. Host side. */
#ifndef CORE_CONFIG_WRITE_H
#define CORE_CONFIG_WRITE_H

#include "config_internal.h"

/* One key of a table to come: words as on a command line, put down as TOML of the option's type. */
struct config_word {
    const struct kern_option *def;
    const char *text;
};

/* The text with a table [[KIND]] at its end; keys that come several times become one array. *ret_text is the caller's to free. */
int config_write_add(const char *text, const char *kind, const char *name, const struct config_word *words,
                     size_t count, char **ret_text, struct kern_error *err);
/* The text without the table [[KIND]] called `name`, and with all comments but those in it. */
int config_write_remove(const char *text, const char *path, const char *kind, const char *name,
                        char **ret_text, struct kern_error *err);
/* Puts the text in the place of the file, all of it or nothing, after it was found valid. `original`: what the change was made
 * from; a file that somebody changed meanwhile is refused. NULL: there was none. */
int config_write_save(const char *path, const char *original, const char *text, struct kern_error *err);

#endif
