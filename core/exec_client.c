/* The request of `kern exec` and its like; see exec_client.h. */
#include "exec_client.h"

#include "cleanup.h"
#include "sys.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

static int write_words(const struct core_list *words, uint32_t *ret_size, int *ret_fd, struct kern_error *err)
{
    auto_fd fd = memfd_create("kern-exec", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    uint32_t size = 0;
    for (size_t i = 0; fd >= 0 && i < words->count; i++) {
        size_t length = strlen(words->item[i]) + 1;
        if (write(fd, words->item[i], length) != (ssize_t)length)
            return kern_refuse(err, errno, "cannot write down the command");
        size += (uint32_t)length;
    }
    if (fd < 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW) != 0)
        return kern_refuse(err, errno, "cannot write down the command");
    *ret_size = size;
    *ret_fd = steal_fd(&fd);
    return 0;
}

static int send_request(int client, const char *name, const struct core_exec_ask *ask, const int *fds,
                        struct kern_error *err)
{
    long sent = sys_send_fds(client, ask, sizeof(*ask), fds, CORE_EXEC_FDS, 0);
    return sent == (long)sizeof(*ask)
               ? 0
               : kern_refuse(err, sent < 0 ? (int)-sent : EIO, "cannot ask the supervisor of box '%s'", name);
}

int core_exec_ask(int client, const char *name, struct core_exec_ask *ask, const struct core_list *words,
                  const int streams[3], struct kern_error *err)
{
    auto_fd fd = -1;
    int failed = write_words(words, &ask->size, &fd, err);
    if (failed != 0)
        return failed;
    const int fds[CORE_EXEC_FDS] = {streams[0], streams[1], streams[2], fd};
    return send_request(client, name, ask, fds, err);
}
