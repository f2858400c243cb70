/* Tokens and Basic credentials; see registry_token.h. Runs in the client's worker. */
#include "registry_token.h"

#include "registry_retry.h"
#include "registry_text.h"

#include "kern/cleanup.h"

#include <jansson.h>
#include <string.h>
#include <unistd.h>

#define ANSWER_MAX ((size_t)256 << 10)
#define TOKEN_MAX  ((size_t)64 << 10)

static void drop_json(json_t **node)
{
    json_decref(*node);
}

static void drop_secret(char **text)
{
    if (*text != NULL)
        explicit_bzero(*text, strlen(*text));
    free(*text);
    *text = NULL;
}

/* Nothing but what RFC 6750 allows: the token becomes a part of a header. */
static bool is_token(const char *text)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/=";
    size_t length = strlen(text);
    return length > 0 && length <= TOKEN_MAX && strspn(text, allowed) == length;
}

int registry_token_read(const char *text, size_t length, char **ret_token, struct kern_error *err)
{
    json_error_t mistake;
    cleanup(drop_json) json_t *root = json_loadb(text, length, 0, &mistake);
    const char *token = json_string_value(json_object_get(root, "token"));
    if (token == NULL || token[0] == '\0')
        token = json_string_value(json_object_get(root, "access_token"));
    if (token == NULL || !is_token(token))
        return kern_refuse(err, 0, "the token server's answer holds no token");
    char *copy = strdup(token);
    if (copy == NULL)
        return kern_fail(err, ENOMEM, "cannot keep a token");
    *ret_token = copy;
    return 0;
}

static int set_authorization(struct registry_session *session, const char *scheme, const char *value,
                             struct kern_error *err)
{
    size_t size = strlen(scheme) + strlen(value) + 2;
    char *text = malloc(size);
    if (text == NULL)
        return kern_fail(err, ENOMEM, "cannot keep a token");
    (void)snprintf(text, size, "%s %s", scheme, value); /* sized for it */
    registry_session_clear(session);
    session->authorization = text;
    return 0;
}

/* "USER:PASSWORD" in base64; NULL without memory. */
static char *basic_value(const struct registry_credentials *credentials)
{
    cleanup(drop_secret) char *pair = NULL;
    if (asprintf(&pair, "%s:%s", credentials->user, credentials->secret) < 0) {
        pair = NULL;
        return NULL;
    }
    return registry_base64(pair, strlen(pair));
}

static int refuse_login(const struct registry_session *session, const char *problem, struct kern_error *err)
{
    const char *name = session->endpoint->name;
    int r = kern_refuse(err, 0, "registry \"%s\" %s", name, problem);
    kern_hint(err, "kern login %s", name);
    return r;
}

static int use_basic(struct registry_session *session, struct kern_error *err)
{
    const struct registry_credentials *credentials = &session->endpoint->credentials;
    if (credentials->user[0] == '\0')
        return refuse_login(session, "wants a login", err);
    cleanup(drop_secret) char *value = basic_value(credentials);
    if (value == NULL)
        return kern_fail(err, ENOMEM, "cannot keep the credentials");
    return set_authorization(session, "Basic", value, err);
}

static void drop_handle(CURL **easy)
{
    curl_easy_cleanup(*easy);
}

static int add_field(CURL *easy, char **form, const char *name, const char *value)
{
    char *quoted = curl_easy_escape(easy, value, 0), *grown = NULL;
    if (quoted == NULL ||
        asprintf(&grown, "%s%s%s=%s", *form != NULL ? *form : "", *form != NULL ? "&" : "", name, quoted) < 0)
        grown = NULL;
    if (quoted != NULL)
        explicit_bzero(quoted, strlen(quoted));
    curl_free(quoted);
    drop_secret(form);
    *form = grown;
    return grown != NULL ? 0 : -ENOMEM;
}

/* OAuth's way, for who has an identity token instead of a password. */
static int make_form(const struct registry_session *session, const struct registry_challenge *challenge,
                     const char *scope, char **ret_form, struct kern_error *err)
{
    cleanup(drop_handle) CURL *easy = curl_easy_init();
    cleanup(drop_secret) char *form = NULL;
    if (easy == NULL || add_field(easy, &form, "grant_type", "refresh_token") < 0 ||
        add_field(easy, &form, "client_id", "kern") < 0 ||
        add_field(easy, &form, "service", challenge->service) < 0 ||
        add_field(easy, &form, "scope", scope) < 0 ||
        add_field(easy, &form, "refresh_token", session->endpoint->credentials.identity) < 0)
        return kern_fail(err, ENOMEM, "cannot ask for a token");
    *ret_form = steal_ptr(form);
    return 0;
}

static int judge_answer(const struct registry_session *session, const struct registry_place *place,
                        const struct http_answer *answer, struct kern_error *err)
{
    const struct registry_credentials *own = &session->endpoint->credentials;
    if (answer->connection != CURLE_OK)
        return kern_refuse(err, 0, "cannot get a token from \"%s:%s\": %s", place->host, place->port,
                           answer->overflow != 0 ? "the answer is too long" : answer->detail);
    if (answer->status == 401 || answer->status == 403)
        return refuse_login(session,
                            own->user[0] != '\0' || own->identity[0] != '\0'
                                ? "does not accept the credentials it was given"
                                : "gives no access without a login",
                            err);
    if (answer->status != 200)
        return kern_refuse(err, 0, "cannot get a token from \"%s:%s\": it answers with status %u",
                           place->host, place->port, answer->status);
    return 0;
}

static int ask(struct registry_session *session, const struct http_request *request,
               const struct registry_place *place, struct kern_error *err)
{
    cleanup(http_exchange_clear) struct http_exchange exchange = {0};
    for (uint32_t attempt = 1;; attempt++) {
        int r = http_exchange_start(&exchange, session->job, request, err);
        if (r < 0)
            return r;
        http_exchange_end(&exchange, curl_easy_perform(exchange.easy));
        const struct http_answer *answer = &exchange.answer;
        const struct registry_attempt what = {.number = attempt,
                                              .connection = (int32_t)answer->connection,
                                              .status = answer->status,
                                              .retry_after = answer->retry_after};
        int64_t wait = registry_retry(&what, session->job->attempts, (uint32_t)getpid());
        if (wait < 0)
            break;
        (void)usleep((useconds_t)wait * 1000); /* an early end only means an early attempt */
    }
    int r = judge_answer(session, place, &exchange.answer, err);
    if (r < 0)
        return r;
    cleanup(drop_secret) char *token = NULL;
    r = registry_token_read(exchange.answer.body != NULL ? exchange.answer.body : "", exchange.answer.length,
                            &token, err);
    if (exchange.answer.body != NULL)
        explicit_bzero(exchange.answer.body, exchange.answer.length);
    return r < 0 ? r : set_authorization(session, "Bearer", token, err);
}

static int use_bearer(struct registry_session *session, const struct registry_challenge *challenge,
                      struct kern_error *err)
{
    const struct registry_job *job = session->job;
    const struct registry_credentials *credentials = &session->endpoint->credentials;
    char scope[512], url[REGISTRY_URL_SIZE];
    struct registry_place place;
    memcpy(scope, challenge->scope, sizeof(scope));
    if (scope[0] == '\0' && job->ref.repository[0] != '\0')
        (void)snprintf(scope, sizeof(scope), "repository:%s%s:pull", session->endpoint->prefix,
                       job->ref.repository); /* a cut one is refused by the server */
    bool by_identity = credentials->identity[0] != '\0';
    int r = registry_url_token(&job->policy, challenge->realm, by_identity ? "" : challenge->service,
                               by_identity ? "" : scope, url, &place, err);
    if (r < 0)
        return r;
    cleanup(drop_secret) char *form = NULL;
    cleanup(drop_secret) char *value = NULL;
    cleanup(drop_secret) char *header = NULL;
    if (by_identity) {
        r = make_form(session, challenge, scope, &form, err);
    } else if (credentials->user[0] != '\0') {
        value = basic_value(credentials);
        if (value == NULL || asprintf(&header, "Basic %s", value) < 0) {
            header = NULL;
            return kern_fail(err, ENOMEM, "cannot ask for a token");
        }
    }
    /* A redirect of the token server is not followed: nobody but the realm gets what goes there. */
    const struct http_request request = {
        .url = url, .authorization = header, .form = form, .limit = ANSWER_MAX};
    return r < 0 ? r : ask(session, &request, &place, err);
}

int registry_token_get(struct registry_session *session, const struct registry_challenge *challenge,
                       struct kern_error *err)
{
    switch (challenge->scheme) {
    case REGISTRY_AUTH_BASIC:
        return use_basic(session, err);
    case REGISTRY_AUTH_BEARER:
        return use_bearer(session, challenge, err);
    default:
        return refuse_login(session, "wants a login of a kind that kern does not know", err);
    }
}
