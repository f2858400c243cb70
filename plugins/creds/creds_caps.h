/* Capability names and the set that a box keeps. Pure. */
#ifndef CREDS_CAPS_H
#define CREDS_CAPS_H

#include "kern/plugin.h"

#include <stdbool.h>

#define CREDS_CAP_COUNT 41

/* Every capability that has a name here. A newer kernel's unnamed ones are in no set and so always dropped. */
#define CREDS_CAPS_ALL ((UINT64_C(1) << CREDS_CAP_COUNT) - 1)

/* What root of a box keeps when nobody asks: ALL less the sixteen of the contract. */
uint64_t creds_caps_default(void);

/* "CAP_NET_RAW", "net_raw" -> 13; -1 for a name that is unknown. */
int creds_cap_number(const char *name);
/* 13 -> "NET_RAW"; NULL outside the table. */
const char *creds_cap_name(int number);

/* One option's whole list. `rank` is the KERN_FROM_* that it came from. */
struct creds_cap_list {
    uint64_t named;
    bool all;
    int32_t rank;
};

/* Adds one item, a name or ALL, to the list; `option` is named in the error. */
int creds_cap_list_add(struct creds_cap_list *list, const char *option, const char *item,
                       struct kern_error *err);

/* The set to keep. The list of lower rank is applied first, so that a flag has the last word over kern.toml.
 * Within one rank ALL comes before names; the same name in both lists is refused. */
int creds_caps_resolve(const struct creds_cap_list *drop, const struct creds_cap_list *add,
                       uint64_t *ret_kept, struct kern_error *err);

#endif
