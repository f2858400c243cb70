/* The stopwatch of the benchmarks: runs several command lines in turn and prints medians.
 * One process on the host side; it knows nothing of containers.
 *
 *     timer [-w WARMUPS] [-n AT_ONCE] [-j FILE] [-i KEY=VALUE]... RUNS ::: LABEL [NAME=VALUE]... CMD ARGS...
 *           [::: LABEL ...]
 *
 * Every round runs each command once, in an order drawn anew for the round, so that a drift of the machine
 * and what a neighbour leaves behind for the kernel to clean up (network namespaces go asynchronously) hit
 * all alike. A sample lasts from before posix_spawn to the return of waitpid. With -n a sample is AT_ONCE
 * processes, all started as fast as possible, then all waited for.
 *
 * Output: one line for each command, tab-separated: label, median, p10, p90 (milliseconds), failures.
 * A run that does not exit 0 ends a timing at once, with exit code 1: a median over failures means
 * nothing. With -n failures are counted instead, for there they are part of the result. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kern/cleanup.h"

enum {
    MAX_COMMANDS = 32,
    MAX_ENV = 8,
    MAX_INFO = 32,
    MAX_RUNS = 100000,
    MAX_AT_ONCE = 10000,
};

struct command {
    const char *label;
    char *const *argv;  /* NULL-terminated inside timer's own argv */
    char **environment; /* the caller's, with the command's own settings in front */
    double *samples;    /* milliseconds, one for each run; sorted by the time they are printed */
    long failures;
};

struct plan {
    long runs, warmups, at_once;
    const char *json_path;
    const char *info[MAX_INFO];
    size_t n_info;
    struct command commands[MAX_COMMANDS];
    size_t n_commands;
    int null_fd; /* stdin, stdout and, once warm, stderr of every run */
};

static void plan_done(struct plan *plan)
{
    for (size_t i = 0; i < plan->n_commands; i++) {
        free(plan->commands[i].samples);
        free(plan->commands[i].environment);
    }
    kern_close_fd(&plan->null_fd);
}

static int complain(const char *what, const char *object, int why)
{
    (void)fprintf(stderr, "timer: cannot %s \"%s\": %s\n", what, object, strerror(why)); /* last words */
    return -why;
}

static int usage(void)
{
    (void)fprintf(stderr, "usage: timer [-w WARMUPS] [-n AT_ONCE] [-j FILE] [-i KEY=VALUE]... RUNS\n"
                          "             ::: LABEL [NAME=VALUE]... CMD ARGS... [::: LABEL ...]\n");
    return -EINVAL;
}

static int parse_count(const char *text, long least, long most, long *ret_count)
{
    char *end;
    errno = 0;
    long n = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || n < least || n > most) {
        (void)fprintf(stderr, "timer: \"%s\" is not a number from %ld to %ld\n", text, least, most);
        return -EINVAL;
    }
    *ret_count = n;
    return 0;
}

static bool is_assignment(const char *word)
{
    size_t name = strspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
    return name > 0 && word[name] == '=';
}

/* Settings are put in front of the environment here, once, because an env(1) in front of the command would
 * be measured with it. In front, because getenv() takes the first of two equal names. */
static char **merge_environment(char *const *settings, size_t n)
{
    size_t inherited = 0;
    while (environ[inherited] != NULL)
        inherited++;
    char **merged = calloc(n + inherited + 1, sizeof *merged);
    if (merged == NULL)
        return NULL;
    memcpy(merged, settings, n * sizeof *merged);
    memcpy(merged + n, environ, inherited * sizeof *merged);
    return merged;
}

/* WORDS is what stands between two separators, NULL-terminated. */
static int plan_add_command(struct plan *plan, char *const *words)
{
    if (plan->n_commands == MAX_COMMANDS) {
        (void)fprintf(stderr, "timer: more than %d commands\n", MAX_COMMANDS);
        return -E2BIG;
    }
    if (words[0] == NULL || words[1] == NULL)
        return usage();
    size_t n_settings = 0;
    while (words[1 + n_settings] != NULL && is_assignment(words[1 + n_settings]))
        n_settings++;
    if (n_settings > MAX_ENV || words[1 + n_settings] == NULL)
        return usage();

    struct command *command = &plan->commands[plan->n_commands++];
    command->label = words[0];
    command->argv = words + 1 + n_settings;
    command->environment = merge_environment(words + 1, n_settings);
    command->samples = calloc((size_t)plan->runs, sizeof *command->samples);
    if (command->environment == NULL || command->samples == NULL)
        return complain("make room for", command->label, ENOMEM);
    return 0;
}

/* Cuts argv at each ":::" by putting a NULL there, so that each piece can be executed as it stands. */
static int plan_read_commands(struct plan *plan, char **words)
{
    if (words[0] == NULL || strcmp(words[0], ":::") != 0)
        return usage();
    char **first = words + 1;
    for (char **word = first;; word++) {
        bool last = *word == NULL;
        if (!last && strcmp(*word, ":::") != 0)
            continue;
        *word = NULL;
        int r = plan_add_command(plan, first);
        if (r < 0 || last)
            return r;
        first = word + 1;
    }
}

static int plan_read_option(struct plan *plan, int option, const char *value)
{
    switch (option) {
    case 'w':
        return parse_count(value, 0, MAX_RUNS, &plan->warmups);
    case 'n':
        return parse_count(value, 1, MAX_AT_ONCE, &plan->at_once);
    case 'j':
        plan->json_path = value;
        return 0;
    case 'i':
        if (plan->n_info == MAX_INFO || strchr(value, '=') == NULL)
            return usage();
        plan->info[plan->n_info++] = value;
        return 0;
    default:
        return usage();
    }
}

static int plan_read(struct plan *plan, int argc, char **argv)
{
    int option;
    /* "+": stop at the first word that is no option, for the commands bring options of their own. */
    while ((option = getopt(argc, argv, "+w:n:j:i:")) != -1) {
        int r = plan_read_option(plan, option, optarg);
        if (r < 0)
            return r;
    }
    if (optind >= argc)
        return usage();
    int r = parse_count(argv[optind], 1, MAX_RUNS, &plan->runs);
    if (r < 0)
        return r;
    return plan_read_commands(plan, argv + optind + 1);
}

static double now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail for this clock */
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void destroy_actions(posix_spawn_file_actions_t *actions)
{
    (void)posix_spawn_file_actions_destroy(actions); /* glibc's only frees memory */
}

static void destroy_attributes(posix_spawnattr_t *attributes)
{
    (void)posix_spawnattr_destroy(attributes); /* likewise */
}

static int build_actions(posix_spawn_file_actions_t *actions, int in_out, int error)
{
    int r = posix_spawn_file_actions_adddup2(actions, in_out, 0);
    if (r == 0)
        r = posix_spawn_file_actions_adddup2(actions, in_out, 1);
    if (r == 0)
        r = posix_spawn_file_actions_adddup2(actions, error, 2);
    return -r;
}

static void stop_signals(sigset_t *ret_set)
{
    sigset_t set;
    (void)sigemptyset(&set); /* none of the four can fail for a signal that exists */
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGHUP);
    *ret_set = set;
}

/* Timer blocks the stop signals, and a shell that put it in the background had SIGINT and SIGQUIT ignored;
 * a run starts with neither, as it would from a prompt. */
static int build_attributes(posix_spawnattr_t *attributes)
{
    sigset_t none, defaults;
    (void)sigemptyset(&none); /* cannot fail, nor can the next */
    stop_signals(&defaults);
    (void)sigaddset(&defaults, SIGQUIT);
    int r = posix_spawnattr_setsigmask(attributes, &none);
    if (r == 0)
        r = posix_spawnattr_setsigdefault(attributes, &defaults);
    if (r == 0)
        r = posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    return -r;
}

/* Blocked and looked at between samples, so that a run under way is waited for, not left behind. */
static int check_stop(void)
{
    sigset_t pending, stop;
    stop_signals(&stop);
    if (sigpending(&pending) < 0)
        return complain("look at", "pending signals", errno);
    if (!sigismember(&pending, SIGINT) && !sigismember(&pending, SIGTERM) && !sigismember(&pending, SIGHUP))
        return 0;
    (void)fprintf(stderr, "timer: stopped by a signal\n"); /* the exit code says it too */
    return -EINTR;
}

static bool ended_well(int status)
{
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static int start_runs(const struct plan *plan, const struct command *command, int error_fd, long *ret_started)
{
    cleanup(destroy_actions) posix_spawn_file_actions_t actions;
    cleanup(destroy_attributes) posix_spawnattr_t attributes;
    (void)posix_spawn_file_actions_init(&actions); /* neither can fail in glibc: they fill a struct */
    (void)posix_spawnattr_init(&attributes);
    int r = build_actions(&actions, plan->null_fd, error_fd);
    if (r == 0)
        r = build_attributes(&attributes);
    long started = 0;
    while (r == 0 && started < plan->at_once) {
        pid_t pid;
        r = -posix_spawnp(&pid, command->argv[0], &actions, &attributes, command->argv, command->environment);
        if (r == 0)
            started++;
    }
    *ret_started = started; /* on failure too: those that did start have to be waited for */
    return r == 0 ? 0 : complain("run", command->argv[0], -r);
}

/* Hands back how many of the runs failed and, if any did, how the last of those ended. */
static int await_runs(long started, long *ret_failures, int *ret_bad_status)
{
    long failures = 0;
    int bad_status = 0;
    for (long i = 0; i < started; i++) {
        int status;
        while (waitpid(-1, &status, 0) < 0) {
            if (errno != EINTR)
                return complain("wait for", "the runs", errno);
        }
        if (!ended_well(status)) {
            failures++;
            bad_status = status;
        }
    }
    *ret_failures = failures;
    *ret_bad_status = bad_status;
    return 0;
}

static int take_sample(const struct plan *plan, const struct command *command, int error_fd, double *ret_ms,
                       long *ret_failures, int *ret_bad_status)
{
    long started;
    double before = now_ms();
    int start_error = start_runs(plan, command, error_fd, &started);
    int r = await_runs(started, ret_failures, ret_bad_status);
    double after = now_ms();
    if (start_error < 0 || r < 0)
        return start_error < 0 ? start_error : r;
    *ret_ms = after - before;
    return check_stop();
}

static void explain_failure(const struct command *command, int status, int error_fd)
{
    /* stderr may be closed; the exit code tells the caller all the same */
    (void)fprintf(stderr, "timer: %s: \"%s\" ended with %s %d\n", command->label, command->argv[0],
                  WIFSIGNALED(status) ? "signal" : "exit code",
                  WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    char text[2048];
    ssize_t n = pread(error_fd, text, sizeof text - 1, 0);
    if (n > 0) {
        text[n] = '\0';
        (void)fprintf(stderr, "timer: it said: %s\n", text);
    }
}

/* While warming up, stderr goes to memory, so that a command that cannot work here says why. */
static int warm_up(struct plan *plan)
{
    for (long round = 0; round < plan->warmups; round++) {
        for (size_t i = 0; i < plan->n_commands; i++) {
            auto_fd said = memfd_create("stderr", MFD_CLOEXEC);
            if (said < 0)
                return complain("make", "a memory file", errno);
            double ms;
            long failures;
            int status;
            int r = take_sample(plan, &plan->commands[i], said, &ms, &failures, &status);
            if (r < 0)
                return r;
            if (failures > 0)
                explain_failure(&plan->commands[i], status, said);
            if (failures > 0 && plan->at_once == 1)
                return -EIO;
        }
    }
    return 0;
}

/* A small generator of our own: two sessions then run in the same order, whatever libc they have. */
static void shuffle(size_t *order, size_t n, uint32_t *seed)
{
    for (size_t i = n; i > 1; i--) {
        *seed = *seed * 1664525u + 1013904223u;
        size_t j = (*seed >> 8) % i;
        size_t other = order[j];
        order[j] = order[i - 1];
        order[i - 1] = other;
    }
}

static int measure(struct plan *plan)
{
    size_t order[MAX_COMMANDS];
    for (size_t i = 0; i < plan->n_commands; i++)
        order[i] = i;
    uint32_t seed = 1;
    for (long round = 0; round < plan->runs; round++) {
        shuffle(order, plan->n_commands, &seed);
        for (size_t i = 0; i < plan->n_commands; i++) {
            struct command *command = &plan->commands[order[i]];
            long failures;
            int status;
            int r = take_sample(plan, command, plan->null_fd, &command->samples[round], &failures, &status);
            if (r < 0)
                return r;
            command->failures += failures;
            if (failures > 0 && plan->at_once == 1) {
                explain_failure(command, status, plan->null_fd);
                return -EIO;
            }
        }
    }
    return 0;
}

static int compare_samples(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Linear between the two nearest ranks; SORTED is in ascending order. */
static double quantile(const double *sorted, long n, double q)
{
    double rank = q * (double)(n - 1);
    long below = (long)rank;
    if (below + 1 >= n)
        return sorted[n - 1];
    return sorted[below] + (rank - (double)below) * (sorted[below + 1] - sorted[below]);
}

static void json_string(FILE *out, const char *text, size_t length)
{
    (void)fputc('"', out); /* this and all below: json_write looks at ferror once, at the end */
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == '"' || c == '\\')
            (void)fprintf(out, "\\%c", c);
        else if (c < 0x20)
            (void)fprintf(out, "\\u%04x", c);
        else
            (void)fputc(c, out);
    }
    (void)fputc('"', out);
}

static void json_command(FILE *out, const struct command *command, long runs)
{
    (void)fprintf(out, "  {\"label\": "); /* see json_string */
    json_string(out, command->label, strlen(command->label));
    (void)fprintf(out, ", \"argv\": [");
    for (size_t i = 0; command->argv[i] != NULL; i++) {
        (void)fputs(i > 0 ? ", " : "", out);
        json_string(out, command->argv[i], strlen(command->argv[i]));
    }
    (void)fprintf(out, "],\n   \"median_ms\": %.3f, \"p10_ms\": %.3f, \"p90_ms\": %.3f, \"failures\": %ld,\n",
                  quantile(command->samples, runs, 0.5), quantile(command->samples, runs, 0.1),
                  quantile(command->samples, runs, 0.9), command->failures);
    (void)fprintf(out, "   \"sorted_ms\": [");
    for (long i = 0; i < runs; i++)
        (void)fprintf(out, "%s%.3f", i > 0 ? ", " : "", command->samples[i]);
    (void)fprintf(out, "]}");
}

static int json_write(const struct plan *plan)
{
    auto_file out = fopen(plan->json_path, "we");
    if (out == NULL)
        return complain("write", plan->json_path, errno);
    (void)fprintf(out, "{\"version\": 1, \"runs\": %ld, \"warmups\": %ld, \"at_once\": %ld,\n \"info\": {",
                  plan->runs, plan->warmups, plan->at_once); /* see json_string */
    for (size_t i = 0; i < plan->n_info; i++) {
        const char *equals = strchr(plan->info[i], '=');
        (void)fputs(i > 0 ? ",\n  " : "\n  ", out);
        json_string(out, plan->info[i], (size_t)(equals - plan->info[i]));
        (void)fputs(": ", out);
        json_string(out, equals + 1, strlen(equals + 1));
    }
    (void)fprintf(out, "},\n \"commands\": [\n");
    for (size_t i = 0; i < plan->n_commands; i++) {
        (void)fputs(i > 0 ? ",\n" : "", out);
        json_command(out, &plan->commands[i], plan->runs);
    }
    (void)fprintf(out, "\n ]}\n");
    errno = EIO; /* what to say when an earlier write set the stream's error flag, not this flush */
    if (fflush(out) != 0 || ferror(out))
        return complain("write", plan->json_path, errno);
    return 0;
}

static int print_results(const struct plan *plan)
{
    for (size_t i = 0; i < plan->n_commands; i++) {
        const struct command *command = &plan->commands[i];
        if (printf("%s\t%.3f\t%.3f\t%.3f\t%ld\n", command->label, quantile(command->samples, plan->runs, 0.5),
                   quantile(command->samples, plan->runs, 0.1), quantile(command->samples, plan->runs, 0.9),
                   command->failures) < 0)
            return complain("write", "stdout", errno);
    }
    return fflush(stdout) == 0 ? 0 : complain("write", "stdout", errno);
}

int main(int argc, char **argv)
{
    cleanup(plan_done) struct plan plan = {.warmups = 3, .at_once = 1, .null_fd = -1};
    if (plan_read(&plan, argc, argv) < 0)
        return 2;
    plan.null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (plan.null_fd < 0) {
        (void)complain("open", "/dev/null", errno); /* the exit code says the rest */
        return 1;
    }
    /* A caller that ignores SIGCHLD would have the kernel reap the runs before waitpid sees them. */
    (void)signal(SIGCHLD, SIG_DFL); /* cannot fail for a valid signal */
    sigset_t stop;
    stop_signals(&stop);
    (void)sigprocmask(SIG_BLOCK, &stop, NULL); /* nor this */
    if (warm_up(&plan) < 0 || measure(&plan) < 0)
        return 1;
    for (size_t i = 0; i < plan.n_commands; i++)
        qsort(plan.commands[i].samples, (size_t)plan.runs, sizeof(double), compare_samples);
    if (print_results(&plan) < 0 || (plan.json_path != NULL && json_write(&plan) < 0))
        return 1;
    return 0;
}
