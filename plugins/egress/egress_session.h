/* The peers of published UDP ports, and when they are forgotten. Pure; in the worker. */
#ifndef EGRESS_SESSION_H
#define EGRESS_SESSION_H

#include "egress_loop.h"

#include <sys/socket.h>

#define EGRESS_SESSIONS   1024
#define EGRESS_SESSION_MS 60000 /* a peer that neither said nor was told anything for so long is gone */

struct egress_peer {
    struct sockaddr_storage address;
    socklen_t size;
    uint8_t to
        [16]; /* the address of this machine that it speaks to, and is answered from; zeros when that is not known */
};

/* A peer has a socket of its own in the box, so that the box can tell peers apart. */
struct egress_session {
    struct egress_garbage garbage; /* first */
    struct egress_source source;
    struct egress_source *listener; /* where it is heard */
    struct egress_session *next;
    struct egress_peer peer;
    int64_t used_ms;
    uint8_t answered; /* the box has said something */
};

struct egress_sessions {
    struct egress_session *first;
    uint32_t count;
};

void egress_sessions_add(struct egress_sessions *sessions, struct egress_session *session, int64_t now_ms);
/* NULL when there is none of this peer at this port. */
struct egress_session *egress_sessions_find(const struct egress_sessions *sessions,
                                            const struct egress_source *listener,
                                            const struct egress_peer *peer);
void egress_sessions_remove(struct egress_sessions *sessions, const struct egress_session *session);
/* Takes out the one that was left alone for longest where no more may be added, else returns NULL. */
struct egress_session *egress_sessions_make_room(struct egress_sessions *sessions);
/* Takes out one that has been idle for too long; NULL when there is none. */
struct egress_session *egress_sessions_take_idle(struct egress_sessions *sessions, int64_t now_ms);

#endif
