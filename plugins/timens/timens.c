/* Clocks of a box's own, for timens:NAME: a time namespace with offsets of the boot and the monotonic clock, and environment variables
 * that make a run reproducible. (The clock of the wall, CLOCK_REALTIME, is one for the whole machine.) Uses nothing but kern/plugin.h,
 * kern/cleanup.h and kern/sys.h, as any plugin could. */
#include "timens_manifest.h"

#include "kern/cleanup.h"
#include "kern/sys.h"

#include <string.h>

struct timens_state {
    int wanted; /* an offset is not 0 */
    char offsets[96];
};

static int set_variable(kern_box *box, const kern_values *profile, const char *key, const char *name,
                        struct kern_error *err)
{
    const char *text = kern_get_string(profile, key);
    return text == NULL ? 0 : kern_set_env(box, name, text, err);
}

static int set_variables(kern_box *box, const kern_values *profile, struct kern_error *err)
{
    static const char *const variables[][2] = {{"source-date-epoch", "SOURCE_DATE_EPOCH"},
                                               {"seed", "SEED"},
                                               {"seed", "PYTHONHASHSEED"},
                                               {"seed", "PERL_HASH_SEED"}};
    int failed = 0;
    for (size_t i = 0; failed == 0 && i < sizeof(variables) / sizeof(variables[0]); i++)
        failed = set_variable(box, profile, variables[i][0], variables[i][1], err);
    return failed;
}

/* prepare, on the host: several profiles add up, the last one's variables win. */
static int timens_prepare(kern_box *box, void *data, struct kern_error *err)
{
    struct timens_state *state = data;
    int64_t boottime = 0, monotonic = 0;
    for (uint32_t i = 0; i < kern_profile_count(box); i++) {
        const kern_values *profile = kern_profile(box, i);
        boottime += kern_get_int(profile, "boottime");
        monotonic += kern_get_int(profile, "monotonic");
        if (set_variables(box, profile, err) != 0)
            return kern_wrap(err, "timens:%s", kern_profile_name(box, i));
    }
    state->wanted = boottime != 0 || monotonic != 0;
    if (state->wanted && access("/proc/self/timens_offsets", F_OK) != 0) {
        kern_refuse(err, 0, "cannot give a box clocks of its own: this kernel has no time namespaces");
        kern_hint(err, "leave boottime and monotonic out of the profile, or use a kernel (5.6 or later) with "
                       "CONFIG_TIME_NS");
        return -ENOSYS;
    }
    (void)snprintf(state->offsets, sizeof(state->offsets), "monotonic %lld 0\nboottime %lld 0\n",
                   (long long)monotonic, (long long)boottime); /* two numbers fit */
    return 0;
}

/* enter, in the box's first process: needs CAP_SYS_ADMIN and CAP_SYS_TIME in the box's outer user namespace, and /proc of the host,
 * which is still there in this stage. The new namespace is for children, and for whatever this process executes (Linux 6.3; before
 * that --init is what makes a child of the command). */
static int timens_enter(kern_box *box, void *data, struct kern_error *err)
{
    const struct timens_state *state = data;
    (void)box;
    if (!state->wanted)
        return 0;
    int failed = sys_unshare(CLONE_NEWTIME);
    if (failed != 0)
        return kern_fail(err, -failed, "cannot make a time namespace");
    auto_fd fd = sys_open(AT_FDCWD, "/proc/self/timens_offsets", O_WRONLY, 0);
    long put = fd < 0 ? fd : sys_write(fd, state->offsets, strlen(state->offsets));
    if (put < 0) {
        failed = kern_fail(err, (int)-put, "cannot set the clocks of the box");
        kern_hint(err, "a clock cannot be set to before 0: boottime and monotonic may be at least -(seconds "
                       "since boot)");
        return failed;
    }
    return 0;
}

KERN_PLUGIN(TIMENS_MANIFEST, .state_size = sizeof(struct timens_state), .prepare = timens_prepare,
            .enter = timens_enter);
