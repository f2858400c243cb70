/* AppArmor's change of profile at exec; see creds_apparmor.h. The kernel's file is written directly: libapparmor would
 * do the same after looking for it by name. */
#include "creds_apparmor.h"

#include "creds_fd.h"

#include <errno.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/vfs.h>

#define NAME_MAX_HERE 255
#define COMMAND       "exec "

int creds_apparmor_check(const char *profile, struct kern_error *err)
{
    size_t length = strlen(profile);
    if (length == 0 || length > NAME_MAX_HERE || strpbrk(profile, "\n\r\t") != NULL)
        return kern_refuse(err, 0, "--apparmor \"%s\": not a profile name", profile);
    auto_raw_fd fd = sys_open(AT_FDCWD, "/sys/module/apparmor/parameters/enabled", O_RDONLY, 0);
    char enabled = 'N';
    if (fd >= 0 && sys_read(fd, &enabled, 1) == 1 && enabled == 'Y')
        return 0;
    int result = kern_fail(err, 0, "cannot run under AppArmor profile \"%s\": AppArmor is %s", profile,
                           fd == -ENOENT ? "not in this kernel" : "not enabled on this host");
    kern_hint(err, "leave --apparmor out, or boot a kernel that has it with apparmor=1 security=apparmor");
    return result;
}

/* A write to a file that only looks like the kernel's would leave the command unconfined, and the image or a volume
 * may have put anything at /proc (CVE-2019-16884). So: a real procfs, and no other mount on the way. */
static int open_attribute(int root)
{
    auto_raw_fd proc =
        sys_open_beneath(root, "proc", O_PATH | O_DIRECTORY, 0, RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS);
    if (proc < 0)
        return proc;
    struct statfs what;
    long result = sys_call(SYS_fstatfs, proc, SYS_P(&what), 0, 0, 0, 0);
    if (result < 0)
        return (int)result;
    if (what.f_type != PROC_SUPER_MAGIC)
        return -EXDEV;
    const uint64_t inside = RESOLVE_BENEATH | RESOLVE_NO_XDEV;
    int fd = sys_open_beneath(proc, "self/attr/apparmor/exec", O_WRONLY, 0, inside);
    if (fd == -ENOENT) /* before Linux 5.1 the module had no folder of its own */
        fd = sys_open_beneath(proc, "self/attr/exec", O_WRONLY, 0, inside);
    return fd;
}

int creds_apparmor_ask(int root, const char *profile, struct kern_error *err)
{
    auto_raw_fd fd = open_attribute(root);
    if (fd < 0)
        return kern_fail(err, -fd, "cannot run under AppArmor profile \"%s\": no way to ask for it", profile);
    char command[sizeof(COMMAND) + NAME_MAX_HERE] = COMMAND;
    size_t length = strlen(profile);
    memcpy(command + strlen(COMMAND), profile, length);
    length += strlen(COMMAND);
    long written = sys_write(fd, command, length);
    if (written == (long)length)
        return 0;
    int code = written < 0 ? (int)-written : EIO;
    int result = kern_fail(err, code, "cannot run under AppArmor profile \"%s\"", profile);
    if (code == ENOENT)
        kern_hint(err, "load it: sudo apparmor_parser -r /etc/apparmor.d/%s", profile);
    return result;
}
