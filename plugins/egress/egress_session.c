/* The peers of published UDP ports; see egress_session.h. Pure; in the worker. */
#include "egress_session.h"

#include <string.h>

void egress_sessions_add(struct egress_sessions *sessions, struct egress_session *session, int64_t now_ms)
{
    session->used_ms = now_ms;
    session->next = sessions->first;
    sessions->first = session;
    sessions->count++;
}

struct egress_session *egress_sessions_find(const struct egress_sessions *sessions,
                                            const struct egress_source *listener,
                                            const struct egress_peer *peer)
{
    struct egress_session *at = sessions->first;
    while (at != NULL && (at->listener != listener || at->peer.size != peer->size ||
                          memcmp(&at->peer.address, &peer->address, peer->size) != 0 ||
                          memcmp(at->peer.to, peer->to, sizeof(peer->to)) != 0))
        at = at->next;
    return at;
}

static struct egress_session *take(struct egress_sessions *sessions, struct egress_session **at)
{
    struct egress_session *taken = *at;
    *at = taken->next;
    sessions->count--;
    return taken;
}

void egress_sessions_remove(struct egress_sessions *sessions, const struct egress_session *session)
{
    struct egress_session **at = &sessions->first;
    while (*at != session)
        at = &(*at)->next;
    (void)take(sessions, at);
}

struct egress_session *egress_sessions_make_room(struct egress_sessions *sessions)
{
    if (sessions->count < EGRESS_SESSIONS)
        return NULL;
    struct egress_session **oldest = &sessions->first;
    for (struct egress_session **at = oldest; *at != NULL; at = &(*at)->next)
        if ((*at)->used_ms <= (*oldest)->used_ms)
            oldest = at;
    return take(sessions, oldest);
}

struct egress_session *egress_sessions_take_idle(struct egress_sessions *sessions, int64_t now_ms)
{
    for (struct egress_session **at = &sessions->first; *at != NULL; at = &(*at)->next)
        if ((*at)->used_ms + EGRESS_SESSION_MS <= now_ms)
            return take(sessions, at);
    return NULL;
}
