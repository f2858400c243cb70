/* `kern attach`: the terminal of a detached box, to look at or, with -i, to type into. Host side; the supervisor relays. */
#include "cmd.h"

#include "attach_client.h"
#include "cleanup.h"
#include "client.h"
#include "records.h"
#include "signals.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <termios.h>

struct session {
    int client, waiter, signal_fd;
    bool typing; /* -i */
    bool held;   /* the first of the keys that leave */
    bool left, ended, raw;
    struct termios saved;
};

bool core_attach_keys(bool *held, const char *bytes, size_t length, char *ret_bytes, size_t *ret_length)
{
    size_t put = 0;
    bool found = false;
    for (size_t i = 0; i < length && !found; i++) {
        if (*held && bytes[i] == CORE_KEY_LEAVE_2) {
            found = true;
            *held = false;
            continue;
        }
        if (*held)
            ret_bytes[put++] = CORE_KEY_LEAVE_1;
        *held = bytes[i] == CORE_KEY_LEAVE_1;
        if (!*held)
            ret_bytes[put++] = bytes[i];
    }
    *ret_length = put;
    return found;
}

static void send_size(const struct session *session)
{
    char packet[1 + sizeof(struct winsize)] = {CORE_ATTACH_SIZE};
    struct winsize size;
    if (ioctl(STDIN_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0)
        return;
    memcpy(packet + 1, &size, sizeof(size));
    (void)send(session->client, packet, sizeof(packet), MSG_NOSIGNAL); /* a box that has ended needs none */
}

static void on_keys(struct session *session)
{
    char bytes[CORE_ATTACH_MOST - 2], packet[CORE_ATTACH_MOST] = {CORE_ATTACH_KEYS};
    size_t length = 0;
    ssize_t got = read(STDIN_FILENO, bytes, sizeof(bytes));
    if (got < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (got <= 0) {
        session->left = true; /* nobody is there any more */
        return;
    }
    session->left = core_attach_keys(&session->held, bytes, (size_t)got, packet + 1, &length);
    if (!session->typing && memchr(bytes, 3, (size_t)got) != NULL)
        session->left = true; /* Ctrl-C of one who only looks */
    if (session->typing && length > 0)
        (void)send(session->client, packet, length + 1, MSG_NOSIGNAL); /* as above */
}

static void on_output(struct session *session)
{
    char bytes[8192];
    ssize_t got = recv(session->client, bytes, sizeof(bytes), 0);
    if (got < 0 && errno == EINTR)
        return;
    session->ended = got <= 0;
    for (ssize_t done = 0, put = 0; done < got; done += put) {
        put = write(STDOUT_FILENO, bytes + done, (size_t)(got - done));
        if (put < 0 && errno == EINTR)
            put = 0;
        if (put < 0) {
            session->left = true;
            return;
        }
    }
}

static void on_signal(struct session *session)
{
    struct signalfd_siginfo info;
    while (read(session->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        if (info.ssi_signo == SIGWINCH)
            send_size(session);
        else
            session->left = true;
    }
}

static void take_terminal(struct session *session)
{
    if (tcgetattr(STDIN_FILENO, &session->saved) != 0)
        return;
    struct termios raw = session->saved;
    cfmakeraw(&raw);
    session->raw = tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) == 0;
    send_size(session);
}

static void relay(struct session *session)
{
    while (!session->left && !session->ended) {
        struct pollfd wait[3] = {{.fd = session->client, .events = POLLIN},
                                 {.fd = session->signal_fd, .events = POLLIN},
                                 {.fd = STDIN_FILENO, .events = POLLIN}};
        if (poll(wait, 3, -1) < 0 && errno != EINTR)
            return;
        if (wait[1].revents != 0)
            on_signal(session);
        if (wait[2].revents != 0)
            on_keys(session);
        if (wait[0].revents != 0)
            on_output(session);
    }
}

static int start(struct session *session, const char *name, struct kern_error *err)
{
    cleanup(core_record_clear) struct core_record record = {0};
    char answer[128] = "";
    sigset_t mask;
    int failed = core_record_find(name, &record, err);
    if (failed == 0)
        failed = core_client_wait(&record, &session->waiter, err);
    if (failed == 0)
        failed = core_client_begin(&record, "attach", answer, sizeof(answer), &session->client, err);
    if (failed != 0)
        return failed;
    static const int caught[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGWINCH};
    core_signals_to_catch(caught, sizeof(caught) / sizeof(caught[0]), &mask);
    if (sigprocmask(SIG_BLOCK, &mask, NULL) != 0)
        return kern_refuse(err, errno, "cannot block signals");
    session->signal_fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    return session->signal_fd >= 0 ? 0 : kern_refuse(err, errno, "cannot catch signals");
}

int core_cmd_attach(struct core_call *call, struct kern_error *err)
{
    struct session session = {.client = -1, .waiter = -1, .signal_fd = -1};
    int code = 0;
    int failed = start(&session, call->word[0], err);
    if (failed != 0)
        return failed;
    session.typing = kern_get_int(&call->flags, "interactive") != 0;
    take_terminal(&session);
    relay(&session);
    if (session.raw)
        (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &session.saved); /* the terminal may be gone by now */
    kern_close_fd(&session.client);
    if (session.ended)
        code = core_client_exit(session.waiter);
    kern_close_fd(&session.waiter);
    kern_close_fd(&session.signal_fd);
    return code < 0 ? 137 : code;
}
