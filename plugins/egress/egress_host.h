/* How the host resolves names: its /etc/resolv.conf and /etc/hosts, read in prepare, in kern. The worker opens no file. */
#ifndef EGRESS_HOST_H
#define EGRESS_HOST_H

#include "egress_name.h"

#define EGRESS_SERVERS 3
#define EGRESS_HOSTS   512

struct egress_host_entry {
    char name[EGRESS_NAME_SIZE];
    struct egress_address address;
};

struct egress_host_files {
    struct egress_address server[EGRESS_SERVERS];
    uint32_t scope[EGRESS_SERVERS]; /* the interface of a link-local server */
    uint32_t server_count;
    uint32_t host_count;
    struct egress_host_entry *host; /* EGRESS_HOSTS of them at most */
};

/* Pure: take over what the text says. Lines that say nothing are passed over, as libc does. 0 or -ENOMEM. */
void egress_host_read_resolv(const char *text, struct egress_host_files *files);
int egress_host_read_hosts(const char *text, struct egress_host_files *files);
/* Reads both; what cannot be read counts as empty, and no name server as one on 127.0.0.1. */
int egress_host_read(struct egress_host_files *files);

#endif
