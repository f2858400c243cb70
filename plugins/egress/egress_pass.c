/* Descriptors between kern, the box's first process and the workers. Raw calls: the first process may run on kern's memory. */
#include "egress_publish.h"

#include "egress.h"
#include "kern/sys.h"

#include <string.h>
#include <sys/socket.h>

union control {
    char bytes[CMSG_SPACE(sizeof(int) * EGRESS_AT_ONCE)];
    struct cmsghdr align;
};

int egress_send_fds(int channel, const void *bytes, size_t length, const int *fd, uint32_t count)
{
    union control control;
    struct egress_message copy;
    size_t size = sizeof(int) * count;
    if (length > sizeof(copy) || count > EGRESS_AT_ONCE)
        return -EMSGSIZE;
    memcpy(&copy, bytes, length);
    memset(&control, 0, sizeof(control));
    struct iovec data = {.iov_base = &copy, .iov_len = length};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1};
    if (count > 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(size);
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(size);
        memcpy(CMSG_DATA(header), fd, size);
    }
    long sent = sys_call(SYS_sendmsg, channel, SYS_P(&message), MSG_NOSIGNAL, 0, 0, 0);
    return sent < 0 ? (int)sent : 0;
}

int egress_receive_fds(int channel, void *bytes, size_t length, int *ret_fd, uint32_t most, int flags)
{
    union control control;
    struct iovec data = {.iov_base = bytes, .iov_len = length};
    struct msghdr message = {.msg_iov = &data,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
    long got = sys_call(SYS_recvmsg, channel, SYS_P(&message), MSG_CMSG_CLOEXEC | flags, 0, 0, 0);
    if (got < 0)
        return (int)got;
    if (got != (long)length)
        return -EPIPE;
    const struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (header == NULL)
        return 0;
    size_t count = header->cmsg_type == SCM_RIGHTS ? (header->cmsg_len - CMSG_LEN(0)) / sizeof(int) : 0;
    if (count > most || (message.msg_flags & MSG_CTRUNC) != 0)
        return -EMFILE; /* the kernel leaves out what does not fit: half of the sockets are none */
    memcpy(ret_fd, CMSG_DATA(header), count * sizeof(int));
    return (int)count;
}
