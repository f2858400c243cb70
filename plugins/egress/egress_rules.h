/* What a box may reach: rules read from --egress-allow, --egress-deny and [[egress]], and who they let through. Pure: compiled
 * into the egress plugin and into kern, which judges a kern.toml when it is read. */
#ifndef EGRESS_RULES_H
#define EGRESS_RULES_H

#include "egress_name.h"
#include "kern/plugin.h"

#define EGRESS_MAX_RULES 256

#define EGRESS_TLS_NAME 0 /* the ClientHello must name the host, and must not hide another name */
#define EGRESS_TLS_ECH  1 /* the same, but an encrypted ClientHello may hide another name */
#define EGRESS_TLS_ANY  2 /* neither ClientHello nor Host header is looked at */

enum egress_kind {
    EGRESS_HOST,       /* api.example.com */
    EGRESS_SUBDOMAINS, /* *.example.com */
    EGRESS_DOMAIN,     /* .example.com: the domain and its subdomains */
    EGRESS_NET,        /* 203.0.113.0/24 */
};

struct egress_rule {
    enum egress_kind kind;
    uint8_t deny, private_too, tls, prefix;
    uint8_t port_count; /* 0 in a rule that denies: every port */
    uint16_t port[2];
    struct egress_address net;
    char name[EGRESS_NAME_SIZE];
    char text[EGRESS_NAME_SIZE + 64]; /* as it was written, for messages */
};

struct egress_rules {
    struct egress_rule rule[EGRESS_MAX_RULES];
    uint32_t count;
};

enum egress_verdict { EGRESS_ALLOWED, EGRESS_NO_RULE, EGRESS_WRONG_PORT, EGRESS_DENIED };

/* HOST[:PORT][+private][+tls-any|+tls-ech]; refuses with a hint what is none. */
int egress_rule_parse(const char *text, int deny, struct egress_rule *ret_rule, struct kern_error *err);
#define EGRESS_FROM_LINE 1 /* the rules stand on the command line, where +private may be written */
/* A clean name. *ret_rule is the rule that decided, or NULL; of several that allow, the one that says most about the name. Port 0
 * asks whether any port of the name is allowed. */
enum egress_verdict egress_rules_name(const struct egress_rules *rules, const char *name, uint16_t port,
                                      const struct egress_rule **ret_rule);
enum egress_verdict egress_rules_address(const struct egress_rules *rules,
                                         const struct egress_address *address, uint16_t port,
                                         const struct egress_rule **ret_rule);
/* The hook of the plugin's table: judges an [[egress]] profile. */
int egress_check_profile(const kern_values *profile, const kern_values *pool, struct kern_error *err);
/* Adds the rules of `key` of a set of values; keys private and tls of the set count for each of them. In kern.toml a rule cannot say
 * +private: the key can, and kern.toml of somebody else (--config) may not set that. */
int egress_rules_add(struct egress_rules *rules, const kern_values *values, const char *key, int deny,
                     int from_line, struct kern_error *err);

#endif
