/* kern doctor's probes of seccomp: a filter, a notification that is answered, a wait that only SIGKILL ends. They run in
 * children of kern; see doctor.h. */
#include "doctor.h"

#include "cleanup.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5) /* since 5.19 */
#endif

#define ANSWER 4242

/* The call that is asked for is one that nothing else in the child makes. */
static int install(unsigned long flags, uint32_t verdict)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getsid, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, verdict),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof(code) / sizeof(code[0]), .filter = code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return -errno;
    long result = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
    return result < 0 ? -errno : (int)result;
}

static int probe_filter(struct core_doctor_trial *trial)
{
    (void)trial; /* the result says all */
    int result = install(0, SECCOMP_RET_ERRNO | ECHILD);
    if (result < 0)
        return result;
    return syscall(SYS_getsid, 0) < 0 && errno == ECHILD ? 0 : -EBADE;
}

static int answer(int listener)
{
    struct seccomp_notif notice = {0};
    struct pollfd ready = {.fd = listener, .events = POLLIN};
    if (poll(&ready, 1, 5000) != 1)
        return -ETIME;
    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &notice) != 0)
        return -errno;
    struct seccomp_notif_resp response = {.id = notice.id, .val = ANSWER};
    return ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &response) != 0 ? -errno : 0;
}

static int probe_listener(unsigned long flags)
{
    auto_fd listener = install(SECCOMP_FILTER_FLAG_NEW_LISTENER | flags, SECCOMP_RET_USER_NOTIF);
    if (listener < 0)
        return listener;
    pid_t pid = core_doctor_fork();
    if (pid < 0)
        return pid;
    if (pid == 0)
        _exit(syscall(SYS_getsid, 0) == ANSWER ? 0 : EBADE);
    int result = answer(listener);
    kern_close_fd(&listener); /* a caller that still waits gets ENOSYS */
    int ended = core_doctor_wait(pid);
    return result < 0 ? result : ended;
}

static int probe_notify(struct core_doctor_trial *trial)
{
    (void)trial; /* the result says all */
    return probe_listener(0);
}

static int probe_killable(struct core_doctor_trial *trial)
{
    (void)trial; /* the result says all */
    return probe_listener(SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV);
}

void core_doctor_seccomp(struct core_doctor *doctor, const struct core_doctor_facts *facts)
{
    struct core_doctor_trial trial;
    struct core_doctor_check *check = core_doctor_add(doctor, "seccomp-filter");
    int result = core_doctor_try(probe_filter, facts, &trial);
    if (result == 0)
        core_doctor_say(check, CORE_DOCTOR_OK, "taken and obeyed%s",
                        facts->filtered ? "; another filter is in force around kern" : "");
    else
        core_doctor_explain_call(check, facts, CORE_DOCTOR_FAIL, "seccomp filter",
                                 "3.17 and CONFIG_SECCOMP_FILTER", -result);

    check = core_doctor_add(doctor, "seccomp-notify");
    result = core_doctor_try(probe_notify, facts, &trial);
    if (result == 0)
        core_doctor_say(check, CORE_DOCTOR_OK, "a call was stopped, seen and answered");
    else if (result == -EBUSY)
        core_doctor_say(check, CORE_DOCTOR_FAIL,
                        "a filter around kern has a listener already, and the kernel permits only one");
    else
        core_doctor_explain_call(check, facts, CORE_DOCTOR_FAIL, "seccomp user notification", "5.0", -result);

    check = core_doctor_add(doctor, "seccomp-wait-killable");
    result = core_doctor_try(probe_killable, facts, &trial);
    if (result == 0)
        core_doctor_say(check, CORE_DOCTOR_OK, "a signal does not make an answer stale");
    else
        core_doctor_explain_call(check, facts, CORE_DOCTOR_WARN, "SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV",
                                 "5.19", -result);
}
