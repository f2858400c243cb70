/* probe: one static program with which the box tests look at a box from inside. It runs as the command of a box (or below it),
 * makes raw system calls, and prints what came of them. Each first word is one probe. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CALL(name)        \
    {                     \
#name, SYS_##name \
    }

static const struct {
    const char *name;
    long number;
} calls[] = {
    CALL(ptrace),
    CALL(process_vm_readv),
    CALL(process_vm_writev),
    CALL(kexec_load),
    CALL(kexec_file_load),
    CALL(init_module),
    CALL(finit_module),
    CALL(delete_module),
    CALL(reboot),
    CALL(swapon),
    CALL(swapoff),
    CALL(open_tree),
    CALL(move_mount),
    CALL(fsopen),
    CALL(fsconfig),
    CALL(fsmount),
    CALL(fspick),
    CALL(mount_setattr),
    CALL(bpf),
    CALL(unshare),
    CALL(setns),
    CALL(mount),
    CALL(umount2),
    CALL(pivot_root),
    CALL(clone3),
    CALL(io_uring_setup),
    CALL(io_uring_enter),
    CALL(io_uring_register),
    CALL(userfaultfd),
    CALL(perf_event_open),
    CALL(add_key),
    CALL(request_key),
    CALL(keyctl),
    CALL(syslog),
    CALL(open_by_handle_at),
    CALL(getpid),
    CALL(clone),
    CALL(chroot),
    CALL(acct),
    CALL(quotactl),
    CALL(personality),
    CALL(mkdirat),
    CALL(setuid),
};

static long number_of(const char *name)
{
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        if (strcmp(calls[i].name, name) == 0)
            return calls[i].number;
    return strtol(name, NULL, 0);
}

static int show(const char *what, long result)
{
    printf("%s %ld %d\n", what, result, result < 0 ? errno : 0);
    return 0;
}

/* call NAME|NUMBER [ARGUMENT...] */
static int probe_call(int argc, char **argv)
{
    unsigned long arg[6] = {0};
    for (int i = 1; i < argc && i <= 6; i++)
        arg[i - 1] = strtoul(argv[i], NULL, 0);
    return show(argv[0], syscall(number_of(argv[0]), arg[0], arg[1], arg[2], arg[3], arg[4], arg[5]));
}

/* x32 NAME: the same number through the x32 table. */
static int probe_x32(int argc, char **argv)
{
    (void)argc;
    return show(argv[0], syscall(0x40000000 | number_of(argv[0]), 0, 0, 0, 0, 0, 0));
}

/* int80: getpid of the i386 table. */
static int probe_int80(int argc, char **argv)
{
    (void)argc;
    (void)argv;
#if defined(__x86_64__)
    long result = 20;
    __asm__ volatile("int $0x80" : "+a"(result) : : "memory");
    printf("int80 %ld\n", result);
    return 0;
#else
    return 77;
#endif
}

/* ioctl REQUEST: on standard input, with garbage above the 32 bits that the kernel looks at. */
static int probe_ioctl(int argc, char **argv)
{
    unsigned long request = strtoul(argv[0], NULL, 0);
    unsigned long garbage = argc > 1 ? strtoul(argv[1], NULL, 0) : 0;
    char byte = 'x';
    return show("ioctl", syscall(SYS_ioctl, 0L, request | garbage << 32, &byte));
}

/* socket FAMILY TYPE PROTOCOL */
static int probe_socket(int argc, char **argv)
{
    (void)argc;
    return show("socket", socket(atoi(argv[0]), atoi(argv[1]), atoi(argv[2])));
}

/* child NAME: a child makes the call; our exit code is 128 + its signal, as a shell's would be. */
static int probe_child(int argc, char **argv)
{
    pid_t pid = fork();
    if (pid == 0) {
        probe_call(argc, argv);
        _exit(0);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* fds: which descriptors are open, without opening one to look. */
static int probe_fds(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    for (int fd = 0; fd < 4096; fd++)
        if (fcntl(fd, F_GETFD) >= 0)
            printf("%d ", fd);
    printf("\n");
    return 0;
}

/* eat MEGABYTES: touches so much memory. */
static int probe_eat(int argc, char **argv)
{
    (void)argc;
    size_t size = strtoul(argv[0], NULL, 0) << 20;
    char *block = malloc(size);
    if (block == NULL)
        return 3;
    memset(block, 1, size);
    printf("ate %s\n", argv[0]);
    return block[size / 2] == 1 ? 0 : 4;
}

/* forks COUNT: how many children live at once before fork fails. */
static int probe_forks(int argc, char **argv)
{
    (void)argc;
    int made = 0, most = atoi(argv[0]), failed = 0;
    for (; made < most; made++) {
        pid_t pid = fork();
        if (pid == 0) {
            pause();
            _exit(0);
        }
        if (pid < 0) {
            failed = errno;
            break;
        }
    }
    printf("forks %d %d\n", made, failed);
    fflush(stdout);
    _exit(0);
}

/* bomb: forks for ever, and so does each child, whatever fork says. */
static int probe_bomb(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    while (fork() > -2)
        ; /* the pids cap says no, and lets the next one through once somebody has ended */
    return 0;
}

static long long now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000LL + now.tv_nsec / 1000;
}

/* spin COUNT MS: as many processes that only use CPU time. How long that took, and how much they used, in microseconds. */
static int probe_spin(int argc, char **argv)
{
    (void)argc;
    long long begun = now_us(), end = begun + atoi(argv[1]) * 1000LL, used = 0;
    struct rusage usage;
    for (int i = atoi(argv[0]); i > 0; i--)
        if (fork() == 0) {
            while (now_us() < end)
                ;
            _exit(0);
        }
    while (wait4(-1, NULL, 0, &usage) > 0)
        used += (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000LL + usage.ru_utime.tv_usec +
                usage.ru_stime.tv_usec;
    printf("spun %lld %lld\n", now_us() - begun, used);
    return 0;
}

/* orphan: leaves a grandchild behind that ends; then says whether it is still a zombie. */
static int probe_orphan(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    int ends[2];
    if (pipe(ends) != 0)
        return 3;
    pid_t pid = fork();
    if (pid == 0) {
        pid_t grandchild = fork();
        if (grandchild == 0) {
            usleep(100000);
            _exit(0);
        }
        (void)!write(ends[1], &grandchild, sizeof(grandchild));
        _exit(0);
    }
    pid_t grandchild = 0;
    waitpid(pid, NULL, 0);
    (void)!read(ends[0], &grandchild, sizeof(grandchild));
    for (int i = 0; i < 20 && kill(grandchild, 0) == 0; i++)
        usleep(50000);
    printf("orphan %s\n", kill(grandchild, 0) == 0 ? "stays" : "reaped");
    return 0;
}

/* gosu ID [COMMAND...]: changes ids as entrypoints do, which clears the parent-death signal, and clears it again. */
static int probe_gosu(int argc, char **argv)
{
    unsigned id = (unsigned)atoi(argv[0]);
    if (syscall(SYS_setresgid, id, id, id) != 0 || syscall(SYS_setresuid, id, id, id) != 0)
        printf("setresuid: %s\n", strerror(errno));
    prctl(PR_SET_PDEATHSIG, 0);
    setsid();
    if (argc > 1) {
        execvp(argv[1], argv + 1);
        return 127;
    }
    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_IGN);
    printf("ready\n");
    fflush(stdout);
    for (;;)
        pause();
}

static volatile sig_atomic_t caught;

static void on_signal(int number)
{
    caught = number;
}

/* catch NUMBER...: handles the signals; prints each that comes, and ends with code 7 after the one named "end" is caught. */
static int probe_catch(int argc, char **argv)
{
    struct sigaction action = {.sa_handler = on_signal};
    sigset_t all, old;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &old);
    for (int i = 0; i < argc; i++)
        sigaction(atoi(argv[i]), &action, NULL);
    sigset_t none;
    sigemptyset(&none);
    printf("ready %d\n", (int)getpid());
    fflush(stdout);
    for (;;) {
        sigsuspend(&none);
        if (caught == 0)
            continue;
        printf("caught %d\n", (int)caught);
        fflush(stdout);
        if (getenv("PROBE_END") != NULL)
            return 7;
        caught = 0;
    }
}

/* mask: the signals that are blocked and ignored, as exec left them. */
static int probe_mask(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    for (int number = 1; number < 32; number++) {
        struct sigaction action;
        sigset_t mask;
        sigprocmask(SIG_BLOCK, NULL, &mask);
        if (sigismember(&mask, number) == 1)
            printf("blocked %d\n", number);
        if (sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN)
            printf("ignored %d\n", number);
    }
    return 0;
}

/* write PATH TEXT: one write, no truncation, no creation. */
static int probe_write(int argc, char **argv)
{
    int fd = argc > 1 ? open(argv[0], O_WRONLY) : -1;
    if (fd < 0)
        return show("open", fd);
    return show("write", write(fd, argv[1], strlen(argv[1])));
}

/* overwrite: descriptor 0 is of a file that must not be written; waits until it runs no more, then tries. */
static int probe_overwrite(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    char path[4096] = "";
    (void)!readlink("/proc/self/fd/0", path, sizeof(path) - 1);
    int fd = -1;
    for (int i = 0; i < 20 && fd < 0; i++) {
        fd = open("/proc/self/fd/0", O_WRONLY);
        usleep(50000);
    }
    printf("overwrite %s: %s\n", path, fd < 0 ? strerror(errno) : "open for writing");
    return fd < 0 || write(fd, "overwritten", 11) != 11 ? 1 : 0;
}

/* swap A B: exchanges two names until it is ended. */
static int probe_swap(int argc, char **argv)
{
    (void)argc;
    printf("swapping\n");
    fflush(stdout);
    while (syscall(SYS_renameat2, AT_FDCWD, argv[0], AT_FDCWD, argv[1], 2 /* RENAME_EXCHANGE */) == 0)
        continue;
    return show("swap", -1);
}

/* nice: the priority we run at. */
static int probe_nice(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    printf("%d\n", getpriority(PRIO_PROCESS, 0));
    return 0;
}

/* keyring: what the session keyring holds, in bytes, or the errno. "keyring make COMMAND...": runs it with a new one that holds a key. */
static int probe_keyring(int argc, char **argv)
{
    char bytes[256];
    if (argc > 1 && strcmp(argv[0], "make") == 0) {
        if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) < 0 ||
            syscall(SYS_add_key, "user", "kern-test", "secret", 6, KEY_SPEC_SESSION_KEYRING) < 0) {
            printf("none: %s\n", strerror(errno));
            return 77;
        }
        execvp(argv[1], argv + 1);
        return 1;
    }
    long length = syscall(SYS_keyctl, KEYCTL_READ, KEY_SPEC_SESSION_KEYRING, bytes, sizeof(bytes));
    printf("%ld\n", length >= 0 ? length : -(long)errno);
    return 0;
}

/* cpus: how many there are, and on which we may run. */
static int probe_cpus(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    printf("cpus %d affinity", (int)sysconf(_SC_NPROCESSORS_ONLN));
    cpu_set_t set;
    sched_getaffinity(0, sizeof(set), &set);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &set))
            printf(" %d", cpu);
    printf("\n");
    return 0;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(int argc, char **argv);
        int least;
    } probes[] = {
        {"call", probe_call, 1},       {"x32", probe_x32, 1},       {"int80", probe_int80, 0},
        {"ioctl", probe_ioctl, 1},     {"socket", probe_socket, 3}, {"child", probe_child, 1},
        {"fds", probe_fds, 0},         {"nice", probe_nice, 0},     {"overwrite", probe_overwrite, 0},
        {"eat", probe_eat, 1},         {"forks", probe_forks, 1},   {"orphan", probe_orphan, 0},
        {"gosu", probe_gosu, 1},       {"catch", probe_catch, 1},   {"mask", probe_mask, 0},
        {"write", probe_write, 2},     {"cpus", probe_cpus, 0},     {"swap", probe_swap, 2},
        {"keyring", probe_keyring, 0}, {"bomb", probe_bomb, 0},     {"spin", probe_spin, 2},
    };
    for (size_t i = 0; argc > 1 && i < sizeof(probes) / sizeof(probes[0]); i++)
        if (strcmp(argv[1], probes[i].name) == 0 && argc - 2 >= probes[i].least)
            return probes[i].run(argc - 2, argv + 2);
    fprintf(stderr, "usage: probe NAME [ARGUMENT...]\n");
    return 2;
}
