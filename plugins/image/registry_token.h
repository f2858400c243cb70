/* What a registry's 401 is answered with: Basic credentials, or a token of the registry's realm. Runs in the client's
 * worker. */
#ifndef REGISTRY_TOKEN_H
#define REGISTRY_TOKEN_H

#include "registry_session.h"

/* Fills session->authorization for a challenge that the endpoint itself sent (never one that was reached by a redirect).
 * Talks to the realm. */
int registry_token_get(struct registry_session *session, const struct registry_challenge *challenge,
                       struct kern_error *err);
/* Pure. The token in a token server's answer, checked for what may stand in a header: free() it. */
int registry_token_read(const char *text, size_t length, char **ret_token, struct kern_error *err);

#endif
