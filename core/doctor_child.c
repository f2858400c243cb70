/* Trying something in a child process, so that namespaces, filters and mounts end with it; see doctor.h. kern itself and
 * the children it tries in; single-threaded, fork-style, so that a child may use libc. */
#include "doctor.h"

#include "cleanup.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define SECONDS_MOST 10

static void quieten(void)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null >= 0)
        (void)dup2(null, STDERR_FILENO); /* otherwise a helper's complaint is seen: no harm */
}

static int run_child(int (*probe)(struct core_doctor_trial *trial), struct core_doctor_trial *trial)
{
    pid_t pid = core_doctor_fork();
    if (pid < 0)
        return pid;
    if (pid == 0) {
        (void)alarm(SECONDS_MOST); /* cannot fail */
        quieten();
        trial->code = -probe(trial);
        _exit(0);
    }
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    if (!WIFSIGNALED(status))
        return -trial->code;
    trial->signal = WTERMSIG(status);
    trial->code = EINTR;
    return -EINTR;
}

int core_doctor_try(int (*probe)(struct core_doctor_trial *trial), const struct core_doctor_facts *facts,
                    struct core_doctor_trial *ret_trial)
{
    struct core_doctor_trial *trial =
        mmap(NULL, sizeof(*trial), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (trial == MAP_FAILED) {
        *ret_trial = (struct core_doctor_trial){.code = errno};
        return -errno;
    }
    *trial = (struct core_doctor_trial){.facts = facts};
    int result = run_child(probe, trial);
    *ret_trial = *trial;
    (void)munmap(trial, sizeof(*trial)); /* was mapped with this size */
    return result;
}

pid_t core_doctor_fork(void)
{
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid < 0)
        return -errno;
    if (pid > 0)
        return pid;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0); /* cannot fail with a valid signal */
    /* 0: the parent is in an outer pid namespace. */
    if (getppid() != parent && getppid() != 0)
        _exit(1);
    return 0;
}

int core_doctor_wait(pid_t pid)
{
    int status = 0;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -errno;
    return WIFEXITED(status) ? -WEXITSTATUS(status) : -EINTR;
}

int core_doctor_write(const char *path, const char *text)
{
    auto_fd fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    return write(fd, text, strlen(text)) < 0 ? -errno : 0;
}

char *core_doctor_read(const char *path)
{
    auto_file file = fopen(path, "re");
    char *text = NULL;
    size_t size = 0;
    if (file == NULL)
        return NULL;
    /* No file that is asked for holds a NUL: this reads the whole of it, however large. */
    if (getdelim(&text, &size, '\0', file) < 0) {
        free(text);
        return strdup("");
    }
    return text;
}

static int write_maps(uid_t uid, gid_t gid)
{
    char line[40];
    /* The kernel wants this before a gid_map of somebody without privileges; older ones do not have the file. */
    int result = core_doctor_write("/proc/self/setgroups", "deny");
    if (result < 0 && result != -ENOENT)
        return result;
    (void)snprintf(line, sizeof(line), "0 %u 1\n", uid); /* fits */
    result = core_doctor_write("/proc/self/uid_map", line);
    if (result < 0)
        return result;
    (void)snprintf(line, sizeof(line), "0 %u 1\n", gid); /* fits */
    return core_doctor_write("/proc/self/gid_map", line);
}

int core_doctor_enter_userns(struct core_doctor_trial *trial, uint64_t flags)
{
    uid_t uid = geteuid();
    gid_t gid = getegid();
    trial->step = CORE_DOCTOR_MAKE;
    if (unshare(CLONE_NEWUSER) != 0)
        return -errno;
    trial->step = CORE_DOCTOR_MAP;
    int result = write_maps(uid, gid);
    if (result < 0)
        return result;
    trial->step = CORE_DOCTOR_USE;
    return flags == 0 || unshare((int)flags) == 0 ? 0 : -errno;
}

pid_t core_doctor_hold_userns(void)
{
    int ends[2];
    char byte = 0;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -errno;
    auto_fd ready = ends[0];
    auto_fd tell = ends[1];
    pid_t pid = core_doctor_fork();
    if (pid < 0)
        return pid;
    if (pid == 0) {
        if (unshare(CLONE_NEWUSER) != 0 || write(tell, "", 1) != 1)
            _exit(1);
        for (;;)
            (void)pause(); /* killed by core_doctor_end(), and with its parent in any case */
    }
    kern_close_fd(&tell);
    if (read(ready, &byte, 1) == 1)
        return pid;
    core_doctor_end(pid);
    return -EPERM;
}

void core_doctor_end(pid_t pid)
{
    (void)kill(pid, SIGKILL);    /* a child of ours, not yet waited for */
    (void)core_doctor_wait(pid); /* it was killed: nothing to learn */
}
