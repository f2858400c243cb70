/* The last step of the box's first process: finding the command in the box and executing it, or saying exactly why not. The
 * filter is already in place. Perhaps on kern's memory: raw calls only. */
#include "inner.h"

#include "cleanup.h"
#include "program.h"
#include "sys.h"

#include <elf.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>

#define NOT_EXECUTABLE 126
#define NOT_FOUND      127

static const char *path_of(const kern_box *box)
{
    for (char **env = box->child_env; *env != NULL; env++)
        if (strncmp(*env, "PATH=", 5) == 0)
            return *env + 5;
    return "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
}

/* The command's own mask comes back at the very last moment: until here kern's forwarded signals wait. */
static void restore_signals(const kern_box *box)
{
    (void)sys_call(SYS_rt_sigprocmask, SIG_SETMASK, SYS_P(&box->child_sigmask), 0, 8, 0,
                   0); /* valid arguments */
}

static int exec_along_path(kern_box *box, char *tried, size_t size)
{
    const char *name = box->command[0];
    int result = -ENOENT;
    for (const char *part = path_of(box); part != NULL; part = *part != '\0' ? part + 1 : NULL) {
        size_t length = strcspn(part, ":");
        if (length + strlen(name) + 2 <= size) {
            char *end = tried; /* an empty element is the working directory */
            if (length > 0) {
                memcpy(tried, part, length);
                tried[length] = '/';
                end += length + 1;
            }
            memcpy(end, name, strlen(name) + 1);
            int failed = core_program_execute(box, tried);
            if (failed != -ENOENT && failed != -ENOTDIR && failed != -EACCES)
                return failed;
            /* A directory that may not be searched has nothing to be found in. */
            if (sys_call(SYS_faccessat, AT_FDCWD, SYS_P(tried), 0, 0, 0, 0) == 0)
                result = failed == -EACCES ? failed : -ELIBBAD; /* it is there, its interpreter is not */
            if (result == -ELIBBAD)
                return result;
        }
        part += length;
    }
    return result;
}

static const char *machine_name(unsigned machine)
{
    switch (machine) {
    case EM_X86_64:
        return "x86_64";
    case EM_AARCH64:
        return "aarch64";
    case EM_386:
        return "i386";
    case EM_ARM:
        return "arm";
    case EM_RISCV:
        return "riscv64";
    case EM_PPC64:
        return "ppc64";
    case EM_S390:
        return "s390x";
    default:
        return "another machine";
    }
}

#if defined(__x86_64__)
#define OUR_MACHINE EM_X86_64
#else
#define OUR_MACHINE EM_AARCH64
#endif

/* ENOEXEC says little: look whether the file is a program of another machine. */
static unsigned foreign_machine(const char *file)
{
    Elf64_Ehdr header = {0};
    auto_fd fd = sys_open(AT_FDCWD, file, O_RDONLY | O_NONBLOCK, 0);
    if (fd < 0 || sys_read(fd, &header, sizeof(header)) < 20 || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
        return EM_NONE;
    return header.e_machine != OUR_MACHINE ? header.e_machine : EM_NONE;
}

static int explain(kern_box *box, int failed, const char *file, struct kern_error *err)
{
    const char *name = box->command[0];
    unsigned machine = failed == -ENOEXEC ? foreign_machine(file) : EM_NONE;
    box->shared->exec_errno = -failed;
    if (failed == -ENOENT || failed == -ENOTDIR) {
        bool image = box->image_ref != NULL;
        kern_fail(err, 0, "cannot start '%s' in box: not found%s%s%s", name, image ? " (image " : "",
                  image ? box->image_ref : "", image ? ")" : "");
        return NOT_FOUND;
    }
    if (failed == -EXDEV || failed == -ELOOP) {
        kern_fail(err, 0, "cannot start '%s' in box: %s", name,
                  failed == -EXDEV
                      ? "it leads through /proc to a program outside the box"
                      : "too many links, or scripts that are run by scripts, one after the other");
        return NOT_EXECUTABLE;
    }
    if (failed == -ELIBBAD) {
        kern_fail(err, 0, "cannot start '%s' in box: its interpreter or loader is not in the box", name);
        return NOT_FOUND;
    }
    if (machine != EM_NONE)
        kern_fail(err, 0, "cannot start '%s' in box: built for %s, this machine is %s", name,
                  machine_name(machine), machine_name(OUR_MACHINE));
    else if (failed == -ENOEXEC)
        kern_fail(err, 0, "cannot start '%s' in box: not a program, and no #! line says what runs it", name);
    else
        kern_fail(err, -failed, "cannot start '%s' in box", name);
    return NOT_EXECUTABLE;
}

int core_exec_command(kern_box *box, struct kern_error *err)
{
    char tried[PATH_MAX] = "";
    const char *name = box->command[0];
    restore_signals(box);
    int failed = 0;
    if (strchr(name, '/') != NULL) {
        failed = core_program_execute(box, name);
        if ((failed == -ENOENT || failed == -ENOTDIR) &&
            sys_call(SYS_faccessat, AT_FDCWD, SYS_P(name), 0, 0, 0, 0) == 0)
            failed = -ELIBBAD;
    } else if (name[0] == '\0') {
        failed = -ENOENT;
    } else {
        failed = exec_along_path(box, tried, sizeof(tried));
    }
    int code = explain(box, failed, tried[0] != '\0' ? tried : name, err);
    atomic_store(&box->shared->exec_failed, (uint32_t)code);
    return code;
}
