/* Requests to one endpoint; see registry_session.h. Runs in the client's worker. */
#include "registry_session.h"

#include "registry_retry.h"
#include "registry_token.h"
#include "registry_wire.h"

#include "kern/cleanup.h"

#include <jansson.h>
#include <string.h>
#include <unistd.h>

#define REDIRECTS_MAX 8u
#define LONG_WAIT     1000                 /* ms */
#define PROGRESS      ((uint64_t)64 << 10) /* bytes: less is no reason to try without end */

void registry_session_clear(struct registry_session *session)
{
    if (session->authorization != NULL)
        explicit_bzero(session->authorization, strlen(session->authorization));
    free(session->authorization);
    session->authorization = NULL;
}

void registry_transfer_clear(struct registry_transfer *transfer)
{
    if (transfer != NULL)
        http_exchange_clear(&transfer->exchange);
}

static void go_home(struct registry_transfer *transfer)
{
    (void)snprintf(transfer->url, sizeof(transfer->url), "%s%s", transfer->session->endpoint->base,
                   transfer->path); /* fits by the sizes of both */
    transfer->at_home = true;
    transfer->redirects = 0;
}

int registry_transfer_start(struct registry_transfer *transfer, struct kern_error *err)
{
    if (transfer->url[0] == '\0')
        go_home(transfer);
    if (transfer->attempt == 0)
        transfer->attempt = 1;
    transfer->from_before = transfer->from;
    const struct http_request request = {.url = transfer->url,
                                         .authorization =
                                             transfer->at_home ? transfer->session->authorization : NULL,
                                         .accept = transfer->accept,
                                         .from = transfer->from,
                                         .limit = transfer->limit,
                                         .sink = transfer->sink,
                                         .sink_data = transfer->sink_data};
    return http_exchange_start(&transfer->exchange, transfer->session->job, &request, err);
}

static int follow(struct registry_transfer *transfer, struct kern_error *err)
{
    const struct registry_endpoint *endpoint = transfer->session->endpoint;
    const char *location = transfer->exchange.answer.location;
    char next[REGISTRY_URL_SIZE];
    bool keep = false;
    if (location[0] == '\0' || ++transfer->redirects > REDIRECTS_MAX)
        return kern_refuse(err, 0, "registry \"%s\" redirects %s for %s", endpoint->name,
                           location[0] == '\0' ? "nowhere" : "in circles", transfer->what);
    int r = registry_url_redirect(&transfer->session->job->policy, transfer->url, location, next, &keep, err);
    if (r < 0)
        return r;
    /* Once away, never again with credentials: a foreign host may redirect back to where it likes. */
    transfer->at_home = transfer->at_home && keep;
    memcpy(transfer->url, next, sizeof(next));
    return 0;
}

/* The registry's own words, if it has any: {"errors": [{"code": ..., "message": ...}]}. */
static void quote_answer(const struct http_answer *answer, char *ret_text, size_t size)
{
    ret_text[0] = '\0';
    json_t *root = answer->body != NULL ? json_loadb(answer->body, answer->length, 0, NULL) : NULL;
    const json_t *first = json_array_get(json_object_get(root, "errors"), 0);
    const char *message = json_string_value(json_object_get(first, "message"));
    if (message != NULL && message[0] != '\0')
        (void)snprintf(ret_text, size, " (\"%.100s\")", message); /* cut words are words */
    json_decref(root);
}

static int refuse_connection(const struct registry_transfer *transfer, struct kern_error *err)
{
    const struct http_answer *answer = &transfer->exchange.answer;
    const char *name = transfer->session->endpoint->name;
    int r;
    switch (answer->connection) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT:
    case CURLE_OPERATION_TIMEDOUT:
        r = kern_refuse(err, 0, "cannot reach registry \"%s\" for %s: %s", name, transfer->what,
                        answer->detail);
        kern_hint(err, "an image that is at hand as a file needs no registry: kern load -i FILE");
        return r;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
        r = kern_refuse(err, 0, "cannot trust registry \"%s\": %s", name, answer->detail);
        /* libcurl has one number for all that is wrong with a certificate. */
        if (strstr(answer->detail, "subject name") != NULL)
            kern_hint(err, "ask for it by a name that its certificate has");
        kern_hint(
            err,
            "its authority's certificate may be named in your kern.toml: [registry] ca_file = \"/PATH\"");
        return r;
    case CURLE_SSL_CONNECT_ERROR:
        r = kern_refuse(err, 0, "cannot speak https with registry \"%s\": %s", name, answer->detail);
        kern_hint(err, "if it speaks http only, in your kern.toml: [registry] plain_http = [\"%s\"]", name);
        return r;
    default:
        return kern_refuse(err, 0, "cannot get %s from registry \"%s\": %s", transfer->what, name,
                           answer->overflow != 0 ? "the answer is longer than allowed" : answer->detail);
    }
}

static int refuse_status(const struct registry_transfer *transfer, struct kern_error *err)
{
    const struct http_answer *answer = &transfer->exchange.answer;
    const struct registry_endpoint *endpoint = transfer->session->endpoint;
    char words[140];
    quote_answer(answer, words, sizeof(words));
    int r;
    if (answer->status == 404)
        return kern_refuse(err, 0, "registry \"%s\" does not have %s%s", endpoint->name, transfer->what,
                           words);
    if (answer->status == 401 || answer->status == 403) {
        const char *user = endpoint->credentials.user;
        bool is_wrong = answer->status == 401 && transfer->at_home && user[0] != '\0' &&
                        answer->challenge.scheme == REGISTRY_AUTH_BASIC;
        r = is_wrong ? kern_refuse(err, 0, "registry \"%s\" does not accept the login of \"%s\"%s",
                                   endpoint->name, user, words)
                     : kern_refuse(err, 0, "registry \"%s\" does not give %s%s", endpoint->name,
                                   transfer->what, words);
        kern_hint(err, "kern login %s", endpoint->name);
        return r;
    }
    if (answer->status == 429) {
        r = answer->retry_after > 0
                ? kern_refuse(err, 0,
                              "registry \"%s\" has had too many requests, and says to wait %lld seconds",
                              endpoint->name, (long long)answer->retry_after)
                : kern_refuse(err, 0, "registry \"%s\" has had too many requests%s", endpoint->name, words);
        kern_hint(err, "who is known may ask more often: kern login %s", endpoint->name);
        return r;
    }
    return kern_refuse(err, 0, "cannot get %s from registry \"%s\": it answers with status %u%s",
                       transfer->what, endpoint->name, answer->status, words);
}

static bool is_redirect(uint32_t status)
{
    return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

/* A 401 counts only at the registry itself: whoever a redirect led to gets nothing (CVE-2020-15157). Two tries, because a
 * token may have run out meanwhile. */
static bool may_ask(const struct registry_transfer *transfer)
{
    return transfer->at_home && transfer->asked < 2 &&
           transfer->exchange.answer.challenge.scheme != REGISTRY_AUTH_NONE;
}

/* Only a word to the user. */
static void tell_patience(const struct registry_transfer *transfer, int64_t wait)
{
    const struct http_answer *answer = &transfer->exchange.answer;
    const char *name = transfer->session->endpoint->name;
    char text[CURL_ERROR_SIZE + 320];
    if (answer->connection != CURLE_OK)
        (void)snprintf(text, sizeof(text), "\"%s\" breaks off (%s)", name, answer->detail); /* fits */
    else
        (void)snprintf(text, sizeof(text), "\"%s\" answers with status %u", name, answer->status); /* fits */
    (void)wire_send(transfer->session->job->socket, WIRE_PATIENCE, 0, (uint64_t)wait, text, strlen(text));
}

int registry_transfer_judge(struct registry_transfer *transfer, CURLcode result, int64_t *ret_wait,
                            struct kern_error *err)
{
    http_exchange_end(&transfer->exchange, result);
    const struct http_answer *answer = &transfer->exchange.answer;
    bool answered = answer->connection == CURLE_OK;
    *ret_wait = 0;
    if (answered && (answer->status == 200 || answer->status == 206))
        return REGISTRY_DONE;
    if (answered && is_redirect(answer->status)) {
        int r = follow(transfer, err);
        return r < 0 ? r : REGISTRY_AGAIN;
    }
    if (answered && answer->status == 401 && may_ask(transfer)) {
        transfer->asked++;
        int r = registry_token_get(transfer->session, &answer->challenge, err);
        return r < 0 ? r : REGISTRY_AGAIN;
    }
    bool progressed = transfer->from >= transfer->from_before + PROGRESS;
    const struct registry_attempt what = {.number = transfer->attempt,
                                          .connection = (int32_t)answer->connection,
                                          .detail = answer->detail,
                                          .status = answer->status,
                                          .retry_after = answer->retry_after,
                                          .progressed = progressed};
    int64_t wait = answer->overflow != 0
                       ? -1
                       : registry_retry(&what, transfer->session->job->attempts, (uint32_t)getpid());
    if (wait < 0)
        return answered ? refuse_status(transfer, err) : refuse_connection(transfer, err);
    transfer->attempt = progressed ? 1 : transfer->attempt + 1;
    if (wait >= LONG_WAIT)
        tell_patience(transfer, wait);
    /* Where a redirect led may be good for a moment only. */
    go_home(transfer);
    *ret_wait = wait;
    return REGISTRY_AGAIN;
}

int registry_transfer_run(struct registry_transfer *transfer, struct kern_error *err)
{
    for (;;) {
        int64_t wait = 0;
        int r = registry_transfer_start(transfer, err);
        if (r == 0)
            r = registry_transfer_judge(transfer, curl_easy_perform(transfer->exchange.easy), &wait, err);
        if (r != REGISTRY_AGAIN)
            return r;
        (void)usleep((useconds_t)wait * 1000); /* an early end only means an early attempt */
    }
}
