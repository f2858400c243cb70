/* kern/foundation.h: for plugins that are themselves a part of what every box stands on: its ids, its root, its control
 * groups, its filter. Those that ship with kern use it, and whoever replaces one of them may. It is documented like
 * kern/plugin.h, but without its promise: these functions belong to one release of kern (their symbols have a version of
 * their own, core/kern.map), and a later one may change them. A plugin that adds something to a box needs plugin.h only.
 *
 * Unless it says otherwise, a function is for prepare, in kern; "enter:" means the box's first process. */
#ifndef KERN_FOUNDATION_H
#define KERN_FOUNDATION_H

#include <kern/plugin.h>

/* The release that this header belongs to: major * 10000 + minor * 100 + patch. A plugin that includes it where its table stands
 * carries the number in it, and no other release of kern opens it. */
#define KERN_FOUNDATION_RELEASE 100u
#undef KERN_TABLE_ABI
#define KERN_TABLE_ABI (KERN_ABI | KERN_FOUNDATION_RELEASE << 8)

#ifdef __cplusplus
extern "C" {
#endif

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

/* A flag of a plugin's table: its prepare comes before those without it, for they ask what it chooses; by stage among its like: an
 * image sets the options that the ids of the box are chosen by. */
#define KERN_PLUGIN_FIRST 0x80000000u

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
/* enter: 1 when something is to be mounted at a path that starts with `prefix`. */
int32_t kern_mounts_below(const kern_box *box, const char *prefix);
/* enter: `fd` lies on a tmpfs of the box's own: mount points may be made there. */
void kern_child_tmpfs(kern_box *box, int32_t fd);
/* enter: the box's /sys, a tmpfs still to be written: the core makes the mount points in it, plugins of the stage MOUNT what
 * they have for it, then it becomes read-only: kern_child_seal_sys(), which the core calls where no plugin did. The core owns
 * the descriptor; -1 where there is none. */
void kern_child_sys(kern_box *box, int32_t fd);
int32_t kern_child_get_sys(const kern_box *box);
int kern_child_seal_sys(kern_box *box, struct kern_error *err);
/* prepare: the same directory as kern sees it, or -1; not yours to close. */
int32_t kern_disk_scratch_fd(const kern_box *box);
/* enter: that directory, or -1. */
int32_t kern_child_disk(const kern_box *box);
/* prepare, real root: a mount that the caller made and attached nowhere (fsmount, open_tree), a file system of the box's own,
 * is put at `target` with the box's ids: what belongs to 0 in it is the box's root's. The box keeps its own copy of `tree`. */
int kern_add_tree(kern_box *box, int32_t tree, const char *target, uint32_t flags, struct kern_error *err);
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
/* enter: the procfs of the box; with --sysctl one without the read-only covers. */
void kern_child_proc(kern_box *box, int32_t fd);
int32_t kern_child_get_proc(const kern_box *box);
/* prepare: directories of kern's own that no volume may reach: 1 when what `fd` stands for lies in one of them. */
int32_t kern_is_own_state(const kern_box *box, int32_t fd);
/* A volume that contains one gets it covered: *ret_below is the path of the directory `index` below `fd`, starting with a slash, or
 * NULL where it is elsewhere. 0 past the last. */
int32_t kern_own_state_below(const kern_box *box, int32_t fd, uint32_t index, const char **ret_below);
/* A named volume as a box wants it. */
struct kern_wanted_volume {
    const char *name;
    const char *
        path; /* where the box has it, for the content that a new one gets from the root; NULL: it starts empty */
    uint64_t most;  /* bytes that it may hold; 0: no bound */
    int32_t is_own; /* that bound is the volume's own size, and not the box's */
};
/* prepare: its directory, made on first use. */
int kern_named_volume(kern_box *box, const struct kern_wanted_volume *volume, int32_t *ret_fd,
                      struct kern_error *err);
/* prepare: how many bytes the named volume may hold; 0 when it was made without a size. */
int kern_named_volume_size(kern_box *box, const char *name, uint64_t *ret_bytes, struct kern_error *err);
uint64_t kern_memory_cap(const kern_box *box);
/* enter: HOME of the command, unless a flag or a file of variables set it. */
void kern_child_home(kern_box *box, const char *home);
int32_t kern_own_terminal(const kern_box *box);
/* The box may reach some hosts by name: egress rules were given. Its resolver is KERN_BOX_RESOLVER then, on its own loopback. */
int32_t kern_has_egress(const kern_box *box);
#define KERN_BOX_RESOLVER "127.0.0.11"

/* ---- limits and control groups: where the box's groups are, what they enforce, what they counted ---- */

#define KERN_LIMIT_UNKNOWN (-1)

/* One row of "limits" in the report. Setting a name again replaces its row. */
struct kern_limit {
    const char *name; /* memory pids cpu cpuset io swap; a literal, kept by address */
    char asked[32];   /* memory and swap in bytes, pids and io a number, cpu in CPUs, cpuset a list */
    int32_t enforced; /* 1 yes, 0 no, KERN_LIMIT_UNKNOWN */
    char by[16];      /* cgroup2 cgroup1 affinity none */
};
void kern_limit_set(kern_box *box, const struct kern_limit *limit);
/* What was set under that name: 1 it is enforced, 0 it is not, KERN_LIMIT_UNKNOWN also where nothing was set. After the
 * stage LIMIT has prepared. */
int32_t kern_limit_binds(const kern_box *box, const char *name);

/* -1 wherever the kernel keeps no such figure: the report says null then. */
struct kern_usage {
    int64_t peak_memory; /* bytes */
    int64_t cpu_us;
    int64_t peak_pids;
    int64_t oom_kills;    /* tasks of the box that the kernel's OOM killer ended, whoever ran out of memory */
    int32_t oom_own;      /* 1: it acted against the box's own cap; 0: it did not; -1 unknown */
    int64_t throttled_us; /* time that tasks of the box wanted to run and the cpu cap did not let them */
    uint64_t
        oom_fleet; /* the cap in bytes of all boxes together, if that was what it acted against; else 0 */
};

struct kern_group_hooks {
    /* After the box has ended and before teardown removes the groups; also usable while it runs. Fills every
     * field, the unknown ones with -1. */
    void (*collect)(kern_box *box, void *state, struct kern_usage *ret_usage);
    /* Ends every process of the box's groups. Returns 1 when none is left to be seen, 0 when the box has no group
     * (then only the pid namespace can end it), or -errno. Blocks for at most some milliseconds. */
    int (*kill)(kern_box *box, void *state);
    /* kern_need_io_group(). */
    int (*need_io)(kern_box *box, void *state, char *ret_why, size_t size, struct kern_error *err);
};
/* prepare, after the stage LIMIT: gives the box a group of the io controller (v1: blkio) unless it has one, for rules of
 * others. 1: kern_group_view() shows it; 0: there is none, and `ret_why` says why and what mends it; negative: an error. */
int32_t kern_need_io_group(kern_box *box, char *ret_why, size_t size, struct kern_error *err);

/* A callback: ends the box at once, with this fault in the report (a literal, one of the contract's). The first call counts. */
void kern_end_box(kern_box *box, const char *fault, const char *format, ...) KERN_PRINTF(3, 4);
/* While the box lives, in kern: a pidfd of its outer init, whose user and mount namespaces are the box's; -1 before and after.
 * Not yours to close. */
int32_t kern_outer_pidfd(const kern_box *box);
/* Unique among living boxes and after them; [A-Za-z0-9._-] of at most 128 characters. */
const char *kern_box_id(const kern_box *box);
/* Called before a group is made: appends its absolute path to the box's state file, so that a later run can hand it
 * to cgroup_sweep() when this one is killed. */
int kern_box_record_group(kern_box *box, const char *path, struct kern_error *err);
/* Called before the files below `path` are given to a project of quotas: for rootfs_project_sweep(). -ENAMETOOLONG without an
 * error for a path that cannot be written down. */
int kern_box_record_project(kern_box *box, uint32_t id, const char *path, struct kern_error *err);
/* Called before a device of the host is changed for the box: first undoes, and waits for it, what killed boxes left changed;
 * then appends `line` to the box's state file, so that a later run can hand it to vgpio_sweep() when this one is killed. */
int kern_box_record_device(kern_box *box, const char *line, struct kern_error *err);
/* What CLONE_INTO_CGROUP takes for the box's first process. The plugin's: valid until teardown. */
void kern_box_cgroup2(kern_box *box, int32_t fd);
/* An O_PATH descriptor of a group that the box sees read-only under /sys/fs/cgroup/CONTROLLER, or under
 * /sys/fs/cgroup itself where `controller` is NULL (v2). The plugin's: valid until teardown. */
void kern_box_bind_cgroup(kern_box *box, int32_t fd, const char *controller);
/* `memory_cap` is what binds the box's first process while it still builds (0: nothing does): the core shares its
 * memory with it only when that is large enough. `hooks` must be static; `state` is the plugin's block. */
void kern_box_group_hooks(kern_box *box, const struct kern_group_hooks *hooks, void *state,
                          uint64_t memory_cap);
/* enter: the control groups that the box sees below /sys/fs/cgroup, as host paths. 0 past the last one. */
int32_t kern_group_view(const kern_box *box, uint32_t index, const char **ret_path,
                        const char **ret_controller);

/* ---- exec: another command in a living box. The enter hooks of the stages LIMIT, IDENTITY and FILTER run once more, in a
 * process that has a copy of kern's memory, while the box runs and may be hostile. ---- */
/* enter: 1 in such a process. Nothing of the root may decide anything then. */
int32_t kern_reentered(const kern_box *box);
/* enter: whom the command runs as, for those that come later, and for the secrets, which are given to it: that takes CAP_CHOWN
 * still. And what the first enter said: 0 when it said nothing. */
int kern_child_account(kern_box *box, uint32_t uid, uint32_t gid, const char *home, struct kern_error *err);
int32_t kern_known_account(const kern_box *box, uint32_t *ret_uid, uint32_t *ret_gid, const char **ret_home);

/* ---- image ---- */

/* Before the rootfs plugin's prepare: the root is an overlay of `count` directories, named "0" (the topmost), "1", ... below
 * `folder` in the host directory `fd` (O_PATH will do); all that they link to lies in that directory. */
int kern_root_layers(kern_box *box, int32_t fd, const char *folder, uint32_t count, struct kern_error *err);
/* Their number, 0 for a root from elsewhere. Also in enter. */
uint32_t kern_get_root_layers(const kern_box *box, const char **ret_folder);
/* A name that no box has had yet becomes a named volume: `fill` makes its directory in `volumes` (O_RDONLY) of what the root
 * has at its path, whole and at once: by rename, under flock() of `volumes`, with nothing else there or an empty directory which
 * KERN_VOLUMES_UNUSED/NAME still calls unused. Where the root has no directory at the path, or somebody else was first, it
 * does nothing and returns 0. Content of more than `most` bytes is refused. */
#define KERN_VOLUMES_UNUSED ".unused"
typedef int (*kern_volume_fn)(kern_box *box, void *state, int32_t volumes,
                              const struct kern_wanted_volume *volume, struct kern_error *err);
void kern_volume_content(kern_box *box, kern_volume_fn fill, void *state);
/* What the report and messages call the image. */
int kern_set_image(kern_box *box, const char *ref, const char *digest, struct kern_error *err);
/* The image's own command. `entry` goes before whatever the user gave; without a command of the user's `words` follow
 * it, unless a terminal wants a shell. */
int kern_image_command(kern_box *box, char *const *entry, uint32_t entry_count, char *const *words,
                       uint32_t word_count, struct kern_error *err);

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
/* prepare: as kern_add_worker, for one that has more to it than to begin before the box and to be killed after it. */
struct kern_worker {
    kern_worker_fn fn;
    const int32_t *fds;
    uint32_t count;
    int32_t late; /* 1: it may never be needed, and starts when it is called for */
};
int kern_add_numbered_worker(kern_box *box, const struct kern_worker *worker, uint32_t *ret_number,
                             struct kern_error *err);
/* In kern, in callbacks from KERN_EVENT_STARTED on: have a late worker started. It is there soon after the callback, with a copy of what the
 * plugin's state is then. A box whose worker cannot be started ends, as with one that was lost. */
void kern_call_worker(kern_box *box, uint32_t number);
/* For listeners of kern's own plugins: nothing of the box runs any more. Workers are killed next, and then teardown is called. */
#define KERN_EVENT_ENDED 0x80000001u
/* In that callback: the worker knows that it is to end, and has so many milliseconds for what it still carries; none when the box's own
 * time was up. */
void kern_let_worker_end(kern_box *box, uint32_t number, uint32_t ms);
/* In a process of the caller's own that reads what strangers wrote, never in kern itself: a filter from now on, which takes away
 * the ways to other processes, to new programs and into the kernel, and all sockets. Sets no_new_privs. 0 or -errno. */
#define KERN_CALLS_NETWORK 1u /* new sockets of the network; never local ones */
#define KERN_CALLS_FORK    2u /* threads and processes */
#define KERN_CALLS_JOIN    4u /* namespaces and processes whose descriptors it was given */
#define KERN_CALLS_FILES   8u /* files by their names */
int kern_confine_calls(uint32_t allow);
/* `name` in the directory `parent` and all below it, however deep, without following links: what is in it may be a box's work, but
 * nobody may be at work there any more. 0, or -errno with as much gone as could be: see unlink(2), rename(2). */
int kern_remove_tree(int32_t parent, const char *name);

/* ---- image: what the registry client needs of kern; called in kern, by prepare or by a verb ---- */
/* [registry] of the user's own kern.toml or the system's, never of a file that --config or KERN_CONFIG names. The keys are
 * those of plugins/image/registry_manifest.h, with their defaults. kern_registry_close() frees it; NULL is fine. */
int kern_registry_open(kern_values **ret_settings, struct kern_error *err);
void kern_registry_close(kern_values *settings);

/* How far several transfers are: bars on a terminal, one line for each that ended elsewhere. All accept NULL. */
struct kern_progress;
struct kern_progress_item {
    const char *name;  /* the digest of a layer; its first digits are shown */
    const char *state; /* "pulling" */
    uint64_t done, total;
    uint32_t ended; /* nothing more will be said of it */
};
/* `lines` 1: standard output gets the lines of what ended; 0: they are notes. NULL without memory, and nothing is shown. */
struct kern_progress *kern_progress_new(uint32_t lines);
void kern_progress_set(struct kern_progress *progress, uint32_t index, const struct kern_progress_item *item);
/* Shows what changed, if it is time (or `now`). */
void kern_progress_draw(struct kern_progress *progress, int32_t now);
/* A note to the user, between the bars. */
void kern_progress_note(struct kern_progress *progress, const char *format, ...) KERN_PRINTF(2, 3);
/* Takes the bars away. */
void kern_progress_free(struct kern_progress *progress);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif

#endif
