/* What is told to whoever started kern; see report.h. Host side. The descriptors are the caller's: kern marks them
 * close-on-exec at once, and the workload never holds one. */
#include "report.h"

#include "cleanup.h"
#include "json.h"
#include "supervise.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* ---- Opening ---- */

static int adopt(int fd, const char *what, int *ret_fd, struct kern_error *err)
{
    int flags = fd > 2 ? fcntl(fd, F_GETFL) : -1;
    if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY)
        return kern_refuse(err, 0, "cannot use %s: descriptor %d is %s", what, fd,
                           fd <= 2 ? "a standard stream" : "not open for writing");
    (void)fcntl(fd, F_SETFD, FD_CLOEXEC); /* it is open: cannot fail */
    *ret_fd = fd;
    return 0;
}

static bool parse_fd(const char *text, int *ret_fd)
{
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > 7 || text[digits] != '\0')
        return false;
    *ret_fd = atoi(text);
    return true;
}

static int adopt_from_environment(const char *name, int *ret_fd, struct kern_error *err)
{
    const char *text = getenv(name);
    if (text == NULL || text[0] == '\0')
        return 0;
    int fd = -1;
    if (!parse_fd(text, &fd))
        return kern_refuse(err, 0, "cannot use %s=\"%s\": not a descriptor number", name, text);
    return adopt(fd, name, ret_fd, err);
}

/* The file may lie in a volume, where the box can move it and write to it. So what is opened here only shows that it can be
 * written; at the end a new file takes its name, in the directory that was meant. */
static int open_report_file(kern_box *box, const char *path, struct kern_error *err)
{
    /* NONBLOCK only so that opening a planted FIFO does not wait; a regular file ignores it. */
    auto_fd fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0600);
    if (fd < 0)
        return kern_refuse(err, errno, "cannot open report file \"%s\"%s", path,
                           errno == ELOOP ? " (a symlink is not followed)" : "");
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        return kern_refuse(err, 0, "cannot write the report to \"%s\": not a regular file", path);
    if (ftruncate(fd, 0) != 0)
        return kern_refuse(err, errno, "cannot empty report file \"%s\"", path);
    const char *slash = strrchr(path, '/');
    auto_free char *folder = slash == NULL   ? strdup(".")
                             : slash == path ? strdup("/")
                                             : strndup(path, (size_t)(slash - path));
    auto_fd directory = folder != NULL ? open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
    int used = snprintf(box->report_name, sizeof(box->report_name), "%s", slash != NULL ? slash + 1 : path);
    if (directory < 0 || used < 0 || (size_t)used >= sizeof(box->report_name))
        return kern_refuse(err, directory < 0 ? errno : ENAMETOOLONG,
                           "cannot keep the folder of report file \"%s\"", path);
    box->report_fd = steal_fd(&fd);
    box->report_folder = steal_fd(&directory);
    return 0;
}

/* A file is emptied before the report goes into it, and with it would go what the box printed there. */
static int check_own_file(int fd, const char *where, struct kern_error *err)
{
    struct stat st, stream;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        return 0;
    for (int i = 1; i <= 2; i++) {
        if (fstat(i, &stream) == 0 && stream.st_dev == st.st_dev && stream.st_ino == st.st_ino) {
            int r = kern_refuse(err, 0, "cannot use --report \"%s\": standard %s goes to the same file",
                                where, i == 1 ? "output" : "error");
            kern_hint(err, "give the report a file of its own, such as --report fd:3 3>report.json");
            return r;
        }
    }
    return 0;
}

static int open_report(kern_box *box, struct kern_error *err)
{
    const char *where = kern_get_string(&box->options, "report");
    if (where == NULL)
        return 0;
    if (strncmp(where, "fd:", 3) != 0)
        return open_report_file(box, where, err);
    int fd = -1;
    if (!parse_fd(where + 3, &fd))
        return kern_refuse(err, 0, "cannot use --report \"%s\": not a descriptor number", where);
    int failed = check_own_file(fd, where, err); /* first: a refusal is reported, too */
    return failed == 0 ? adopt(fd, "--report", &box->report_fd, err) : failed;
}

/* Any stream will do, kern's own standard error as well: nothing is written, it is watched for the end of whoever reads it. */
static int adopt_owner(kern_box *box, struct kern_error *err)
{
    const char *text = getenv("KERN_OWNER_FD");
    if (text == NULL || text[0] == '\0')
        return 0;
    int fd = -1;
    if (!parse_fd(text, &fd))
        return kern_refuse(err, 0, "cannot use KERN_OWNER_FD=\"%s\": not a descriptor number", text);
    box->owner_fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    return box->owner_fd >= 0 ? 0
                              : kern_refuse(err, errno, "cannot watch descriptor %d of KERN_OWNER_FD", fd);
}

int core_report_open(kern_box *box, struct kern_error *err)
{
    int failed = open_report(box, err);
    if (failed == 0)
        failed = adopt_owner(box, err);
    if (failed == 0)
        failed = adopt_from_environment("KERN_ALIVE_FD", &box->alive_fd, err);
    return failed != 0 ? failed : adopt_from_environment("KERN_STARTED_FD", &box->started_fd, err);
}

static void tell_alive(kern_box *box, char byte)
{
    if (box->alive_fd >= 0)
        (void)!write(box->alive_fd, &byte, 1); /* a caller that went away is told nothing */
}

void core_report_alive(kern_box *box)
{
    tell_alive(box, 'A');
}

void core_report_executed(kern_box *box)
{
    struct stat st;
    if (box->alive_fd >= 0 && fstat(box->alive_fd, &st) == 0 && S_ISREG(st.st_mode))
        tell_alive(box, 'E');
    kern_close_fd(&box->alive_fd);
}

void core_report_not_alive(kern_box *box)
{
    tell_alive(box, 'F');
    kern_close_fd(&box->alive_fd);
}

/* ---- At the end ---- */

static const struct kern_limit *find_limit(const kern_box *box, const char *name)
{
    for (uint32_t i = 0; i < box->limit_count; i++)
        if (strcmp(box->limit[i].name, name) == 0)
            return &box->limit[i];
    return NULL;
}

void core_report_started(kern_box *box, const struct core_outcome *outcome)
{
    if (box->started_fd < 0 || outcome->exit_code == 125)
        return;
    const struct kern_limit *memory = find_limit(box, "memory");
    unsigned char bytes[4] = {
        outcome->started ? 1 : 0,
        memory == NULL || memory->enforced < 0 ? 0
        : memory->enforced != 0                ? 1
                                               : 2,
        box->usage.oom_own == 1 ? 1 : 0,
        (unsigned char)outcome->signal,
    };
    (void)!write(box->started_fd, bytes, sizeof(bytes)); /* a caller that went away is told nothing */
}

static void write_usage(const kern_box *box, struct core_json *json)
{
    core_json_open(json, "usage", '{');
    if (box->exec_ns != 0)
        core_json_double(json, "wall_ms", (double)(box->end_ns - box->exec_ns) / 1e6);
    else
        core_json_null(json, "wall_ms");
    bool ended = box->shared != NULL && atomic_load(&box->shared->ended) != 0;
    int64_t cpu = box->usage.cpu_us >= 0 ? box->usage.cpu_us : ended ? box->shared->cpu_usec : -1;
    if (cpu >= 0)
        core_json_double(json, "cpu_ms", (double)cpu / 1e3);
    else
        core_json_null(json, "cpu_ms");
    core_json_known(json, "peak_memory_bytes", box->usage.peak_memory);
    core_json_known(json, "peak_pids", box->usage.peak_pids);
    core_json_known(json, "oom_kills", box->usage.oom_kills);
    if (box->usage.throttled_us >= 0)
        core_json_double(json, "throttled_ms", (double)box->usage.throttled_us / 1e3);
    else
        core_json_null(json, "throttled_ms");
    core_json_close(json, '}');
}

/* "asked" is a number where the option is one. */
static void write_asked(struct core_json *json, const char *name, const char *asked)
{
    char *end = NULL;
    double number = strtod(asked, &end);
    if (strcmp(name, "cpuset") == 0 || asked[0] == '\0' || *end != '\0' || !isdigit((unsigned char)asked[0]))
        core_json_string(json, "asked", asked[0] != '\0' ? asked : NULL);
    else if (strchr(asked, '.') != NULL)
        core_json_double(json, "asked", number);
    else
        core_json_int(json, "asked", (int64_t)strtoll(asked, NULL, 10));
}

void core_report_limit(struct core_json *json, const struct kern_limit *limit)
{
    core_json_open(json, limit->name, '{');
    write_asked(json, limit->name, limit->asked);
    core_json_bool(json, "enforced", limit->enforced == 1);
    core_json_string(json, "by", limit->by);
    core_json_close(json, '}');
}

static void write_limits(const kern_box *box, struct core_json *json)
{
    core_json_open(json, "limits", '{');
    for (uint32_t i = 0; i < box->limit_count; i++)
        core_report_limit(json, &box->limit[i]);
    core_json_close(json, '}');
}

static void write_denied_list(const kern_box *box, const char *kind, struct core_json *json)
{
    core_json_open(json, kind, '[');
    for (size_t i = 0; i < box->denied_count; i++) {
        if (strcmp(box->denied[i].kind, kind) != 0)
            continue;
        core_json_open(json, NULL, '{');
        core_json_string(json, "name", box->denied[i].what);
        if (strcmp(kind, "hosts") == 0)
            core_json_known(json, "port", box->denied[i].port > 0 ? (int64_t)box->denied[i].port : -1);
        core_json_int(json, "count", (int64_t)box->denied[i].count);
        core_json_string(json, "reason", box->denied[i].reason);
        core_json_close(json, '}');
    }
    core_json_close(json, ']');
}

static void write_denied(const kern_box *box, struct core_json *json)
{
    core_json_open(json, "denied", '{');
    core_json_open(json, "syscalls", '{');
    for (size_t i = 0; i < box->denied_count; i++)
        if (strcmp(box->denied[i].kind, "syscalls") == 0)
            core_json_int(json, box->denied[i].what, (int64_t)box->denied[i].count);
    core_json_close(json, '}');
    write_denied_list(box, "hosts", json);
    write_denied_list(box, "devices", json);
    core_json_close(json, '}');
}

static void write_plugin_fields(const kern_box *box, struct core_json *json)
{
    core_json_open(json, "plugins", '{');
    for (size_t i = 0; i < box->order_count; i++) {
        bool opened = false;
        for (size_t j = 0; j < box->field_count; j++) {
            const struct core_field *field = &box->field[j];
            if (field->owner != box->order[i])
                continue;
            if (!opened)
                core_json_open(json, field->owner->name, '{');
            opened = true;
            if (field->text != NULL)
                core_json_string(json, field->key, field->text);
            else
                core_json_int(json, field->key, field->number);
        }
        if (opened)
            core_json_close(json, '}');
    }
    core_json_close(json, '}');
}

static void write_fault(const kern_box *box, const struct core_outcome *outcome, struct core_json *json)
{
    if (outcome->fault == NULL) {
        core_json_null(json, "fault");
        return;
    }
    core_json_open(json, "fault", '{');
    core_json_string(json, "type", outcome->fault);
    core_json_string(json, "message", outcome->message);
    if (strcmp(outcome->fault, "escape_blocked") == 0 && box->blocked_call[0] != '\0') {
        core_json_string(json, "syscall", box->blocked_call);
        core_json_string(json, "program", box->blocked_program);
    }
    if (strcmp(outcome->fault, "oom") == 0)
        core_json_int(json, "limit_bytes",
                      (int64_t)(box->usage.oom_fleet > 0 ? box->usage.oom_fleet : box->memory_cap));
    core_json_close(json, '}');
}

static void write_image(const kern_box *box, struct core_json *json)
{
    if (box->image_ref == NULL) {
        core_json_null(json, "image");
        return;
    }
    core_json_open(json, "image", '{');
    core_json_string(json, "ref", box->image_ref);
    core_json_string(json, "digest", box->image_digest);
    core_json_close(json, '}');
}

static int write_whole(int fd, const char *text, size_t length)
{
    while (length > 0) {
        ssize_t put = write(fd, text, length);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return put < 0 ? -errno : -EIO;
        text += put;
        length -= (size_t)put;
    }
    return 0;
}

/* A descriptor that stands for a file has been the caller's all the time, and perhaps not only theirs. */
static int write_to_descriptor(int fd, const char *text, size_t length)
{
    struct stat st;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (ftruncate(fd, 0) != 0 || lseek(fd, 0, SEEK_SET) != 0))
        return -errno;
    return write_whole(fd, text, length);
}

static int write_to_file(const kern_box *box, const char *text, size_t length)
{
    char name[sizeof(box->report_name) + 32];
    (void)snprintf(name, sizeof(name), ".%s.%d", box->report_name, (int)getpid()); /* sized for it */
    auto_fd fd = openat(box->report_folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    int failed = write_whole(fd, text, length);
    if (failed == 0 && renameat(box->report_folder, name, box->report_folder, box->report_name) != 0)
        failed = -errno;
    if (failed != 0)
        (void)unlinkat(box->report_folder, name, 0); /* half a report is none */
    return failed;
}

int core_report_write(kern_box *box, const struct core_outcome *outcome)
{
    if (box->report_fd < 0)
        return 0;
    struct core_json json = {0};
    core_json_open(&json, NULL, '{');
    core_json_int(&json, "version", 1);
    core_json_string(&json, "box", box->name[0] != '\0' ? box->name : NULL);
    core_json_bool(&json, "started", outcome->started);
    core_json_int(&json, "exit", outcome->exit_code);
    core_json_int(&json, "signal", outcome->signal);
    write_fault(box, outcome, &json);
    write_usage(box, &json);
    write_limits(box, &json);
    write_denied(box, &json);
    write_image(box, &json);
    write_plugin_fields(box, &json);
    core_json_open(&json, "notes", '[');
    for (size_t i = 0; i < box->notes.count; i++)
        core_json_string(&json, NULL, box->notes.item[i]);
    core_json_close(&json, ']');
    core_json_close(&json, '}');
    int failed = json.failed ? -ENOMEM : 0;
    size_t length = json.length;
    if (failed == 0)
        json.text[length++] = '\n'; /* in the place of the NUL: nobody reads it as a string from here on */
    if (failed == 0)
        failed = box->report_folder >= 0 ? write_to_file(box, json.text, length)
                                         : write_to_descriptor(box->report_fd, json.text, length);
    core_json_free(&json);
    return failed;
}

void core_report_refusal(kern_box *box, const char *where, const struct kern_error *error)
{
    struct core_value *option = core_values_find(&box->options, "report");
    struct kern_error ignored = {0};
    if (where == NULL || option == NULL ||
        core_value_set(option, where, KERN_FROM_FLAG, "--report", &ignored) != 0 ||
        core_report_open(box, &ignored) != 0)
        return;
    struct core_outcome outcome;
    struct core_evidence evidence = {.error = error};
    core_classify(&evidence, &outcome);
    core_report_not_alive(box);
    core_report_started(box, &outcome);
    (void)core_report_write(box, &outcome); /* the error is on stderr */
}
