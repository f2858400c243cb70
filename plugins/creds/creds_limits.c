/* Resource limits and priority; see creds_limits.h.
 *
 * Raising either asks for a capability of the initial user namespace, which the box's first process has left. So kern
 * itself goes first: a higher hard limit changes nothing for kern, a better priority does it no harm, and the box
 * inherits both. */
#include "creds_limits.h"

#include "kern/sys.h"

#include <errno.h>

static int change_limit(int resource, const struct rlimit *set, struct rlimit *get)
{
    return (int)sys_call(SYS_prlimit64, 0, resource, SYS_P(set), SYS_P(get), 0, 0);
}

int creds_limits_permit(const struct creds_ulimit *wanted, struct kern_error *err)
{
    const char *name = creds_ulimit_name(wanted->resource);
    struct rlimit present = {0};
    int result = change_limit(wanted->resource, NULL, &present);
    if (result < 0)
        return kern_fail(err, -result, "cannot read limit \"%s\"", name);
    if (wanted->limit.rlim_max <= present.rlim_max)
        return 0;
    const struct rlimit raised = {.rlim_cur = present.rlim_cur, .rlim_max = wanted->limit.rlim_max};
    result = change_limit(wanted->resource, &raised, NULL);
    if (result == 0)
        return 0;
    struct creds_ulimit_text hard = creds_ulimit_format(present.rlim_max);
    (void)kern_refuse(err, -result, "cannot raise limit \"%s\" to %s: the present hard limit is %s", name,
                      creds_ulimit_format(wanted->limit.rlim_max).text, hard.text);
    kern_hint(err, "without privilege a limit can only be lowered: --ulimit %s=%s", name, hard.text);
    return result;
}

/* The raw call returns 20 - nice, so that no answer looks like an error. */
static long present_nice(void)
{
    return 20 - sys_call(SYS_getpriority, PRIO_PROCESS, 0, 0, 0, 0, 0);
}

int creds_limits_permit_nice(int nice, struct kern_error *err)
{
    long present = present_nice();
    if (nice >= present)
        return 0;
    int result = (int)sys_call(SYS_setpriority, PRIO_PROCESS, 0, nice, 0, 0, 0);
    if (result == 0)
        return 0;
    (void)kern_refuse(err, -result, "cannot raise the priority to --nice %d: kern runs at nice %ld", nice,
                      present);
    kern_hint(err, "without privilege the priority can only be lowered: --nice %ld or more", present);
    return result;
}

int creds_limits_set(const struct creds_ulimit *wanted, struct kern_error *err)
{
    int result = change_limit(wanted->resource, &wanted->limit, NULL);
    if (result < 0)
        return kern_fail(err, -result, "cannot set limit \"%s\" to %s:%s",
                         creds_ulimit_name(wanted->resource),
                         creds_ulimit_format(wanted->limit.rlim_cur).text,
                         creds_ulimit_format(wanted->limit.rlim_max).text);
    return 0;
}

int creds_limits_set_nice(int nice, struct kern_error *err)
{
    int result = (int)sys_call(SYS_setpriority, PRIO_PROCESS, 0, nice, 0, 0, 0);
    if (result < 0)
        return kern_fail(err, -result, "cannot set the priority to --nice %d", nice);
    return 0;
}
