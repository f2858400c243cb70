/* The HTTP proxy of the box, for programs that use one: CONNECT and requests with a whole address. It adds nothing to what a box can
 * reach without it, but it can say why something is refused. Runs in the worker. */
#include "egress_world.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#define READ_STEP 8192

static void send_text(int fd, const char *text, size_t length)
{
    /* Into the empty buffer of a new connection: it fits, or nobody reads. */
    (void)send(fd, text, length, MSG_NOSIGNAL);
}

/* The last words of the proxy. What the client has sent is read first, or the kernel would turn the end into a reset. */
static void reply(struct egress_conn *conn, const char *status, const char *body)
{
    char text[2048], rest[4096];
    int fd = conn->relay.client.source.fd;
    int length = snprintf(text, sizeof(text),
                          "HTTP/1.1 %s\r\nContent-Type: text/plain\r\nContent-Length: %zu\r\n"
                          "Connection: close\r\n\r\n%s",
                          status, strlen(body), body); /* fits: the parts are bounded */
    for (int turn = 0; turn < 32 && recv(fd, rest, sizeof(rest), 0) > 0; turn++)
        continue;
    send_text(fd, text, (size_t)length);
    (void)shutdown(fd, SHUT_WR); /* gone already then */
    conn->told = 1;
}

static void refuse(struct egress_conn *conn, const char *why, const char *rule)
{
    char body[1400];
    (void)snprintf(body, sizeof(body), "kern: egress to %s:%u refused: %s\n%s%s%s", conn->name, conn->port,
                   why, rule != NULL ? "rule: " : "", rule != NULL ? rule : "", rule != NULL ? "\n" : "");
    reply(conn, "403 Forbidden", body);
    egress_conn_end(conn);
}

void egress_proxy_failed(struct egress_conn *conn, uint32_t reason, const char *detail)
{
    char body[1400];
    if (reason < EGRESS_DENIAL_COUNT) {
        (void)snprintf(body, sizeof(body), "kern: egress to %s:%u refused: %s\n", conn->name, conn->port,
                       egress_denial_text(reason));
        reply(conn, "403 Forbidden", body);
        return;
    }
    (void)snprintf(body, sizeof(body), "kern: no connection to %s:%u: %s\n", conn->name, conn->port, detail);
    reply(conn, "502 Bad Gateway", body);
}

int egress_proxy_connected(struct egress_conn *conn)
{
    static const char yes[] = "HTTP/1.1 200 Connection established\r\n\r\n";
    if (conn->tunnel)
        send_text(conn->relay.client.source.fd, yes, sizeof(yes) - 1);
    return 0;
}

/* ---- A request with a whole address becomes one with a path ---- */

static int is_hop(const char *line, size_t length)
{
    static const char *const hops[] = {"connection", "proxy-connection", "keep-alive", "proxy-authorization",
                                       "te"};
    for (size_t i = 0; i < sizeof(hops) / sizeof(hops[0]); i++) {
        size_t count = strlen(hops[i]);
        if (length > count && line[count] == ':' && strncasecmp(line, hops[i], count) == 0)
            return 1;
    }
    return 0;
}

static uint8_t *put(uint8_t *at, const void *bytes, size_t length)
{
    memcpy(at, bytes, length);
    return at + length;
}

/* One request to a connection: the next may be for another host. */
static int rewrite(struct egress_conn *conn, const struct egress_head *head)
{
    static const char close_line[] = "Connection: close\r\n";
    const char *text = (const char *)conn->early;
    uint8_t *made = malloc(conn->early_length + sizeof(close_line) + 1), *at = made;
    if (made == NULL)
        return -ENOMEM;
    const char *end = memchr(text, '\r', head->length); /* the parser has seen it */
    at = put(at, text, head->method + 1);
    if (text[head->path] != '/')
        *at++ = '/';
    at = put(at, text + head->path, (size_t)(end - text) - head->path + 2);
    for (const char *line = end + 2; line < text + head->length - 2;) {
        end = memchr(line, '\r', (size_t)(text + head->length - line));
        size_t length = (size_t)(end - line) + 2;
        if (!is_hop(line, length))
            at = put(at, line, length);
        line += length;
    }
    at = put(at, close_line, sizeof(close_line) - 1);
    at = put(at, "\r\n", 2);
    at = put(at, text + head->length, conn->early_length - head->length);
    free(conn->early);
    conn->early = made;
    conn->early_length = (uint32_t)(at - made);
    return 0;
}

/* ---- The request ---- */

static void go(struct egress_conn *conn, const struct egress_head *head, const struct egress_rule *rule)
{
    conn->tunnel = head->connect != 0;
    if (conn->tunnel) {
        conn->early_length -= (uint32_t)head->length;
        memmove(conn->early, conn->early + head->length, conn->early_length);
    } else {
        if (rewrite(conn, head) != 0) {
            egress_conn_end(conn);
            return;
        }
        if (!conn->is_address && rule->tls != EGRESS_TLS_ANY) {
            egress_check_start(&conn->check, conn->name, conn->port, 0);
            conn->check.state = EGRESS_CHECK_HEAD;
            conn->check.once = 1;
        }
    }
    egress_conn_reach(conn, rule);
}

static void judge(struct egress_conn *conn, const struct egress_head *head)
{
    const struct egress_authority *to = &head->target;
    const struct egress_rules *rules = conn->world->state->rules;
    const struct egress_rule *rule = NULL;
    enum egress_verdict verdict;
    conn->port = to->port != 0 ? to->port : 80;
    conn->is_address = to->is_address != 0;
    if (to->is_address) {
        conn->address[0] = to->address;
        egress_address_print(&to->address, conn->name, sizeof(conn->name));
        verdict = egress_rules_address(rules, &to->address, conn->port, &rule);
    } else {
        memcpy(conn->name, to->name, sizeof(conn->name));
        verdict = egress_rules_name(rules, conn->name, conn->port, &rule);
    }
    if (verdict == EGRESS_ALLOWED) {
        go(conn, head, rule);
        return;
    }
    uint32_t reason;
    const char *why = egress_reason(verdict, &reason);
    if (to->is_address && reason == EGRESS_DENIAL_NO_RULE)
        why = egress_denial_text(reason = EGRESS_DENIAL_ADDRESS);
    egress_deny(conn->world, conn->name, conn->port, reason);
    refuse(conn, why, rule != NULL ? rule->text : NULL);
}

static void refuse_request(struct egress_conn *conn, const char *why)
{
    (void)snprintf(conn->name, sizeof(conn->name), "127.0.0.1");
    conn->port = EGRESS_PROXY_PORT;
    egress_deny(conn->world, conn->name, conn->port, EGRESS_DENIAL_REQUEST);
    refuse(conn, why, NULL);
}

/* Returns 1 when there are new bytes. */
static int read_more(struct egress_conn *conn)
{
    uint8_t *grown = realloc(conn->early, conn->early_length + READ_STEP);
    if (grown == NULL)
        return -ENOMEM;
    conn->early = grown;
    ssize_t got = recv(conn->relay.client.source.fd, grown + conn->early_length, READ_STEP, 0);
    if (got < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -errno;
    conn->early_length += (uint32_t)got;
    return got > 0 ? 1 : -EPIPE;
}

void egress_proxy_start(struct egress_conn *conn)
{
    struct egress_head head;
    const char *why = NULL;
    for (;;) {
        int more = read_more(conn);
        if (more < 0)
            egress_conn_end(conn);
        if (more <= 0)
            return;
        int failed = egress_http_head(conn->early, conn->early_length, &head, &why);
        if (failed == -EAGAIN)
            continue;
        if (failed != 0)
            refuse_request(conn, why);
        else if (!head.connect && !head.absolute)
            refuse_request(conn,
                           "this is the box's egress proxy: it takes CONNECT, and requests with a whole "
                           "http:// address");
        else if (!head.connect && head.upgrade)
            refuse_request(conn, "an Upgrade needs a CONNECT here");
        else
            judge(conn, &head);
        return;
    }
}
