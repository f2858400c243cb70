/* Options and their values: one table entry (struct kern_option), one parsed value, and a set of values.
 * Pure: nothing here touches the kernel except KERN_OPT_MUST_EXIST, which looks whether a path is there. */
#ifndef CORE_OPTIONS_H
#define CORE_OPTIONS_H

#include "kern/plugin.h"

#include <stdbool.h>

struct core_value {
    const struct kern_option *def;
    int32_t source; /* KERN_FROM_* */
    int64_t number; /* INT BOOL SIZE DURATION */
    double real;    /* FLOAT */
    char *text;     /* as given; NULL when there is no value; for lists the last item */
    char **item;    /* KERN_OPT_LIST */
    uint32_t item_count;
    char where[96]; /* "--memory", "kern.toml:12:3", "vcpu:heavy": named in errors and by --show-config */
};

struct kern_values {
    struct core_value *value;
    size_t count;
};

/* One value for each option of the NULL-name-terminated table whose flags meet `mask`, set to the default.
 * Appends to what is there. A fallback that does not parse is a fault of the table, perhaps a third party's: an
 * error, and `values` stays as it was. */
int core_values_add(struct kern_values *values, const struct kern_option *table, uint32_t mask,
                    struct kern_error *err);
void core_values_clear(struct kern_values *values);
struct core_value *core_values_find(const struct kern_values *values, const char *name);

/* Sets `text` at rank `source`; NULL means that none was given: "true" for KERN_BOOL, `implied` for an optional
 * value, else refused. KERN_OPT_LATER is refused as "not available in this build". Wrong text is refused whatever
 * its rank; a lower rank than the present one changes nothing and succeeds. Within one rank
 * a list grows and a single value is replaced; a higher rank replaces a list as a whole. */
int core_value_set(struct core_value *value, const char *text, int32_t source, const char *where,
                   struct kern_error *err);

/* Size and number syntax, shared with everything that reads such text. Errors name `where` and the text. */
int core_parse_size(const char *text, const char *where, uint64_t *ret_bytes, struct kern_error *err);
int core_parse_duration(const char *text, const char *where, int64_t *ret_ms, struct kern_error *err);
int core_parse_int(const char *text, const char *where, int64_t *ret_number, struct kern_error *err);
int core_parse_float(const char *text, const char *where, double *ret_number, struct kern_error *err);

/* The word of `words` (NULL-terminated) nearest to `typed`, or NULL when none is near enough to suggest. */
const char *core_nearest(const char *typed, const char *const *words);

#endif
