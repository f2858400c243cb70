/* Published ports; see egress_ports.h. Pure. */
#include "egress_ports.h"

#include <errno.h>
#include <string.h>

static int refuse(const char *text, const char *why, struct kern_error *err)
{
    kern_refuse(err, 0, "cannot use --publish \"%.200s\": %s", text, why);
    kern_hint(
        err, "write it as HOST_PORT:BOX_PORT, such as 8080:80, 0.0.0.0:8000-8010:9000-9010, [::1]:53:53/udp");
    return -EINVAL;
}

struct range {
    uint32_t first, last;
};

/* A number of up to five digits; moves *at behind it. 0 when there is none. */
static uint32_t read_number(const char **at, const char *end)
{
    uint32_t number = 0;
    const char *start = *at;
    while (*at < end && **at >= '0' && **at <= '9' && *at - start < 6)
        number = number * 10 + (uint32_t)(*(*at)++ - '0');
    return *at > start ? number : 0;
}

/* NULL, or what is wrong with it. */
static const char *read_range(const char *at, const char *end, struct range *ret_range)
{
    struct range range = {.first = read_number(&at, end)};
    range.last = range.first;
    if (at < end && *at == '-') {
        at++;
        range.last = read_number(&at, end);
    }
    if (at != end || range.first == 0 || range.last == 0 || range.first > 65535 || range.last > 65535)
        return "a port is a number from 1 to 65535, or a range of them";
    if (range.last < range.first)
        return "a range begins with its lower end";
    *ret_range = range;
    return NULL;
}

static int is_any(const struct egress_address *address)
{
    static const uint8_t none[sizeof(address->bytes)];
    return memcmp(address->bytes, none, address->v6 ? 16 : 4) == 0;
}

/* Whether one host port would be wanted by both: a server on all addresses has each. */
static int collides(const struct egress_port *a, const struct egress_port *b)
{
    return a->host == b->host && a->udp == b->udp && a->address.v6 == b->address.v6 &&
           (is_any(&a->address) || is_any(&b->address) ||
            memcmp(a->address.bytes, b->address.bytes, a->address.v6 ? 16 : 4) == 0);
}

static int append(struct egress_ports *ports, const struct egress_port *port, const char *text,
                  struct kern_error *err)
{
    for (uint32_t i = 0; i < ports->count; i++) {
        if (!collides(&ports->port[i], port))
            continue;
        kern_refuse(err, 0,
                    "cannot use --publish \"%.200s\": port %u of the host is published already, for port %u "
                    "of the box",
                    text, port->host, ports->port[i].box);
        kern_hint(err, "leave out one of the two, or publish on another port, such as %u:%u",
                  port->host < 65535 ? port->host + 1u : 8080u, port->box);
        return -EINVAL;
    }
    if (ports->count == EGRESS_MAX_PORTS) {
        kern_refuse(err, 0, "cannot publish more than %d ports", EGRESS_MAX_PORTS);
        kern_hint(err, "publish fewer, or give the box all ports of the host: --net host");
        return -EINVAL;
    }
    ports->port[ports->count++] = *port;
    return 0;
}

/* What stands behind the ports. Returns their end, or NULL. */
static const char *read_marks(const char *text, struct egress_port *port)
{
    const char *end = text + strcspn(text, "/+"), *at = end;
    if (*at == '/') {
        size_t length = strcspn(at + 1, "+");
        port->udp = length == 3 && memcmp(at + 1, "udp", 3) == 0;
        if (!port->udp && (length != 3 || memcmp(at + 1, "tcp", 3) != 0))
            return NULL;
        at += 1 + length;
    }
    if (*at == '+') {
        if (strcmp(at, "+proxy") != 0)
            return NULL;
        port->proxy = 1;
        at += 6;
    }
    return *at == '\0' ? end : NULL;
}

/* The address in front, 127.0.0.1 when there is none. Returns where the ports start, or NULL. */
static const char *read_address(const char *text, const char *end, struct egress_address *address)
{
    *address = (struct egress_address){.bytes = {127, 0, 0, 1}};
    if (text[0] == '[') {
        const char *close = memchr(text, ']', (size_t)(end - text));
        if (close == NULL || close[1] != ':' || !memchr(text, ':', (size_t)(close - text)) ||
            egress_address_parse(text + 1, (size_t)(close - text) - 1, address) != 0)
            return NULL;
        return close + 2;
    }
    const char *colon = memchr(text, ':', (size_t)(end - text));
    if (colon == NULL || memchr(colon + 1, ':', (size_t)(end - colon) - 1) == NULL)
        return text;
    return egress_address_parse(text, (size_t)(colon - text), address) == 0 && !address->v6 ? colon + 1
                                                                                            : NULL;
}

int egress_ports_add(struct egress_ports *ports, const char *text, struct kern_error *err)
{
    struct egress_port port = {0};
    struct range host, box;
    const char *end = read_marks(text, &port);
    if (end == NULL)
        return refuse(text, "what follows the ports is none of /tcp, /udp, +proxy", err);
    if (port.udp && port.proxy)
        return refuse(text, "+proxy is for TCP", err);
    const char *at = read_address(text, end, &port.address);
    if (at == NULL)
        return refuse(text, "it starts with what is no address of this machine", err);
    const char *colon = memchr(at, ':', (size_t)(end - at));
    if (colon == NULL)
        return refuse(text, "it names one port, and two are needed", err);
    const char *why = read_range(at, colon, &host);
    if (why == NULL)
        why = read_range(colon + 1, end, &box);
    if (why != NULL)
        return refuse(text, why, err);
    if (host.last - host.first != box.last - box.first)
        return refuse(text, "the two ranges differ in length", err);
    for (uint32_t i = 0; i <= host.last - host.first; i++) {
        port.host = (uint16_t)(host.first + i);
        port.box = (uint16_t)(box.first + i);
        int failed = append(ports, &port, text, err);
        if (failed != 0)
            return failed;
    }
    return 0;
}
