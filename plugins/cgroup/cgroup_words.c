/* What kern says about a cap that does not bind: why, and the line that mends it. Pure. */
#include "cgroup_manager.h"
#include "cgroup_state.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum cgroup_why cgroup_why_v1(int code)
{
    switch (code) {
    case EROFS:
        return CGROUP_READ_ONLY;
    case EACCES:
    case EPERM:
        return CGROUP_NEEDS_ROOT;
    default:
        return CGROUP_FAILED;
    }
}

const char *cgroup_reason(const struct cgroup_bound *bound, enum cgroup_kind kind, char *text, size_t room)
{
    const char *controller = cgroup_controller_v2(kind);
    const char *why = strerrordesc_np(bound->code);
    switch (bound->why) {
    case CGROUP_NO_CONTROLLER:
        (void)snprintf(text, room, "this kernel runs without a %s controller", controller);
        return text;
    case CGROUP_NOT_MOUNTED:
        (void)snprintf(text, room, "the %s controller is not mounted", controller);
        return text;
    case CGROUP_NEEDS_ROOT:
        return "control groups v1 need root";
    case CGROUP_READ_ONLY:
        return "control groups are read-only here";
    case CGROUP_NOT_DELEGATED:
        return "no control group is delegated to this user";
    case CGROUP_NO_SUBTREE:
        (void)snprintf(text, room, "the %s controller is not delegated", controller);
        return text;
    case CGROUP_MANAGER_FAILED:
        (void)snprintf(text, room, "systemd gave no control group: %s", why != NULL ? why : "unknown error");
        return text;
    case CGROUP_HAS_PROCESSES:
        return "the outermost control group holds processes";
    case CGROUP_OUTER_IS_LESS:
        return "kern's own control group allows less";
    case CGROUP_NO_FILE:
        (void)snprintf(text, room, "this kernel's %s controller cannot", controller);
        return text;
    case CGROUP_MISREAD:
        return "the kernel did not take the value";
    default:
        (void)snprintf(text, room, "cannot use its control group: %s", why != NULL ? why : "unknown error");
        return text;
    }
}

const char *cgroup_remedy(const struct cgroup_bound *bound, enum cgroup_kind kind, char *text, size_t room)
{
    switch (bound->why) {
    case CGROUP_NO_CONTROLLER:
        return kind != CGROUP_MEMORY ? ""
               : access("/boot/firmware/cmdline.txt", F_OK) == 0
                   ? "add cgroup_enable=memory to /boot/firmware/cmdline.txt"
               : access("/proc/sys/fs/binfmt_misc/WSLInterop", F_OK) == 0
                   ? "in .wslconfig under [wsl2]: kernelCommandLine = cgroup_no_v1=all"
                   : "boot with cgroup_enable=memory";
    case CGROUP_NOT_MOUNTED:
        (void)snprintf(text, room,
                       "as root: mkdir -p /sys/fs/cgroup/%1$s && mount -t cgroup -o %1$s none "
                       "/sys/fs/cgroup/%1$s",
                       cgroup_controller_v1(kind));
        return text;
    case CGROUP_NEEDS_ROOT:
        return access("/run/systemd/system", F_OK) == 0
                   ? "boot with systemd.unified_cgroup_hierarchy=1, or run as root"
                   : "run as root, or see: kern doctor";
    case CGROUP_READ_ONLY:
        return "start the outer container with -v /sys/fs/cgroup:/sys/fs/cgroup:rw";
    case CGROUP_NOT_DELEGATED:
        return access("/run/systemd/system", F_OK) == 0
                   ? "give the service that starts kern Delegate=yes under [Service]"
                   : "as root, give this user a group: see docs/LIMITS.md";
    case CGROUP_NO_SUBTREE:
        return "as root: systemctl edit user@.service, with Delegate=yes under [Service]";
    case CGROUP_MANAGER_FAILED:
        return geteuid() == 0 ? "see: systemctl status " CGROUP_UNIT
                              : "see: systemctl --user status " CGROUP_UNIT;
    case CGROUP_HAS_PROCESSES:
        return "first: mkdir /sys/fs/cgroup/init && xargs -n1 sh -c 'echo $0 "
               ">/sys/fs/cgroup/init/cgroup.procs' </sys/fs/cgroup/cgroup.procs";
    case CGROUP_NO_FILE:
        return kind == CGROUP_IO ? "it needs CONFIG_BFQ_GROUP_IOSCHED or CONFIG_BLK_CGROUP_IOCOST" : "";
    case CGROUP_OUTER_IS_LESS:
        return "ask for less, or start kern outside of that group";
    default:
        return "";
    }
}

enum cgroup_why cgroup_why_missing(const char *proc_cgroups, enum cgroup_kind kind)
{
    const char *name = cgroup_controller_v1(kind);
    size_t length = strlen(name);
    for (const char *line = proc_cgroups; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        int enabled = 0;
        if (strncmp(line, name, length) == 0 && line[length] == '\t' &&
            sscanf(line + length, "%*d %*d %d", &enabled) == 1)
            return enabled ? CGROUP_NOT_MOUNTED : CGROUP_NO_CONTROLLER;
    }
    return CGROUP_NO_CONTROLLER;
}

uint32_t cgroup_unbound_like(const struct cgroup_bound *bound, uint32_t kinds, enum cgroup_kind like,
                             char *text, size_t room)
{
    uint32_t found = 0;
    size_t used = 0;
    text[0] = '\0';
    for (enum cgroup_kind kind = 0; kind < CGROUP_KINDS; kind++) {
        const struct cgroup_bound *other = &bound[kind];
        if (!(kinds & CGROUP_BIT(kind)) || other->why != bound[like].why || other->code != bound[like].code)
            continue;
        uint32_t rest = kinds & ~(CGROUP_BIT(kind) | (CGROUP_BIT(kind) - 1));
        int last = 1;
        for (enum cgroup_kind after = kind + 1; after < CGROUP_KINDS; after++)
            if ((rest & CGROUP_BIT(after)) && bound[after].why == other->why &&
                bound[after].code == other->code)
                last = 0;
        const char *glue = used == 0 ? "" : last ? " and " : ", ";
        int length = snprintf(text + used, room - used, "%s%s", glue, cgroup_controller_v2(kind));
        if (length < 0 || (size_t)length >= room - used)
            break;
        used += (size_t)length;
        found |= CGROUP_BIT(kind);
    }
    return found;
}
