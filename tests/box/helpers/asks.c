/* asks: what the kernel, or whoever answers in its place, says about CPUs and memory. It runs as the command of a box; each first
 * word is one question. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <unistd.h>

/* affinity PID LENGTH: the raw call. */
static int ask_affinity(char **argv)
{
    unsigned long mask[128];
    memset(mask, 0xff, sizeof(mask));
    size_t length = strtoul(argv[1], NULL, 10);
    long got = syscall(SYS_sched_getaffinity, atoi(argv[0]), length, mask);
    printf("%ld %s %lx\n", got, got < 0 ? strerror(errno) : "ok", got < 0 ? 0 : mask[0]);
    return 0;
}

/* pointer: where the answer cannot be written. */
static int ask_pointer(char **argv)
{
    (void)argv;
    char *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(page, 4096);
    long first = syscall(SYS_sched_getaffinity, 0, 1024, page);
    int code = errno;
    long second = syscall(SYS_sysinfo, (void *)8);
    printf("%ld %s, %ld %s\n", first, strerror(code), second, strerror(errno));
    return 0;
}

/* set CPU...: narrows itself to these, then asks. */
static int ask_set(char **argv)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    for (; *argv != NULL; argv++)
        CPU_SET(atoi(*argv), &set);
    int failed = sched_setaffinity(0, sizeof(set), &set);
    CPU_ZERO(&set);
    sched_getaffinity(0, sizeof(set), &set);
    printf("%d", failed);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &set))
            printf(" %d", cpu);
    printf("\n");
    return 0;
}

static void *ask_in_thread(void *result)
{
    cpu_set_t set;
    *(int *)result = pthread_getaffinity_np(pthread_self(), sizeof(set), &set) == 0 ? CPU_COUNT(&set) : -1;
    return NULL;
}

/* thread: a thread asks for itself by its number. */
static int ask_thread(char **argv)
{
    (void)argv;
    pthread_t thread;
    int result = 0;
    pthread_create(&thread, NULL, ask_in_thread, &result);
    pthread_join(thread, NULL);
    printf("%d\n", result);
    return 0;
}

static int ask_sysinfo(char **argv)
{
    (void)argv;
    struct sysinfo info;
    if (sysinfo(&info) != 0)
        return 1;
    printf("%llu %llu %llu %ld %d\n", (unsigned long long)info.totalram * info.mem_unit,
           (unsigned long long)info.freeram * info.mem_unit,
           (unsigned long long)info.totalswap * info.mem_unit, info.uptime, info.procs);
    return 0;
}

/* often N: N questions one after the other; each must be answered alike. */
static int ask_often(char **argv)
{
    cpu_set_t set, first;
    sched_getaffinity(0, sizeof(first), &first);
    for (int i = atoi(argv[0]); i > 0; i--) {
        int failed = sched_getaffinity(0, sizeof(set), &set);
        if (failed != 0 && errno == EINTR) /* the signal came before kern had the question */
            continue;
        if (failed != 0 || !CPU_EQUAL(&set, &first))
            return 1;
    }
    return 0;
}

static void on_alarm(int number)
{
    (void)number;
}

/* signals: questions while signals interrupt; none may get lost or be answered twice. A handler that does not restart calls may
 * see EINTR: until kern has taken the question, its caller sleeps as in any call. */
static int ask_signals(char **argv)
{
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &action, NULL);
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) {
        for (;;)
            kill(parent, SIGUSR1);
    }
    int failed = ask_often(argv);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    return failed;
}

/* eat MEGABYTES SECONDS: holds that much, then asks. */
static int ask_eat(char **argv)
{
    size_t size = strtoul(argv[0], NULL, 10) << 20;
    char *bytes = malloc(size);
    memset(bytes, 1, size);
    usleep((useconds_t)(atof(argv[1]) * 1e6));
    return ask_sysinfo(NULL) + (bytes[size / 2] != 1);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*ask)(char **argv);
        int words;
    } questions[] = {
        {"affinity", ask_affinity, 2}, {"pointer", ask_pointer, 0}, {"set", ask_set, 1},
        {"thread", ask_thread, 0},     {"sysinfo", ask_sysinfo, 0}, {"often", ask_often, 1},
        {"signals", ask_signals, 1},   {"eat", ask_eat, 2},
    };
    for (size_t i = 0; argc > 1 && i < sizeof(questions) / sizeof(questions[0]); i++)
        if (strcmp(argv[1], questions[i].name) == 0 && argc - 2 >= questions[i].words)
            return questions[i].ask(argv + 2);
    fprintf(stderr, "usage: asks QUESTION [WORD...]\n");
    return 2;
}
