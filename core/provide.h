/* What the plugins that ship with kern may use beyond plugin.h: the id maps, the merged filter rules, the facts that
 * only the child knows. Kept apart because third parties have no business here; versioned with kern itself. */
#ifndef CORE_PROVIDE_H
#define CORE_PROVIDE_H

#include "kern/plugin.h"

/* Exported by kern to its plugins. */
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* ---- namespace: which ids the box has ---- */

#define KERN_IDS_NONE   0u /* no user namespace at all (--userns=host, real root only) */
#define KERN_IDS_SELF   1u /* one id: the outer init writes its own maps */
#define KERN_IDS_PARENT 2u /* kern writes the maps with the privileges it has */
#define KERN_IDS_HELPER 3u /* newuidmap and newgidmap write them */

struct kern_ids {
    uint32_t how;      /* KERN_IDS_* */
    uint32_t become;   /* 1: the outer init must take id 0 of its new namespace */
    uint32_t base;     /* host id of the box's root (PARENT and HELPER with a range) */
    uint32_t count;    /* ids in the range; 1 for SELF */
    uint32_t inside;   /* SELF: the id that the caller has in the box */
    uint32_t shifted;  /* 1: host ids are not box ids, so roots and volumes want idmapped mounts */
    char uid_map[160]; /* lines for the outer user namespace */
    char gid_map[160];
    uint32_t gid_base;      /* as base, for groups */
    char inner_uid_map[64]; /* for the inner user namespace, "" when there is none */
    char inner_gid_map[64];
};

void kern_set_ids(kern_box *box, const struct kern_ids *ids);
const struct kern_ids *kern_get_ids(const kern_box *box);
/* prepare, real root: host ids that no living box shares: root's subordinate range where it has one, else a block of 65536
 * that stays locked as long as the box lives. */
int kern_claim_ids(kern_box *box, uint32_t *ret_start, uint32_t *ret_count, struct kern_error *err);

/* ---- rootfs: enter hands the root to the core, which attaches mounts below it and pivots ---- */

/* prepare: the root is this host directory (O_PATH). As real root the core makes an idmapped, detached copy of it that
 * enter gets from kern_root_tree(); otherwise that is -1 and enter opens the directory again with
 * kern_child_reopen(), which refuses one that was exchanged meanwhile. */
int kern_root_source(kern_box *box, int32_t fd, struct kern_error *err);
int32_t kern_root_tree(const kern_box *box);
int32_t kern_child_reopen(const kern_box *box, struct kern_error *err);
/* prepare: an overlay cannot have its upper directory on this kernel's tmpfs: a directory on disk, gone when the box is. */
int kern_disk_scratch(kern_box *box, struct kern_error *err);
/* enter: that directory, or -1. */
int32_t kern_child_disk(const kern_box *box);
/* Mount points may be made in the root: it is private to the box, not a directory of the host. */
void kern_root_is_private(kern_box *box);
/* enter: `fd` is the mounted new root. The core keeps it; it closes at exec. */
void kern_child_root(kern_box *box, int32_t fd);
/* enter: a directory that hides nothing when it is mounted over: kern's run directory, opened in the box's mount namespace
 * while the host's ids still allowed it. What is mounted there is reached as *ret_name in *ret_parent. */
int32_t kern_child_scratch(const kern_box *box, int32_t *ret_parent, const char **ret_name);
/* enter: puts `source` (an O_PATH descriptor of this mount namespace), or the detached `tree` where it is not -1, over what
 * `target` stands for; `path` beneath `root` leads there. nosuid always, nodev unless KERN_MOUNT_DEVICE. 0 or -errno. */
struct kern_bind {
    int32_t source, tree, target, root;
    const char *path;
    uint32_t flags; /* KERN_MOUNT_* */
};
int32_t kern_child_bind(const kern_box *box, const struct kern_bind *bind);
/* kern itself runs under another sandbox's filter, which may kill for the newer mount calls. */
int32_t kern_nested(const kern_box *box);
/* enter: a procfs of the box without the read-only covers, for --sysctl. */
void kern_child_proc(kern_box *box, int32_t fd);
int32_t kern_child_get_proc(const kern_box *box);
/* enter: the control groups that the box sees below /sys/fs/cgroup, as host paths. 0 past the last one. */
int32_t kern_group_view(const kern_box *box, uint32_t index, const char **ret_path,
                        const char **ret_controller);
/* prepare: directories of kern's own that no volume may reach: 1 when `path` lies in one of them. A volume that contains
 * one gets it covered: then *ret_below is the part of its path below `path`, else NULL. */
int32_t kern_is_own_state(const kern_box *box, const char *path, uint32_t index, const char **ret_below);
/* prepare: the directory of the named volume, made on first use. */
int kern_named_volume(kern_box *box, const char *name, int32_t *ret_fd, struct kern_error *err);
uint64_t kern_memory_cap(const kern_box *box);
/* enter: HOME of the command, unless a flag or a file of variables set it. */
void kern_child_home(kern_box *box, const char *home);
int32_t kern_own_terminal(const kern_box *box);

/* ---- seccomp ---- */
/* prepare, after all mounts are known: a volume that belongs to the host's root may be written by the box, whose root is not
 * that one. What it makes there belongs to root, so it must not be able to make it setuid or give it capabilities. */
int32_t kern_guards_setuid(const kern_box *box);
const struct kern_rule *kern_rules(const kern_box *box, uint64_t *ret_count);
/* Calls the handler that a plugin registered for this call. Returns -ENOENT when nobody did. */
int32_t kern_dispatch_call(kern_box *box, struct kern_call *call);
/* The filter stopped a call, which is counted in the report. `fatal`: 0 the caller goes on, 1 it was killed, 2 it was killed and
 * was the box's PID 1. */
void kern_report_call(kern_box *box, const char *name, const char *program, int32_t pid, uint32_t fatal);
/* prepare: a function of a heavy object beside the plugins (libseccomp, a JSON reader, ...), opened only when it is needed,
 * under the same checks as a plugin. NULL with the error set. */
void *kern_companion(kern_box *box, const char *object, const char *function, struct kern_error *err);
int32_t kern_privileged(const kern_box *box);
int32_t kern_untrusted(const kern_box *box);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif
