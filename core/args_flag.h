/* One flag of the command line: found by its spelling in the tables of the catalog, given its text. Used by args.c
 * only, in kern itself before a box exists. */
#ifndef CORE_ARGS_FLAG_H
#define CORE_ARGS_FLAG_H

#include "catalog.h"

struct core_flag {
    const struct kern_option *def;
    struct core_plugin *plugin;
    bool alias;     /* typed by its second spelling */
    char where[96]; /* how errors and --show-config call it */
};

/* `word` is --NAME or --NAME=VALUE; `length` counts the dashes and the name. */
bool core_flag_long(const struct core_catalog *catalog, const char *word, size_t length,
                    struct core_flag *ret_flag);
bool core_flag_letter(const struct core_catalog *catalog, char letter, struct core_flag *ret_flag);

/* `text` to the flag's value: in `box`, or with the plugin where that is not kern's own. */
int core_flag_set(const struct core_flag *flag, struct kern_values *box, const char *text,
                  struct kern_error *err);

/* The error for a flag that no table knows, with the nearest one that has a table. */
int core_flag_unknown(const struct core_catalog *catalog, const char *verb, const char *word,
                      struct kern_error *err);

#endif
