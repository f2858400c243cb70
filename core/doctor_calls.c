/* kern doctor's probes of single system calls and of security modules; see doctor.h. Each runs in a child of kern, because
 * an outer filter may kill for a call that it does not know. */
#include "doctor.h"

#include "cleanup.h"
#include "sys.h"

#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

long core_clone3(struct clone_args *args, size_t size, int (*fn)(void *), void *arg);

#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC 4u
#endif
#define LANDLOCK_VERSION_FLAG 1u

static int do_nothing(void *arg)
{
    (void)arg; /* the prototype of a clone's function */
    return 0;
}

static int probe_clone3(struct core_doctor_trial *trial)
{
    (void)trial; /* the result says all */
    int pidfd = -1;
    struct clone_args args = {
        .flags = CLONE_PIDFD, .pidfd = (uint64_t)(uintptr_t)&pidfd, .exit_signal = SIGCHLD};
    long pid = core_clone3(&args, sizeof(args), do_nothing, NULL);
    if (pid < 0)
        return (int)pid;
    auto_fd held = pidfd;
    struct pollfd ended = {.fd = held, .events = POLLIN};
    bool seen = poll(&ended, 1, 5000) == 1;
    int result = core_doctor_wait((pid_t)pid);
    return seen ? result : -ETIME;
}

static int probe_pidfd(struct core_doctor_trial *trial)
{
    (void)trial; /* the result says all */
    auto_fd self = (int)sys_call(SYS_pidfd_open, getpid(), 0, 0, 0, 0, 0);
    return self < 0 ? self : (int)sys_call(SYS_pidfd_send_signal, self, 0, 0, 0, 0, 0);
}

static int probe_close_range(struct core_doctor_trial *trial)
{
    (void)trial; /* the result says all */
    int fd = dup(STDIN_FILENO);
    if (fd < 0)
        fd = open("/dev/null", O_RDONLY); /* kern was started without standard input */
    int result = (int)sys_call(SYS_close_range, 3, (long)~0U, (long)CLOSE_RANGE_CLOEXEC, 0, 0, 0);
    if (result < 0 || fd < 3)
        return result;
    return (fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0 ? 0 : -EBADE;
}

static int probe_openat2(struct core_doctor_trial *trial)
{
    (void)trial; /* the result says all */
    auto_fd root = sys_open(AT_FDCWD, "/proc", O_PATH | O_DIRECTORY, 0);
    /* ".." at the root of the search stays there. */
    auto_fd found = sys_open_beneath(root, "../self", O_PATH | O_NOFOLLOW, 0, RESOLVE_IN_ROOT);
    return found < 0 ? found : 0;
}

static const struct call {
    const char *name, *call, *since, *good;
    int (*probe)(struct core_doctor_trial *trial);
} calls[] = {
    {"clone3", "clone3", "5.3", "a process was made, with a descriptor of it", probe_clone3},
    {"pidfd", "pidfd_open", "5.3", "processes are watched and signalled by descriptor", probe_pidfd},
    {"close-range", "close_range with CLOSE_RANGE_CLOEXEC", "5.11", "no inherited descriptor reaches a box",
     probe_close_range},
    {"openat2", "openat2", "5.6", "paths are resolved inside a root", probe_openat2},
};

/* ---- Security modules ---- */

static int probe_landlock(struct core_doctor_trial *trial)
{
    long version = sys_call(SYS_landlock_create_ruleset, 0, 0, LANDLOCK_VERSION_FLAG, 0, 0, 0);
    trial->number = version > 0 ? (int)version : 0;
    return version > 0 ? 0 : (int)version;
}

static void report_landlock(struct core_doctor_check *check, const struct core_doctor_facts *facts)
{
    struct core_doctor_trial trial;
    int result = core_doctor_try(probe_landlock, facts, &trial);
    if (result == 0) {
        core_doctor_say(check, CORE_DOCTOR_OK, "ABI %d", trial.number);
    } else if (result == -EOPNOTSUPP) {
        auto_free char *order = core_doctor_read("/sys/kernel/security/lsm");
        core_doctor_say(check, CORE_DOCTOR_WARN,
                        "in this kernel, but switched off: --landlock-rw is refused");
        core_doctor_fix(check, "add to the kernel's command line: lsm=landlock,%s",
                        order != NULL && order[0] != '\0' ? order : "lockdown,yama,integrity,apparmor,bpf");
    } else {
        core_doctor_explain_call(check, facts, CORE_DOCTOR_WARN, "Landlock, so --landlock-rw is refused",
                                 "5.13 and CONFIG_SECURITY_LANDLOCK", -result);
    }
}

static void report_apparmor(struct core_doctor_check *check, const struct core_doctor_facts *facts)
{
    auto_free char *enabled = core_doctor_read("/sys/module/apparmor/parameters/enabled");
    if (enabled == NULL || enabled[0] != 'Y')
        core_doctor_say(check, CORE_DOCTOR_WARN, "%s: --apparmor is refused",
                        enabled == NULL ? "not in this kernel" : "switched off");
    else
        core_doctor_say(check, CORE_DOCTOR_OK, "on; kern runs %s%s",
                        facts->label[0] != '\0' ? "under " : "unconfined", facts->label);
    if (enabled != NULL && enabled[0] != 'Y')
        core_doctor_fix(check, "add to the kernel's command line: apparmor=1 security=apparmor");
}

void core_doctor_calls(struct core_doctor *doctor, const struct core_doctor_facts *facts)
{
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        struct core_doctor_trial trial;
        struct core_doctor_check *check = core_doctor_add(doctor, calls[i].name);
        int result = core_doctor_try(calls[i].probe, facts, &trial);
        if (result == 0)
            core_doctor_say(check, CORE_DOCTOR_OK, "%s", calls[i].good);
        else
            core_doctor_explain_call(check, facts, CORE_DOCTOR_FAIL, calls[i].call, calls[i].since, -result);
    }
    report_landlock(core_doctor_add(doctor, "landlock"), facts);
    report_apparmor(core_doctor_add(doctor, "apparmor"), facts);
}
