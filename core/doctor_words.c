/* What kern doctor says about a refusal: the cause, and the line that mends it; see doctor.h. Pure, host side. */
#include "doctor.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define OUTER_FILTER_FIX                                                                              \
    "give the container around kern a wider filter: docker run --security-opt seccomp=unconfined, "   \
    "podman run --security-opt seccomp=unconfined, Kubernetes: securityContext.seccompProfile.type: " \
    "Unconfined"

static const char *describe(int code)
{
    const char *text = strerrordesc_np(code);
    return text != NULL ? text : "unknown error";
}

/* ---- User namespaces ---- */

/* AppArmor reads a path as a pattern: what has a meaning there is escaped. */
static void quote_path(const char *path, char *ret_text, size_t size)
{
    size_t used = 0;
    for (; *path != '\0' && used + 3 < size; path++) {
        if (strchr("*?[]{}^,\"\\@", *path) != NULL)
            ret_text[used++] = '\\';
        ret_text[used++] = *path;
    }
    ret_text[used] = '\0';
}

void core_doctor_profile(const char *self, char *ret_text, size_t size)
{
    char path[1100];
    quote_path(self, path, sizeof(path));
    (void)snprintf(ret_text, size,
                   "sudo tee /etc/apparmor.d/kern >/dev/null <<'EOF'\n"
                   "abi <abi/4.0>,\n"
                   "include <tunables/global>\n"
                   "profile kern \"%s\" flags=(unconfined) {\n"
                   "  userns,\n"
                   "  include if exists <local/kern>\n"
                   "}\n"
                   "EOF\n"
                   "sudo apparmor_parser -r /etc/apparmor.d/kern",
                   path); /* callers leave room for a path */
}

static void explain_apparmor(struct core_doctor_check *check, const struct core_doctor_facts *facts)
{
    char profile[sizeof(check->fix)];
    core_doctor_say(check, CORE_DOCTOR_FAIL,
                    "AppArmor keeps user namespaces from programs without a profile "
                    "(kernel.apparmor_restrict_unprivileged_userns = 1)");
    core_doctor_profile(facts->self, profile, sizeof(profile));
    core_doctor_fix(check, "%s", profile);
}

/* Settings of the host that switch user namespaces off; true when one does. */
static bool explain_setting(struct core_doctor_check *check, const struct core_doctor_facts *facts, int step,
                            int code)
{
    if (facts->max_user_namespaces == 0) {
        core_doctor_say(check, CORE_DOCTOR_FAIL,
                        "switched off: user.max_user_namespaces = 0, in this or an outer namespace");
        core_doctor_fix(check, "sudo sysctl -w user.max_user_namespaces=15000");
    } else if (!facts->privileged && step == CORE_DOCTOR_MAKE && facts->unprivileged_clone == 0) {
        core_doctor_say(check, CORE_DOCTOR_FAIL, "only root may: kernel.unprivileged_userns_clone = 0");
        core_doctor_fix(check, "sudo sysctl -w kernel.unprivileged_userns_clone=1");
    } else if (!facts->privileged && (code == EPERM || code == EACCES) && facts->apparmor_restriction == 1) {
        explain_apparmor(check, facts);
    } else {
        return false;
    }
    return true;
}

static const char *step_words(int step)
{
    return step == CORE_DOCTOR_MAKE  ? "cannot make one"
           : step == CORE_DOCTOR_MAP ? "cannot write the id map of a new one"
                                     : "made, but root in it may do nothing";
}

void core_doctor_explain_userns(struct core_doctor_check *check, const struct core_doctor_facts *facts,
                                int step, int code)
{
    bool refused = code == EPERM || code == EACCES;
    if (explain_setting(check, facts, step, code))
        return;
    if (step == CORE_DOCTOR_MAKE && (code == ENOSPC || code == EUSERS)) {
        core_doctor_say(
            check, CORE_DOCTOR_FAIL,
            "too many: the limit of this user (%ld) or of an outer namespace is reached, or 32 are "
            "nested",
            facts->max_user_namespaces);
        core_doctor_fix(check, "sudo sysctl -w user.max_user_namespaces=15000");
    } else if (step == CORE_DOCTOR_MAKE && code == EPERM && facts->chrooted) {
        core_doctor_say(check, CORE_DOCTOR_FAIL,
                        "kern runs in a chroot, and the kernel permits no user namespaces there");
        core_doctor_fix(check, "enter this root with pivot_root instead, as bwrap and systemd-nspawn do");
    } else if (step == CORE_DOCTOR_MAKE && (refused || code == ENOSYS) && facts->filtered) {
        core_doctor_say(check, CORE_DOCTOR_FAIL, "the seccomp filter around kern forbids them (%s)",
                        describe(code));
        core_doctor_fix(check, OUTER_FILTER_FIX);
    } else if (step == CORE_DOCTOR_USE && code == EPERM && facts->filtered) {
        core_doctor_say(check, CORE_DOCTOR_FAIL,
                        "made, but the seccomp filter around kern forbids mounting in them");
        core_doctor_fix(check, OUTER_FILTER_FIX);
    } else if (step == CORE_DOCTOR_MAKE && (code == EINVAL || code == ENOSYS)) {
        core_doctor_say(check, CORE_DOCTOR_FAIL, "this kernel was built without them");
        core_doctor_fix(check, "boot a kernel with CONFIG_USER_NS=y");
    } else if (refused && facts->label[0] != '\0') {
        core_doctor_say(check, CORE_DOCTOR_FAIL, "%s: %s; kern runs under the AppArmor profile \"%s\"",
                        step_words(step), describe(code), facts->label);
        core_doctor_fix(check, "start the container around kern with --security-opt apparmor=unconfined");
    } else {
        core_doctor_say(check, CORE_DOCTOR_FAIL, "%s: %s", step_words(step), describe(code));
    }
}

/* ---- proc ---- */

/* Field `field` (from 0) of one line of mountinfo. */
static size_t mount_field(const char *line, int field, const char **ret_at)
{
    for (; field > 0; field--) {
        line += strcspn(line, " \n");
        line += *line == ' ';
    }
    *ret_at = line;
    return strcspn(line, " \n");
}

/* How many mounts lie below /proc; the first two are named. */
static int covers_of_proc(const char *mountinfo, char *ret_names, size_t size)
{
    int count = 0;
    size_t used = 0;
    ret_names[0] = '\0';
    for (const char *line = mountinfo; line != NULL && *line != '\0'; line = strchr(line, '\n')) {
        line += *line == '\n';
        const char *at;
        size_t length = mount_field(line, 4, &at);
        if (length <= 6 || strncmp(at, "/proc/", 6) != 0)
            continue;
        if (count++ >= 2)
            continue;
        int put = snprintf(ret_names + used, size - used, "%s%.*s", used > 0 ? ", " : "",
                           length < 60 ? (int)length : 60, at);
        used += put > 0 ? (size_t)put : 0;
    }
    return count;
}

void core_doctor_explain_proc(struct core_doctor_check *check, const struct core_doctor_facts *facts,
                              int code)
{
    char names[160];
    int covers = covers_of_proc(facts->mountinfo, names, sizeof(names));
    if (code == EPERM && covers > 0) {
        core_doctor_say(
            check, CORE_DOCTOR_FAIL,
            "the container around kern covers parts of /proc (%s%s), and then the kernel permits no "
            "new one",
            names, covers > 2 ? ", ..." : "");
        core_doctor_fix(check, "docker run --security-opt systempaths=unconfined, podman run --security-opt "
                               "unmask=ALL, Kubernetes: securityContext.procMount: Unmasked");
    } else if (code == EPERM && facts->filtered) {
        core_doctor_say(check, CORE_DOCTOR_FAIL, "the seccomp filter around kern forbids mounting");
        core_doctor_fix(check, OUTER_FILTER_FIX);
    } else if (code == EPERM) {
        core_doctor_say(check, CORE_DOCTOR_FAIL,
                        "the kernel permits no new one: no complete, writable proc is mounted here already");
        core_doctor_fix(check, "mount -t proc proc /proc, as whoever made this environment");
    } else if (code == EACCES) {
        core_doctor_say(check, CORE_DOCTOR_FAIL, "AppArmor or another security module forbids mounting%s%s%s",
                        facts->label[0] != '\0' ? ": kern runs under the profile \"" : "", facts->label,
                        facts->label[0] != '\0' ? "\"" : "");
        core_doctor_fix(check, "start the container around kern with --security-opt apparmor=unconfined");
    } else {
        core_doctor_say(check, CORE_DOCTOR_FAIL, "cannot mount one in a new pid namespace: %s",
                        describe(code));
    }
}

/* ---- Calls ---- */

void core_doctor_explain_call(struct core_doctor_check *check, const struct core_doctor_facts *facts,
                              enum core_doctor_status status, const char *call, const char *since, int code)
{
    bool lacking = code == ENOSYS || code == EINVAL || code == EOPNOTSUPP;
    bool stopped = code == ENOSYS || code == EPERM || code == EINTR; /* EINTR: killed for it */
    if (facts->filtered && stopped) {
        core_doctor_say(check, status, "%s: %s; a seccomp filter is in force around kern", call,
                        code == EINTR ? "the caller is killed" : describe(code));
        core_doctor_fix(check, OUTER_FILTER_FIX);
    } else if (lacking) {
        core_doctor_say(check, status, "this kernel has no %s (it needs Linux %s)", call, since);
    } else {
        core_doctor_say(check, status, "%s: %s", call, describe(code));
    }
}

/* ---- Subordinate ids ---- */

uint32_t core_doctor_free_id(const char *subordinate)
{
    unsigned long long next = 100000;
    for (const char *line = subordinate; line != NULL && *line != '\0'; line = strchr(line, '\n')) {
        line += *line == '\n';
        const char *at = line + strcspn(line, ":\n");
        unsigned long start, count;
        char end;
        if (*at != ':' || !isdigit((unsigned char)at[1]) ||
            sscanf(at, ":%lu:%lu%c", &start, &count, &end) < 2 || start > UINT32_MAX || count > UINT32_MAX)
            continue;
        unsigned long long after = (unsigned long long)start + count;
        next = after > next ? after : next;
    }
    return next + 65536 <= UINT32_MAX ? (uint32_t)next : 0;
}

void core_doctor_fix_range(struct core_doctor_check *check, const struct core_doctor_facts *facts,
                           uint32_t start)
{
    uint32_t last = start + 65535;
    if (start == 0)
        core_doctor_fix(check,
                        "make room in /etc/subuid and /etc/subgid: every id above 100000 is given away");
    else if (facts->user[0] != '\0')
        core_doctor_fix(check, "sudo usermod --add-subuids %u-%u --add-subgids %u-%u %s", start, last, start,
                        last, facts->user);
    else
        core_doctor_fix(check, "echo %u:%u:65536 | sudo tee -a /etc/subuid /etc/subgid", facts->uid, start);
}

/* ---- Limits ---- */

static void fix_boot_line(struct core_doctor_check *check, const char *word, enum core_doctor_machine machine)
{
    if (machine == CORE_DOCTOR_RASPBERRY_PI)
        core_doctor_fix(
            check,
            "sudo sed -i '1 s/$/ %s/' /boot/firmware/cmdline.txt && sudo reboot   (before Debian 12: "
            "/boot/cmdline.txt)",
            word);
    else if (machine == CORE_DOCTOR_WSL)
        core_doctor_fix(check,
                        "in %%UserProfile%%\\.wslconfig, under [wsl2]: kernelCommandLine = %s   then, in "
                        "Windows: wsl --shutdown",
                        word);
    else
        core_doctor_fix(
            check,
            "sudo sed -i 's/^GRUB_CMDLINE_LINUX=\"/&%s /' /etc/default/grub && sudo update-grub && "
            "sudo reboot",
            word);
}

/* Version 1 knows no delegation by itself, but whoever owns a group may make groups below it. */
static void fix_v1(struct core_doctor_check *check, const struct core_doctor_facts *facts)
{
    if (facts->systemd)
        fix_boot_line(check, "systemd.unified_cgroup_hierarchy=1", facts->machine);
    else
        core_doctor_fix(
            check,
            "for c in memory pids cpu blkio; do d=/sys/fs/cgroup/$c/user-%u; sudo mkdir -p $d && sudo chown "
            "%u $d && echo $$ | sudo tee $d/cgroup.procs; done   (for this shell; or run kern as root)",
            facts->uid, facts->uid);
}

static void fix_limit(struct core_doctor_check *check, const struct cgroup_bound *bound,
                      enum cgroup_kind kind, const struct core_doctor_facts *facts)
{
    char remedy[256];
    enum cgroup_kind controller = kind < CGROUP_KINDS ? kind : CGROUP_MEMORY;
    if (bound->why == CGROUP_NO_CONTROLLER && controller == CGROUP_MEMORY)
        fix_boot_line(check, "cgroup_enable=memory", facts->machine);
    else if (bound->why == CGROUP_NO_FILE && kind == CGROUP_KINDS)
        fix_boot_line(check, "swapaccount=1", facts->machine);
    else if (bound->why == CGROUP_NEEDS_ROOT)
        fix_v1(check, facts);
    else if (bound->why == CGROUP_NO_SUBTREE)
        core_doctor_fix(check, "sudo mkdir -p /etc/systemd/system/user@.service.d && printf '[Service]\\n"
                               "Delegate=cpu cpuset io memory pids\\n' | sudo tee "
                               "/etc/systemd/system/user@.service.d/delegate.conf && sudo systemctl "
                               "daemon-reload   (then log in again)");
    else
        core_doctor_fix(check, "%s", cgroup_remedy(bound, controller, remedy, sizeof(remedy)));
}

void core_doctor_explain_limit(struct core_doctor_check *check, const struct cgroup_bound *bound,
                               enum cgroup_kind kind, const struct core_doctor_facts *facts)
{
    char reason[160];
    if (bound->why != CGROUP_BOUND) {
        core_doctor_say(
            check, CORE_DOCTOR_WARN, "does not bind%s: %s",
            kind == CGROUP_CPUSET ? " (a CPU mask is set, which a program can widen)" : "",
            cgroup_reason(bound, kind < CGROUP_KINDS ? kind : CGROUP_MEMORY, reason, sizeof(reason)));
        fix_limit(check, bound, kind, facts);
    } else if (bound->enforced == 1) {
        core_doctor_say(check, CORE_DOCTOR_OK, "binds, through %s", bound->by);
    } else if (kind == CGROUP_IO) {
        core_doctor_say(check, CORE_DOCTOR_WARN,
                        "%s takes a weight; it counts on disks whose scheduler heeds it", bound->by);
        core_doctor_fix(check, "echo bfq | sudo tee /sys/block/DISK/queue/scheduler");
    } else {
        core_doctor_say(check, CORE_DOCTOR_WARN, "%s took it, but it cannot be read back", bound->by);
    }
}

void core_doctor_describe_groups(struct core_doctor_check *check, const struct cgroup_map *map,
                                 const char *v2_controllers)
{
    char first[96] = "";
    size_t used = 0;
    for (enum cgroup_kind kind = 0; kind < CGROUP_KINDS; kind++)
        if (map->v1[kind].own[0] != '\0')
            used += (size_t)snprintf(first + used, sizeof(first) - used, " %s",
                                     cgroup_controller_v1(kind)); /* all of them fit */
    bool has_v1 = used > 0, has_v2 = map->v2.own[0] != '\0';
    int length = (int)strcspn(v2_controllers, "\n");
    if (!has_v1 && !has_v2) {
        core_doctor_say(check, CORE_DOCTOR_WARN, "no hierarchy is mounted where kern can see it");
        core_doctor_fix(check, "mount -t cgroup2 none /sys/fs/cgroup, as whoever made this environment");
        return;
    }
    core_doctor_say(check, CORE_DOCTOR_OK, "%s%s%s%s%s%.*s%s", has_v1 ? "version 1 has" : "", first,
                    has_v1 && has_v2 ? "; " : "", has_v2 ? "version 2 has" : "",
                    has_v2 && length > 0 ? " " : "", length, v2_controllers,
                    has_v2 && length == 0 ? " no controller" : "");
}
