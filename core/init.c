/* --init: a PID 1 in the box that starts the command as its child, forwards signals to it and reaps what is orphaned. Runs
 * in the box's first process on a copy of kern's memory (never on kern's own: the box could reach it for as long as it
 * lives), which nobody in the box may look into. */
#include "inner.h"

#include "sys.h"

#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>

static int command_main(kern_box *box)
{
    /* A group of its own, so that a stop of the terminal reaches the command and not its init. */
    (void)sys_call(SYS_setpgid, 0, 0, 0, 0, 0, 0); /* a child just made may always lead a group */
    if (box->own_terminal) {
        int pid = (int)sys_call(SYS_getpid, 0, 0, 0, 0, 0, 0);
        (void)sys_call(SYS_ioctl, 0, TIOCSPGRP, SYS_P(&pid), 0, 0,
                       0); /* no job control then, still a terminal */
    }
    return core_exec_command(box, &box->shared->error);
}

static int exit_code_of(int status)
{
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* Reaps everything that has ended; returns true with the code once that was the command. */
static bool reap(kern_box *box, long command, int *ret_code)
{
    for (;;) {
        int status = 0;
        long pid = sys_call(SYS_wait4, -1, SYS_P(&status), __WALL | WNOHANG, 0, 0, 0);
        if (pid <= 0)
            return false;
        if (pid != command)
            continue;
        box->shared->init_status = status;
        *ret_code = exit_code_of(status);
        return true;
    }
}

/* ps in the box shows what PID 1 was started with: kern's own command line, with everything that the caller wrote there. This is
 * a copy of it, and the command has another. */
static void hide_command_line(const kern_box *box)
{
    static const char name[] = "kern-init";
    memset(box->words, 0, box->words_size);
    memcpy(box->words, name, sizeof(name) < box->words_size ? sizeof(name) : box->words_size - 1);
    (void)sys_prctl(PR_SET_NAME, (unsigned long)(uintptr_t)name, 0, 0, 0); /* a name is a comfort */
}

int core_run_init(kern_box *box, struct kern_error *err)
{
    uint64_t all = ~UINT64_C(0);
    (void)sys_prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);                             /* cannot fail with 0 */
    (void)sys_call(SYS_rt_sigprocmask, SIG_SETMASK, SYS_P(&all), 0, 8, 0, 0); /* valid arguments */
    /* The filter is in place, and clone3 is not in it: the old call it is, on a copy of this very stack. */
    long command = sys_call(SYS_clone, SIGCHLD, 0, 0, 0, 0, 0);
    if (command == 0)
        sys_exit(command_main(box));
    if (command < 0) {
        kern_fail(err, (int)-command, "cannot start the command below --init");
        atomic_store(&box->shared->exec_failed, 125);
        return 125;
    }
    hide_command_line(box);
    /* Everything of kern's, above all the channel whose end tells kern that the command runs, is the command's now. */
    (void)sys_call(SYS_close_range, 3, ~0U, 0, 0, 0,
                   0); /* the kernel knows it, or kern would not have come this far */
    for (;;) {
        int code = 0;
        if (reap(box, command, &code))
            return code;
        long signal = sys_call(SYS_rt_sigtimedwait, SYS_P(&all), 0, 0, 8, 0, 0);
        if (signal > 0 && signal != SIGCHLD)
            (void)sys_call(SYS_kill, command, signal, 0, 0, 0, 0); /* it may have ended just now */
    }
}
