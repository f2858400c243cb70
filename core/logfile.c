/* Writing and reading the lines of a log; see logfile.h. The writer runs in a worker: it reads what the box prints, and may wait
 * for a disk, which a supervisor must not. A full disk loses lines, never stops the box. */
#include "logfile.h"

#include "box.h"
#include "cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define HEAD_MOST 64

struct stream {
    int fd;
    const char *name;
    size_t used;
    char text[HEAD_MOST + CORE_LOG_PIECE + 1]; /* the head is put in front when the line is complete */
};

struct log {
    int file[2];
    int turn;
    uint64_t size, most;
};

/* Each file holds half of what the log may take. */
static void make_room(struct log *log, size_t length)
{
    if (log->size + length <= log->most / 2)
        return;
    log->turn = 1 - log->turn;
    (void)!ftruncate(log->file[log->turn], 0); /* a disk that fails here fails the writes, too */
    log->size = 0;
}

static void put_line(struct log *log, struct stream *stream, bool whole)
{
    struct timespec now;
    struct tm broken;
    char head[HEAD_MOST], date[32];
    (void)clock_gettime(CLOCK_REALTIME, &now); /* cannot fail with a valid clock and pointer */
    (void)gmtime_r(&now.tv_sec, &broken);      /* years are in range */
    (void)strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &broken);
    int used =
        snprintf(head, sizeof(head), "%s.%09ldZ %s %c ", date, now.tv_nsec, stream->name, whole ? 'F' : 'P');
    char *from = stream->text + HEAD_MOST - used;
    memcpy(from, head, (size_t)used);
    stream->text[HEAD_MOST + stream->used] = '\n';
    size_t length = (size_t)used + stream->used + 1;
    stream->used = 0;
    make_room(log, length);
    ssize_t put = write(log->file[log->turn], from, length);
    if (put > 0)
        log->size += (uint64_t)put;
    if (put > 0 && (size_t)put < length)
        (void)!write(log->file[log->turn], "\n", 1); /* half a line must not swallow the next */
}

/* False at the end. */
static bool take(struct log *log, struct stream *stream)
{
    char bytes[4096];
    ssize_t got = read(stream->fd, bytes, sizeof(bytes));
    if (got < 0 && errno == EINTR)
        return true;
    for (ssize_t i = 0; i < got; i++) {
        if (bytes[i] == '\n') {
            put_line(log, stream, true);
            continue;
        }
        stream->text[HEAD_MOST + stream->used++] = bytes[i];
        if (stream->used == CORE_LOG_PIECE)
            put_line(log, stream, false);
    }
    if (got <= 0 && stream->used > 0)
        put_line(log, stream, false);
    return got > 0;
}

int32_t core_logfile_main(kern_box *box, void *state, const int32_t *fds, uint32_t count)
{
    (void)state;
    struct stream streams[2] = {{.fd = fds[0], .name = "stdout"}, {.fd = fds[1], .name = "stderr"}};
    struct log log = {.file = {fds[2], fds[3]}, .most = (uint64_t)kern_get_int(&box->options, "log-max")};
    struct stat st[2];
    for (int i = 0; i < 2 && count == 4; i++)
        if (fstat(log.file[i], &st[i]) != 0)
            return 1;
    if (count == 4) { /* a box that runs again goes on where it was */
        log.turn =
            st[1].st_size > 0 &&
            (st[1].st_mtim.tv_sec > st[0].st_mtim.tv_sec ||
             (st[1].st_mtim.tv_sec == st[0].st_mtim.tv_sec && st[1].st_mtim.tv_nsec > st[0].st_mtim.tv_nsec));
        log.size = (uint64_t)st[log.turn].st_size;
    }
    struct pollfd wait[2] = {{.fd = fds[0], .events = POLLIN}, {.fd = fds[1], .events = POLLIN}};
    while (count == 4 && (wait[0].fd >= 0 || wait[1].fd >= 0)) {
        if (poll(wait, 2, -1) < 0 && errno != EINTR)
            return 1;
        for (int i = 0; i < 2; i++)
            if (wait[i].fd >= 0 && wait[i].revents != 0 && !take(&log, &streams[i]))
                wait[i].fd = -1;
    }
    return 0;
}

int core_logfile_parse(const char *line, size_t length, struct core_log_line *ret_line)
{
    const char *space = memchr(line, ' ', length);
    size_t time = space != NULL ? (size_t)(space - line) : 0;
    if (time < 20 || time > 35 || length < time + 10)
        return -EINVAL;
    const char *rest = line + time + 1;
    bool out = memcmp(rest, "stdout ", 7) == 0;
    if ((!out && memcmp(rest, "stderr ", 7) != 0) || (rest[7] != 'F' && rest[7] != 'P') || rest[8] != ' ')
        return -EINVAL;
    *ret_line = (struct core_log_line){.time = line,
                                       .time_length = time,
                                       .stream = out ? 1 : 2,
                                       .whole = rest[7] == 'F',
                                       .text = rest + 9,
                                       .length = length - time - 10};
    return 0;
}
