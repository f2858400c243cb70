/* The box as the core sees it: one structure, filled on the host side while the spec is read and the plugins
 * prepare, then only read by the box's first process. What both sides write stands in struct core_shared. */
#ifndef CORE_BOX_H
#define CORE_BOX_H

#include "catalog.h"
#include "config.h"
#include "error.h"
#include "kern/foundation.h"
#include "outcome.h"
#include "terminal.h"

#include <linux/filter.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/types.h>

#define CORE_NAME_MAX   64
#define CORE_MAX_LIMIT  12
#define CORE_MAX_WATCH  224
#define CORE_MAX_CLIENT 64 /* of these, connections to the control socket that have said nothing yet */
#define CORE_MAX_EXEC   32
#define CORE_MAX_WAITER 64
#define CORE_MAX_MOUNT  128
#define CORE_OWN_PLACES 8

/* How far the box's first process has come: written by it, read by the supervisor. */
enum core_progress {
    CORE_CLONED = 0,
    CORE_ENTERING,  /* the hook of plugin[enter_index] is running */
    CORE_PIVOTING,  /* between the hooks: what the core itself does */
    CORE_EXECUTING, /* all is in place; the next thing is execve */
};

/* KERN_TIMING: when the child was done with something. The names are literals, valid on both sides of a fork. */
struct core_moment {
    const char *name;
    int64_t at_ns;
};

/* KERN_DEBUG=plugins: what the enter of a plugin did not put back. */
struct core_left_behind {
    uint32_t differs; /* as core_hookcheck_differs() says */
    int32_t fd;       /* one that it left open, or -1 */
    char plugin[32], link[64];
};

/* One shared page. Everything in it may be read while the other side writes, so words that are waited for are
 * atomic, and the rest is read only after the process that writes it has ended. */
struct core_shared {
    _Atomic uint32_t go; /* futex: the id maps that kern writes are written */
    _Atomic uint32_t
        spaces_ready; /* futex: 1 when the net, ipc and uts namespaces are made, else 1 + errno */
    _Atomic uint32_t
        inner_wanted; /* futex: the first process waits for the maps of its inner user namespace */
    _Atomic uint32_t
        inner_written; /* futex: 1 when the maps of the inner user namespace are written, else 1 + errno */
    _Atomic uint32_t progress;     /* enum core_progress */
    _Atomic uint32_t enter_index;  /* position in box->order */
    _Atomic uint32_t outer_failed; /* the outer init gave up: `error` says why */
    _Atomic uint32_t exec_failed;  /* the exit code when the command was never executed: 125, 126 or 127 */
    _Atomic uint32_t ended;        /* wait status and usage below are valid */
    _Atomic uint32_t outlived;     /* kern run: something that the command started could not be ended */
    int32_t init_status;           /* --init: wait status of the command itself, or -1 */
    int32_t status;                /* of the first process, as waitpid gives it */
    int64_t cpu_usec;              /* of it and all that it left behind */
    int32_t exec_errno;            /* why execve failed, or 0 */
    int32_t root_tree;             /* detached, idmapped copy of the root directory, or -1 */
    int32_t
        tree[CORE_MAX_MOUNT]; /* and of the source of each mount: made after the clone, so they stand here */
    int32_t outer_pidfd;      /* the outer init, in the same table: the first process joins its namespaces */
    int32_t inner_pidfd;      /* the first process, in the descriptor table kern and the outer init share */
    int32_t pid;              /* exec: the command's process, as kern sees it */
    struct {                  /* whom the command runs as: looked up once, for it and all that join it */
        int32_t known;
        uint32_t uid, gid;
        char home[256];
    } account;
    uint32_t moment_count;
    struct core_moment moment[24]; /* written by the first process only */
    uint32_t left_count;
    struct core_left_behind left[6]; /* as above */
    struct kern_error error;         /* the first cause, from whichever process met it */
};

struct core_group_view {
    char path[256];
    const char *controller; /* NULL: the unified hierarchy */
};

enum core_mount_kind { CORE_BIND, CORE_TMPFS, CORE_FILE, CORE_LINK };

/* Something that stands in the box besides its root. */
struct core_mount {
    enum core_mount_kind kind;
    char *target; /* absolute in the box */
    uint32_t flags;
    uint32_t mode;
    uint64_t size;
    int fd;       /* BIND: O_PATH of the source, made in prepare */
    char *source; /* BIND: canonical host path */
    bool directory;
    bool is_tree; /* BIND: fd is a mount that is attached nowhere, nobody else's */
    dev_t dev, rdev;
    ino_t ino;
    void *bytes;
    size_t length;
    bool for_command; /* FILE: belongs to whom the command runs as */
};

struct core_watch {
    int fd;
    uint32_t events;
    kern_watch_fn fn;
    struct core_plugin *owner;
};

/* Namespaces that only the box's first process has. */
enum { CORE_SPACE_PID, CORE_SPACE_USER, CORE_SPACE_GROUP, CORE_SPACE_TIME, CORE_SPACES };
#define CORE_TAG_SPACE   0xffff0010u /* kern_send_fd: + CORE_SPACE_* */
#define CORE_TAG_CHANGES 0xffff0020u

struct core_receiver {
    uint32_t tag;
    kern_fd_fn fn;
    struct core_plugin *owner;
};

struct core_handler {
    int32_t call;
    kern_call_fn fn;
    struct core_plugin *owner;
};

struct core_listener {
    kern_event_fn fn;
    struct core_plugin *owner;
};

struct core_worker {
    kern_worker_fn fn;
    struct core_plugin *owner;
    int32_t fd[16];
    uint32_t count;
    pid_t pid;
    int pidfd;
    bool late, called; /* it starts when its plugin calls for it; which it has done just now */
    uint32_t end_ms;   /* after the box: to end by itself in; 0: it is killed */
};

struct core_execution;
struct core_secret_file;

struct core_field { /* "plugins": {owner: {key: value}} in the report */
    struct core_plugin *owner;
    char *key;
    char *text; /* NULL: a number */
    int64_t number;
};

struct core_denied {
    char kind[12]; /* syscalls, hosts, devices */
    char *what;
    char *reason;
    uint32_t port; /* of a host; 0 where none was named */
    uint64_t count;
};

struct core_list { /* growing array of owned strings, NULL-terminated */
    char **item;
    size_t count;
};

/* In the box's first process: notes the time, when KERN_TIMING asks for it. */
void core_moment(kern_box *box, const char *name);
int core_list_add(struct core_list *list, const char *text);
void core_list_clear(struct core_list *list);
/* A volume or a directory as root: what others on this machine may have, too. */
bool core_has_host_directories(const kern_box *box);
void core_find_own_state(kern_box *box);
/* One more zeroed element at the end of *array, or NULL. */
void *core_grow(void *array, size_t *count, size_t size);
/* -ENOTSUP under `kern run`: `what` cannot be added where there is no box. */
int core_needs_box(const kern_box *box, const char *what, struct kern_error *err);
/* Prints the notes that were held back, or drops them, and holds no more of them back. */
void core_notes_release(kern_box *box, bool wanted);
/* Tells the plugins that listen. */
void core_event(kern_box *box, const struct kern_event *event);

struct kern_box {
    char name[CORE_NAME_MAX + 1];
    char id[CORE_NAME_MAX + 16]; /* NAME.PID: what everything that the box makes is named after */
    bool named;                  /* the user chose the name */
    bool bare;                   /* `kern run`: a process of the host, in control groups and nothing else */

    struct core_catalog *catalog;
    struct core_config *config; /* NULL when none was needed */
    struct kern_values options; /* of all built-ins */
    char *words;                /* kern's own command line, as the kernel shows it */
    size_t words_size;
    char **command; /* NULL-terminated; never empty once resolved */
    bool command_given;
    char **image_command; /* what an image makes of it */
    char *image_ref, *image_digest;
    char layer_folder[80]; /* a root of layers: see kern_root_layers() */
    uint32_t layer_count;
    kern_volume_fn fill_volume; /* of the image: see kern_volume_content() */
    void *fill_state;
    char *shell[2]; /* the command where none is given */
    char shell_name[8];
    bool own_terminal; /* -t, or a shell on a terminal */
    bool want_init;
    bool strict, quiet, privileged, untrusted, read_only, fork_style;
    bool
        nested; /* a filter of an outer sandbox is upon kern: older calls, and copies instead of shared memory */

    struct core_plugin **order; /* the plugins that take part, as enter runs them */
    size_t order_count;
    struct core_plugin *current;  /* whose hook is running on the host side */
    struct core_plugin *entering; /* and whose inside: both sides may run at one time on one memory */
    const char *phase;

    struct core_list env; /* what plugins and options gave; flags come last */
    char **child_env;     /* what execve gets, built before the clone */
    bool home_is_fixed;   /* a flag or a file of variables set HOME */
    char run_path[128];   /* the run directory */
    char home[264];       /* "HOME=..." that the child may overwrite: the user is known only inside */
    struct core_mount *mount;
    size_t mount_count;
    dev_t tmpfs_dev
        [CORE_MAX_MOUNT]; /* child: the tmpfs that it has made: its own, mount points may be made there */
    size_t tmpfs_count;
    int command_file
        [CORE_MAX_MOUNT]; /* child: files that go to whom the command runs as, once that is known */
    uint32_t command_file_count;
    uint64_t extra_namespaces;
    bool share_network;
    bool host_userns; /* no user namespace at all */
    struct kern_ids ids;
    int cgroup_fd;                        /* v2 group for CLONE_INTO_CGROUP, or -1 */
    struct core_group_view group_view[8]; /* what the box sees under /sys/fs/cgroup */
    uint32_t group_view_count;
    const struct kern_group_hooks *group_hooks;
    void *group_state;
    uint64_t memory_cap;
    struct kern_limit limit[CORE_MAX_LIMIT];
    uint32_t limit_count;
    struct kern_usage usage;

    struct kern_rule *rule;
    size_t rule_count;
    struct core_handler *handler;
    size_t handler_count;
    struct core_receiver *receiver;
    size_t receiver_count;
    struct core_watch watch[CORE_MAX_WATCH];
    uint32_t watch_count;
    struct core_worker *worker;
    size_t worker_count;
    struct core_listener *listener;
    size_t listener_count;
    struct core_field *field;
    size_t field_count;
    struct core_denied *denied;
    size_t denied_count;
    uint32_t denied_hosts_told;
    struct core_list notes;
    struct core_list held_notes; /* of prepare: nobody wants to know about a box that is then refused */
    bool holds_notes;

    struct core_shared *shared;
    struct core_guard *guard;                      /* against hooks that crash or hang; NULL: none */
    int report_fd, started_fd, alive_fd, owner_fd; /* the caller's; -1: none */
    int report_folder; /* --report FILE: where the finished report takes the name */
    char report_name[256];
    int disk_fd;       /* scratch on disk, or -1 */
    int child_disk_fd; /* the same, opened again in the box's mount namespace */
    char disk_path[512];
    int changes_fd;       /* what the box writes over its root, where that is in memory; or -1 */
    int ended_fd;         /* eventfd: the outer init has reaped the first process */
    int maps_fd;          /* eventfd: the first process waits for the maps of its inner user namespace */
    int state_fd, run_fd; /* lock file of this box, run directory */
    char *own_state[CORE_OWN_PLACES]; /* canonical: run directory, data directory; NULL where there is none */
    int place_fd;                     /* one of the places of KERN_MAX_CONCURRENT, locked; or -1 */
    int ids_fd;                       /* locked block of host ids, real root only */
    bool timing;
    int64_t mark_ns;
    char timing_text[256];
    int epoll_fd, channel_fd, child_channel_fd, outer_pidfd, signal_fd, control_fd;
    struct core_terminal terminal;
    struct winsize window;
    int root_fd, proc_fd;              /* child: the new root and its procfs */
    int sys_fd;                        /* child: its /sys, or -1 */
    bool sys_sealed;                   /* child: it is read-only */
    int scratch_fd, scratch_parent_fd; /* child: the run directory, to mount the root on */
    pid_t outer_pid;
    char *outer_stack, *inner_stack; /* shared-memory clones only */
    size_t stack_size;
    int kern_pidfd;                /* kern itself, for the outer init to see whether it still lives */
    int host_proc_fd;              /* the host's /proc: stays reachable when the root changes */
    struct core_mount root_source; /* a directory as root: fd, source, tree; kind unused */
    bool root_private;             /* mount points may be created: the root is ours, not a host directory */
    uint64_t child_sigmask;        /* what the command gets back */
    int64_t deadline_ms;           /* CLOCK_MONOTONIC, 0 none */
    int64_t look_again_ms;         /* the same: does the command still have a say in its stop signal? */
    int64_t start_ns, exec_ns, end_ns;
    int log_fd[4];            /* -d: what the log's worker gets */
    size_t log_worker;        /* its number, from 1 */
    int std_fd[3], detach_fd; /* -d: the command's streams; who waits for the start */
    bool detached;            /* -d: nobody waits for it */
    bool described;           /* its record says what it is */
    bool paused;              /* its processes are frozen */
    bool stopping;            /* asked to end: nothing new starts in it */
    bool reentered;           /* child: this is an exec'd command's process */
    bool own_file_at_risk;    /* a process of the box could change kern's own file, if it came to it */
    void *program_room;       /* see program.c */
    uint32_t sent;            /* child: descriptors handed to kern */
    uint64_t sent_fd[16];     /* child: a bit for each of them */
    bool resting;             /* between two runs of --restart */
    bool restart;             /* another run follows */
    bool health_restart;      /* it was ended to be started again */
    int8_t health;            /* 1 healthy, -1 unhealthy, 0 not known yet */
    uint32_t restarts, health_failures;
    int64_t health_due_ms;
    struct core_execution *health_check; /* one that runs */
    struct core_secret_file *secret;     /* owned: read once, also when the box runs again */
    size_t secret_count;
    int64_t grace_ms; /* CLOCK_MONOTONIC: SIGKILL then; 0 none */
    int space_fd[CORE_SPACES];
    struct core_execution *execution[CORE_MAX_EXEC];
    int watched_fd; /* whose event is being handled, or -1 */
    int waiter[CORE_MAX_WAITER];
    uint32_t waiter_count, client_count;
    bool timed_out, executed, escalated, settled, swept;
    bool torn;             /* a hook of kern's own did not come to its end: what it made is still there */
    bool swept_devices;    /* what killed boxes changed of the host is undone */
    const char *end_fault; /* a plugin ended the box for this; NULL: none did */
    char end_message[160];
    char worker_lost[32];     /* the plugin whose worker ended before the box did */
    char plugin_lost[32];     /* the plugin that crashed in a callback, or hung there */
    int stop_signal;          /* forwarded last */
    char blocked_call[32];    /* the filter killed its caller for this */
    bool blocked_init;        /* once it was the box's PID 1 */
    char blocked_program[20]; /* and this was the caller */
};

#endif
