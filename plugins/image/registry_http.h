/* One HTTP exchange by libcurl: the request, and what the answer says, within limits. Follows no redirect and sends no
 * credentials by itself; registry_session.c decides about both. Runs in the client's worker. */
#ifndef REGISTRY_HTTP_H
#define REGISTRY_HTTP_H

#include "registry_challenge.h"
#include "registry_job.h"

#include <curl/curl.h>

struct http_answer {
    CURLcode connection;
    char detail[CURL_ERROR_SIZE]; /* of a connection that failed */
    uint32_t status;
    char media[128]; /* Content-Type */
    char location[REGISTRY_URL_SIZE];
    char digest[80]; /* Docker-Content-Digest */
    struct registry_challenge challenge;
    int64_t retry_after; /* seconds; -1 */
    uint64_t start;      /* of a 206: the first byte it has */
    uint32_t has_start;
    char *body; /* NUL-terminated, at most `limit` bytes; of an error at most a few */
    size_t length;
    uint32_t overflow; /* there was more than allowed */
    size_t header_bytes;
};

/* Takes body bytes of a good answer. Returns false to break off. */
typedef bool (*http_sink_fn)(void *data, const char *bytes, size_t length);

struct http_exchange {
    CURL *easy;
    struct curl_slist *header;
    size_t limit; /* of a body that is kept */
    http_sink_fn sink;
    void *sink_data;
    struct http_answer answer;
};

struct http_request {
    const char *url;
    const char *authorization; /* the header's value, or NULL */
    const char *accept;        /* or NULL */
    const char *form;          /* POST this, or NULL for GET */
    uint64_t from;             /* first byte wanted */
    size_t limit;
    http_sink_fn sink; /* NULL: the body is kept */
    void *sink_data;
};

int http_exchange_start(struct http_exchange *exchange, const struct registry_job *job,
                        const struct http_request *request, struct kern_error *err);
/* After the transfer has ended, whatever way. */
void http_exchange_end(struct http_exchange *exchange, CURLcode result);
/* Forgets the answer, keeps the connection for the next one. */
void http_exchange_reset(struct http_exchange *exchange);
void http_exchange_clear(struct http_exchange *exchange);

#endif
