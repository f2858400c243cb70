/* The last step of the box's first process: finding the command in the box and executing it, or saying exactly why not. The
 * filter is already in place. Perhaps on kern's memory: raw calls only. */
#include "inner.h"

#include "cleanup.h"
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

/* What the file is run by: its #! line, or the loader that an ELF program names. "" when there is none. */
static void read_interpreter(int fd, char *ret_path, size_t size)
{
    char head[4096];
    ret_path[0] = '\0';
    long length = sys_read(fd, head, sizeof(head) - 1);
    if (length < 4)
        return;
    head[length] = '\0';
    const char *from = NULL;
    size_t most = 0;
    if (head[0] == '#' && head[1] == '!') {
        from = head + 2 + strspn(head + 2, " \t");
        most = strcspn(from, " \t\n");
    } else if (memcmp(head, ELFMAG, SELFMAG) == 0 && head[EI_CLASS] == ELFCLASS64 &&
               (size_t)length > sizeof(Elf64_Ehdr)) {
        Elf64_Ehdr header;
        memcpy(&header, head, sizeof(header));
        for (unsigned i = 0;
             i < header.e_phnum && header.e_phoff + (i + 1) * sizeof(Elf64_Phdr) <= (size_t)length; i++) {
            Elf64_Phdr segment;
            memcpy(&segment, head + header.e_phoff + i * sizeof(segment), sizeof(segment));
            if (segment.p_type == PT_INTERP && segment.p_offset < (size_t)length) {
                from = head + segment.p_offset;
                most = strnlen(from, (size_t)length - segment.p_offset);
            }
        }
    }
    if (from == NULL || most >= size)
        return;
    memcpy(ret_path, from, most);
    ret_path[most] = '\0';
}

/* Where a filter keeps openat2 back: is it kern's own file that stands at the end of the name? */
static bool leads_to_kern(const char *name)
{
    struct stat there, own;
    return fstatat(AT_FDCWD, name, &there, 0) == 0 && fstatat(AT_FDCWD, "/proc/self/exe", &own, 0) == 0 &&
           there.st_dev == own.st_dev && there.st_ino == own.st_ino;
}

static int open_program(const char *name)
{
    int fd = sys_open_beneath(AT_FDCWD, name, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0, 0);
    if (fd != -ENOSYS && fd != -EPERM)
        return fd;
    return leads_to_kern(name) ? -ELOOP : sys_open(AT_FDCWD, name, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
}

/* A root may make any of its names a link to /proc/self/exe, and that is kern's own file on the host. Returns -ELOOP for a program
 * that is reached through such a link, itself or what runs it. */
static int check_path(const char *file)
{
    char name[PATH_MAX];
    if (strlen(file) >= sizeof(name))
        return -ENAMETOOLONG;
    memcpy(name, file, strlen(file) + 1);
    for (int level = 0; level < 6 && name[0] != '\0'; level++) {
        int fd = open_program(name);
        if (fd == -ELOOP)
            return -ELOOP;
        if (fd < 0)
            return 0; /* unreadable or missing: for execve to say */
        read_interpreter(fd, name, sizeof(name));
        (void)sys_close(fd); /* only read */
    }
    return 0;
}

static int try_exec(const kern_box *box, const char *file)
{
    int failed = check_path(file);
    if (failed != 0)
        return failed;
    return (int)sys_call(SYS_execve, SYS_P(file), SYS_P(box->command), SYS_P(box->child_env), 0, 0, 0);
}

/* The command's own mask comes back at the very last moment: until here kern's forwarded signals wait. */
static void restore_signals(const kern_box *box)
{
    (void)sys_call(SYS_rt_sigprocmask, SIG_SETMASK, SYS_P(&box->child_sigmask), 0, 8, 0,
                   0); /* valid arguments */
}

static int exec_along_path(const kern_box *box, char *tried, size_t size)
{
    const char *name = box->command[0];
    int result = -ENOENT;
    for (const char *part = path_of(box); part != NULL; part = *part != '\0' ? part + 1 : NULL) {
        size_t length = strcspn(part, ":");
        if (length + strlen(name) + 2 <= size) {
            memcpy(tried, part, length);
            tried[length] = '/';
            memcpy(tried + length + 1, name, strlen(name) + 1);
            int failed = try_exec(box, length > 0 ? tried : name);
            if (failed != -ENOENT && failed != -ENOTDIR && failed != -EACCES)
                return failed;
            if (failed == -EACCES || sys_call(SYS_faccessat, AT_FDCWD, SYS_P(tried), 0, 0, 0, 0) == 0)
                result = failed == -ENOENT ? -ELIBBAD : failed; /* it is there, its interpreter is not */
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
    if (failed == -ELOOP) {
        kern_fail(err, 0, "cannot start '%s' in box: it leads through /proc to a program outside the box",
                  name);
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
        failed = try_exec(box, name);
        if (failed == -ENOENT && sys_call(SYS_faccessat, AT_FDCWD, SYS_P(name), 0, 0, 0, 0) == 0)
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
