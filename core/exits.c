/* The ways out of a process, as plugins and their libraries find them: the main program stands first where the loader looks a name
 * up, so what an opened object calls by these names is this. A hook that calls one is given up and named; everybody else (kern,
 * children, workers) ends as ever. exit() itself is caught where it ends, see guard.c; a raw system call is not. Not part of a kern
 * that opens no plugins. */
#include "guard.h"
#include "sys.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

KERN_EXPORT void _exit(int code)
{
    core_guard_leaving("_exit", code);
    sys_exit(code);
}

KERN_EXPORT void _Exit(int code)
{
    core_guard_leaving("_Exit", code);
    sys_exit(code);
}

KERN_EXPORT void quick_exit(int code)
{
    core_guard_leaving("quick_exit", code);
    void (*real)(int) = (void (*)(int))dlsym(RTLD_NEXT, "quick_exit"); /* runs what was registered for it */
    if (real != NULL)
        real(code);
    sys_exit(code);
}
