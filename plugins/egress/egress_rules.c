/* The rules; see egress_rules.h. Pure: in kern, when options and kern.toml are read, and in the worker. */
#include "egress_rules.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QUOTED "cannot use egress rule \"%.200s\": "

static int refuse(const char *text, const char *why, const char *hint, struct kern_error *err)
{
    kern_refuse(err, 0, QUOTED "%s", text, why);
    kern_hint(err, "%s",
              hint != NULL ? hint : "such as api.example.com, *.example.com:443 or 203.0.113.0/24:443");
    return -EINVAL;
}

/* ---- Reading ---- */

static int read_port(const char *text, const char *digits, size_t length, struct egress_rule *rule,
                     struct kern_error *err)
{
    uint32_t port = 0;
    for (size_t i = 0; i < length; i++) {
        if (digits[i] < '0' || digits[i] > '9')
            return refuse(text, "the port is not a number",
                          "write it as HOST:PORT, such as db.example.com:5432", err);
        port = port > 65535 ? port : port * 10 + (uint32_t)(digits[i] - '0');
    }
    if (length == 0 || port == 0 || port > 65535)
        return refuse(text, "a port is a number from 1 to 65535",
                      "write it as HOST:PORT, such as db.example.com:5432", err);
    rule->port[0] = (uint16_t)port;
    rule->port_count = 1;
    return 0;
}

/* What stands behind the host: +private, +tls-any, +tls-ech. Returns where the host ends. */
static int read_marks(const char *text, size_t *ret_length, struct egress_rule *rule, struct kern_error *err)
{
    size_t length = strcspn(text, "+");
    for (const char *at = text + length; *at == '+';) {
        size_t count = strcspn(at + 1, "+");
        if (count == 7 && memcmp(at + 1, "private", 7) == 0)
            rule->private_too = 1;
        else if (count == 7 && memcmp(at + 1, "tls-any", 7) == 0)
            rule->tls = EGRESS_TLS_ANY;
        else if (count == 7 && memcmp(at + 1, "tls-ech", 7) == 0)
            rule->tls = EGRESS_TLS_ECH;
        else
            return refuse(text, "what follows the + is none of private, tls-any, tls-ech",
                          "such as db.example.com:5432+private, or both: db.example.com:5432+private+tls-any",
                          err);
        at += 1 + count;
    }
    *ret_length = length;
    return 0;
}

static int check_characters(const char *text, struct kern_error *err)
{
    if (strstr(text, "://") != NULL)
        return refuse(text, "a rule names a host, not an address with a scheme",
                      "leave out what stands before and after the host, as in: api.example.com:443", err);
    for (const char *c = text; *c != '\0'; c++) {
        unsigned char byte = (unsigned char)*c;
        if (byte >= 0x80)
            return refuse(text, "a name stands in its ASCII form",
                          "convert it first, as in: python3 -c 'print(\"NAME\".encode(\"idna\").decode())'",
                          err);
        if (byte <= ' ' || byte == 0x7f)
            return refuse(text, "it has a space or a control character in it",
                          "give several rules apart, as in: --egress-allow a.example.com,b.example.com", err);
        if (*c == '%' || *c == '@' || *c == '?' || *c == '#' || *c == '\\')
            return refuse(text, "it has a character that no host name has", NULL, err);
    }
    return 0;
}

static int mask_host_bits(struct egress_address *net, unsigned prefix)
{
    int had = 0;
    for (unsigned bit = prefix; bit < (net->v6 ? 128u : 32u); bit++) {
        uint8_t mask = (uint8_t)(0x80u >> (bit % 8));
        had |= net->bytes[bit / 8] & mask;
        net->bytes[bit / 8] &= (uint8_t)~mask;
    }
    return had != 0;
}

/* What egress_place_address() gives out: a rule for such an address would lead to the name that has it. */
static int is_synthetic(const struct egress_rule *rule)
{
    static const struct egress_address four = {0, {198, 18}}, six = {1, {0x20, 0x01, 0x00, 0x02}};
    return egress_address_within(&rule->net, &four, 15) || egress_address_within(&rule->net, &six, 48);
}

static int check_net(const char *text, struct egress_rule *rule, struct kern_error *err)
{
    char shown[EGRESS_ADDRESS_SIZE];
    if (mask_host_bits(&rule->net, rule->prefix)) {
        egress_address_print(&rule->net, shown, sizeof(shown));
        kern_refuse(err, 0, QUOTED "the address has bits behind the first %u set", text, rule->prefix);
        kern_hint(err, "the network is %s/%u; a single address stands alone, without a /", shown,
                  rule->prefix);
        return -EINVAL;
    }
    if (rule->deny)
        return 0;
    static const struct egress_address loopback = {0, {127}};
    struct egress_address last = rule->net;
    for (unsigned bit = rule->prefix; bit < (last.v6 ? 128u : 32u); bit++)
        last.bytes[bit / 8] |= (uint8_t)(0x80u >> (bit % 8));
    if (egress_address_within(&rule->net, &loopback, 8) || egress_address_within(&last, &loopback, 8) ||
        egress_address_within(&loopback, &rule->net, rule->prefix))
        return refuse(text, "127.0.0.0/8 is the box's own loopback",
                      "a service of the host is reached by a name: HOSTNAME:PORT+private", err);
    static const struct egress_address link_local = {1, {0xfe, 0x80}};
    if (egress_address_within(&rule->net, &link_local, 10))
        return refuse(text, "a link-local address is one of an interface, which a box does not have",
                      "a host there is reached by a name: HOSTNAME:PORT+private", err);
    if (is_synthetic(rule))
        return refuse(text, "in the box, names have such addresses",
                      "a host there is reached by a name: HOSTNAME:PORT+private", err);
    if (egress_address_class(&rule->net) == EGRESS_NEVER || egress_address_class(&last) == EGRESS_NEVER ||
        (!rule->net.v6 && rule->prefix < 8) || (rule->net.v6 && rule->prefix < 16) ||
        (rule->net.v6 && rule->prefix == 128 && egress_address_class(&rule->net) == EGRESS_PRIVATE &&
         rule->net.bytes[0] == 0))
        return refuse(text, "no host can be reached at such addresses",
                      "with --net host a box shares the host's network, without any rule", err);
    return 0;
}

static int read_prefix(const char *text, const char *digits, size_t length, struct egress_rule *rule,
                       struct kern_error *err)
{
    unsigned most = rule->net.v6 ? 128 : 32, prefix = 0;
    for (size_t i = 0; i < length; i++)
        prefix = digits[i] < '0' || digits[i] > '9' || prefix > 128
                     ? 1000
                     : prefix * 10 + (unsigned)(digits[i] - '0');
    if (length == 0 || prefix > most)
        return refuse(
            text, "what follows the / is neither a prefix length nor part of a host",
            "a rule has no path, as in: api.example.com:443; a network is written 203.0.113.0/24:443", err);
    rule->prefix = (uint8_t)prefix;
    return 0;
}

/* "203.0.113.0/24" or one address; *ret_is_net tells that it was one. */
static int read_net(const char *text, const char *host, size_t length, struct egress_rule *rule,
                    int *ret_is_net, struct kern_error *err)
{
    const char *slash = memchr(host, '/', length);
    size_t address = slash != NULL ? (size_t)(slash - host) : length;
    *ret_is_net = egress_address_parse(host, address, &rule->net) == 0;
    if (!*ret_is_net) {
        if (slash != NULL)
            return refuse(text, "a rule names a host and has no path",
                          "leave out the path, as in: api.example.com:443", err);
        return 0;
    }
    rule->kind = EGRESS_NET;
    rule->prefix = rule->net.v6 ? 128 : 32;
    int failed = slash != NULL ? read_prefix(text, slash + 1, length - address - 1, rule, err) : 0;
    return failed != 0 ? failed : check_net(text, rule, err);
}

static int read_name(const char *text, const char *host, size_t length, struct egress_rule *rule,
                     struct kern_error *err)
{
    rule->kind = EGRESS_HOST;
    if (length >= 2 && host[0] == '*' && host[1] == '.') {
        rule->kind = EGRESS_SUBDOMAINS;
        host += 2, length -= 2;
    } else if (length >= 2 && host[0] == '.') {
        rule->kind = EGRESS_DOMAIN;
        host++, length--;
    }
    if (length == 0 || (length == 1 && (*host == '*' || *host == '.')))
        return refuse(text, "it names no host",
                      "everything is --net host; a domain with all below it is written .example.com", err);
    if (memchr(host, '*', length) != NULL)
        return refuse(text, "a * stands for whole labels at the start only",
                      "write *.example.com for the subdomains, .example.com for the domain as well", err);
    if (egress_name_is_number(host, length))
        return refuse(text, "that is neither a name nor an address in its usual notation",
                      "write an address as four decimal numbers, such as 203.0.113.7:443", err);
    if (egress_name_clean(host, length, rule->name) != 0)
        return refuse(text, "that is not a host name: labels of 1 to 63 letters, digits and '-', 253 in all",
                      "such as api.example.com, *.example.com:443 or 203.0.113.0/24:443", err);
    return 0;
}

/* Splits HOST, [HOST]:PORT, HOST:PORT; an IPv6 address without brackets has several colons and no port. */
static int split_port(const char *text, size_t length, const char **ret_host, size_t *ret_length,
                      struct egress_rule *rule, struct kern_error *err)
{
    if (text[0] == '[') {
        const char *end = memchr(text, ']', length);
        if (end == NULL || (end[1] != ':' && end + 1 != text + length))
            return refuse(text, "an IPv6 address stands in [ ]", "such as [2001:db8::7]:443", err);
        *ret_host = text + 1;
        *ret_length = (size_t)(end - text) - 1;
        return end[1] == ':' ? read_port(text, end + 2, length - (size_t)(end + 2 - text), rule, err) : 0;
    }
    const char *colon = memchr(text, ':', length);
    *ret_host = text;
    *ret_length = length;
    if (colon == NULL || memchr(colon + 1, ':', length - (size_t)(colon + 1 - text)) != NULL)
        return 0;
    *ret_length = (size_t)(colon - text);
    return read_port(text, colon + 1, length - *ret_length - 1, rule, err);
}

int egress_rule_parse(const char *text, int deny, struct egress_rule *ret_rule, struct kern_error *err)
{
    struct egress_rule rule = {.deny = deny != 0};
    size_t length = strlen(text), host_length = 0;
    const char *host = NULL;
    int is_net = 0;
    if (length == 0)
        return refuse(text, "it is empty", "no rule at all is an empty list: --egress-allow none", err);
    if (length >= sizeof(rule.text))
        return refuse(text, "it is longer than any host name", NULL, err);
    memcpy(rule.text, text, length + 1);
    int failed = check_characters(text, err);
    if (failed == 0)
        failed = read_marks(text, &length, &rule, err);
    if (failed == 0 && length == 0)
        failed = refuse(text, "it names no host", NULL, err);
    if (failed == 0)
        failed = split_port(text, length, &host, &host_length, &rule, err);
    if (failed == 0)
        failed = read_net(text, host, host_length, &rule, &is_net, err);
    if (failed == 0 && !is_net)
        failed = read_name(text, host, host_length, &rule, err);
    if (failed != 0)
        return failed;
    if (rule.port_count == 0 && !rule.deny) {
        rule.port[0] = 80;
        rule.port[1] = 443;
        rule.port_count = 2;
    }
    *ret_rule = rule;
    return 0;
}

static int too_many(struct kern_error *err)
{
    kern_refuse(err, 0, "cannot use more than %d egress rules", EGRESS_MAX_RULES);
    kern_hint(err, "one rule covers a domain with all below it: .example.com");
    return -EINVAL;
}

int egress_rules_add(struct egress_rules *rules, const kern_values *values, const char *key, int deny,
                     int from_line, struct kern_error *err)
{
    const char *tls = kern_get_string(values, "tls");
    int private_too = kern_get_int(values, "private") != 0;
    for (uint32_t i = 0; i < kern_get_count(values, key); i++) {
        const char *text = kern_get_item(values, key, i);
        if (!deny && (text[0] == '\0' || strcmp(text, "none") == 0))
            continue; /* how an empty list is written on a command line */
        if (rules->count == EGRESS_MAX_RULES)
            return too_many(err);
        struct egress_rule *rule = &rules->rule[rules->count];
        int failed = egress_rule_parse(text, deny, rule, err);
        if (failed != 0)
            return failed;
        if (rule->private_too && !from_line)
            return refuse(text, "+private stands on the command line only",
                          "in kern.toml: put the rule into an [[egress]] table with private = true", err);
        rule->private_too |= (uint8_t)private_too;
        if (tls != NULL && rule->tls == EGRESS_TLS_NAME)
            rule->tls = strcmp(tls, "any") == 0   ? EGRESS_TLS_ANY
                        : strcmp(tls, "ech") == 0 ? EGRESS_TLS_ECH
                                                  : EGRESS_TLS_NAME;
        rules->count++;
    }
    return 0;
}

int egress_check_profile(const kern_values *profile, const kern_values *pool, struct kern_error *err)
{
    (void)pool; /* this kind has none */
    struct egress_rules *rules = calloc(1, sizeof(*rules));
    if (rules == NULL)
        return kern_fail(err, ENOMEM, "cannot read egress rules");
    int failed = egress_rules_add(rules, profile, "allow", 0, 0, err);
    if (failed == 0)
        failed = egress_rules_add(rules, profile, "deny", 1, 0, err);
    free(rules);
    return failed;
}

/* ---- Judging ---- */

static int covers_port(const struct egress_rule *rule, uint16_t port)
{
    for (uint8_t i = 0; i < rule->port_count; i++)
        if (rule->port[i] == port)
            return 1;
    return rule->port_count == 0;
}

static int covers_name(const struct egress_rule *rule, const char *name)
{
    if (rule->kind == EGRESS_NET)
        return 0;
    if (rule->kind != EGRESS_SUBDOMAINS && strcmp(rule->name, name) == 0)
        return 1;
    if (rule->kind == EGRESS_HOST)
        return 0;
    size_t length = strlen(name), domain = strlen(rule->name);
    return length > domain + 1 && name[length - domain - 1] == '.' &&
           strcmp(name + length - domain, rule->name) == 0;
}

/* A name of its own beats a domain, a longer domain a shorter one. */
static size_t weight(const struct egress_rule *rule)
{
    return rule->kind == EGRESS_NET ? rule->prefix : rule->kind == EGRESS_HOST ? 1000 : strlen(rule->name);
}

static int covers(const struct egress_rule *rule, const char *name, const struct egress_address *address)
{
    return name != NULL
               ? covers_name(rule, name)
               : rule->kind == EGRESS_NET && egress_address_within(address, &rule->net, rule->prefix);
}

static enum egress_verdict judge(const struct egress_rules *rules, const char *name,
                                 const struct egress_address *address, uint16_t port,
                                 const struct egress_rule **ret_rule)
{
    const struct egress_rule *best = NULL;
    int elsewhere = 0;
    for (uint32_t i = 0; i < rules->count; i++) {
        const struct egress_rule *rule = &rules->rule[i];
        if (!covers(rule, name, address))
            continue;
        if (rule->deny && (rule->port_count == 0 || (port != 0 && covers_port(rule, port)))) {
            *ret_rule = rule;
            return EGRESS_DENIED;
        }
        if (rule->deny)
            continue;
        if (port != 0 && !covers_port(rule, port))
            elsewhere = 1;
        else if (best == NULL || weight(rule) > weight(best))
            best = rule;
    }
    *ret_rule = best;
    return best != NULL ? EGRESS_ALLOWED : elsewhere ? EGRESS_WRONG_PORT : EGRESS_NO_RULE;
}

enum egress_verdict egress_rules_name(const struct egress_rules *rules, const char *name, uint16_t port,
                                      const struct egress_rule **ret_rule)
{
    return judge(rules, name, NULL, port, ret_rule);
}

enum egress_verdict egress_rules_address(const struct egress_rules *rules,
                                         const struct egress_address *address, uint16_t port,
                                         const struct egress_rule **ret_rule)
{
    return judge(rules, NULL, address, port, ret_rule);
}
