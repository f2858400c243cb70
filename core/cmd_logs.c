/* `kern logs`: what a detached box printed, each stream to its own. Host side; reads the files that the box's log worker writes. */
#include "cmd.h"

#include "cleanup.h"
#include "log.h"
#include "logfile.h"
#include "options.h"
#include "records.h"
#include "registry.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define LINE_MOST (CORE_LOG_PIECE + 256)
#define LOOK_MS   100

struct file {
    int fd;
    off_t at;
    char *line; /* begun and not ended yet */
    size_t used;
};

struct logs {
    const struct kern_values *flags;
    struct file file[2];
    char since[40]; /* "" for all */
    bool timestamps;
    int64_t skip;   /* lines that --tail leaves out */
    bool midway[3]; /* the stream's last line goes on */
    bool printing;
};

static void drop_logs(struct logs *logs)
{
    for (int i = 0; i < 2; i++) {
        kern_close_fd(&logs->file[i].fd);
        free(logs->file[i].line);
    }
}

/* ---- Lines ---- */

static void show(struct logs *logs, const char *text, size_t length, int64_t *count)
{
    struct core_log_line line;
    if (core_logfile_parse(text, length, &line) != 0 ||
        (logs->since[0] != '\0' && strncmp(line.time, logs->since, strlen(logs->since)) < 0))
        return;
    bool begins = !logs->midway[line.stream];
    logs->midway[line.stream] = !line.whole;
    *count += begins;
    if (!logs->printing || *count <= logs->skip)
        return;
    FILE *to = line.stream == 1 ? stdout : stderr;
    if (to == stderr)
        (void)fflush(stdout); /* both may be one file, and the order is the box's; checked at the end */
    if (logs->timestamps && begins)
        (void)fprintf(to, "%.*s ", (int)line.time_length, line.time); /* checked at the end */
    (void)fwrite(line.text, 1, line.length, to);                      /* as above */
    if (line.whole)
        (void)putc('\n', to); /* as above */
}

static void read_more(struct logs *logs, struct file *file, int64_t *count)
{
    char bytes[16384];
    struct stat st;
    if (fstat(file->fd, &st) == 0 && st.st_size < file->at) { /* it was its turn to begin anew */
        file->at = 0;
        file->used = 0;
    }
    ssize_t got;
    while ((got = pread(file->fd, bytes, sizeof(bytes), file->at)) > 0) {
        file->at += got;
        for (ssize_t i = 0; i < got; i++) {
            if (bytes[i] != '\n') {
                file->used += file->used < LINE_MOST;
                file->line[file->used - 1] = bytes[i];
                continue;
            }
            show(logs, file->line, file->used, count);
            file->used = 0;
        }
    }
}

/* The file that begins earlier comes first. */
static void order(struct logs *logs)
{
    char first[2][32] = {"", ""};
    for (int i = 0; i < 2; i++)
        if (pread(logs->file[i].fd, first[i], sizeof(first[i]) - 1, 0) <= 0)
            first[i][0] = '\0';
    bool swap = first[1][0] != '\0' && (first[0][0] == '\0' || strcmp(first[1], first[0]) < 0);
    if (!swap)
        return;
    struct file other = logs->file[0];
    logs->file[0] = logs->file[1];
    logs->file[1] = other;
}

static int64_t read_both(struct logs *logs, int64_t count)
{
    order(logs);
    for (int i = 0; i < 2; i++)
        read_more(logs, &logs->file[i], &count);
    return count;
}

/* ---- The verb ---- */

static int open_files(struct logs *logs, const char *name, struct kern_error *err)
{
    cleanup(core_record_clear) struct core_record record = {0};
    struct kern_error running = {0};
    if (core_record_find(name, &record, &running) != 0 && core_record_find_exited(name, &record) != 0) {
        kern_refuse(err, 0, "no box named '%s' runs, and none that was detached ended within a day", name);
        kern_hint(err, "kern ps -a shows both");
        return -ENOENT;
    }
    auto_fd run = core_registry_run(record.place);
    auto_fd folder = run >= 0 ? core_registry_folder(run, "logs") : -1;
    auto_fd mine = folder >= 0 ? core_registry_folder(folder, name) : -1;
    if (core_record_get(&record, "detached") == NULL || mine < 0) {
        kern_refuse(err, 0, "box '%s' has no log", name);
        kern_hint(err, "only detached boxes have one: kern box %s -d ...", name);
        return -ENOENT;
    }
    for (int i = 0; i < 2; i++) {
        const char digit[2] = {(char)('0' + i), '\0'};
        logs->file[i].fd = openat(mine, digit, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        logs->file[i].line = malloc(LINE_MOST);
        if (logs->file[i].fd < 0 || logs->file[i].line == NULL)
            return kern_refuse(err, errno, "cannot open the log of box '%s'", name);
    }
    return 0;
}

/* A time as the log writes it, or a duration back from now. */
static int read_since(struct logs *logs, struct kern_error *err)
{
    const char *text = kern_get_string(logs->flags, "since");
    if (text == NULL)
        return 0;
    if (strlen(text) >= 10 && text[4] == '-' && text[7] == '-') {
        (void)snprintf(logs->since, sizeof(logs->since), "%s", text); /* what is beyond does not matter */
        return 0;
    }
    int64_t ago = 0;
    int failed = core_parse_duration(text, "--since", &ago, err);
    time_t when = time(NULL) - (time_t)(ago / 1000);
    struct tm broken;
    (void)gmtime_r(&when, &broken); /* years are in range */
    (void)strftime(logs->since, sizeof(logs->since), "%Y-%m-%dT%H:%M:%S", &broken);
    return failed;
}

static bool is_living(const char *name)
{
    struct core_record record = {0};
    struct kern_error gone = {0};
    bool living = core_record_find(name, &record, &gone) == 0;
    core_record_clear(&record);
    return living;
}

static void print(struct logs *logs, const char *name)
{
    int64_t tail = kern_get_int(logs->flags, "tail");
    if (kern_get_source(logs->flags, "tail") != KERN_FROM_DEFAULT) {
        int64_t total = read_both(logs, 0);
        logs->skip = total > tail ? total - tail : 0;
        for (int i = 0; i < 2; i++)
            logs->file[i].at = 0;
        memset(logs->midway, 0, sizeof(logs->midway));
    }
    logs->printing = true;
    int64_t count = read_both(logs, 0);
    while (kern_get_int(logs->flags, "follow") != 0 && ferror(stdout) == 0) {
        bool living = is_living(name);
        (void)fflush(stdout); /* checked at the end */
        (void)poll(NULL, 0, living ? LOOK_MS : 0);
        count = read_both(logs, count);
        if (!living)
            break;
    }
}

int core_cmd_logs(struct core_call *call, struct kern_error *err)
{
    cleanup(drop_logs) struct logs logs = {.flags = &call->flags, .file = {{.fd = -1}, {.fd = -1}}};
    logs.timestamps = kern_get_int(&call->flags, "timestamps") != 0;
    int failed = read_since(&logs, err);
    if (failed == 0)
        failed = open_files(&logs, call->word[0], err);
    if (failed != 0)
        return failed;
    print(&logs, call->word[0]);
    return core_log_close_stdout();
}
