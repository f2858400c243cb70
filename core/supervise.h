/* The supervisor: one epoll loop over the box's end, its messages, signals, the deadline and watched descriptors. */
#ifndef CORE_SUPERVISE_H
#define CORE_SUPERVISE_H

#include "box.h"

/* Before the clone: blocks the signals that kern forwards and makes the epoll and signal descriptors. */
int core_supervise_prepare(kern_box *box, struct kern_error *err);
/* Returns when the box has ended; its outer init may take a moment longer: core_launch_wait(). Never blocks on anything the box controls. */
void core_supervise(kern_box *box);
/* A box that lost this worker ends. */
void core_lose_worker(kern_box *box, const struct core_worker *worker);
/* Ends every process of the box, now. */
void core_kill_box(kern_box *box);
/* Sends `signal` to the command; where it would be lost on a PID 1 without a handler, kills instead and remembers which
 * signal was asked for. */
void core_stop_box(kern_box *box, int signal);
/* A gentle end from outside: core_stop_box() with the box's own stop signal, SIGKILL after `grace_ms` (-1: the box's). */
void core_stop_gently(kern_box *box, int64_t grace_ms);
/* A watched descriptor is ready: its callback runs. `own`: only where the plugin is one of kern's. */
void core_dispatch_watched(kern_box *box, int fd, uint32_t events, bool own);
int core_signal_command(const kern_box *box, int signal);
/* The box's first process, as kern sees it; 0 when it has gone. */
int core_command_pid(const kern_box *box);
/* A descriptor that came over a channel goes to whoever asked for its tag. */
void core_deliver(kern_box *box, uint32_t tag, int fd);
/* One packet of a channel. MORE: *ret_fd is the descriptor in it, or -1. ENDED: the command runs, or its process is gone. */
enum core_received { CORE_CHANNEL_MORE, CORE_CHANNEL_EMPTY, CORE_CHANNEL_ENDED };
enum core_received core_channel_receive(int channel, uint32_t *ret_tag, int *ret_fd);
int64_t core_now_ns(void);

#endif
