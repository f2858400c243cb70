/* `kern doctor`: what this machine can do for a box. A list of checks, each filled by a probe that tries the feature
 * itself, mostly in a child process; words and layout are pure (doctor_words.c, doctor_text.c). Host side. */
#ifndef CORE_DOCTOR_H
#define CORE_DOCTOR_H

#include "json.h"
#include "kern/plugin.h"

#include "cgroup/cgroup_state.h"

#include <stdio.h>
#include <sys/types.h>

#define CORE_DOCTOR_MOST 40

/* A failure means that no box can start; a warning, that something less is to be had. */
enum core_doctor_status { CORE_DOCTOR_OK, CORE_DOCTOR_WARN, CORE_DOCTOR_FAIL };

struct core_doctor_check {
    const char *name; /* kebab-case, the same for ever: scripts look for it */
    enum core_doctor_status status;
    char detail[512];
    char fix[1536]; /* commands that mend it; several lines are to be copied as they stand; "": none known */
};

struct core_doctor {
    struct core_doctor_check check[CORE_DOCTOR_MOST];
    size_t count;
};

/* ---- The list and its layout (doctor_text.c, pure) ---------------------------------------------------- */

/* The new check; past the last place it is a spare one that nobody prints. */
struct core_doctor_check *core_doctor_add(struct core_doctor *doctor, const char *name);
void core_doctor_say(struct core_doctor_check *check, enum core_doctor_status status, const char *format, ...)
    KERN_PRINTF(3, 4);
void core_doctor_fix(struct core_doctor_check *check, const char *format, ...) KERN_PRINTF(2, 3);
/* Boxes work: nothing failed. */
bool core_doctor_is_ok(const struct core_doctor *doctor);
void core_doctor_print(const struct core_doctor *doctor, FILE *out);
void core_doctor_json(const struct core_doctor *doctor, struct core_json *json);

/* ---- Words (doctor_words.c, pure) --------------------------------------------------------------------- */

enum core_doctor_machine { CORE_DOCTOR_COMMON, CORE_DOCTOR_RASPBERRY_PI, CORE_DOCTOR_WSL };

/* What stands around kern and decides why something was refused. */
struct core_doctor_facts {
    bool privileged;           /* root of the first user namespace, with CAP_SYS_ADMIN */
    bool filtered;             /* a seccomp filter is in force already */
    bool chrooted;             /* no mount is the root directory */
    bool systemd;              /* the machine's manager */
    long max_user_namespaces;  /* -1: this kernel has no such setting; so the next two */
    long unprivileged_clone;   /* kernel.unprivileged_userns_clone */
    long apparmor_restriction; /* kernel.apparmor_restrict_unprivileged_userns */
    char label[128];           /* AppArmor profile in force on kern, "" when none is */
    char self[512];            /* kern's own path */
    char user[64];             /* login name of the caller, or "" */
    uint32_t uid;
    unsigned long long id_count; /* ids in the user namespace around kern */
    enum core_doctor_machine machine;
    const char *mountinfo; /* text of /proc/self/mountinfo, or NULL */
};

/* Step of the user namespace probe that was refused. */
enum { CORE_DOCTOR_MAKE = 1, CORE_DOCTOR_MAP, CORE_DOCTOR_USE };

void core_doctor_explain_userns(struct core_doctor_check *check, const struct core_doctor_facts *facts,
                                int step, int code);
void core_doctor_explain_proc(struct core_doctor_check *check, const struct core_doctor_facts *facts,
                              int code);
/* A call that fails where the kernel has it: the filter of an outer container, or an older kernel. */
void core_doctor_explain_call(struct core_doctor_check *check, const struct core_doctor_facts *facts,
                              enum core_doctor_status status, const char *call, const char *since, int code);
/* The commands that install an AppArmor profile under which `self` may make user namespaces. */
void core_doctor_profile(const char *self, char *ret_text, size_t size);
/* The first id that no line of /etc/subuid or /etc/subgid has, and none below 100000. 0: there is none. */
uint32_t core_doctor_free_id(const char *subordinate);
/* The line that gives the caller a range from `start`. */
void core_doctor_fix_range(struct core_doctor_check *check, const struct core_doctor_facts *facts,
                           uint32_t start);
/* `kind` CGROUP_KINDS is swap. */
void core_doctor_explain_limit(struct core_doctor_check *check, const struct cgroup_bound *bound,
                               enum cgroup_kind kind, const struct core_doctor_facts *facts);
/* Which hierarchies have which controllers. */
void core_doctor_describe_groups(struct core_doctor_check *check, const struct cgroup_map *map,
                                 const char *v2_controllers);

/* ---- Trying in a child (doctor_child.c) ---------------------------------------------------------------- */

/* One page, shared with the child that tries. */
struct core_doctor_trial {
    const struct core_doctor_facts *facts;
    int step;   /* the child's own count of how far it came */
    int code;   /* errno of the step that failed; 0 */
    int signal; /* that ended the child; 0 */
    int number; /* whatever the probe wants to tell */
    char text[512];
    char hint[416];
};

/* Runs `probe` in a child without standard error, at most ten seconds. It returns 0 or -errno, and so does this: -EINTR
 * when a signal ended it. */
int core_doctor_try(int (*probe)(struct core_doctor_trial *trial), const struct core_doctor_facts *facts,
                    struct core_doctor_trial *ret_trial);
/* In the child: a user namespace in which the caller is root, and, in `flags`, more. */
int core_doctor_enter_userns(struct core_doctor_trial *trial, uint64_t flags);
/* In the child: a child of its own that ends with it. Returns its pid, 0 in the child, -errno. */
pid_t core_doctor_fork(void);
/* 0 when it exited with 0; its exit code as -errno otherwise. */
int core_doctor_wait(pid_t pid);
/* In the child: a process that waits in a new user namespace without a map. Its pid, or -errno. */
pid_t core_doctor_hold_userns(void);
void core_doctor_end(pid_t pid);
int core_doctor_write(const char *path, const char *text);
/* A small file as text, or NULL. */
char *core_doctor_read(const char *path);

/* ---- Probes ------------------------------------------------------------------------------------------- */

/* To be dropped with core_doctor_drop_facts(). */
void core_doctor_find_facts(struct core_doctor_facts *ret_facts); /* doctor_facts.c */
void core_doctor_drop_facts(struct core_doctor_facts *facts);
void core_doctor_kernel(struct core_doctor *doctor,
                        const struct core_doctor_facts *facts); /* doctor_facts.c */
void core_doctor_spaces(struct core_doctor *doctor,
                        const struct core_doctor_facts *facts); /* doctor_spaces.c */
void core_doctor_mounts(struct core_doctor *doctor,
                        const struct core_doctor_facts *facts);                          /* doctor_mounts.c */
void core_doctor_ids(struct core_doctor *doctor, const struct core_doctor_facts *facts); /* doctor_ids.c */
void core_doctor_seccomp(struct core_doctor *doctor,
                         const struct core_doctor_facts *facts); /* doctor_seccomp.c */
void core_doctor_calls(struct core_doctor *doctor,
                       const struct core_doctor_facts *facts); /* doctor_calls.c */
void core_doctor_groups(struct core_doctor *doctor,
                        const struct core_doctor_facts *facts); /* doctor_groups.c */
void core_doctor_kern(struct core_doctor *doctor, const struct core_doctor_facts *facts); /* doctor_kern.c */

#endif
