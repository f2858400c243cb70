/* The namespaces of a box: whose ids it has, what it is called, which of their settings it changes. The clone itself is the
 * core's. prepare runs in kern; enter in the box's first process, as root of the user namespace that owns its uts, ipc and
 * network namespaces. */
#include "namespace_ids.h"
#include "namespace_manifest.h"

#include "kern/cleanup.h"
#include "kern/sys.h"

#include <errno.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

struct setting {
    char path[128];
    const char *value;
};

struct namespace_state {
    char hostname[65];
    struct setting setting[32];
    uint32_t setting_count;
};

/* ---- Whose ids ---- */

/* Root of the first user namespace: its map covers every id one to one. A container's root is not. */
static uint32_t is_real_root(void)
{
    if (geteuid() != 0)
        return 0;
    char text[64] = "";
    auto_fd fd = open("/proc/self/uid_map", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
        return 0;
    unsigned inside = 1, outside = 1, count = 0;
    return sscanf(text, "%u %u %u", &inside, &outside, &count) == 3 && inside == 0 && outside == 0 &&
           count == UINT32_MAX;
}

static char *read_small(const char *path)
{
    auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0 || st.st_size <= 0 || st.st_size > 1 << 20)
        return NULL;
    char *text = calloc(1, (size_t)st.st_size + 1);
    if (text != NULL && read(fd, text, (size_t)st.st_size) < 0)
        text[0] = '\0';
    return text;
}

static struct namespace_range range_in(const char *path, const struct namespace_caller *caller)
{
    auto_free char *text = read_small(path);
    return text != NULL ? namespace_find_range(text, caller->user, caller->uid) : (struct namespace_range){0};
}

static int choose_ids(kern_box *box, struct kern_error *err)
{
    const kern_values *options = kern_options(box);
    const char *word = kern_get_string(options, "userns");
    uint32_t mode = strcmp(word, "keep") == 0   ? NAMESPACE_KEEP
                    : strcmp(word, "host") == 0 ? NAMESPACE_HOST
                                                : NAMESPACE_AUTO;
    int want_range = kern_get_int(options, "uid-range") != 0;
    struct namespace_caller caller = {.uid = geteuid(), .gid = getegid(), .real_root = is_real_root()};
    struct namespace_range uids = {0}, gids = {0};
    if (caller.real_root != 0 && mode == NAMESPACE_AUTO) {
        uint32_t start = 0, count = 0;
        int failed = kern_claim_ids(box, &start, &count, err);
        if (failed != 0)
            return failed;
        uids = gids = (struct namespace_range){.start = start, .count = count};
    } else if (caller.real_root == 0 && want_range) {
        /* Only now is the user's name needed, and with it the name service. */
        const struct passwd *entry = getpwuid(caller.uid);
        caller.user = entry != NULL ? entry->pw_name : NULL;
        uids = range_in("/etc/subuid", &caller);
        gids = range_in("/etc/subgid", &caller);
    }
    struct kern_ids ids;
    int failed = namespace_choose(&caller, mode, want_range, uids, gids, &ids, err);
    if (failed == 0)
        kern_set_ids(box, &ids);
    return failed;
}

/* ---- Name and settings ---- */

static int choose_hostname(kern_box *box, struct namespace_state *state, struct kern_error *err)
{
    const char *given = kern_get_string(kern_options(box), "hostname");
    const char *name = given != NULL ? given : kern_box_name(box);
    if (namespace_check_hostname(name) != 0 && given != NULL)
        return kern_refuse(
            err, 0, "cannot use host name \"%s\": letters, digits, '-' and '.' only, at most 64", name);
    (void)snprintf(state->hostname, sizeof(state->hostname), "%s",
                   name); /* checked, or a box name: it fits */
    return 0;
}

static int collect_settings(kern_box *box, struct namespace_state *state, struct kern_error *err)
{
    const kern_values *options = kern_options(box);
    const char *net = kern_get_string(options, "net");
    int own_network = net == NULL || strcmp(net, "host") != 0;
    uint32_t count = kern_get_count(options, "sysctl");
    if (count > sizeof(state->setting) / sizeof(state->setting[0]))
        return kern_refuse(err, E2BIG, "cannot set %u kernel settings", count);
    for (uint32_t i = 0; i < count; i++) {
        const char *text = kern_get_item(options, "sysctl", i);
        const char *equals = strchr(text, '=');
        char key[96];
        if (equals == NULL || equals == text || (size_t)(equals - text) >= sizeof(key))
            return kern_refuse(err, 0, "cannot use --sysctl \"%s\": write it as KEY=VALUE", text);
        (void)snprintf(key, sizeof(key), "%.*s", (int)(equals - text), text); /* checked */
        struct setting *setting = &state->setting[state->setting_count];
        if (namespace_sysctl_path(key, own_network, setting->path, sizeof(setting->path)) != 0) {
            kern_refuse(err, 0, "cannot set \"%s\" for one box: it is not a setting of its own namespaces",
                        key);
            kern_hint(err, "kernel.msg*, kernel.sem, kernel.shm*, fs.mqueue.* and, without --net host, net.* "
                           "can be set");
            return -EPERM;
        }
        setting->value = equals + 1;
        state->setting_count++;
    }
    return 0;
}

static int read_options(kern_box *box, struct namespace_state *state, struct kern_error *err)
{
    state->setting_count = 0;
    int failed = choose_hostname(box, state, err);
    return failed != 0 ? failed : collect_settings(box, state, err);
}

static int prepare(kern_box *box, void *block, struct kern_error *err)
{
    int failed = choose_ids(box, err);
    return failed != 0 ? failed : read_options(box, block, err);
}

/* Needs: CAP_SYS_ADMIN and CAP_NET_ADMIN in the owner of the uts and network namespaces. */
static long write_setting(kern_box *box, const struct setting *setting)
{
    /* Its file belongs to root of the machine, also in a namespace of the box's own. */
    if (strcmp(setting->path, "sys/kernel/domainname") == 0)
        return sys_call(SYS_setdomainname, SYS_P(setting->value), (long)strlen(setting->value), 0, 0, 0, 0);
    int fd = sys_open(kern_child_get_proc(box), setting->path, O_WRONLY, 0);
    long written = fd < 0 ? fd : sys_write(fd, setting->value, strlen(setting->value));
    if (fd >= 0)
        (void)sys_close(fd); /* procfs took the text at the write */
    return written;
}

static int enter(kern_box *box, void *block, struct kern_error *err)
{
    struct namespace_state *state = block;
    /* prepare was the first of all: other plugins may have set a name or settings since. */
    int refused = read_options(box, state, err);
    if (refused != 0)
        return refused;
    long failed =
        sys_call(SYS_sethostname, SYS_P(state->hostname), (long)strlen(state->hostname), 0, 0, 0, 0);
    /* Inside another kern box the call is not in the filter: a box then keeps the outer name, unless it was given one. */
    bool optional = kern_nested(box) && kern_get_source(kern_options(box), "hostname") == KERN_FROM_DEFAULT;
    if (failed != 0 && !optional)
        return kern_fail(err, (int)-failed, "cannot set the host name \"%s\"", state->hostname);
    for (uint32_t i = 0; i < state->setting_count; i++) {
        const struct setting *setting = &state->setting[i];
        long written = write_setting(box, setting);
        if (written < 0)
            return kern_fail(err, (int)-written, "cannot set \"/proc/%s\" to \"%s\"", setting->path,
                             setting->value);
    }
    return 0;
}

KERN_PLUGIN(NAMESPACE_MANIFEST, .state_size = sizeof(struct namespace_state), .prepare = prepare,
            .enter = enter);
