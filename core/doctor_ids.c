/* kern doctor's probe of the caller's range of ids: the lines of /etc/subuid and /etc/subgid, and whether newuidmap and
 * newgidmap map them. The caller is known by its uid, not by what the environment says; see doctor.h. */
#include "doctor.h"

#include "cleanup.h"
#include "launch.h"

#include "namespace/namespace_ids.h"

#include <string.h>
#include <time.h>

/* The caller's own and two more: fewer are no range. */
#define LEAST_IDS 3

static struct namespace_range find_range(const struct core_doctor_facts *facts, const char *path)
{
    auto_free char *text = core_doctor_read(path);
    const char *user = facts->user[0] != '\0' ? facts->user : NULL;
    return text != NULL ? namespace_find_range(text, user, facts->uid) : (struct namespace_range){0};
}

static int64_t now_us(void)
{
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail for this clock */
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static int map_child(const struct kern_ids *ids, struct core_doctor_trial *trial)
{
    pid_t pid = core_doctor_hold_userns();
    if (pid < 0)
        return pid;
    struct kern_error err = {0};
    int64_t begin = now_us();
    int result = core_map_with_helpers(ids, pid, &err);
    int64_t took = now_us() - begin;
    core_doctor_end(pid);
    if (result == 0) /* what every start with a range waits for */
        (void)snprintf(trial->text, sizeof(trial->text), "%lld.%lld", (long long)(took / 1000),
                       (long long)(took / 100 % 10)); /* fits */
    else
        (void)snprintf(trial->text, sizeof(trial->text), "%s", err.message); /* the same size */
    return result;
}

static int probe_helpers(struct core_doctor_trial *trial)
{
    struct namespace_caller caller = {.uid = geteuid(), .gid = getegid()};
    struct kern_ids ids;
    struct kern_error err = {0};
    int result = namespace_choose(&caller, NAMESPACE_AUTO, 1, find_range(trial->facts, "/etc/subuid"),
                                  find_range(trial->facts, "/etc/subgid"), &ids, &err);
    return result == 0 ? map_child(&ids, trial) : result;
}

static void report_helpers(struct core_doctor_check *check, const struct core_doctor_facts *facts,
                           struct namespace_range uids, struct namespace_range gids)
{
    struct core_doctor_trial trial;
    int result = core_doctor_try(probe_helpers, facts, &trial);
    if (result == 0) {
        core_doctor_say(
            check, CORE_DOCTOR_OK,
            "newuidmap and newgidmap map uids from %u (%u of them) and gids from %u (%u); side by "
            "side they took %s ms, which is added to each start with a range",
            uids.start, uids.count, gids.start, gids.count, trial.text);
        return;
    }
    core_doctor_say(check, CORE_DOCTOR_WARN, "%s: --uid-range is refused",
                    trial.text[0] != '\0' ? trial.text : "a user namespace could not be made");
    if (result == -ENOENT)
        core_doctor_fix(check, "sudo apt-get install uidmap");
    else if (trial.text[0] != '\0')
        core_doctor_fix(check, "sudo apt-get install --reinstall uidmap");
}

static uint32_t find_free(void)
{
    auto_free char *uids = core_doctor_read("/etc/subuid");
    auto_free char *gids = core_doctor_read("/etc/subgid");
    uint32_t uid = core_doctor_free_id(uids != NULL ? uids : "");
    uint32_t gid = core_doctor_free_id(gids != NULL ? gids : "");
    return uid == 0 || gid == 0 ? 0 : uid > gid ? uid : gid;
}

static void report_no_line(struct core_doctor_check *check, const struct core_doctor_facts *facts,
                           bool has_uids, bool has_gids)
{
    char caller[96];
    if (facts->user[0] != '\0')
        (void)snprintf(caller, sizeof(caller), "%s (uid %u)", facts->user, facts->uid); /* names are short */
    else
        (void)snprintf(caller, sizeof(caller), "uid %u", facts->uid); /* fits */
    core_doctor_say(check, CORE_DOCTOR_WARN,
                    "%s no line for %s: a box has one id only, and --uid-range is refused",
                    has_uids   ? "/etc/subgid has"
                    : has_gids ? "/etc/subuid has"
                               : "/etc/subuid and /etc/subgid have",
                    caller);
    core_doctor_fix_range(check, facts, find_free());
}

void core_doctor_ids(struct core_doctor *doctor, const struct core_doctor_facts *facts)
{
    struct core_doctor_check *check = core_doctor_add(doctor, "subordinate-ids");
    struct namespace_range uids = find_range(facts, "/etc/subuid");
    struct namespace_range gids = find_range(facts, "/etc/subgid");
    if (facts->privileged)
        core_doctor_say(check, CORE_DOCTOR_OK, "%s",
                        uids.count > 0 && gids.count > 0
                            ? "boxes of root get root's own range of /etc/subuid and /etc/subgid"
                            : "each box of root gets a block of ids of its own");
    else if (facts->id_count < LEAST_IDS)
        core_doctor_say(
            check, CORE_DOCTOR_WARN,
            "ids in the user namespace around kern: %llu; a box has one id only, and --uid-range is "
            "refused",
            facts->id_count);
    else if (uids.count == 0 || gids.count == 0)
        report_no_line(check, facts, uids.count > 0, gids.count > 0);
    else
        report_helpers(check, facts, uids, gids);
}
