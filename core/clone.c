/* Starting a process in a function; see clone.h. Used on the host side, in the outer init and in the box's first process. */
#include "clone.h"

#include "sys.h"

#include <errno.h>
#include <stdint.h>

long core_clone3(struct clone_args *args, size_t size, int (*fn)(void *), void *arg);

long core_clone(struct clone_args *args, int (*fn)(void *), void *arg)
{
    long pid = core_clone3(args, sizeof(*args), fn, arg);
    if (pid != -ENOSYS || args->stack != 0 || (args->flags & CLONE_INTO_CGROUP) != 0)
        return pid;
    pid = sys_call(SYS_clone, (long)(args->flags | args->exit_signal), 0, (long)args->pidfd, 0, 0, 0);
    if (pid == 0)
        sys_exit(fn(arg));
    return pid;
}
