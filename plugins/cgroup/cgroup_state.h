/* What one box has of control groups, from prepare to teardown, and the parts of the plugin that work on it. All of
 * it runs in kern, except that enter reads the descriptors and the CPU mask. */
#ifndef CGROUP_STATE_H
#define CGROUP_STATE_H

#include "cgroup_limits.h"
#include "cgroup_map.h"

#include "kern/foundation.h"
#include "kern/plugin.h"

#include <stdbool.h>

#define CGROUP_GROUPS_MAX (CGROUP_KINDS + 2) /* one of version 2, one that counts CPU time */
#define CGROUP_BIT(kind)  (1u << (kind))
#define CGROUP_ALL        (CGROUP_BIT(CGROUP_KINDS) - 1)

/* Why a cap does not bind; CGROUP_BOUND is the only good answer. cgroup_words.c has the words. */
enum cgroup_why {
    CGROUP_BOUND,
    CGROUP_NO_CONTROLLER,  /* not in this kernel, or switched off at boot */
    CGROUP_NOT_MOUNTED,    /* in the kernel, in no hierarchy that can be seen */
    CGROUP_NEEDS_ROOT,     /* v1, and the caller may not make groups */
    CGROUP_READ_ONLY,      /* mounted read-only */
    CGROUP_NOT_DELEGATED,  /* v2, and no group on the way up is the caller's */
    CGROUP_NO_SUBTREE,     /* v2, delegated without this controller */
    CGROUP_MANAGER_FAILED, /* v2: systemd was asked for a group, and did not give one */
    CGROUP_HAS_PROCESSES,  /* v2: a group with processes cannot hand controllers on */
    CGROUP_OUTER_IS_LESS,  /* the caller's own group allows less than what was asked */
    CGROUP_NO_FILE,        /* the kernel was built without it */
    CGROUP_FAILED,         /* `code` says */
    CGROUP_MISREAD,        /* written, but something else read back */
};

struct cgroup_bound {
    int32_t enforced; /* as in kern_limit */
    enum cgroup_why why;
    int32_t code;
    const char *by;
};

struct cgroup_wish {
    uint32_t kinds; /* CGROUP_BIT of each that gets a group */
    uint32_t asked; /* and of each that is to bind there */
    int64_t memory, swap, pids;
    double cpus;
    const char *cpuset;
    struct cgroup_cpus mask; /* of cpuset */
    uint32_t weight;
};

struct cgroup_group {
    char path[CGROUP_PATH_MAX];
    uint32_t version; /* 1 or 2 */
    uint32_t kinds;
    int32_t dir;      /* O_PATH */
    int32_t tasks;    /* v1: enter writes itself into it; -1 otherwise */
    uint32_t in_unit; /* it stands in a unit that systemd was asked for */
    uint32_t counts;  /* v1: CPU time */
};

/* Caps on all boxes of the user together; 0: none. */
struct cgroup_fleet {
    int64_t memory, pids;
    int32_t memory_binds, pids_bind;
    int64_t out_of_memory; /* v2: how often the group had run out of memory when this box began */
};

struct cgroup_state {
    struct cgroup_wish wish;
    struct cgroup_fleet fleet;
    struct cgroup_bound bound[CGROUP_KINDS];
    struct cgroup_bound swap;
    struct cgroup_group group[CGROUP_GROUPS_MAX];
    uint32_t group_count;
    uint32_t use_affinity;
    int32_t oom_event; /* v1: the kernel's word that the OOM killer is at work */
    int32_t oom_timer;
    uint32_t oom_looks;
};

/* Groups for the wished kinds, below the caller's own (v1) or beside it (v2). What cannot be had is noted in
 * `bound`; only a failure to write down what is about to be made is an error. */
int cgroup_v1_make(kern_box *box, struct cgroup_state *state, const struct cgroup_map *map,
                   struct kern_error *err);
int cgroup_v2_make(kern_box *box, struct cgroup_state *state, const struct cgroup_map *map,
                   struct kern_error *err);
/* Shared by both: writes the path down, makes the directory for `kinds`, opens it; within the fleet's group where there is to be
 * one. 0 or the errno of the directory in *ret_code; negative only as above. */
int cgroup_make_group(kern_box *box, struct cgroup_state *state, const char *parent, uint32_t version,
                      uint32_t kinds, struct cgroup_group **ret_group, int *ret_code, struct kern_error *err);
struct cgroup_group *cgroup_group_of(struct cgroup_state *state, enum cgroup_kind kind);
const char *cgroup_backend(const struct cgroup_group *group); /* cgroup1, cgroup2, scope */

bool cgroup_fleet_wanted(const struct cgroup_fleet *fleet, uint32_t kinds);
/* Makes the fleet's group below `parent` if need be and caps it; its children get `kinds`. 0 or -errno. */
int cgroup_fleet_open(struct cgroup_fleet *fleet, const char *parent, uint32_t version, uint32_t kinds,
                      char ret_path[CGROUP_PATH_MAX]);
/* v2: how often the fleet's group has run out of memory; -1: unknown. */
int64_t cgroup_fleet_oom(int dir);
/* v2: moves the processes of the caller's own group into a child of it, if that group was delegated. 0 or -errno. */
int cgroup_make_room(const struct cgroup_place *place);
/* v2: which of `need` the children of a group get, after asking for those that are missing. */
uint32_t cgroup_enable(int parent, uint32_t need, int *ret_code);

/* Writes each limit into its group and reads it back, once. */
void cgroup_apply(struct cgroup_state *state);

void cgroup_collect(kern_box *box, void *state, struct kern_usage *ret_usage);
int cgroup_kill(kern_box *box, void *state);

/* kern_need_io_group(). */
int cgroup_need_io(kern_box *box, void *state, char *ret_why, size_t size, struct kern_error *err);
/* Tells the core of a group. */
void cgroup_tell(kern_box *box, const struct cgroup_group *group);

/* v1 ends one task when memory is out, v2 the whole box: this makes v1 do the same. */
void cgroup_oom_watch(kern_box *box, struct cgroup_state *state);
void cgroup_oom_unwatch(kern_box *box, struct cgroup_state *state);

/* Pure. */
/* Which of `kinds` a space-separated list of controllers names. */
uint32_t cgroup_kinds_named(const char *list, uint32_t kinds);
enum cgroup_why cgroup_why_v1(int code);
/* Of a controller that no hierarchy has: what /proc/cgroups says about it. */
enum cgroup_why cgroup_why_missing(const char *proc_cgroups, enum cgroup_kind kind);
const char *cgroup_reason(const struct cgroup_bound *bound, enum cgroup_kind kind, char *text, size_t room);
const char *cgroup_remedy(const struct cgroup_bound *bound, enum cgroup_kind kind, char *text, size_t room);
/* "memory and pids" for the kinds that were wished and do not bind for the same reason as `like`; returns their
 * bits. */
uint32_t cgroup_unbound_like(const struct cgroup_bound *bound, uint32_t kinds, enum cgroup_kind like,
                             char *text, size_t room);

#endif
