/* The creds plugin: who the command is and what it may do. prepare reads the options in kern; enter changes the box's
 * first process, after the pivot and before the filter. It needs the box's user namespace with full capabilities in
 * it, the mount namespace with the box's root as /, and the box's /proc for AppArmor. */
#include "creds_manifest.h"

#include "creds_apparmor.h"
#include "creds_caps.h"
#include "creds_fd.h"
#include "creds_identity.h"
#include "creds_landlock.h"
#include "creds_limits.h"
#include "kern/foundation.h"

#include <linux/capability.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>

struct creds_state {
    struct creds_user user; /* user.given: --user was */
    uint64_t kept;          /* capabilities of the command */
    uint64_t asked;         /* those of `kept` that somebody named */
    struct creds_ulimit ulimit[RLIM_NLIMITS];
    uint32_t ulimit_count;
    bool set_nice;
    bool use_landlock;
    int32_t ruleset; /* in kern: Landlock's rules of the first process, for those that join it; -1 */
    char line[8192]; /* for reading account files inside, where the stack is small */
};

/* The initial user namespace has had this inode number since Linux 3.8. */
#define INITIAL_USER_NAMESPACE 0xEFFFFFFDu

/* When in doubt, yes. */
static bool is_real_root(void)
{
    struct stat space;
    if (geteuid() != 0)
        return false;
    return stat("/proc/self/ns/user", &space) < 0 || space.st_ino == INITIAL_USER_NAMESPACE;
}

/* Nested boxes as real root would hand mount() and unshare() to a process that the host's root stands behind. */
static int check_privileged(const kern_box *box, struct kern_error *err)
{
    if (!kern_privileged(box))
        return 0;
    if (kern_untrusted(box))
        return kern_refuse(err, 0, "--privileged does not go with --security-profile untrusted");
    if (!is_real_root())
        return 0;
    int result = kern_refuse(err, 0, "--privileged is for boxes of an ordinary user; kern runs as root");
    kern_hint(err, "run kern as another user: sudo -u USER kern box --privileged ...");
    return result;
}

static int read_cap_list(const kern_values *options, const char *option, struct creds_cap_list *ret_list,
                         struct kern_error *err)
{
    struct creds_cap_list list = {.rank = kern_get_source(options, option)};
    for (uint32_t i = 0; i < kern_get_count(options, option); i++) {
        int result = creds_cap_list_add(&list, option, kern_get_item(options, option, i), err);
        if (result < 0)
            return result;
    }
    *ret_list = list;
    return 0;
}

static int prepare_caps(kern_box *box, struct creds_state *state, struct kern_error *err)
{
    const kern_values *options = kern_options(box);
    struct creds_cap_list drop = {0};
    struct creds_cap_list add = {0};
    int result = read_cap_list(options, "cap-drop", &drop, err);
    if (result == 0)
        result = read_cap_list(options, "cap-add", &add, err);
    if (result < 0)
        return result;
    if (kern_untrusted(box)) {
        if (add.all)
            return kern_refuse(err, 0, "--cap-add ALL does not go with --security-profile untrusted");
        int32_t rank = kern_get_source(options, "security-profile");
        drop.all = true;
        drop.rank = rank > drop.rank ? rank : drop.rank;
    }
    result = creds_caps_resolve(&drop, &add, &state->kept, err);
    if (result < 0)
        return result;
    if (kern_guards_setuid(box) != 0)
        state->kept &= ~(UINT64_C(1) << CAP_SETFCAP);
    state->asked = add.named & state->kept;
    if (!state->user.user.given)
        return 0;
    if (add.all || add.named != 0)
        kern_note(box, "--cap-add does nothing with --user, which sheds all capabilities");
    state->kept = 0;
    state->asked = 0;
    return 0;
}

/* A limit given twice counts once: the last word wins, as for every flag. */
static struct creds_ulimit *ulimit_slot(struct creds_state *state, int resource)
{
    for (uint32_t i = 0; i < state->ulimit_count; i++)
        if (state->ulimit[i].resource == resource)
            return &state->ulimit[i];
    return &state->ulimit[state->ulimit_count++];
}

static int prepare_limits(const kern_values *options, struct creds_state *state, struct kern_error *err)
{
    for (uint32_t i = 0; i < kern_get_count(options, "ulimit"); i++) {
        struct creds_ulimit wanted = {0};
        int result = creds_ulimit_parse(kern_get_item(options, "ulimit", i), &wanted, err);
        if (result < 0)
            return result;
        *ulimit_slot(state, wanted.resource) = wanted;
    }
    for (uint32_t i = 0; i < state->ulimit_count; i++) {
        int result = creds_limits_permit(&state->ulimit[i], err);
        if (result < 0)
            return result;
    }
    state->set_nice = kern_get_source(options, "nice") != KERN_FROM_DEFAULT;
    return state->set_nice ? creds_limits_permit_nice((int)kern_get_int(options, "nice"), err) : 0;
}

#define TAG_RULESET 0x1a9du

static void on_ruleset(kern_box *box, void *data, uint32_t tag, int32_t fd)
{
    struct creds_state *state = data;
    (void)box, (void)tag; /* we asked for one only */
    state->ruleset = fd;
}

static int creds_prepare(kern_box *box, void *data, struct kern_error *err)
{
    struct creds_state *state = data;
    state->ruleset = -1;
    const kern_values *options = kern_options(box);
    int result = check_privileged(box, err);
    const char *user = kern_get_string(options, "user");
    if (result == 0 && user != NULL)
        result = creds_user_parse(user, &state->user, err);
    if (result == 0)
        result = prepare_caps(box, state, err);
    if (result == 0)
        result = prepare_limits(options, state, err);
    state->use_landlock = kern_get_count(options, "landlock-rw") > 0;
    if (result == 0 && state->use_landlock)
        result = creds_landlock_check(options, err);
    if (result == 0 && state->use_landlock)
        result = kern_receive_fd(box, TAG_RULESET, on_ruleset, err);
    const char *profile = kern_get_string(options, "apparmor");
    if (result == 0 && profile != NULL)
        result = creds_apparmor_check(profile, err);
    return result;
}

static int enter_limits(const kern_values *options, const struct creds_state *state, struct kern_error *err)
{
    for (uint32_t i = 0; i < state->ulimit_count; i++) {
        int result = creds_limits_set(&state->ulimit[i], err);
        if (result < 0)
            return result;
    }
    return state->set_nice ? creds_limits_set_nice((int)kern_get_int(options, "nice"), err) : 0;
}

/* Takes the ids of --user. Without --user the process stays who it is: root of the box, or the caller under
 * --userns=keep. */
static int enter_ids(kern_box *box, const char *user, const struct creds_account *account,
                     struct kern_error *err)
{
    int result = creds_identity_shed_groups(err);
    if (result < 0 || user == NULL)
        return result;
    const struct kern_ids *ids = kern_get_ids(box);
    uint32_t count = ids != NULL && ids->how != KERN_IDS_NONE ? ids->count : UINT32_MAX;
    kern_child_home(box, account->home);
    return creds_identity_take(account, user, count, err);
}

/* Looked up once: what joins a living box must not believe files that the box may have changed meanwhile. */
static int find_account(kern_box *box, struct creds_state *state, const char *user,
                        struct creds_account *ret_account, struct kern_error *err)
{
    const char *home = NULL;
    if (kern_reentered(box) != 0) {
        if (kern_known_account(box, &ret_account->uid, &ret_account->gid, &home) == 0)
            return kern_fail(err, 0, "cannot tell which user the box's command has");
        size_t length = strlen(home);
        memcpy(ret_account->home, home, length < sizeof(ret_account->home) ? length + 1 : 0);
        return 0;
    }
    int result = creds_identity_find(kern_box_root(box), &state->user, user, state->line, sizeof(state->line),
                                     ret_account, err);
    return result == 0 ? kern_child_account(box, ret_account->uid, ret_account->gid, ret_account->home, err)
                       : result;
}

static int find_rules(kern_box *box, const struct creds_state *state, int *ret_ruleset,
                      struct kern_error *err)
{
    if (kern_reentered(box) != 0) {
        *ret_ruleset = state->ruleset;
        return state->ruleset >= 0 ? 0 : kern_fail(err, 0, "the Landlock rules of the box are not known");
    }
    int result = creds_landlock_build(kern_box_root(box), kern_options(box), ret_ruleset, err);
    return result == 0 ? kern_send_fd(box, TAG_RULESET, *ret_ruleset, err) : result;
}

/* The order is forced:
 *   1. the account files and the paths for Landlock, while root's rights reach them whatever their modes; the secrets
 *      go to the account at once, which takes CHOWN;
 *   2. AppArmor's wish, before no_new_privs would narrow which profiles may follow;
 *   3. the bounding set, which takes SETPCAP; then the ids, which take SETGID and SETUID;
 *   4. capabilities of the process, once nothing needs them any more. A change to another user has emptied them
 *      already, but user 0 of --user 0 would still hold all;
 *   5. no_new_privs, without which neither Landlock nor the filter may be set;
 *   6. limits last: earlier, nproc would be held against the old user's processes at setresuid, and nofile could
 *      stop steps 1 and 2;
 *   7. Landlock, which nothing of ours has to pass but the filter and exec. */
static int creds_enter(kern_box *box, void *data, struct kern_error *err)
{
    struct creds_state *state = data;
    const kern_values *options = kern_options(box);
    const char *user = kern_get_string(options, "user");
    const char *profile = kern_get_string(options, "apparmor");
    struct creds_account account = {0};
    auto_raw_fd ruleset = -1;
    int root = kern_box_root(box);
    int result = 0;
    if (user != NULL)
        result = find_account(box, state, user, &account, err);
    if (result == 0 && state->use_landlock)
        result = find_rules(box, state, &ruleset, err);
    else if (result == 0 &&
             kern_privileged(box) == 0) /* boxes in a box need mounts, which Landlock forbids */
        result = creds_landlock_streams(root, &ruleset, err);
    if (result == 0 && profile != NULL)
        result = creds_apparmor_ask(root, profile, err);
    if (result == 0)
        result = creds_identity_bound(state->kept, err);
    if (result == 0)
        result = enter_ids(box, user, &account, err);
    if (result == 0)
        result = creds_identity_keep(state->kept, state->asked, err);
    if (result < 0)
        return result;
    result = sys_prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (result < 0)
        return kern_fail(err, -result, "cannot set no_new_privs");
    result = enter_limits(options, state, err);
    if (result == 0 && ruleset >= 0)
        result = creds_landlock_bind(ruleset, err);
    return result;
}

static void creds_teardown(kern_box *box, void *data, const struct kern_outcome *outcome)
{
    struct creds_state *state = data;
    (void)box, (void)outcome; /* nothing to tell */
    creds_close_fd(&state->ruleset);
}

KERN_PLUGIN(CREDS_MANIFEST, .state_size = sizeof(struct creds_state), .prepare = creds_prepare,
            .enter = creds_enter, .teardown = creds_teardown);
