/* kern/plugin.h: what a plugin needs of kern, all of it. The man pages kern-plugin(3) are made from this file.
 *
 * A plugin is a shared object with one table, made by KERN_PLUGIN(). The core calls three hooks:
 *
 *   prepare   in kern itself, on the host, before the box exists. Open descriptors, reserve, decide.
 *   enter     in the box's first process, inside the box's namespaces (network, ipc and uts from stage NETWORK on;
 *             before it, those are still the host's), before the command. Uses only
 *             what prepare gathered. May share its memory with kern: no malloc, no stdio, no locale, no
 *             name service, no dlopen; raw system calls (kern/sys.h) and the functions marked so below.
 *   teardown  in kern, on the host, after the box has ended. Runs for each plugin whose prepare was
 *             entered, so it must accept half-built state. It cannot fail, and sees nothing that enter wrote. It is
 *             given up when the deadline of the box is over, but not before a second; without a deadline after 10 s.
 *
 * No hook ends its process: one that calls exit(), _exit() or the like is given up as if it had crashed.
 *
 * Each function says in brackets where it may be called:
 *
 *   [prepare]   in prepare only
 *   [host]      in prepare, in teardown, and in callbacks, which are called by kern's loop while the box lives
 *   [enter]     in enter only
 *   [anywhere]  in all of these; it allocates nothing
 *
 * A function that takes an error returns 0, or a negative errno with the error filled, which the hook passes on. Text that
 * goes in is copied unless it says otherwise; text that comes out belongs to kern and lives as long as the box.
 * None of them may be called by a thread, a child or the worker of the plugin's own.
 *
 * Only fixed-width integers, strings and opaque pointers cross the border. Structures that the core reads
 * from a plugin begin with their size and only ever grow at the end; struct kern_option, which stands in arrays, never does.
 */
#ifndef KERN_PLUGIN_H
#define KERN_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define KERN_PRINTF(format_at, args_at) __attribute__((format(printf, format_at, args_at)))
#define KERN_EXPORT                     __attribute__((visibility("default")))
#else
#define KERN_PRINTF(format_at, args_at)
#define KERN_EXPORT
#endif

/* Raised only when an old plugin can no longer be served. At most 255. */
#define KERN_ABI 1u
/* What a table says it was built for: the interface, and with kern/foundation.h its release. */
#define KERN_TABLE_ABI KERN_ABI

/* Exported by kern to its plugins. */
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* ---- Errors -----------------------------------------------------------------------------------------
 * A hook that fails fills the error it was given and returns the negative errno. The first cause wins: what is recorded
 * later is dropped, so that a failing clean-up hides nothing. kern prints it once: "kern: NAME: PHASE: MESSAGE", and below
 * it "hint: HINT". */

#define KERN_ERROR_NONE    0u
#define KERN_ERROR_REFUSED 1u /* kern declined before building anything: exit code 1 */
#define KERN_ERROR_BUILD   2u /* building the box failed: exit code 125 */

struct kern_error {
    uint32_t category; /* KERN_ERROR_* */
    int32_t code;      /* errno, or 0 where none applies */
    char plugin[32];   /* filled by the core */
    char phase[16];    /* filled by the core: prepare, enter, ... */
    char message[512]; /* what was attempted, on which "object", why */
    char hint[416];    /* the command that mends it, or empty */
};

/* Record that building the box failed: kern ends with 125. `code` is a positive errno, whose text is appended to the message,
 * or 0 where none applies. Say what was attempted and on which "object". Returns -code, or -EINVAL for 0. [anywhere] */
int kern_fail(struct kern_error *err, int code, const char *format, ...) KERN_PRINTF(3, 4);
/* As kern_fail(), for what the user asked for and cannot have (a source that is missing, a limit that cannot be met): kern ends
 * with 1, as for a mistake in its words. [anywhere] */
int kern_refuse(struct kern_error *err, int code, const char *format, ...) KERN_PRINTF(3, 4);
/* Add what the user can do about it, best an exact command. The first hint stays. [anywhere] */
void kern_hint(struct kern_error *err, const char *format, ...) KERN_PRINTF(2, 3);
/* Put context in front of a recorded failure: "CONTEXT: MESSAGE". Returns its negative errno, so that a hook can end with
 * `return kern_wrap(err, "greeting:%s", name);`. [anywhere] */
int kern_wrap(struct kern_error *err, const char *format, ...) KERN_PRINTF(2, 3);

/* ---- Options ----------------------------------------------------------------------------------------
 * One table is the source for kern.toml keys, command-line flags, --help, the man page, completions
 * and `kern validate`. Values are checked and defaults applied before any hook runs. */

#define KERN_STRING   1u
#define KERN_INT      2u /* min..max */
#define KERN_FLOAT    3u /* min..max in thousandths */
#define KERN_BOOL     4u
#define KERN_SIZE     5u /* bytes; "512m", "2 GB", "2g"; min..max in bytes */
#define KERN_DURATION 6u /* milliseconds; "1.5" seconds, "500ms", "2m"; min..max in milliseconds */
#define KERN_ENUM     7u /* one of `choices` */
#define KERN_PATH     8u
#define KERN_TABLE    9u  /* kern.toml only: an inline table, handed on as JSON text */
#define KERN_ANY      10u /* a string or number, as text; in kern.toml also an inline table, as JSON text */

#define KERN_OPT_FLAG    0x0001u /* a flag of box (and of run where KERN_OPT_RUN is set) */
#define KERN_OPT_BOX     0x0002u /* a key of [box] in kern.toml */
#define KERN_OPT_PROFILE 0x0004u /* a key of the plugin's [[KIND]] table */
#define KERN_OPT_POOL    0x0008u /* a key of the plugin's pool table */
#define KERN_OPT_PLUGIN \
    0x0010u /* a key of the plugin's [[plugin]] table; not name, path, enabled: it has those */
#define KERN_OPT_LIST 0x0020u /* may be given several times; a TOML array */
/* Also a flag of `kern run`, which makes no box. A plugin with such an option takes part there: its enter runs as the caller, on the
 * host, and what needs a box is refused. kern_box_bare() tells where it is. */
#define KERN_OPT_RUN        0x0040u
#define KERN_OPT_OPTIONAL   0x0080u /* the flag's value may be left out: then `implied` counts */
#define KERN_OPT_LATER      0x0100u /* known, not in this build: refused, never ignored */
#define KERN_OPT_REQUIRED   0x0200u /* a profile without it is refused */
#define KERN_OPT_MUST_EXIST 0x0400u /* KERN_PATH: checked when the value is read */
#define KERN_OPT_GUARDED    0x0800u /* not settable by a kern.toml that somebody else wrote (--config) */
#define KERN_OPT_COMMAS     0x1000u /* a list whose items may also stand in one word, split at commas */
#define KERN_OPT_APART      0x2000u /* KERN_OPT_PROFILE: has nothing to do with the box option of the same name */

struct kern_option {
    const char *name;     /* kebab-case; the flag is --NAME, the key NAME (in kern.toml `_` counts as `-`) */
    uint32_t type;        /* KERN_STRING ... */
    uint32_t flags;       /* KERN_OPT_* */
    const char *fallback; /* default as text; NULL: none */
    const char *arg;      /* placeholder in help, such as SIZE */
    const char *help;     /* one line */
    const char *const *choices; /* KERN_ENUM: NULL-terminated; NULL otherwise */
    int64_t min, max;           /* both 0: no bound */
    const char *letter;         /* one-letter flag without the dash, or NULL */
    const char *alias;          /* a second long spelling, or NULL */
    const char *implied;        /* KERN_OPT_OPTIONAL: the value when none is given */
};

/* The value came from: */
#define KERN_FROM_DEFAULT 0
#define KERN_FROM_CONFIG  1
#define KERN_FROM_PROFILE 2
#define KERN_FROM_FLAG    3

typedef struct kern_values kern_values; /* resolved options; lives as long as the box */
typedef struct kern_box kern_box;

/* Where the value came from: KERN_FROM_*. It is higher than KERN_FROM_DEFAULT when the user said something. [anywhere] */
int32_t kern_get_source(const kern_values *values, const char *name);
/* The value of a STRING, ENUM or PATH option; of a TABLE its JSON text; of a list its last item. NULL when it has none, or when
 * `name` is not in the plugin's table. The getters below give 0 then. [anywhere] */
const char *kern_get_string(const kern_values *values, const char *name);
/* The value of an INT, a BOOL (0 or 1), a SIZE (bytes) or a DURATION (milliseconds). [anywhere] */
int64_t kern_get_int(const kern_values *values, const char *name);
/* The value of a FLOAT. [anywhere] */
double kern_get_float(const kern_values *values, const char *name);
/* How many items a KERN_OPT_LIST option has; 0 or 1 for any other. [anywhere] */
uint32_t kern_get_count(const kern_values *values, const char *name);
/* Item `index` of a list as text, in the order given; NULL past the last one. [anywhere] */
const char *kern_get_item(const kern_values *values, const char *name, uint32_t index);

/* The same item of a list of INT, BOOL, SIZE (bytes) or DURATION (milliseconds); 0 past the last one. [anywhere] */
int64_t kern_get_item_int(const kern_values *values, const char *name, uint32_t index);
/* And of FLOAT. [anywhere] */
double kern_get_item_float(const kern_values *values, const char *name, uint32_t index);

/* The options of the plugin whose hook is running: its [[plugin]] keys and flags. (Built-in plugins get those of the whole box.)
 * [anywhere] */
const kern_values *kern_options(const kern_box *box);
/* How many profiles of this plugin's kind the command line named. A plugin without a kind has none. [anywhere] */
uint32_t kern_profile_count(const kern_box *box);
/* The values of profile `index`, in the order of the command line; NULL past the last one. [anywhere] */
const kern_values *kern_profile(const kern_box *box, uint32_t index);
/* The NAME of KIND:NAME; NULL past the last one. [anywhere] */
const char *kern_profile_name(const kern_box *box, uint32_t index);
/* The pool that the profile's `backend` names; NULL when there is no such key or it names no pool. [anywhere] */
const kern_values *kern_profile_pool(const kern_box *box, uint32_t index);
/* Set an option of the box (memory, cpus, env, ...) at the rank of a profile: a flag of the command line still wins, then 0 is
 * returned and nothing changes. `text` is checked as if it stood in kern.toml. Plugins of later stages, and later ones of
 * the same stage, see it. "userns" and "uid-range" can be set by none but kern's own: the ids are chosen first. [prepare] */
int kern_set_option(kern_box *box, const char *name, const char *text, struct kern_error *err);
/* "512m", "2 GB", "1.5g" as bytes; `where` names the text in the error. [host] */
int kern_parse_size(const char *text, const char *where, uint64_t *ret_bytes, struct kern_error *err);

/* ---- Box --------------------------------------------------------------------------------------------
 * What a plugin may know of the box and ask for. */

/* A benign fact for the user's stderr, "kern: note: ...": one short line, at most once a run; -q silences it. It also stands
 * in the report. [host] */
void kern_note(kern_box *box, const char *format, ...) KERN_PRINTF(2, 3);
/* The same as "kern: warning: ...": what the user asked for is not quite what there is. [host] */
void kern_warn(kern_box *box, const char *format, ...) KERN_PRINTF(2, 3);

/* The box's name, as in `kern ps`. [anywhere] */
const char *kern_box_name(const kern_box *box);
/* 1 in strict mode (--require-limits): refuse what else would be a warning. [anywhere] */
int32_t kern_box_strict(const kern_box *box);
/* 1 in `kern run`: the command is a process of the host, under limits at most. There is no root, no mount, no filter and no
 * namespace then, and the functions that ask for one refuse. [anywhere] */
int32_t kern_box_bare(const kern_box *box);
/* Word `index` of the command that the box will run, from 0; NULL past the last one. [anywhere] */
const char *kern_box_command(const kern_box *box, uint32_t index);
/* The root of the box as an O_PATH descriptor, from stage MOUNT on, -1 before. Open below it with openat2() and
 * RESOLVE_IN_ROOT, for what lies there is the box's. Not yours to close. [enter] */
int32_t kern_box_root(const kern_box *box);

/* An environment variable of the command. Later calls win over earlier ones, flags of the user over all. [prepare] */
int kern_set_env(kern_box *box, const char *name, const char *value, struct kern_error *err);

#define KERN_MOUNT_READ_ONLY 0x1u
#define KERN_MOUNT_EXEC      0x2u /* allow executing from it (binds of directories always allow it) */
#define KERN_MOUNT_DEVICE    0x4u /* the source is a device node that the box may open */
#define KERN_MOUNT_RECURSIVE 0x8u /* a bind takes the mounts below it along */
#define KERN_MOUNT_SHOWN \
    0x10u /* the source is a device node that stands in the box and cannot be opened there */
#define KERN_MOUNT_KERNEL 0x20u /* the source is of a file system of the kernel (/sys): it keeps its owners */

/* Put a host file or directory at the absolute path `target` in the box. `fd` is an O_PATH descriptor of the source, which
 * stays yours: the box keeps a copy. Its identity is checked again in the box: a source exchanged meanwhile is refused.
 * `flags` are KERN_MOUNT_*. Mounts are attached between the stages ROOT and MOUNT, in the order of the calls. [prepare] */
int kern_add_bind(kern_box *box, int32_t fd, const char *target, uint32_t flags, struct kern_error *err);
/* Put an empty tmpfs of at most `size` bytes (0: the box's default) at `target`; nosuid, nodev, and noexec without
 * KERN_MOUNT_EXEC. Its bytes count against the box's memory. [prepare] */
int kern_add_tmpfs(kern_box *box, const char *target, uint64_t size, uint32_t mode, uint32_t flags,
                   struct kern_error *err);
/* Put a generated file that the box cannot change at `target`. The bytes are copied. [prepare] */
int kern_add_file(kern_box *box, const char *target, uint32_t mode, const void *bytes, size_t length,
                  struct kern_error *err);
/* Put a symbolic link that says `to` at `target`, in /dev or /sys of the box or where its root is its own: not into a directory
 * of the host. What stands there already stays. [prepare] */
int kern_add_link(kern_box *box, const char *target, const char *to, struct kern_error *err);
/* One more namespace for the command: CLONE_NEWTIME; the box has all others already. [prepare] */
int kern_add_namespace(kern_box *box, uint64_t flag, struct kern_error *err);

/* ---- Descriptors ------------------------------------------------------------------------------------
 * Every descriptor that prepare opens (O_CLOEXEC, always) is there in enter under the same number and is closed when the
 * command is executed. prepare keeps it in the state, teardown closes it. */

/* A descriptor that came from the box. It is the function's to close. It must not block. */
typedef void (*kern_fd_fn)(kern_box *box, void *state, uint32_t tag, int32_t fd);
/* A watched descriptor has one of the events. It must not block. */
typedef void (*kern_watch_fn)(kern_box *box, void *state, int32_t fd, uint32_t events);
/* The work of a worker; what it returns is its exit code. */
typedef int32_t (*kern_worker_fn)(kern_box *box, void *state, const int32_t *fds, uint32_t count);

/* Have `fn` called in kern for what enter sends under this tag, a number that you choose. [prepare] */
int kern_receive_fd(kern_box *box, uint32_t tag, kern_fd_fn fn, struct kern_error *err);
/* Hand a descriptor made inside to kern. It stays yours: close it, or exec does. (Close whatever else enter opens.) [enter] */
int kern_send_fd(kern_box *box, uint32_t tag, int32_t fd, struct kern_error *err);
/* Have `fn` called in kern's loop when the descriptor has one of the EPOLL* events. kern closes nothing. [host] */
int kern_watch(kern_box *box, int32_t fd, uint32_t events, kern_watch_fn fn, struct kern_error *err);
/* Stop that; before you close it. A descriptor that is not watched is no error. [host] */
void kern_unwatch(kern_box *box, int32_t fd);
/* Have `fn` run in a worker: a process without capabilities and with a filter of its own, for whatever reads hostile bytes or
 * waits for the world. It gets a copy of the state, the at most 16 descriptors listed (numbers stay the same) and nothing
 * else, and dies with kern. A worker that ends early ends the box. [prepare] */
int kern_add_worker(kern_box *box, kern_worker_fn fn, const int32_t *fds, uint32_t count,
                    struct kern_error *err);

/* ---- Seccomp ----------------------------------------------------------------------------------------
 * All plugins' rules become one program. A rule wins over the default verdict of its call while its
 * conditions hold; the calls that the design kills can only be narrowed, never opened. */

#define KERN_RULE_ALLOW  1u
#define KERN_RULE_ERRNO  2u /* the call fails with `value` */
#define KERN_RULE_NOTIFY 3u /* the handler decides */

#define KERN_ARG_EQUAL     1u /* (arg & mask) == value */
#define KERN_ARG_NOT_EQUAL 2u /* (arg & mask) != value */

struct kern_rule {
    uint32_t struct_size; /* sizeof(struct kern_rule) */
    int32_t call;         /* system call number of this architecture */
    uint32_t action;      /* KERN_RULE_* */
    uint32_t value;       /* KERN_RULE_ERRNO: the errno */
    uint32_t arg_count;   /* 0..4 conditions, all of which must hold */
    struct {
        uint32_t index; /* 0..5 */
        uint32_t op;    /* KERN_ARG_* */
        uint64_t mask;
        uint64_t value;
    } arg[4];
};

/* What a handler sees: copied registers only. `cookie` names the notification to the kernel, `listener` the
 * descriptor for SECCOMP_IOCTL_NOTIF_*; see seccomp_unotify(2) for what may change meanwhile. */
struct kern_call {
    uint32_t struct_size;
    int32_t call;
    uint64_t cookie;
    int32_t listener;
    int32_t pid; /* thread id in kern's pid namespace */
    uint64_t arg[6];
    int64_t result; /* handler sets it: the return value when errno is 0 */
    int32_t error;  /* handler sets it: a positive errno to fail with */
};

/* Return KERN_CALL_DONE with result/error set, or KERN_CALL_LATER when kern_finish_call() will follow. There is
 * no "I allow it": memory that the box can change must not be judged and then used. KERN_CALL_KERNEL is for a call that turns
 * out to be none of the plugin's business, and is sound only where the kernel itself would refuse what the plugin must not
 * let pass. */
#define KERN_CALL_DONE   0
#define KERN_CALL_LATER  1
#define KERN_CALL_KERNEL 2
typedef int32_t (*kern_call_fn)(kern_box *box, void *state, struct kern_call *call);

/* Add a rule to the filter of the box; it is copied. What the design kills can be narrowed, never opened: kern refuses a rule that
 * would, when the filter is made. [prepare] */
int kern_add_rule(kern_box *box, const struct kern_rule *rule, struct kern_error *err);
/* Have `fn` decide this call wherever a KERN_RULE_NOTIFY applies. It runs in kern's loop and must not block: the caller waits,
 * and so does everything else. One plugin for each call; a second one is refused. [prepare] */
int kern_on_call(kern_box *box, int32_t call, kern_call_fn fn, struct kern_error *err);
/* Answer a call for which the handler returned KERN_CALL_LATER, with the copy of it that you kept. [host] */
void kern_finish_call(kern_box *box, const struct kern_call *call);

/* ---- Report -----------------------------------------------------------------------------------------
 * The JSON object of --report has what plugins say under "plugins": {NAME: {KEY: VALUE}}. */

/* A text for the report. [host] */
void kern_report_string(kern_box *box, const char *key, const char *value);
/* A number for the report. [host] */
void kern_report_int(kern_box *box, const char *key, int64_t value);
/* Something was denied: `kind` is "hosts" or "devices"; `what` names it, `reason` says why. Counted in the report under
 * "denied", shown once as a note. [host] */
void kern_report_denied(kern_box *box, const char *kind, const char *what, const char *reason);
/* The same for a host of which the port is known (0: none was named), `count` times at once. [host] */
void kern_report_denied_host(kern_box *box, const char *name, uint32_t port, const char *reason,
                             uint64_t count);

/* What happened to the box, for plugins that keep a record of it. */
#define KERN_EVENT_STARTED 1u /* the command was executed */
#define KERN_EVENT_DENIED \
    2u /* `kind` is "syscalls", "hosts" or "devices"; `what`, `reason`, `count`: this one so often */
#define KERN_EVENT_STOPPING \
    3u /* `what` is "timeout", or the signal that kern was asked to end the box with: "SIGTERM" */
struct kern_event {
    uint32_t struct_size;
    uint32_t event; /* KERN_EVENT_* */
    uint64_t count;
    const char *kind; /* these are NULL where they mean nothing, and valid during the call */
    const char *what;
    const char *reason;
};
typedef void (*kern_event_fn)(kern_box *box, void *state, const struct kern_event *event);
/* Have `fn` called for each event, in kern. It must not block. [prepare] */
int kern_on_event(kern_box *box, kern_event_fn fn, struct kern_error *err);

/* How the box ended, for teardown. */
struct kern_outcome {
    uint32_t struct_size;
    int32_t exit_code; /* what kern will return */
    int32_t signal;    /* that ended the command, or 0 */
    int32_t started;   /* 1: the command was executed */
    const char *fault; /* timeout, oom, ... or NULL */
};

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

/* ---- Table --------------------------------------------------------------------------------------
 * A plugin defines one table with KERN_PLUGIN(.name = ..., ...). Hooks that it has no use for stay NULL. */

/* Stages in the order of enter. PIVOT, IDENTITY and FILTER belong to plugins of kern itself. */
#define KERN_STAGE_LIMIT    10u
#define KERN_STAGE_ROOT     20u
#define KERN_STAGE_MOUNT    30u
#define KERN_STAGE_DEVICE   40u
#define KERN_STAGE_PIVOT    50u
#define KERN_STAGE_NETWORK  60u
#define KERN_STAGE_IDENTITY 70u
#define KERN_STAGE_FILTER   80u

/* enter keeps to the rules above (no malloc, no libc state): the box may be cloned sharing memory, which
 * is faster. Without it the core forks. */
#define KERN_PLUGIN_LEAN 0x1u
/* kern.toml may have one table [KIND] instead of profiles [[KIND]]: a profile without a name that every box has. */
#define KERN_PLUGIN_STANDING 0x2u

struct kern_plugin {
    uint32_t struct_size;
    uint32_t abi;
    const char *name;    /* [a-z][a-z0-9-]*, at most 31 characters */
    const char *version; /* the plugin's own */
    const char *summary; /* one line */
    uint32_t stage;
    uint32_t flags;           /* KERN_PLUGIN_* */
    const char *const *after; /* names in the same stage, NULL-terminated, or NULL */
    const char *const *before;
    const char *profile;               /* the KIND of KIND:NAME tokens and [[KIND]], or NULL */
    const char *pool;                  /* the table that a profile's backend names, such as "cpu"; or NULL */
    const struct kern_option *options; /* ends with name == NULL; or NULL */
    uint64_t state_size;               /* zeroed bytes, one block for each box */
    int (*prepare)(kern_box *box, void *state, struct kern_error *err);
    int (*enter)(kern_box *box, void *state, struct kern_error *err);
    void (*teardown)(kern_box *box, void *state, const struct kern_outcome *outcome);
    /* Pure: judges one resolved profile (and its pool, or NULL) when kern.toml is read and by `kern
     * validate`. May be NULL. */
    int (*check)(const kern_values *profile, const kern_values *pool, struct kern_error *err);
};

/* Defines the one symbol that the core looks up. Use: KERN_PLUGIN(.name = "hello", ...); */
#define KERN_PLUGIN_SYMBOL "kern_plugin_table"
#if defined(KERN_BUILTIN_NAME)
#define KERN_PLUGIN_JOIN_(name) kern_builtin_##name
#define KERN_PLUGIN_JOIN(name)  KERN_PLUGIN_JOIN_(name)
#define KERN_PLUGIN_TABLE_NAME  KERN_PLUGIN_JOIN(KERN_BUILTIN_NAME)
#else
#define KERN_PLUGIN_TABLE_NAME kern_plugin_table
#endif
#ifndef __cplusplus
#define KERN_PLUGIN(...)                                                \
    KERN_EXPORT extern const struct kern_plugin KERN_PLUGIN_TABLE_NAME; \
    const struct kern_plugin KERN_PLUGIN_TABLE_NAME = {                 \
        .struct_size = (uint32_t)sizeof(struct kern_plugin), .abi = KERN_TABLE_ABI, __VA_ARGS__}
#endif

#ifdef __cplusplus
}
#endif

#endif
