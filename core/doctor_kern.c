/* kern doctor's look at kern itself: its plugins, and one box from start to end. Runs in kern; see doctor.h. */
#include "doctor.h"

#include "cleanup.h"
#include "plugin.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

/* More than kern itself is given, so that its own word comes first. */
#define SECONDS_MOST 30

/* ---- Plugins ---- */

static void report_plugins(struct core_doctor_check *check)
{
    cleanup(core_catalog_clear) struct core_catalog catalog = {0};
    struct kern_error err = {0};
    unsigned loaded = 0;
    int result = core_catalog_builtin(&catalog, &err);
    for (size_t i = 0; i < catalog.count; i++)
        catalog.plugin[i].wanted = true;
    if (result == 0)
        result = core_plugin_load_wanted(&catalog, &err);
    for (size_t i = 1; i < catalog.count; i++) /* the first is the engine */
        loaded += catalog.plugin[i].loaded ? 1 : 0;
    char directory[512] = "";
    if (result == 0)
        result = core_plugin_directory(directory, sizeof(directory), &err);
    auto_free char *resolved = directory[0] != '\0' ? realpath(directory, NULL) : NULL;
    if (result == 0)
        core_doctor_say(check, CORE_DOCTOR_OK, "%u verified and opened, ABI %u, %s%s", loaded, KERN_ABI,
                        resolved != NULL ? "from " : "compiled in", resolved != NULL ? resolved : "");
    else
        core_doctor_say(check, CORE_DOCTOR_FAIL, "%s", err.message);
    core_doctor_fix(check, "%s", err.hint);
}

/* ---- A box ---- */

static int64_t now_us(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* this clock is always there */
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static int spawn_box(int complaints, pid_t *ret_pid)
{
    static const char *const words[] = {"kern", "box", "-q", "--timeout", "20", "--", "/bin/true", NULL};
    char *argv[sizeof(words) / sizeof(words[0])];
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        argv[i] = (char *)(uintptr_t)words[i]; /* posix_spawn changes none of them */
    posix_spawn_file_actions_t actions;
    int failed = posix_spawn_file_actions_init(&actions);
    if (failed != 0)
        return -failed;
    failed = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (failed == 0)
        failed = posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    if (failed == 0)
        failed = posix_spawn_file_actions_adddup2(&actions, complaints, STDERR_FILENO);
    if (failed == 0)
        failed = posix_spawn(ret_pid, "/proc/self/exe", &actions, NULL, argv, environ);
    (void)posix_spawn_file_actions_destroy(&actions); /* it only frees */
    return -failed;
}

/* Until everyone has closed the other end. False: that was not within the time. */
static bool read_all(int fd, char *text, size_t size)
{
    int64_t last = now_us() + INT64_C(1000000) * SECONDS_MOST;
    char rest[512];
    size_t used = 0;
    bool ended = false;
    text[0] = '\0';
    while (!ended) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        int64_t left = (last - now_us()) / 1000;
        if (left <= 0)
            return false;
        if (poll(&ready, 1, (int)left) <= 0)
            continue;
        bool full = used + 1 >= size;
        ssize_t got = full ? read(fd, rest, sizeof(rest)) : read(fd, text + used, size - used - 1);
        ended = got == 0 || (got < 0 && errno != EINTR);
        used += full || got < 0 ? 0 : (size_t)got;
        text[used] = '\0';
    }
    return true;
}

/* Returns the exit code of kern box, or -errno; `text` is what it said. */
static int start_box(int64_t *ret_us, char *text, size_t size)
{
    int ends[2], status = 0;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -errno;
    auto_fd from = ends[0];
    auto_fd to = ends[1];
    pid_t pid = 0;
    int64_t start = now_us();
    int failed = spawn_box(to, &pid);
    if (failed < 0)
        return failed;
    kern_close_fd(&to);
    bool ended = read_all(from, text, size);
    if (!ended)
        (void)kill(pid, SIGKILL); /* a child of ours, not yet waited for; the box dies with it */
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    *ret_us = now_us() - start;
    if (!ended)
        return -ETIMEDOUT;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* The line of `text` that starts with `prefix`, without it. */
static bool find_line(const char *text, const char *prefix, char *ret_line, size_t size)
{
    size_t skip = strlen(prefix);
    for (const char *line = text; line != NULL && *line != '\0'; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, prefix, skip) != 0)
            continue;
        (void)snprintf(ret_line, size, "%.*s", (int)strcspn(line + skip, "\n"), line + skip); /* may be cut */
        return true;
    }
    return false;
}

static void report_box(struct core_doctor_check *check)
{
    char text[2048] = "", line[400] = "";
    int64_t first = 0, second = 0;
    /* The first start reads kern and the program from the disk; the second is what a user sees from then on. */
    int code = start_box(&first, text, sizeof(text));
    if (code == 0)
        code = start_box(&second, text, sizeof(text));
    if (code == 0) {
        core_doctor_say(check, CORE_DOCTOR_OK, "/bin/true on the host root ran in %.1f ms, start to exit",
                        (double)second / 1000);
        return;
    }
    if (code == -ETIMEDOUT)
        core_doctor_say(check, CORE_DOCTOR_FAIL, "did not end within %d seconds, and was killed",
                        SECONDS_MOST);
    else if (code < 0)
        core_doctor_say(check, CORE_DOCTOR_FAIL, "cannot start kern itself: %s", strerror(-code));
    else if (find_line(text, "kern: ", line, sizeof(line)))
        core_doctor_say(check, CORE_DOCTOR_FAIL, "exit code %d: %s", code, line);
    else
        core_doctor_say(check, CORE_DOCTOR_FAIL, "exit code %d, and nothing was said", code);
    if (find_line(text, "hint: ", line, sizeof(line)) && strstr(line, "kern doctor") == NULL)
        core_doctor_fix(check, "%s", line);
}

void core_doctor_kern(struct core_doctor *doctor, const struct core_doctor_facts *facts)
{
    (void)facts; /* what stands around kern has shown in the checks before */
    report_plugins(core_doctor_add(doctor, "plugins"));
    report_box(core_doctor_add(doctor, "box-start"));
}
