/* Published ports: what --publish says. Pure; in kern, in prepare. */
#ifndef EGRESS_PORTS_H
#define EGRESS_PORTS_H

#include "egress_name.h"
#include "kern/plugin.h"

#define EGRESS_MAX_PORTS 200

struct egress_port {
    struct egress_address address; /* of the host */
    uint16_t host, box;
    uint8_t udp;
    uint8_t proxy; /* the server in the box is told who connects (PROXY protocol) */
};

struct egress_ports {
    struct egress_port port[EGRESS_MAX_PORTS];
    uint32_t count;
};

/* "[IP:]H:B[/tcp|/udp][+proxy]", H and B a port or a range of as many; appends. */
int egress_ports_add(struct egress_ports *ports, const char *text, struct kern_error *err);

#endif
