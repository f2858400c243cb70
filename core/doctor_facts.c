/* What stands around kern: kernel, privileges, settings and confinement, read once; see doctor.h. Host side. */
#include "doctor.h"

#include "cleanup.h"

#include <pwd.h>
#include <string.h>
#include <sys/utsname.h>

#define CAP_SYS_ADMIN_BIT 21

static long read_setting(const char *path)
{
    auto_free char *text = core_doctor_read(path);
    return text != NULL && text[0] != '\0' ? strtol(text, NULL, 10) : -1;
}

/* The value behind "KEY:" in /proc/self/status. */
static unsigned long long status_field(const char *status, const char *key, int base)
{
    const char *at = status != NULL ? strstr(status, key) : NULL;
    return at != NULL ? strtoull(at + strlen(key), NULL, base) : 0;
}

/* The first user namespace has every id, one to one. */
static bool read_ids(struct core_doctor_facts *facts)
{
    auto_free char *text = core_doctor_read("/proc/self/uid_map");
    bool whole = false;
    for (const char *line = text; line != NULL && *line != '\0'; line = strchr(line, '\n')) {
        unsigned inside, outside, count;
        line += *line == '\n';
        if (sscanf(line, "%u %u %u", &inside, &outside, &count) != 3)
            break;
        facts->id_count += count;
        whole = inside == 0 && outside == 0 && count == UINT32_MAX;
    }
    return whole;
}

static void find_label(struct core_doctor_facts *facts)
{
    /* Not attr/current: that may be another security module's. AppArmor has a place of its own since 5.8. */
    auto_free char *text = core_doctor_read("/proc/self/attr/apparmor/current");
    if (text == NULL || text[0] == '\0' || strncmp(text, "unconfined", 10) == 0)
        return;
    (void)snprintf(facts->label, sizeof(facts->label), "%.*s", (int)strcspn(text, "\n"),
                   text); /* a cut name is still recognised */
}

static enum core_doctor_machine find_machine(void)
{
    auto_free char *version = core_doctor_read("/proc/version");
    auto_free char *model = core_doctor_read("/proc/device-tree/model");
    if (version != NULL && (strstr(version, "microsoft") != NULL || strstr(version, "Microsoft") != NULL))
        return CORE_DOCTOR_WSL;
    return model != NULL && strstr(model, "Raspberry Pi") != NULL ? CORE_DOCTOR_RASPBERRY_PI
                                                                  : CORE_DOCTOR_COMMON;
}

static bool has_root_mount(const char *mountinfo)
{
    for (const char *line = mountinfo; line != NULL && *line != '\0'; line = strchr(line, '\n')) {
        char target[4];
        line += *line == '\n';
        if (sscanf(line, "%*s %*s %*s %*s %3s", target) == 1 && strcmp(target, "/") == 0)
            return true;
    }
    return false;
}

void core_doctor_find_facts(struct core_doctor_facts *ret_facts)
{
    struct core_doctor_facts facts = {.uid = geteuid()};
    auto_free char *status = core_doctor_read("/proc/self/status");
    bool capable = (status_field(status, "\nCapEff:", 16) >> CAP_SYS_ADMIN_BIT & 1) != 0;
    bool whole = read_ids(&facts);
    facts.privileged = facts.uid == 0 && capable && whole;
    facts.filtered = status_field(status, "\nSeccomp:", 10) == 2;
    facts.max_user_namespaces = read_setting("/proc/sys/user/max_user_namespaces");
    facts.unprivileged_clone = read_setting("/proc/sys/kernel/unprivileged_userns_clone");
    facts.apparmor_restriction = read_setting("/proc/sys/kernel/apparmor_restrict_unprivileged_userns");
    facts.systemd = access("/run/systemd/system", F_OK) == 0;
    facts.machine = find_machine();
    find_label(&facts);
    ssize_t length = readlink("/proc/self/exe", facts.self, sizeof(facts.self) - 1);
    facts.self[length > 0 ? length : 0] = '\0';
    const struct passwd *entry = getpwuid(facts.uid);
    if (entry != NULL)
        (void)snprintf(facts.user, sizeof(facts.user), "%s", entry->pw_name); /* login names are shorter */
    facts.mountinfo = core_doctor_read("/proc/self/mountinfo");
    facts.chrooted = facts.mountinfo != NULL && !has_root_mount(facts.mountinfo);
    *ret_facts = facts;
}

void core_doctor_drop_facts(struct core_doctor_facts *facts)
{
    free((void *)(uintptr_t)facts->mountinfo); /* const for all who read it */
    facts->mountinfo = NULL;
}

static const char *surroundings(const struct core_doctor_facts *facts)
{
    return facts->machine == CORE_DOCTOR_WSL            ? ", under WSL"
           : facts->machine == CORE_DOCTOR_RASPBERRY_PI ? ", on a Raspberry Pi"
                                                        : "";
}

static const char *caller_words(const struct core_doctor_facts *facts)
{
    return facts->privileged ? "root"
           : facts->uid == 0 ? "root of a user namespace or without CAP_SYS_ADMIN"
                             : "no privileges";
}

void core_doctor_kernel(struct core_doctor *doctor, const struct core_doctor_facts *facts)
{
    struct core_doctor_check *check = core_doctor_add(doctor, "kernel");
    struct utsname name = {0};
    unsigned major = 0, minor = 0;
    (void)uname(&name); /* cannot fail with a valid address */
    bool known = sscanf(name.release, "%u.%u", &major, &minor) == 2;
    bool old = known && (major < 5 || (major == 5 && minor < 12));
    core_doctor_say(check, old ? CORE_DOCTOR_FAIL : CORE_DOCTOR_OK,
                    "Linux %s on %s%s; the caller: uid %u, %s", name.release, name.machine,
                    surroundings(facts), facts->uid, caller_words(facts));
    if (old)
        core_doctor_fix(check, "boot Linux 5.12 or newer: boxes are built with mount_setattr");
}
