/* What one box's view holds, from prepare to teardown, and the parts of the plugin that work on it. */
#ifndef VIEW_STATE_H
#define VIEW_STATE_H

#include "view_cpus.h"
#include "view_text.h"

#include "kern/plugin.h"

/* The generated files: on the tmpfs that is the box's /sys, each bound over its namesake in /proc. */
enum view_file { VIEW_MEMINFO, VIEW_UPTIME, VIEW_LOADAVG, VIEW_STAT, VIEW_CPUINFO, VIEW_FILES };
extern const char *const view_file_name[VIEW_FILES];
#define VIEW_FOLDER "fs/kern"

struct view_group {
    int dir; /* O_PATH, or -1 */
    uint32_t version;
};

/* How often the box asks. */
struct view_pace {
    int timer;
    uint64_t window_us; /* when the window began */
    uint32_t answered;  /* in it */
    struct kern_call *waiting;
    size_t waiting_count;
};

struct view_state {
    uint32_t has_files;    /* they can be put over the kernel's own */
    uint32_t shows_memory; /* the cap binds */
    uint32_t shows_cpus;   /* fewer than the machine's */
    uint32_t narrows;      /* and fewer than the kernel would say: the mask is answered here */
    uint32_t cpu_count;
    struct view_cpus shown;
    int64_t start_us; /* CLOCK_MONOTONIC */
    char *text[VIEW_FILES];
    size_t length[VIEW_FILES];
    struct view_figures figures;
    /* The supervisor's: */
    int store,
        proc; /* the writable side of the box's /sys, and its procfs, whose numbers are those that the box knows */
    int timer;
    int helper_channel;
    int32_t helper;
    int file[VIEW_FILES];
    struct view_group memory, cpu, pids;
    uint32_t looked; /* the groups have been opened */
    uint64_t beats;
    struct view_pace pace;
};

/* enter. */
int view_enter(kern_box *box, void *state, struct kern_error *err);
/* In the box's mount namespace: opens "sys" or "proc" of a root, and refuses what is not the file system that rootfs mounted
 * there. */
int view_open_place(int root, const char *name, unsigned long magic, int *ret_fd, struct kern_error *err);

/* prepare: asks for the rules of the calls that are answered here. */
int view_add_calls(kern_box *box, const struct view_state *state, struct kern_error *err);

/* The supervisor: fills in the answer to a call, now or when it is its turn. */
void view_answer(struct view_state *state, struct kern_call *call);
int32_t view_pace(kern_box *box, struct view_state *state, struct kern_call *call);
void view_pace_end(kern_box *box, struct view_pace *pace);

/* The supervisor: keeps the figures and the files at most a second old. */
int view_watch(kern_box *box, struct view_state *state, struct kern_error *err);
void view_refresh(struct view_state *state);
/* Once, when there is time: the whole of what the kernel says about the CPUs shown. */
void view_rewrite_cpuinfo(struct view_state *state);
void view_unwatch(kern_box *box, struct view_state *state);
/* Asks for store and proc: a helper fetches them from the box's mount namespace; they come when they come. */
void view_fetch(kern_box *box, struct view_state *state);
void view_fetch_end(kern_box *box, struct view_state *state);
/* Up to `size` - 1 bytes of a small file, NUL-terminated; the length or -errno. */
long view_read(int dir, const char *path, char *text, size_t size);
uint64_t view_now_us(void);

#endif
