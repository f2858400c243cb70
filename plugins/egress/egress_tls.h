/* What the first message of a TLS client says: the name of the host. Pure; in the worker. */
#ifndef EGRESS_TLS_H
#define EGRESS_TLS_H

#include "egress_name.h"

#define EGRESS_HELLO_MOST 32768 /* bytes that a ClientHello may take, records included */

struct egress_hello {
    size_t records; /* bytes of the records that hold it */
    int named;      /* it has one server_name */
    int hidden; /* it has an encrypted ClientHello (or looks so): what the server reads may be another name */
    int early; /* more follows before the server answers (early data): a second hello could stand behind it */
    char name[EGRESS_NAME_SIZE]; /* clean; "" when it has none or one that is no host name */
    char said[EGRESS_NAME_SIZE]; /* as it was said, for messages; '?' for odd bytes */
};

/* -EAGAIN: more bytes are needed; -EBADMSG: this is no ClientHello; 0. */
int egress_tls_hello(const uint8_t *bytes, size_t length, struct egress_hello *ret_hello);

#endif
