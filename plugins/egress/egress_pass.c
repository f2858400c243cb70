/* Descriptors between kern, the box's first process and the workers. Raw calls: the first process may run on kern's memory. */
#include "egress_publish.h"

#include "kern/sys.h"

int egress_send_fds(int channel, const void *bytes, size_t length, const int *fd, uint32_t count)
{
    long sent = sys_send_fds(channel, bytes, length, fd, count, 0);
    return sent < 0 ? (int)sent : 0;
}

int egress_receive_fds(int channel, void *bytes, size_t length, int *ret_fd, uint32_t most, int flags)
{
    size_t count = 0;
    long got = sys_receive_fds(channel, bytes, length, ret_fd, most, &count, flags);
    if (got == (long)length)
        return (int)count;
    for (size_t i = 0; i < count; i++)
        (void)sys_close(ret_fd[i]); /* of a message that is none */
    return got < 0 ? (int)got : -EPIPE;
}
