/* What kern inherits from its caller, before anything else is opened; see cmd.h. Host side. */
#include "cmd.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Standard streams exist, whatever the caller closed: otherwise our own descriptors would take their numbers and be the
 * box's. Everything else that was inherited stays behind at exec. */
int core_secure_descriptors(struct kern_error *err)
{
    /* The caller's limit on file sizes and a reader that has gone are then errors with a name; the box gets the
     * defaults. */
    (void)signal(SIGXFSZ, SIG_IGN);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGCHLD, SIG_DFL); /* where it is ignored nobody hears how a child ended */
    for (int fd = 0; fd <= 2; fd++) {
        struct stat st;
        bool open_already = fstat(fd, &st) == 0;
        /* A directory here would be a door to the host: /proc/self/fd/0/.. leads on from it. */
        if (open_already && (S_ISDIR(st.st_mode) || (fcntl(fd, F_GETFL) & O_PATH) != 0))
            return kern_refuse(
                err, 0, "cannot give the box standard stream %d: it is a directory or a path of the host",
                fd);
        if (open_already)
            continue;
        /* The wrong way round on purpose: what was closed must not look as if it worked. */
        int null = open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY);
        if (null != fd)
            return kern_fail(err, errno, "cannot open \"/dev/null\" for a closed standard stream");
    }
    if (syscall(SYS_close_range, 3, ~0U, 4 /* CLOSE_RANGE_CLOEXEC, since 5.11 */) != 0)
        return kern_fail(err, errno,
                         "cannot keep inherited descriptors from the box (Linux 5.11 or newer is needed)");
    return 0;
}
