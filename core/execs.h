/* `kern exec`: another command in a living box. Who asks is a kern of the same user at the control socket; what runs is a
 * child of the supervisor, so that everything that makes the box (its prepared plugins, groups, namespaces, filter) is at
 * hand as it was at the start and nothing has to be written down and believed. Host side, but for core_exec_helper. */
#ifndef CORE_EXECS_H
#define CORE_EXECS_H

#include "box.h"

#define CORE_EXEC_TERMINAL 0x1u /* a terminal of its own */
#define CORE_EXEC_COPY     0x2u /* no program: the words are for core_copy_serve() */
#define CORE_EXEC_FDS      4u   /* standard streams and the words */

/* The request: one packet, with the three standard streams and a sealed memfd of words, each ending in NUL: the command,
 * the variables that are set over those of the box, the working directory ("": the box's). */
struct core_exec_ask {
    char word[8];     /* "exec" */
    char version[24]; /* of kern: another one's packets may look different */
    uint32_t flags;
    uint32_t arguments, variables;
    uint32_t size; /* bytes of the memfd */
    uint16_t rows, columns;
};

enum core_exec_news {
    CORE_EXEC_REFUSED, /* `error` says why; nothing ran */
    CORE_EXEC_MASTER,  /* the terminal comes with it */
    CORE_EXEC_STARTED, /* the command was executed */
    CORE_EXEC_ENDED,   /* all fields count */
};

struct core_exec_told {
    uint32_t news;
    int32_t status;      /* as waitpid gives it */
    int32_t exec_failed; /* 0, 125, 126 or 127 */
    int32_t memory_cap;  /* as the second byte of KERN_STARTED_FD */
    int32_t oom;
    int64_t cpu_usec;
    char blocked_call[32], blocked_program[20];
    struct kern_error error;
};

/* What the client may say meanwhile. Its going away ends the command. */
struct core_exec_signal {
    uint32_t signal;
};

struct core_execution {
    kern_box *box;
    int client, channel, child_channel, pidfd, listener;
    int stream[3];
    pid_t pid;
    uint32_t flags;
    struct winsize window;
    struct core_shared *shared;
    char *words; /* owned; `command`, `variable` and `workdir` point into it */
    char **command, **env;
    const char *workdir;
    char *stack; /* of the helper */
    bool started;
    bool is_check; /* of --health-cmd: there is no client */
    char blocked_call[32], blocked_program[20];
};

/* Takes the client and the descriptors, whatever comes of it; answers the client itself. */
void core_exec_request(kern_box *box, int client, const struct core_exec_ask *ask, int fds[CORE_EXEC_FDS]);
/* The supervisor's own: `text` for the box's shell. Its end goes to core_health_result(). */
int core_exec_check(kern_box *box, const char *text, struct core_execution **ret_execution,
                    struct kern_error *err);
void core_exec_signal_all(const struct core_execution *execution, int signal);
/* After the box has ended: the last words to those who wait. */
void core_execs_finish(kern_box *box);
/* The execution whose filter sent what is being judged, or NULL. */
struct core_execution *core_exec_of_listener(const kern_box *box, int fd);

/* In a process between kern and the box: joins the box's namespaces and clones the command's process into them. */
int core_exec_helper(void *execution);

#endif
