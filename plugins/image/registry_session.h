/* Requests to one endpoint: its tokens, its redirects, what is worth another attempt. The only place that decides where
 * credentials go. Runs in the client's worker. */
#ifndef REGISTRY_SESSION_H
#define REGISTRY_SESSION_H

#include "registry_http.h"

struct registry_session {
    const struct registry_job *job;
    const struct registry_endpoint *endpoint;
    char *authorization; /* the header's value, once it is known what the registry wants */
};

void registry_session_clear(struct registry_session *session);

/* One thing to get, through redirects, tokens and attempts. */
struct registry_transfer {
    struct registry_session *session;
    struct http_exchange exchange;
    char path[800]; /* at the endpoint: "/v2/..." */
    char url[REGISTRY_URL_SIZE];
    const char *accept;
    const char *what; /* for messages: the manifest of "alpine:3" */
    uint64_t from;    /* first byte that is missing */
    size_t limit;
    http_sink_fn sink;
    void *sink_data;
    bool at_home;              /* the URL is the endpoint's own, so that credentials may go there */
    unsigned redirects, asked; /* asked for a token so often */
    uint32_t attempt;
    uint64_t from_before; /* where the last attempt began */
};

#define REGISTRY_DONE  0
#define REGISTRY_AGAIN 1

/* Sets the exchange up for the next request; the caller performs it. */
int registry_transfer_start(struct registry_transfer *transfer, struct kern_error *err);
/* Judges a finished exchange: REGISTRY_DONE, or REGISTRY_AGAIN after *ret_wait milliseconds, or a failure. May talk to the
 * token server. `from` has to be current. */
int registry_transfer_judge(struct registry_transfer *transfer, CURLcode result, int64_t *ret_wait,
                            struct kern_error *err);
/* All of it, waiting where that is due. */
int registry_transfer_run(struct registry_transfer *transfer, struct kern_error *err);
void registry_transfer_clear(struct registry_transfer *transfer);

#endif
