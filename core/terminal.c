/* A terminal of the box's own (-t): the child opens a pair in the box's devpts and makes the slave its standard streams; kern
 * keeps the master, relays between it and the caller's terminal, and puts that one back as it was. */
#include "terminal.h"

#include "cleanup.h"
#include "inner.h"
#include "sys.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- In the box's first process ---- */

int core_child_terminal(kern_box *box, struct kern_error *err)
{
    auto_fd master = sys_open(AT_FDCWD, "/dev/ptmx", O_RDWR | O_NOCTTY, 0);
    if (master < 0)
        return kern_fail(err, -master, "cannot open \"/dev/ptmx\" in the box");
    int unlock = 0, number = 0;
    long failed = sys_call(SYS_ioctl, master, TIOCSPTLCK, SYS_P(&unlock), 0, 0, 0);
    if (failed == 0)
        failed = sys_call(SYS_ioctl, master, TIOCGPTN, SYS_P(&number), 0, 0, 0);
    if (failed != 0)
        return kern_fail(err, (int)-failed, "cannot set up the box's terminal");
    /* By descriptor, not by name: whatever stands at /dev/pts in the box, this is the other end of our master. */
    auto_fd slave = (int)sys_call(SYS_ioctl, master, TIOCGPTPEER, O_RDWR | O_CLOEXEC, 0, 0, 0);
    if (slave < 0)
        return kern_fail(err, -slave, "cannot open the box's terminal %d", number);
    (void)sys_call(SYS_ioctl, slave, TIOCSWINSZ, SYS_P(&box->window), 0, 0, 0); /* a size is a comfort */
    failed = sys_call(SYS_ioctl, slave, TIOCSCTTY, 0, 0, 0, 0);
    for (int fd = 0; fd <= 2 && failed >= 0; fd++)
        failed = sys_call(SYS_dup3, slave, fd, 0, 0, 0, 0);
    if (failed < 0)
        return kern_fail(err, (int)-failed, "cannot make the box's terminal its standard streams");
    return kern_send_fd(box, CORE_TAG_TERMINAL, master, err);
}

/* ---- In kern ---- */

static void forward(int from, int to, struct core_relay *relay, int tap)
{
    if (relay->length == 0 && !relay->closed) {
        long got = sys_read(from, relay->bytes, sizeof(relay->bytes));
        if (got > 0)
            relay->length = (size_t)got;
        else if (got != -EAGAIN && got != -EINTR)
            relay->closed = true; /* EIO from a master: the last slave was closed */
        if (got > 0 && tap >= 0)  /* one who is slow misses something: the box does not wait for onlookers */
            (void)send(tap, relay->bytes, (size_t)got, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    while (relay->done < relay->length) {
        long put = sys_write(to, relay->bytes + relay->done, relay->length - relay->done);
        if (put == -EAGAIN || put == -EINTR)
            return;
        if (put <= 0) {
            relay->closed = true;
            break;
        }
        relay->done += (size_t)put;
    }
    relay->done = relay->length = 0;
}

void core_terminal_resize(struct core_terminal *terminal)
{
    struct winsize size;
    if (terminal->master >= 0 && ioctl(STDIN_FILENO, TIOCGWINSZ, &size) == 0)
        (void)ioctl(terminal->master, TIOCSWINSZ, &size); /* the next change comes through again */
}

/* Raw mode: every key goes to the box's terminal, which does the line discipline. */
int core_terminal_start(struct core_terminal *terminal, int master)
{
    terminal->master = master;
    (void)fcntl(master, F_SETFL, O_RDWR | O_NONBLOCK); /* without it a full pipe would only delay us */
    /* A terminal that was stopped (Ctrl-S) must not stop the deadline. Not O_NONBLOCK on the descriptor that we were given:
     * it is the shell's as well. */
    terminal->out_fd = open("/proc/self/fd/1", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (tcgetattr(STDIN_FILENO, &terminal->saved) != 0)
        return 0;
    struct termios raw = terminal->saved;
    cfmakeraw(&raw);
    terminal->raw = tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) == 0;
    core_terminal_resize(terminal);
    return 0;
}

void core_terminal_detached(struct core_terminal *terminal, int master, int log)
{
    char path[40];
    terminal->master = master;
    (void)fcntl(master, F_SETFL, O_RDWR | O_NONBLOCK);                /* as above */
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", log);      /* fits */
    terminal->out_fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC); /* a description of its own */
}

static int output_of(const struct core_terminal *terminal)
{
    return terminal->out_fd >= 0 ? terminal->out_fd : STDOUT_FILENO;
}

void core_terminal_input(struct core_terminal *terminal)
{
    if (terminal->master >= 0)
        forward(STDIN_FILENO, terminal->master, &terminal->in, -1);
}

void core_terminal_output(struct core_terminal *terminal)
{
    if (terminal->master >= 0)
        forward(terminal->master, output_of(terminal), &terminal->out, terminal->tap);
}

void core_terminal_keys(const struct core_terminal *terminal, const char *bytes, size_t length)
{
    while (terminal->master >= 0 && length > 0) {
        long put = sys_write(terminal->master, bytes, length);
        if (put <= 0)
            return;
        bytes += put;
        length -= (size_t)put;
    }
}

/* What the command printed last may still lie in the pair, and a slow terminal gets a second to take it. */
static void drain(struct core_terminal *terminal)
{
    int patience = 10;
    while (patience > 0 && !terminal->out.closed) {
        core_terminal_output(terminal);
        struct pollfd more = {.fd = terminal->master, .events = POLLIN};
        if (terminal->out.length == 0 && poll(&more, 1, 0) <= 0)
            return;
        struct pollfd wait = {.fd = output_of(terminal), .events = POLLOUT};
        if (terminal->out.length > 0 && poll(&wait, 1, 100) == 0)
            patience--;
    }
}

void core_terminal_stop(struct core_terminal *terminal)
{
    if (terminal->master >= 0) {
        drain(terminal);
        (void)close(terminal->master); /* a terminal has nothing to flush */
        kern_close_fd(&terminal->out_fd);
        terminal->master = -1;
    }
    if (terminal->raw)
        (void)tcsetattr(STDIN_FILENO, TCSADRAIN,
                        &terminal->saved); /* the caller's terminal may be gone by now */
    terminal->raw = false;
}
