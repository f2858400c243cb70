/* `kern plugin check`, its second half: the hooks of a plugin on a box that is never started. prepare and teardown run in a child of
 * kern; enter runs in a child of that, in namespaces of its own and with a made-up root that has what prepare asked for. */
#include "cmd_plugin.h"

#include "box.h"
#include "cleanup.h"
#include "engine.h"
#include "guard.h"
#include "plugin.h"
#include "supervise.h"
#include "sys.h"

#include <fcntl.h>
#include <inttypes.h>
#include <linux/mount.h>
#include <malloc.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE_S 10 /* a hook that hangs is given up */

/* ---- enter ---- */

/* What its process has to say, on a page that both see. */
struct entering {
    int32_t result;   /* of the hook */
    int32_t no_place; /* errno: there are no namespaces to try it in */
    int32_t came_back;
    int32_t allocated;
    struct kern_error err;
};

static bool write_text(const char *path, const char *text)
{
    auto_fd fd = open(path, O_WRONLY | O_CLOEXEC);
    return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
}

/* Namespaces as a box has them: what enter does in them is gone with its process. */
static int own_spaces(void)
{
    char uids[32], gids[32];
    (void)snprintf(uids, sizeof(uids), "0 %u 1", geteuid()); /* fits; so below */
    (void)snprintf(gids, sizeof(gids), "0 %u 1", getegid());
    int failed = sys_unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS);
    if (failed != 0)
        return failed;
    if (!write_text("/proc/self/uid_map", uids) || !write_text("/proc/self/setgroups", "deny") ||
        !write_text("/proc/self/gid_map", gids))
        return -EPERM;
    return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 ? 0 : -errno;
}

/* A file system of its own for a root, attached nowhere; nothing of the host can be reached from it. */
static int new_root(void)
{
    auto_fd context = (int)sys_call(SYS_fsopen, SYS_P("tmpfs"), FSOPEN_CLOEXEC, 0, 0, 0, 0);
    if (context < 0)
        return context;
    long failed = sys_call(SYS_fsconfig, context, FSCONFIG_CMD_CREATE, 0, 0, 0, 0);
    return failed != 0 ? (int)failed : (int)sys_call(SYS_fsmount, context, FSMOUNT_CLOEXEC, 0, 0, 0, 0);
}

static void make_parents(int root, const char *target)
{
    for (const char *slash = strchr(target, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        auto_free char *part = strndup(target, (size_t)(slash - target));
        if (part != NULL)
            (void)sys_mkdirat(root, part, 0755); /* it may be there; what matters is missed below */
    }
}

static void furnish(int root, const struct core_mount *mount)
{
    const char *target = mount->target + strspn(mount->target, "/");
    make_parents(root, target);
    if (mount->kind == CORE_LINK) {
        (void)sys_symlinkat(mount->source, root, target); /* what is missing, the hook says; so below */
    } else if (mount->kind == CORE_TMPFS || (mount->kind == CORE_BIND && mount->directory)) {
        (void)sys_mkdirat(root, target, 0755);
    } else {
        auto_fd file = sys_open(root, target, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        if (file >= 0 && mount->kind == CORE_FILE)
            (void)sys_write(file, mount->bytes, mount->length);
        if (file >= 0)
            (void)fchmod(file, mount->kind == CORE_FILE ? mount->mode : 0644); /* as above */
    }
}

static void enter_here(kern_box *box, struct core_plugin *plugin, struct entering *said)
{
    int pair[2];
    int failed = own_spaces();
    int root = failed == 0 ? new_root() : failed;
    if (root >= 0 && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0)
        box->child_channel_fd = pair[1]; /* what is sent waits there, and nobody takes it */
    if (root < 0) {
        said->no_place = -root;
        return;
    }
    for (size_t i = 0; i < box->mount_count; i++)
        furnish(root, &box->mount[i]);
    if (plugin->table->stage >= KERN_STAGE_MOUNT)
        box->root_fd = root;
    box->fork_style = true;
    box->entering = plugin;
    struct mallinfo2 before = mallinfo2();
    said->result = core_hookcheck_enter(box, plugin, &said->err);
    struct mallinfo2 after = mallinfo2();
    said->allocated = memcmp(&before, &after, sizeof(before)) != 0;
    said->came_back = 1;
}

/* As core_plugin_try(); that the hook refuses this root is its right. */
static int judge_enter(const struct core_plugin *plugin, const struct entering *said, int status, int *notes)
{
    if (said->no_place != 0) {
        (*notes)++;
        core_plugin_say("note", "enter was not tried: this machine has no namespaces for it (%s)",
                        strerror(said->no_place));
        return CORE_TRY_NO_ENTER;
    }
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) {
        core_plugin_say("wrong", "enter had not ended after %d s", PATIENCE_S);
        return 1;
    }
    if (WIFSIGNALED(status) || said->came_back == 0) {
        core_plugin_say("wrong", "enter crashed, or ended its process: %s",
                        WIFSIGNALED(status) ? sigdescr_np(WTERMSIG(status)) : "it called exit");
        return 1;
    }
    if (said->allocated != 0 && (plugin->table->flags & KERN_PLUGIN_LEAN) != 0) {
        core_plugin_say("wrong", "enter allocates memory, which KERN_PLUGIN_LEAN promises not to do");
        return 1;
    }
    *notes += said->result != 0;
    if (said->result != 0)
        core_plugin_say("note", "enter, with a root that has only what prepare asked for, says: %s",
                        said->err.message[0] != '\0' ? said->err.message : "nothing");
    return 0;
}

static void *share(size_t size)
{
    void *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return page != MAP_FAILED ? page : NULL;
}

static int try_enter(kern_box *box, struct core_plugin *plugin, int *notes)
{
    struct entering *said = share(sizeof(*said));
    box->shared = share(sizeof(*box->shared));
    int status = 0, wrong = 0;
    if (said == NULL || box->shared == NULL)
        return 0;         /* nothing was found out; what was mapped goes with this process */
    (void)fflush(stdout); /* or the child would print it again */
    pid_t pid = fork();
    if (pid == 0) {
        (void)signal(SIGALRM, SIG_DFL);
        (void)alarm(PATIENCE_S);
        enter_here(box, plugin, said);
        (void)fflush(stdout); /* found by whoever waits for it */
        _exit(0);
    }
    if (pid > 0 && waitpid(pid, &status, 0) == pid)
        wrong = judge_enter(plugin, said, status, notes);
    core_hookcheck_entered(box);
    return wrong;
}

/* ---- prepare and teardown ---- */

/* A profile of nothing but defaults, unless it would lack something. */
static void add_profile(struct core_plugin *plugin, int *notes)
{
    const struct kern_plugin *table = plugin->table;
    struct kern_error err = {0};
    struct core_profile *profile = table->profile != NULL ? calloc(1, sizeof(*profile)) : NULL;
    if (profile == NULL || core_values_add(&profile->values, table->options, KERN_OPT_PROFILE, &err) != 0) {
        free(profile);
        return;
    }
    struct core_value *name = core_values_find(&profile->values, "name");
    profile->name = strdup("check");
    if (name != NULL)
        (void)core_value_set(name, "check", KERN_FROM_PROFILE, "check", &err); /* a string takes any text */
    plugin->profile = profile;
    plugin->profile_count = 1;
    for (const struct kern_option *option = table->options; option != NULL && option->name != NULL; option++)
        if ((option->flags & KERN_OPT_PROFILE) != 0 && (option->flags & KERN_OPT_REQUIRED) != 0 &&
            kern_get_string(&profile->values, option->name) == NULL && plugin->profile_count > 0) {
            plugin->profile_count = 0;
            (*notes)++;
            core_plugin_say("note", "no profile was tried: \"%s\" is required and has no default",
                            option->name);
        }
}

static int run_hooks(kern_box *box, struct core_plugin *plugin, int *notes)
{
    struct kern_error err = {0};
    core_guard_open(box);
    core_guard_listen(box, true);
    (void)alarm(PATIENCE_S);
    plugin->entered = true;
    int failed = plugin->table->prepare != NULL ? core_guard_prepare(box, plugin, &err) : 0;
    (void)alarm(0);
    const struct kern_outcome outcome = {.struct_size = sizeof(outcome), .exit_code = failed != 0 ? 125 : 0};
    bool lost = failed == -EFAULT || failed == -EINTR;
    *notes += failed != 0 && !lost;
    if (failed != 0)
        core_plugin_say(lost ? "wrong" : "note", "prepare says: %s", err.message);
    int entered = failed != 0                    ? CORE_TRY_NO_ENTER
                  : plugin->table->enter != NULL ? try_enter(box, plugin, notes)
                                                 : 0;
    lost = lost || entered == 1;
    (void)alarm(PATIENCE_S);
    if (plugin->entered)
        core_guard_teardown(box, plugin, &outcome);
    for (size_t i = 0; i < box->notes.count; i++)
        lost = lost || strncmp(box->notes.item[i], "plugin ", 7) == 0;
    return lost ? 1 : entered;
}

int core_plugin_try(const char *path, int *notes)
{
    struct kern_error err = {0};
    struct core_catalog catalog = {0};
    struct core_plugin *plugin = NULL;
    kern_box box;
    core_box_init(&box);
    box.catalog = &catalog;
    (void)setenv("KERN_DEBUG", "plugins", 1); /* without memory the hooks are less well watched */
    if (core_catalog_builtin(&catalog, &err) != 0 || core_plugin_add_path(&catalog, path, &plugin, &err) != 0)
        return 1;
    for (size_t i = 0; i < catalog.count; i++)
        if (catalog.plugin[i].builtin)
            (void)core_values_add(&box.options, catalog.plugin[i].table->options,
                                  KERN_OPT_BOX | KERN_OPT_FLAG, &err);
    (void)snprintf(box.name, sizeof(box.name), "check");
    add_profile(plugin, notes);
    plugin->state = calloc(1, plugin->table->state_size > 0 ? plugin->table->state_size : 1);
    if (plugin->state == NULL) {
        core_plugin_say("wrong", "there is no memory for its state of %" PRIu64 " bytes",
                        plugin->table->state_size);
        return 1;
    }
    int wrong = run_hooks(&box, plugin, notes);
    (void)fflush(stdout); /* found by whoever waits for it */
    return wrong;
}
