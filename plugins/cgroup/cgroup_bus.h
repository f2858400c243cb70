/* A connection to a service manager's D-Bus socket, used by one caller for a few calls. Runs in kern, in prepare. */
#ifndef CGROUP_BUS_H
#define CGROUP_BUS_H

#include "cgroup_message.h"

struct cgroup_bus {
    int fd;
    uint32_t serial;
    const char *destination; /* NULL: the manager itself is at the other end */
    int64_t deadline_ms;     /* of the whole conversation, CLOCK_MONOTONIC */
};

/* Connects to the manager's own socket, or, where there is none, to the bus that it is on; either may be NULL. Only sockets
 * of the caller or of root are used. 0 or -errno. */
int cgroup_bus_open(const char *manager, const char *bus, int64_t patience_ms, struct cgroup_bus *ret_bus);
void cgroup_bus_close(struct cgroup_bus *bus);
/* Begins a call; the caller adds the arguments. */
void cgroup_bus_call(struct cgroup_bus *bus, struct cgroup_message *message, const char *path,
                     const char *interface, const char *member, const char *signature);
/* Sends it and waits for its answer, which may be an error of the other side: then 0 with CGROUP_REPLY_ERROR. */
int cgroup_bus_ask(struct cgroup_bus *bus, struct cgroup_message *message, struct cgroup_reply *ret_reply);

#endif
