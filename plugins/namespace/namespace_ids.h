/* Which ids a box gets, as text for the kernel's map files. Pure but for reading /etc/subuid and /etc/subgid. */
#ifndef NAMESPACE_IDS_H
#define NAMESPACE_IDS_H

#include "kern/foundation.h"

#define NAMESPACE_AUTO 0u
#define NAMESPACE_KEEP 1u
#define NAMESPACE_HOST 2u

struct namespace_caller {
    uint32_t uid, gid;
    uint32_t real_root; /* 1: root of the first user namespace, with the capabilities to map anything */
    const char *user;   /* login name, or NULL */
};

struct namespace_range {
    uint32_t start, count; /* count 0: there is none */
};

/* The first range of `user` (or its number) in the text of /etc/subuid or /etc/subgid. */
struct namespace_range namespace_find_range(const char *text, const char *user, uint32_t id);

/* Decides. `mode` NAMESPACE_*; `want_range`: --uid-range. The ranges are those of the caller, count 0 if none; `block` is
 * what real root took for this box when it has no range. */
int namespace_choose(const struct namespace_caller *caller, uint32_t mode, int want_range,
                     struct namespace_range uids, struct namespace_range gids, struct kern_ids *ret_ids,
                     struct kern_error *err);

/* hostname: letters, digits, '-' and '.', at most 64. 0 or -EINVAL. */
int namespace_check_hostname(const char *name);

/* A sysctl that belongs to one of the box's own namespaces: "net.*" only with a network of its own. Returns the path
 * below /proc, or NULL for anything else. */
int namespace_sysctl_path(const char *key, int own_network, char *ret_path, size_t size);

#endif
