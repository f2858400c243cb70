/* Capability names and sets; see creds_caps.h. A table of our own instead of libcap: it is forty-one words, and
 * every library costs a start. Pure. */
#include "creds_caps.h"

#include "creds_text.h"

#include <linux/capability.h>
#include <string.h>
#include <strings.h>

static const char *const names[CREDS_CAP_COUNT] = {
    [CAP_CHOWN] = "CHOWN",
    [CAP_DAC_OVERRIDE] = "DAC_OVERRIDE",
    [CAP_DAC_READ_SEARCH] = "DAC_READ_SEARCH",
    [CAP_FOWNER] = "FOWNER",
    [CAP_FSETID] = "FSETID",
    [CAP_KILL] = "KILL",
    [CAP_SETGID] = "SETGID",
    [CAP_SETUID] = "SETUID",
    [CAP_SETPCAP] = "SETPCAP",
    [CAP_LINUX_IMMUTABLE] = "LINUX_IMMUTABLE",
    [CAP_NET_BIND_SERVICE] = "NET_BIND_SERVICE",
    [CAP_NET_BROADCAST] = "NET_BROADCAST",
    [CAP_NET_ADMIN] = "NET_ADMIN",
    [CAP_NET_RAW] = "NET_RAW",
    [CAP_IPC_LOCK] = "IPC_LOCK",
    [CAP_IPC_OWNER] = "IPC_OWNER",
    [CAP_SYS_MODULE] = "SYS_MODULE",
    [CAP_SYS_RAWIO] = "SYS_RAWIO",
    [CAP_SYS_CHROOT] = "SYS_CHROOT",
    [CAP_SYS_PTRACE] = "SYS_PTRACE",
    [CAP_SYS_PACCT] = "SYS_PACCT",
    [CAP_SYS_ADMIN] = "SYS_ADMIN",
    [CAP_SYS_BOOT] = "SYS_BOOT",
    [CAP_SYS_NICE] = "SYS_NICE",
    [CAP_SYS_RESOURCE] = "SYS_RESOURCE",
    [CAP_SYS_TIME] = "SYS_TIME",
    [CAP_SYS_TTY_CONFIG] = "SYS_TTY_CONFIG",
    [CAP_MKNOD] = "MKNOD",
    [CAP_LEASE] = "LEASE",
    [CAP_AUDIT_WRITE] = "AUDIT_WRITE",
    [CAP_AUDIT_CONTROL] = "AUDIT_CONTROL",
    [CAP_SETFCAP] = "SETFCAP",
    [CAP_MAC_OVERRIDE] = "MAC_OVERRIDE",
    [CAP_MAC_ADMIN] = "MAC_ADMIN",
    [CAP_SYSLOG] = "SYSLOG",
    [CAP_WAKE_ALARM] = "WAKE_ALARM",
    [CAP_BLOCK_SUSPEND] = "BLOCK_SUSPEND",
    [CAP_AUDIT_READ] = "AUDIT_READ",
    [CAP_PERFMON] = "PERFMON",
    [CAP_BPF] = "BPF",
    [CAP_CHECKPOINT_RESTORE] = "CHECKPOINT_RESTORE",
};

/* Each of these reaches past the box: into the kernel, the machine, or other processes' memory. */
static const int always_dropped[] = {
    CAP_NET_ADMIN,     CAP_SYS_MODULE,   CAP_SYS_RAWIO, CAP_SYS_PTRACE, CAP_SYS_PACCT,  CAP_SYS_ADMIN,
    CAP_SYS_BOOT,      CAP_SYS_TIME,     CAP_SYSLOG,    CAP_WAKE_ALARM, CAP_AUDIT_READ, CAP_PERFMON,
    CAP_AUDIT_CONTROL, CAP_MAC_OVERRIDE, CAP_MAC_ADMIN, CAP_BPF,
};

static uint64_t bit(int number)
{
    return UINT64_C(1) << number;
}

uint64_t creds_caps_default(void)
{
    uint64_t kept = CREDS_CAPS_ALL;
    for (size_t i = 0; i < sizeof(always_dropped) / sizeof(always_dropped[0]); i++)
        kept &= ~bit(always_dropped[i]);
    return kept;
}

static const char *without_prefix(const char *name)
{
    return strncasecmp(name, "CAP_", 4) == 0 ? name + 4 : name;
}

int creds_cap_number(const char *name)
{
    const char *bare = without_prefix(name);
    for (int number = 0; number < CREDS_CAP_COUNT; number++)
        if (strcasecmp(bare, names[number]) == 0)
            return number;
    return -1;
}

const char *creds_cap_name(int number)
{
    return number >= 0 && number < CREDS_CAP_COUNT ? names[number] : NULL;
}

int creds_cap_list_add(struct creds_cap_list *list, const char *option, const char *item,
                       struct kern_error *err)
{
    if (strcasecmp(item, "ALL") == 0 || strcasecmp(item, "CAP_ALL") == 0) {
        list->all = true;
        return 0;
    }
    int number = creds_cap_number(item);
    if (number >= 0) {
        list->named |= bit(number);
        return 0;
    }
    int result = kern_refuse(err, 0, "--%s: unknown capability \"%s\"", option, item);
    const char *nearest = creds_nearest(without_prefix(item), names, CREDS_CAP_COUNT);
    if (nearest != NULL)
        kern_hint(err, "did you mean --%s %s?", option, nearest);
    else
        kern_hint(err, "names are those of capabilities(7), such as --%s NET_RAW, or ALL", option);
    return result;
}

static uint64_t apply_drop(uint64_t kept, const struct creds_cap_list *drop)
{
    return drop->all ? 0 : kept & ~drop->named;
}

static uint64_t apply_add(uint64_t kept, const struct creds_cap_list *add)
{
    return add->all ? CREDS_CAPS_ALL : kept | add->named;
}

/* Both lists were given in the same breath: ALL is the ground that names stand on. */
static int apply_both(uint64_t kept, const struct creds_cap_list *drop, const struct creds_cap_list *add,
                      uint64_t *ret_kept, struct kern_error *err)
{
    if (drop->all && add->all)
        return kern_refuse(err, 0, "--cap-drop and --cap-add both name \"ALL\"");
    uint64_t both = drop->named & add->named;
    if (both != 0)
        return kern_refuse(err, 0, "--cap-drop and --cap-add both name \"%s\"", names[__builtin_ctzll(both)]);
    if (drop->all)
        kept = 0;
    if (add->all)
        kept = CREDS_CAPS_ALL;
    *ret_kept = (kept & ~drop->named) | add->named;
    return 0;
}

int creds_caps_resolve(const struct creds_cap_list *drop, const struct creds_cap_list *add,
                       uint64_t *ret_kept, struct kern_error *err)
{
    uint64_t kept = creds_caps_default();
    if (drop->rank == add->rank)
        return apply_both(kept, drop, add, ret_kept, err);
    if (drop->rank < add->rank)
        *ret_kept = apply_add(apply_drop(kept, drop), add);
    else
        *ret_kept = apply_drop(apply_add(kept, add), drop);
    return 0;
}
