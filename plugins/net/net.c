/* The net plugin: the box's network is a loopback of its own, or the host's. prepare reads the option in kern; enter
 * runs in the box's first process and needs its network namespace with NET_ADMIN in the user namespace that owns it. */
#include "net_manifest.h"

#include "kern/cleanup.h"
#include "kern/plugin.h"
#include "kern/sys.h"

#include <linux/sockios.h>
#include <net/if.h>
#include <string.h>
#include <sys/socket.h>

struct net_state {
    int32_t share; /* 1: the host's network */
};

static int add_tun(kern_box *box, struct kern_error *err)
{
    static const char path[] = "/dev/net/tun";
    auto_fd fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0)
        return kern_add_bind(box, fd, path, KERN_MOUNT_DEVICE, err);
    kern_refuse(err, errno, "cannot give the box \"%s\" (--tun)", path);
    kern_hint(err, "load the driver on the host, as root: modprobe tun");
    return -EINVAL;
}

static int net_prepare(kern_box *box, void *data, struct kern_error *err)
{
    struct net_state *state = data;
    const char *mode = kern_get_string(kern_options(box), "net");
    if (kern_get_int(kern_options(box), "tun") != 0) {
        int failed = add_tun(box, err);
        if (failed != 0)
            return failed;
    }
    if (mode == NULL || strcmp(mode, "host") != 0)
        return 0;
    state->share = 1;
    kern_note(box, "--net host: the box reaches this machine's own services on 127.0.0.1");
    return 0;
}

static int net_enter(kern_box *box, void *data, struct kern_error *err)
{
    const struct net_state *state = data;
    (void)box; /* all that matters was decided in prepare */
    if (state->share)
        return 0;
    /* Any socket takes the request; one of AF_UNIX exists in every kernel. Both loopback addresses come with the
     * interface, and in a new namespace it has no flag that reading them first would have to save. */
    int sock = (int)sys_call(SYS_socket, AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, 0, 0, 0);
    if (sock < 0)
        return kern_fail(err, -sock, "cannot open a socket to set up the loopback \"lo\"");
    const struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP};
    int result = (int)sys_call(SYS_ioctl, sock, SIOCSIFFLAGS, SYS_P(&request), 0, 0, 0);
    (void)sys_close(sock); /* raw, as close() would write errno, which is kern's too */
    if (result < 0)
        return kern_fail(err, -result, "cannot bring up the loopback \"lo\" of the box");
    return 0;
}

KERN_PLUGIN(NET_MANIFEST, .state_size = sizeof(struct net_state), .prepare = net_prepare, .enter = net_enter);
