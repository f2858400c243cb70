/* One HTTP exchange by libcurl; see registry_http.h. Runs in the client's worker. */
#include "registry_http.h"

#include "registry_retry.h"

#include "kern/cleanup.h"

#include <string.h>
#include <strings.h>
#include <time.h>

#define ERROR_BODY_MAX ((size_t)16 << 10)
#define HEADERS_MAX    ((size_t)256 << 10) /* of one answer, all lines */
#define CONNECT_WAIT   15000L              /* ms */

static bool is_good(uint32_t status)
{
    return status == 200 || status == 206;
}

static bool keep(struct http_exchange *exchange, const char *bytes, size_t length)
{
    struct http_answer *answer = &exchange->answer;
    size_t limit = is_good(answer->status) ? exchange->limit : ERROR_BODY_MAX;
    if (length > limit - answer->length) {
        answer->overflow = 1;
        return false;
    }
    char *grown = realloc(answer->body, answer->length + length + 1);
    if (grown == NULL)
        return false;
    memcpy(grown + answer->length, bytes, length);
    answer->body = grown;
    answer->length += length;
    grown[answer->length] = '\0';
    return true;
}

static uint32_t status_of(CURL *easy)
{
    long status = 0;
    (void)curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status); /* 0 stays where there is none */
    return status > 0 && status < 1000 ? (uint32_t)status : 0;
}

static size_t on_body(char *bytes, size_t one, size_t length, void *data)
{
    struct http_exchange *exchange = data;
    (void)one; /* always 1 */
    exchange->answer.status = status_of(exchange->easy);
    bool ok = exchange->sink != NULL && is_good(exchange->answer.status)
                  ? exchange->sink(exchange->sink_data, bytes, length)
                  : keep(exchange, bytes, length);
    return ok ? length : 0;
}

/* The value of the line when it is of this header, trimmed; cut values are no values. */
static bool value_of(const char *line, size_t length, const char *name, char *ret_text, size_t size)
{
    size_t named = strlen(name);
    if (length <= named || strncasecmp(line, name, named) != 0 || line[named] != ':')
        return false;
    const char *at = line + named + 1, *end = line + length;
    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    while (end > at && strchr(" \t\r\n", end[-1]) != NULL)
        end--;
    if ((size_t)(end - at) >= size || memchr(at, '\0', (size_t)(end - at)) != NULL)
        return false;
    memcpy(ret_text, at, (size_t)(end - at));
    ret_text[end - at] = '\0';
    return true;
}

static void take_range(struct http_answer *answer, const char *value)
{
    if (strncasecmp(value, "bytes ", 6) != 0 || value[6] < '0' || value[6] > '9')
        return;
    answer->start = strtoull(value + 6, NULL, 10);
    answer->has_start = 1;
}

/* An answer of its own begins: what an interim one (100, a proxy's) said is void. */
static void begin_answer(struct http_answer *answer)
{
    answer->media[0] = answer->location[0] = answer->digest[0] = '\0';
    answer->challenge = (struct registry_challenge){0};
    answer->retry_after = -1;
    answer->has_start = 0;
}

static size_t on_header(char *line, size_t one, size_t length, void *data)
{
    struct http_exchange *exchange = data;
    struct http_answer *answer = &exchange->answer;
    char value[REGISTRY_URL_SIZE];
    (void)one; /* always 1 */
    answer->header_bytes += length;
    if (answer->header_bytes > HEADERS_MAX)
        return 0;
    if (length > 5 && strncmp(line, "HTTP/", 5) == 0)
        begin_answer(answer);
    else if (value_of(line, length, "WWW-Authenticate", value, sizeof(value)))
        registry_challenge_read(value, &answer->challenge);
    else if (value_of(line, length, "Retry-After", value, sizeof(value)))
        answer->retry_after = registry_retry_after(value, (int64_t)time(NULL));
    else if (value_of(line, length, "Content-Range", value, sizeof(value)))
        take_range(answer, value);
    else if (!value_of(line, length, "Content-Type", answer->media, sizeof(answer->media)) &&
             !value_of(line, length, "Docker-Content-Digest", answer->digest, sizeof(answer->digest)))
        (void)value_of(line, length, "Location", answer->location, sizeof(answer->location)); /* or no use */
    return length;
}

static int add_header(struct http_exchange *exchange, const char *name, const char *value)
{
    size_t size = strlen(name) + strlen(value) + 3;
    auto_free char *line = malloc(size);
    if (line == NULL)
        return -ENOMEM;
    (void)snprintf(line, size, "%s: %s", name, value); /* sized for it */
    struct curl_slist *grown = curl_slist_append(exchange->header, line);
    explicit_bzero(line, size); /* may be a credential */
    if (grown == NULL)
        return -ENOMEM;
    exchange->header = grown;
    return 0;
}

static bool set_basics(struct http_exchange *exchange, const struct registry_job *job)
{
    CURL *easy = exchange->easy;
    struct curl_blob ca = {.data = job->ca, .len = job->ca_length, .flags = CURL_BLOB_NOCOPY};
    long seconds = (long)((job->stall_ms + 999) / 1000);
    return curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "https,http") == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED) == CURLE_OK &&
           /* What is for the registry is not for a proxy on the way. */
           curl_easy_setopt(easy, CURLOPT_HEADEROPT, (long)CURLHEADER_SEPARATE) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2) == CURLE_OK &&
           (job->ca == NULL || curl_easy_setopt(easy, CURLOPT_CAINFO_BLOB, &ca) == CURLE_OK) &&
           curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_WAIT) == CURLE_OK &&
           /* Slower than this for so long is not coming. */
           curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1024L) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, seconds) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, 131072L) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_USERAGENT, "kern/" KERN_VERSION) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, exchange->answer.detail) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_WRITEDATA, exchange) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_HEADERDATA, exchange) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_PRIVATE, exchange) == CURLE_OK;
}

static bool set_request(struct http_exchange *exchange, const struct http_request *request)
{
    CURL *easy = exchange->easy;
    char range[40];
    if ((request->authorization != NULL &&
         add_header(exchange, "Authorization", request->authorization) < 0) ||
        (request->accept != NULL && add_header(exchange, "Accept", request->accept) < 0))
        return false;
    if (request->from > 0) {
        (void)snprintf(range, sizeof(range), "%llu-", (unsigned long long)request->from); /* fits */
        if (curl_easy_setopt(easy, CURLOPT_RANGE, range) != CURLE_OK)
            return false;
    }
    /* What is kept in memory is small, and its size may be said beforehand. */
    if (request->sink == NULL &&
        curl_easy_setopt(easy, CURLOPT_MAXFILESIZE_LARGE, (curl_off_t)request->limit) != CURLE_OK)
        return false;
    if (request->form != NULL && curl_easy_setopt(easy, CURLOPT_COPYPOSTFIELDS, request->form) != CURLE_OK)
        return false;
    return curl_easy_setopt(easy, CURLOPT_URL, request->url) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_HTTPHEADER, exchange->header) == CURLE_OK;
}

int http_exchange_start(struct http_exchange *exchange, const struct registry_job *job,
                        const struct http_request *request, struct kern_error *err)
{
    if (exchange->easy != NULL && exchange->answer.connection != CURLE_OK) {
        /* After a name that was not found, a handle keeps its buffer, and libcurl refuses to be told its size. */
        curl_easy_cleanup(exchange->easy);
        exchange->easy = NULL;
    }
    http_exchange_reset(exchange);
    if (exchange->easy == NULL)
        exchange->easy = curl_easy_init();
    exchange->limit = request->limit;
    exchange->sink = request->sink;
    exchange->sink_data = request->sink_data;
    if (exchange->easy == NULL || !set_basics(exchange, job) || !set_request(exchange, request))
        return kern_fail(err, 0, "cannot make a request with libcurl %s", curl_version());
    return 0;
}

void http_exchange_end(struct http_exchange *exchange, CURLcode result)
{
    struct http_answer *answer = &exchange->answer;
    answer->connection = result;
    answer->status = status_of(exchange->easy);
    if (result == CURLE_FILESIZE_EXCEEDED)
        answer->overflow = 1;
    /* Of an error its first words do, so the rest was not waited for. */
    if (answer->overflow != 0 && answer->status != 0 && !is_good(answer->status))
        answer->connection = CURLE_OK;
    if (answer->detail[0] == '\0')
        (void)snprintf(answer->detail, sizeof(answer->detail), "%s", curl_easy_strerror(result)); /* fits */
}

void http_exchange_reset(struct http_exchange *exchange)
{
    if (exchange->easy != NULL)
        curl_easy_reset(exchange->easy);
    curl_slist_free_all(exchange->header);
    exchange->header = NULL;
    free(exchange->answer.body);
    exchange->answer = (struct http_answer){.retry_after = -1};
}

void http_exchange_clear(struct http_exchange *exchange)
{
    if (exchange == NULL)
        return;
    http_exchange_reset(exchange);
    curl_easy_cleanup(exchange->easy);
    exchange->easy = NULL;
}
