/* Runs the programs of e2fsprogs that make and check images. In prepare, in kern, before there is a box: a plain fork, because
 * nothing shares kern's memory yet. They get no descriptor but the image, no environment, and none of the user's words. */
#include "vdisk_state.h"

#include "kern/cleanup.h"
#include "kern/sys.h"

#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

int vdisk_has(const char *program, char *ret_path, size_t room)
{
    static const char *const folders[] = {"/usr/sbin", "/sbin", "/usr/bin", "/bin"};
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
        (void)snprintf(ret_path, room, "%s/%s", folders[i], program); /* ours are short */
        if (access(ret_path, X_OK) == 0)
            return 1;
    }
    return 0;
}

_Noreturn static void become(pid_t parent, const char *path, const char *const *words, int fd, int output)
{
    char path_is[] = "PATH=/usr/sbin:/sbin:/usr/bin:/bin", locale_is[] = "LC_ALL=C";
    char *const environment[] = {path_is, locale_is, NULL};
    sigset_t none;
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    sys_end_with(parent);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0 || dup2(null, 0) < 0 || dup2(output, 1) < 0 || dup2(output, 2) < 0 ||
        (fd >= 0 && fcntl(fd, F_SETFD, 0) != 0))
        sys_exit(126);
    (void)execve(path, (char *const *)(uintptr_t)words, environment);
    sys_exit(126);
}

static void keep_first_line(int from, char *said, size_t room)
{
    size_t used = 0;
    char bytes[256];
    ssize_t got;
    while ((got = read(from, bytes, sizeof(bytes))) > 0) /* to the end, so that it never waits for us */
        for (ssize_t i = 0; i < got; i++)
            if (used + 1 < room)
                said[used++] = bytes[i];
    said[used] = '\0';
    said[strcspn(said, "\n")] = '\0';
}

int vdisk_run(const char *const *words, int fd, char *said, size_t room)
{
    char path[64];
    int pair[2], status = 0;
    if (!vdisk_has(words[0], path, sizeof(path)))
        return -ENOENT;
    if (pipe2(pair, O_CLOEXEC) != 0)
        return -errno;
    auto_fd from = pair[0], to = pair[1];
    pid_t self = getpid(), pid = fork();
    if (pid < 0)
        return -errno;
    if (pid == 0)
        become(self, path, words, fd, to);
    kern_close_fd(&to);
    keep_first_line(from, said, room);
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -errno;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
