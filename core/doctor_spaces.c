/* kern doctor's probes of namespaces: each kind, a proc in a new pid namespace, the calls that build mounts. They run in
 * children of kern; see doctor.h. */
#include "doctor.h"

#include "sys.h"

#include <linux/mount.h>
#include <sched.h>
#include <stddef.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#ifndef OPEN_TREE_CLONE
#define OPEN_TREE_CLONE 1
#endif

/* ---- User namespaces ---- */

static int probe_userns(struct core_doctor_trial *trial)
{
    int result = core_doctor_enter_userns(trial, CLONE_NEWNS);
    if (result < 0)
        return result;
    /* AppArmor lets a namespace be made and mapped, and takes the capabilities in it away. */
    return sys_mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL);
}

/* ---- The other kinds ---- */

struct kind {
    const char *name, *setting;
    uint64_t flag;
};

static const struct kind kinds[] = {
    {"mount", "max_mnt_namespaces", CLONE_NEWNS},
    {"pid", "max_pid_namespaces", CLONE_NEWPID},
    {"uts", "max_uts_namespaces", CLONE_NEWUTS},
    {"ipc", "max_ipc_namespaces", CLONE_NEWIPC},
    {"network", "max_net_namespaces", CLONE_NEWNET},
    {"cgroup", "max_cgroup_namespaces", CLONE_NEWCGROUP},
    /* The command of a box runs in an inner one, which owns none of the box's mounts. */
    {"inner user", "max_user_namespaces", CLONE_NEWUSER},
};

static int probe_kinds(struct core_doctor_trial *trial)
{
    int result = core_doctor_enter_userns(trial, 0);
    if (result < 0)
        return result;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        trial->number = (int)i;
        result = sys_unshare(kinds[i].flag);
        if (result < 0)
            return result;
    }
    return 0;
}

static void report_kinds(struct core_doctor_check *check, const struct core_doctor_facts *facts)
{
    struct core_doctor_trial trial;
    int result = core_doctor_try(probe_kinds, facts, &trial);
    const struct kind *kind = &kinds[trial.number];
    if (result == 0) {
        core_doctor_say(check, CORE_DOCTOR_OK,
                        "mount, pid, uts, ipc, network, cgroup, and a user namespace inside");
    } else if (trial.step != CORE_DOCTOR_USE) {
        core_doctor_say(check, CORE_DOCTOR_FAIL, "cannot be tried without a user namespace");
    } else if (result == -ENOSPC || result == -EUSERS) {
        core_doctor_say(check, CORE_DOCTOR_FAIL, "too many %s namespaces (user.%s)", kind->name,
                        kind->setting);
        core_doctor_fix(check, "sudo sysctl -w user.%s=15000", kind->setting);
    } else if (result == -EINVAL) {
        core_doctor_say(check, CORE_DOCTOR_FAIL, "this kernel was built without %s namespaces", kind->name);
    } else {
        char call[64];
        (void)snprintf(call, sizeof(call), "%s namespace", kind->name); /* fits */
        core_doctor_explain_call(check, facts, CORE_DOCTOR_FAIL, call, "5.12", -result);
    }
}

/* ---- proc ---- */

static int probe_proc(struct core_doctor_trial *trial)
{
    int result = core_doctor_enter_userns(trial, CLONE_NEWNS | CLONE_NEWPID);
    if (result < 0)
        return result;
    pid_t pid = core_doctor_fork();
    if (pid != 0)
        return pid < 0 ? pid : core_doctor_wait(pid);
    (void)sys_mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL); /* what matters is the next one */
    _exit(-sys_mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL));
}

static void report_proc(struct core_doctor_check *check, const struct core_doctor_facts *facts)
{
    struct core_doctor_trial trial;
    int result = core_doctor_try(probe_proc, facts, &trial);
    if (result == 0)
        core_doctor_say(check, CORE_DOCTOR_OK, "can be mounted in a new pid namespace");
    else if (trial.step != CORE_DOCTOR_USE)
        core_doctor_say(check, CORE_DOCTOR_FAIL, "cannot be tried without a user namespace");
    else
        core_doctor_explain_proc(check, facts, -result);
}

/* ---- Mounts by descriptor ---- */

static int probe_mount_calls(struct core_doctor_trial *trial)
{
    int result = core_doctor_enter_userns(trial, CLONE_NEWNS);
    if (result < 0)
        return result;
    int tree = sys_open_tree(AT_FDCWD, "/", AT_RECURSIVE | OPEN_TREE_CLONE | O_CLOEXEC);
    if (tree < 0)
        return tree;
    trial->number = 1;
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV};
    result = sys_mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr, sizeof(attr));
    if (result < 0)
        return result;
    trial->number = 2;
    return sys_move_mount(tree, "", AT_FDCWD, "/proc", MOVE_MOUNT_F_EMPTY_PATH);
}

static void report_mount_calls(struct core_doctor_check *check, const struct core_doctor_facts *facts)
{
    static const char *const calls[] = {"open_tree", "mount_setattr", "move_mount"};
    static const char *const since[] = {"5.2", "5.12", "5.2"};
    struct core_doctor_trial trial;
    int result = core_doctor_try(probe_mount_calls, facts, &trial);
    if (result == 0)
        core_doctor_say(check, CORE_DOCTOR_OK,
                        "open_tree, mount_setattr and move_mount build the root of a box");
    else if (trial.step != CORE_DOCTOR_USE)
        core_doctor_say(check, CORE_DOCTOR_FAIL, "cannot be tried without a user namespace");
    else
        core_doctor_explain_call(check, facts, CORE_DOCTOR_FAIL, calls[trial.number], since[trial.number],
                                 -result);
}

void core_doctor_spaces(struct core_doctor *doctor, const struct core_doctor_facts *facts)
{
    struct core_doctor_trial trial;
    struct core_doctor_check *check = core_doctor_add(doctor, "user-namespaces");
    int result = core_doctor_try(probe_userns, facts, &trial);
    if (result == 0)
        core_doctor_say(check, CORE_DOCTOR_OK, "made, mapped, and root in it may mount");
    else
        core_doctor_explain_userns(check, facts, trial.step, -result);
    report_kinds(core_doctor_add(doctor, "namespaces"), facts);
    report_proc(core_doctor_add(doctor, "proc"), facts);
    report_mount_calls(core_doctor_add(doctor, "mount-calls"), facts);
}
