/* When to ask again; see registry_retry.h. Pure. */
#include "registry_retry.h"

#include <curl/curl.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_WAIT 200 /* ms */

int64_t registry_retry_after(const char *value, int64_t now)
{
    value += strspn(value, " \t");
    size_t digits = strspn(value, "0123456789");
    if (digits > 0 && value[digits + strspn(value + digits, " \t\r\n")] == '\0')
        return digits > 9 ? 999999999 : strtoll(value, NULL, 10);
    time_t date = curl_getdate(value, NULL);
    if (date == (time_t)-1)
        return -1;
    return date > now ? (int64_t)date - now : 0;
}

/* Of a handshake that failed: the other side's words ("error:" and a number of the TLS library's) stay the same; a connection that
 * broke meanwhile may hold the next time. */
static bool broke_off(const char *detail)
{
    return detail == NULL || strstr(detail, "error:") == NULL || strstr(detail, "unexpected eof") != NULL;
}

/* What may be otherwise in a moment. A certificate that is wrong stays wrong. */
static bool is_passing(int32_t connection, const char *detail)
{
    switch (connection) {
    case CURLE_SSL_CONNECT_ERROR:
        return broke_off(detail);
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
    case CURLE_PARTIAL_FILE:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
        return true;
    default:
        return false;
    }
}

static bool is_passing_status(uint32_t status)
{
    return status == 408 || status == 429 || status == 500 || status == 502 || status == 503 || status == 504;
}

int64_t registry_retry(const struct registry_attempt *attempt, uint32_t limit, uint32_t noise)
{
    bool passing = attempt->connection != 0 ? is_passing(attempt->connection, attempt->detail)
                                            : is_passing_status(attempt->status);
    if (!passing || (attempt->number >= limit && attempt->progressed == 0))
        return -1;
    /* A host that cannot be found or reached: one more attempt, no half minute of silence. */
    bool unreachable = attempt->connection == CURLE_COULDNT_RESOLVE_HOST ||
                       attempt->connection == CURLE_COULDNT_RESOLVE_PROXY ||
                       attempt->connection == CURLE_COULDNT_CONNECT;
    if (unreachable && attempt->number >= 2)
        return -1;
    if (attempt->retry_after >= 0) {
        if (attempt->retry_after > REGISTRY_RETRY_LONGEST / 1000)
            return -1;
        return attempt->retry_after > 0 ? attempt->retry_after * 1000 : FIRST_WAIT;
    }
    uint32_t step = attempt->progressed != 0 ? 1 : attempt->number;
    int64_t wait = (int64_t)FIRST_WAIT << (step < 8 ? step - 1 : 7);
    return wait + (int64_t)(noise % 100) * wait / 400; /* up to a quarter more */
}
