/* The audit record: a JSON line for each phase of a box and for each denial, appended to a file or sent to a unix socket. Uses nothing
 * but kern/plugin.h and kern/cleanup.h, as any plugin could. All of it runs in kern, on the host. */
#include "audit_manifest.h"

#include "audit_line.h"
#include "kern/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>

struct audit_state {
    int folder; /* where the file stands: a relative path stays right, and so does a folder that is renamed */
    int file;   /* or the socket */
    int is_socket;
    char name[256];
    dev_t device;
    ino_t inode;
    int torn; /* half a line stands last, where a disk was full or a socket did not take more */
    uint64_t lines, lost;
    int why; /* errno of the line that could not be written; 0: it was cut short */
};

/* ---- Where lines go ---- */

/* Somebody who writes at this moment is given a moment to end his line. A file that may not be read is taken as whole. */
static int ends_torn(const struct audit_state *state)
{
    static const struct timespec moment = {.tv_nsec = 1000000};
    char last = '\n';
    auto_fd fd =
        openat(state->folder, state->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    for (int look = 0; fd >= 0 && look < 3; look++) {
        struct stat st;
        if (fstat(fd, &st) != 0 || st.st_size == 0 || pread(fd, &last, 1, st.st_size - 1) != 1 ||
            last == '\n')
            return 0;
        (void)nanosleep(&moment, NULL); /* a shorter sleep only asks sooner */
    }
    return last != '\n';
}

static int open_file(struct audit_state *state)
{
    auto_fd fd = openat(state->folder, state->name,
                        O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0600);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return -EINVAL; /* a pipe that nobody reads would hold up the box */
    kern_close_fd(&state->file);
    state->file = steal_fd(&fd);
    state->device = st.st_dev;
    state->inode = st.st_ino;
    state->torn = st.st_size > 0 && ends_torn(state);
    return 0;
}

/* A daemon that takes datagrams, or one that takes a stream. */
static int open_socket(struct audit_state *state)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int used = snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/%s", state->folder,
                        state->name);
    if (used < 0 || (size_t)used >= sizeof(address.sun_path))
        return -ENAMETOOLONG;
    static const int types[] = {SOCK_DGRAM, SOCK_SEQPACKET, SOCK_STREAM};
    int result = -EPROTOTYPE;
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]) && result == -EPROTOTYPE; i++) {
        auto_fd fd = socket(AF_UNIX, types[i] | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        result = fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0 ? -errno : 0;
        if (result == 0)
            state->file = steal_fd(&fd);
    }
    return result;
}

static int open_sink(struct audit_state *state, const char *path, struct kern_error *err)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    auto_free char *folder = slash == NULL   ? strdup(".")
                             : slash == path ? strdup("/")
                                             : strndup(path, (size_t)(slash - path));
    if (folder == NULL)
        return kern_fail(err, ENOMEM, "cannot open \"%s\" for --audit", path);
    if (name[0] == '\0' || strlen(name) >= sizeof(state->name))
        return kern_refuse(err, 0, "cannot write the audit record to \"%s\": that is no file", path);
    (void)strcpy(state->name, name); /* it fits */
    state->folder = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct stat st;
    state->is_socket = state->folder >= 0 && fstatat(state->folder, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
                       S_ISSOCK(st.st_mode);
    int failed = state->folder < 0 ? -errno : state->is_socket ? open_socket(state) : open_file(state);
    return failed == 0
               ? 0
               : kern_refuse(err, -failed, "cannot write the audit record to \"%s\"%s", path,
                             failed == -EINVAL ? ", which is neither a regular file nor a socket" : "");
}

/* Somebody may have moved the file away to keep it (logrotate): then the next line begins a new one. */
static void follow_rotation(struct audit_state *state)
{
    struct stat st;
    if (state->is_socket || (fstatat(state->folder, state->name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
                             st.st_dev == state->device && st.st_ino == state->inode))
        return;
    (void)open_file(state); /* where it fails, the file that was moved gets the line */
}

static void write_line(kern_box *box, struct audit_state *state, struct audit_line *line)
{
    audit_line_end(line);
    follow_rotation(state);
    char end = '\n'; /* of the half line */
    struct iovec parts[] = {{&end, 1}, {line->text, line->used}};
    const struct msghdr message = {.msg_iov = parts + !state->torn, .msg_iovlen = state->torn ? 2 : 1};
    ssize_t whole = (ssize_t)line->used + (state->torn != 0);
    ssize_t put = state->is_socket ? sendmsg(state->file, &message, MSG_NOSIGNAL)
                                   : writev(state->file, message.msg_iov, (int)message.msg_iovlen);
    if (put == whole) {
        state->torn = 0;
        state->lines++;
        return;
    }
    if (put > 0)
        state->torn = put > state->torn;
    state->why = put < 0 ? errno : 0;
    if (state->lost++ == 0)
        kern_warn(box, "the audit record in \"%s\" is not complete", state->name);
}

static void begin(struct audit_line *line, kern_box *box, const char *event)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now); /* a valid clock */
    audit_line_begin(line, now.tv_sec, (int)(now.tv_nsec / 1000000), kern_box_name(box), event);
}

/* ---- What is written ---- */

/* A box can be denied the same thing as often as it likes: the 1st, 10th, 100th time is written. */
static int is_worth_a_line(uint64_t count)
{
    while (count > 1 && count % 10 == 0)
        count /= 10;
    return count == 1;
}

static void on_event(kern_box *box, void *data, const struct kern_event *event)
{
    struct audit_state *state = data;
    struct audit_line line;
    if (event->event == KERN_EVENT_STARTED) {
        begin(&line, box, "started");
    } else if (event->event == KERN_EVENT_STOPPING) {
        begin(&line, box, "stopping");
        audit_line_text(&line, "why", event->what);
    } else if (event->event == KERN_EVENT_DENIED && is_worth_a_line(event->count)) {
        begin(&line, box, "denied");
        audit_line_text(&line, "kind", event->kind);
        audit_line_text(&line, "what", event->what);
        audit_line_text(&line, "reason", event->reason);
        audit_line_number(&line, "count", (int64_t)event->count);
    } else {
        return;
    }
    write_line(box, state, &line);
}

static int audit_prepare(kern_box *box, void *data, struct kern_error *err)
{
    struct audit_state *state = data;
    state->folder = state->file = -1;
    const char *path = kern_get_string(kern_options(box), "audit");
    if (path == NULL)
        return 0;
    int failed = open_sink(state, path, err);
    if (failed == 0)
        failed = kern_on_event(box, on_event, err);
    if (failed != 0)
        return failed;
    struct audit_line line;
    begin(&line, box, "prepare");
    audit_line_number(&line, "pid", getpid());
    audit_line_number(&line, "uid", getuid());
    audit_line_list(&line, "command");
    for (uint32_t i = 0; kern_box_command(box, i) != NULL; i++)
        audit_line_item(&line, kern_box_command(box, i));
    audit_line_list_end(&line);
    write_line(box, state, &line);
    return state->lost == 0 ? 0
                            : kern_refuse(err, state->why, "cannot write the audit record to \"%s\"", path);
}

static void audit_teardown(kern_box *box, void *data, const struct kern_outcome *outcome)
{
    struct audit_state *state = data;
    if (state->file >= 0) {
        struct audit_line line;
        begin(&line, box, "ended");
        audit_line_number(&line, "exit", outcome->exit_code);
        audit_line_number(&line, "signal", outcome->signal);
        audit_line_text(&line, "fault", outcome->fault);
        audit_line_number(&line, "started", outcome->started);
        write_line(box, state, &line);
        kern_report_int(box, "lines", (int64_t)state->lines);
        kern_report_int(box, "lost", (int64_t)state->lost);
    }
    kern_close_fd(&state->file);
    kern_close_fd(&state->folder);
}

KERN_PLUGIN(AUDIT_MANIFEST, .state_size = sizeof(struct audit_state), .prepare = audit_prepare,
            .teardown = audit_teardown);
