/* Egress rules, names and addresses: what is one, what it covers, and what a name may lead to. */
#include "egress.h"
#include "egress_session.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>

static void names(void **state)
{
    (void)state; /* no fixture */
    static const struct {
        const char *in, *out; /* NULL: refused */
    } row[] = {
        {"a.example.com", "a.example.com"},
        {"A.Example.COM.", "a.example.com"},
        {"_srv.x-1.y", "_srv.x-1.y"},
        {"localhost", "localhost"},
        {"", NULL},
        {".", NULL},
        {"a..b", NULL},
        {".a", NULL},
        {"a.b..", NULL},
        {"-a.b", NULL},
        {"a-.b", NULL},
        {"a b", NULL},
        {"a%2eb", NULL},
        {"a/b", NULL},
        {"b\xc3\xbc.example", NULL},
        {"127.0.0.1", NULL},
        {"127.1", NULL},
        {"0x7f.1", NULL},
        {"2130706433", NULL},
        {"0x7f000001", NULL},
        {"a.0x1F.", NULL},
        {"1.a", "1.a"},
        {"0xg.a", "0xg.a"},
    };
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
        char name[EGRESS_NAME_SIZE] = "untouched";
        int result = egress_name_clean(row[i].in, strlen(row[i].in), name);
        assert_int_equal(result, row[i].out != NULL ? 0 : -EINVAL);
        assert_string_equal(name, row[i].out != NULL ? row[i].out : "untouched");
    }
    char name[EGRESS_NAME_SIZE], longest[300];
    assert_int_equal(egress_name_clean("a\0b", 3, name), -EINVAL);
    memset(longest, 'a', sizeof(longest));
    assert_int_equal(egress_name_clean(longest, 63, name), 0);
    assert_int_equal(egress_name_clean(longest, 64, name), -EINVAL);
    for (size_t i = 50; i < sizeof(longest); i += 50)
        longest[i] = '.';
    assert_int_equal(egress_name_clean(longest, 253, name), 0);
    assert_int_equal(egress_name_clean(longest, 254, name), -EINVAL);
}

static void addresses(void **state)
{
    (void)state; /* no fixture */
    static const struct {
        const char *text;
        int is; /* -1: no address */
    } row[] = {
        {"203.0.113.7", EGRESS_PUBLIC},
        {"8.8.8.8", EGRESS_PUBLIC},
        {"10.1.2.3", EGRESS_PRIVATE},
        {"127.0.0.1", EGRESS_PRIVATE},
        {"127.255.0.1", EGRESS_PRIVATE},
        {"169.254.169.254", EGRESS_PRIVATE},
        {"172.16.0.1", EGRESS_PRIVATE},
        {"172.31.255.255", EGRESS_PRIVATE},
        {"172.32.0.1", EGRESS_PUBLIC},
        {"192.168.1.1", EGRESS_PRIVATE},
        {"100.64.0.1", EGRESS_PRIVATE},
        {"100.100.100.200", EGRESS_PRIVATE},
        {"100.128.0.1", EGRESS_PUBLIC},
        {"168.63.129.16", EGRESS_PRIVATE},
        {"198.18.0.1", EGRESS_PRIVATE},
        {"0.0.0.0", EGRESS_NEVER},
        {"224.0.0.1", EGRESS_NEVER},
        {"255.255.255.255", EGRESS_NEVER},
        {"2001:db8::1", EGRESS_PUBLIC},
        {"2606:4700::1", EGRESS_PUBLIC},
        {"::", EGRESS_NEVER},
        {"::1", EGRESS_PRIVATE},
        {"::ffff:10.0.0.1", EGRESS_NEVER},
        {"::ffff:8.8.8.8", EGRESS_NEVER},
        {"::8.8.8.8", EGRESS_NEVER},
        {"fe80::1", EGRESS_PRIVATE},
        {"fd00:ec2::254", EGRESS_PRIVATE},
        {"ff02::1", EGRESS_NEVER},
        {"2002:7f00:1::", EGRESS_NEVER},
        {"2001::1", EGRESS_NEVER},
        {"2001:2::1", EGRESS_PRIVATE},
        {"64:ff9b::10.0.0.1", EGRESS_PRIVATE},
        {"64:ff9b::127.0.0.1", EGRESS_PRIVATE},
        {"64:ff9b::8.8.8.8", EGRESS_PUBLIC},
        {"127.1", -1},
        {"0177.0.0.1", -1},
        {"127.0.0.1 ", -1},
        {"1.2.3.4.5", -1},
        {"fe80::1%eth0", -1},
        {"[::1]", -1},
        {"", -1},
    };
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
        struct egress_address address;
        int result = egress_address_parse(row[i].text, strlen(row[i].text), &address);
        if (row[i].is < 0)
            assert_int_equal(result, -EINVAL);
        else if (result != 0 || egress_address_class(&address) != row[i].is)
            fail_msg("%s", row[i].text);
    }
}

static void refused_rules(void **state)
{
    (void)state; /* no fixture */
    static const char *const row[][2] = {
        {"", "empty"},
        {"https://a.example.com", "scheme"},
        {"a.example.com/path", "no path"},
        {"a example", "space"},
        {"a\texample", "space"},
        {"a.example.com:0", "1 to 65535"},
        {"a.example.com:70000", "1 to 65535"},
        {"a.example.com:", "1 to 65535"},
        {"a.example.com:99999999999", "1 to 65535"},
        {"a.example.com:80x", "not a number"},
        {"203.0.113.1/24", "bits behind the first 24"},
        {"203.0.113.0/33", "prefix length"},
        {"203.0.113.0/", "prefix length"},
        {"a.*.com", "whole labels"},
        {"*a.com", "whole labels"},
        {"*", "no host"},
        {"*.", "no host"},
        {".", "no host"},
        {"+private", "no host"},
        {"b\xc3\xbc.example", "ASCII"},
        {"127.0.0.1:80", "own loopback"},
        {"127.0.0.0/8", "own loopback"},
        {"0.0.0.0/0", "own loopback"},
        {"126.0.0.0/7", "own loopback"},
        {"224.0.0.0/4", "no host"},
        {"::1", "no host"},
        {"::/0", "no host"},
        {"0177.0.0.1", "usual notation"},
        {"1.2.3", "usual notation"},
        {"user@a.example.com", "no host name has"},
        {"a.example.com+x", "none of"},
        {"[2001:db8::1", "stands in [ ]"},
        {"[2001:db8::1]80", "stands in [ ]"},
        {"a..b", "not a host name"},
        {"198.18.0.1:443", "names have such addresses"},
        {"198.19.0.0/16", "names have such addresses"},
        {"2001:2::1", "names have such addresses"},
    };
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
        struct egress_rule rule = {.prefix = 77};
        struct kern_error err = {0};
        if (egress_rule_parse(row[i][0], 0, &rule, &err) >= 0 || strstr(err.message, row[i][1]) == NULL)
            fail_msg("%s: %s", row[i][0], err.message);
        assert_int_equal(rule.prefix, 77);
        assert_string_not_equal(err.hint, "");
        assert_int_equal(err.category, KERN_ERROR_REFUSED);
    }
}

static struct egress_rules *make(const char *const *texts)
{
    struct egress_rules *rules = calloc(1, sizeof(*rules));
    for (; *texts != NULL; texts++) {
        struct kern_error err = {0};
        int deny = **texts == '!';
        if (egress_rule_parse(*texts + deny, deny, &rules->rule[rules->count++], &err) != 0)
            fail_msg("%s", err.message);
    }
    return rules;
}

static void verdicts(void **state)
{
    (void)state; /* no fixture */
    static const char *const texts[] = {"api.Example.com",
                                        "*.sub.example.com",
                                        ".both.example.com",
                                        "db.example.com:5432",
                                        "!secret.both.example.com",
                                        "!api.example.com:80",
                                        "x.sub.example.com:22+private+tls-any",
                                        NULL};
    struct egress_rules *rules = make(texts);
    static const struct {
        const char *name;
        uint16_t port;
        enum egress_verdict verdict;
    } row[] = {
        {"api.example.com", 443, EGRESS_ALLOWED},        {"api.example.com", 80, EGRESS_DENIED},
        {"api.example.com", 22, EGRESS_WRONG_PORT},      {"api.example.com", 0, EGRESS_ALLOWED},
        {"xapi.example.com", 443, EGRESS_NO_RULE},       {"example.com", 443, EGRESS_NO_RULE},
        {"sub.example.com", 443, EGRESS_NO_RULE},        {"a.sub.example.com", 443, EGRESS_ALLOWED},
        {"a.b.sub.example.com", 80, EGRESS_ALLOWED},     {"asub.example.com", 443, EGRESS_NO_RULE},
        {"both.example.com", 443, EGRESS_ALLOWED},       {"a.both.example.com", 443, EGRESS_ALLOWED},
        {"secret.both.example.com", 443, EGRESS_DENIED}, {"secret.both.example.com", 0, EGRESS_DENIED},
        {"db.example.com", 5432, EGRESS_ALLOWED},        {"db.example.com", 443, EGRESS_WRONG_PORT},
        {"x.sub.example.com", 22, EGRESS_ALLOWED},       {"x.sub.example.com", 443, EGRESS_ALLOWED},
    };
    const struct egress_rule *rule;
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++)
        if (egress_rules_name(rules, row[i].name, row[i].port, &rule) != row[i].verdict)
            fail_msg("%s:%u", row[i].name, row[i].port);
    assert_int_equal(egress_rules_name(rules, "x.sub.example.com", 22, &rule), EGRESS_ALLOWED);
    assert_int_equal(rule->private_too, 1);
    assert_int_equal(rule->tls, EGRESS_TLS_ANY);
    assert_int_equal(egress_rules_name(rules, "x.sub.example.com", 443, &rule), EGRESS_ALLOWED);
    assert_int_equal(rule->private_too, 0);
    free(rules);
}

static void networks(void **state)
{
    (void)state; /* no fixture */
    static const char *const texts[] = {"203.0.113.0/24:443", "198.51.100.7",      "[2001:db8::/32]:443",
                                        "2001:db8:1::5",      "!203.0.113.128/25", NULL};
    struct egress_rules *rules = make(texts);
    static const struct {
        const char *address;
        uint16_t port;
        enum egress_verdict verdict;
    } row[] = {
        {"203.0.113.1", 443, EGRESS_ALLOWED},   {"203.0.113.1", 80, EGRESS_WRONG_PORT},
        {"203.0.113.200", 443, EGRESS_DENIED},  {"203.0.114.1", 443, EGRESS_NO_RULE},
        {"198.51.100.7", 80, EGRESS_ALLOWED},   {"198.51.100.8", 80, EGRESS_NO_RULE},
        {"2001:db8:9::1", 443, EGRESS_ALLOWED}, {"2001:db8:1::5", 80, EGRESS_ALLOWED},
        {"2001:db9::1", 443, EGRESS_NO_RULE},   {"::ffff:203.0.113.1", 443, EGRESS_NO_RULE},
    };
    const struct egress_rule *rule;
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
        struct egress_address address;
        assert_int_equal(egress_address_parse(row[i].address, strlen(row[i].address), &address), 0);
        if (egress_rules_address(rules, &address, row[i].port, &rule) != row[i].verdict)
            fail_msg("%s:%u", row[i].address, row[i].port);
    }
    free(rules);
}

static struct egress_state plan(const char *const *texts, int *ret_result, int *ret_cut)
{
    struct egress_state state = {.rules = make(texts),
                                 .slot = calloc(EGRESS_MAX_SLOTS, sizeof(struct egress_slot)),
                                 .place = calloc(EGRESS_MAX_PLACES, sizeof(struct egress_place))};
    struct kern_error err = {0};
    *ret_result = egress_plan(&state, ret_cut, &err);
    return state;
}

static void drop(struct egress_state *state)
{
    free(state->rules);
    free(state->slot);
    free(state->place);
}

static void sockets_of_a_box(void **state)
{
    (void)state; /* no fixture */
    int result, cut;
    static const char *const plain[] = {"a.example.com", "a.example.com:22", "!b.example.com",
                                        "b.example.com", NULL};
    struct egress_state box = plan(plain, &result, &cut);
    assert_int_equal(result, 0);
    assert_int_equal(box.slot_count, 3 + 2 * 3); /* two families, three ports; b is denied */
    assert_int_equal(box.place_count, 1);
    drop(&box);
    static const char *const wild[] = {"*.example.com", NULL};
    box = plan(wild, &result, &cut);
    assert_int_equal(box.slot_count, 3 + EGRESS_POOL_SLOTS);
    assert_int_equal(box.place_count, EGRESS_POOL_SLOTS / 4);
    assert_int_equal(box.slot[3].listening, 0);
    drop(&box);
    static const char *const net[] = {"203.0.113.0/29:443", "203.0.113.0/30:443", "10.0.0.0/8:443", NULL};
    box = plan(net, &result, &cut);
    assert_int_equal(box.slot_count, 3 + 8);
    assert_int_equal(cut, 1);
    drop(&box);
    static const char *const large_first[] = {"198.51.100.0/24", "192.0.2.0/24", "203.0.113.7:443", NULL};
    box = plan(large_first, &result, &cut);
    assert_int_equal(box.slot_count, 3 + 1 + 512); /* the second /24 finds no room, the single address does */
    assert_int_equal(box.slot[3].address.bytes[3], 7);
    assert_int_equal(cut, 1);
    drop(&box);
}

static void places_have_addresses(void **state)
{
    (void)state; /* no fixture */
    struct egress_address address;
    char text[EGRESS_ADDRESS_SIZE];
    egress_place_address(0, 0, &address);
    egress_address_print(&address, text, sizeof(text));
    assert_string_equal(text, "198.18.0.1");
    egress_place_address(300, 1, &address);
    egress_address_print(&address, text, sizeof(text));
    assert_string_equal(text, "2001:2::12d");
}

static void host_files(void **state)
{
    (void)state; /* no fixture */
    struct egress_host_files files = {0};
    egress_host_read_resolv(
        "# c\nsearch x\nnameserver 192.0.2.1\n nameserver\t2001:db8::1 # c\nnameserver bad\n"
        "nameserver 192.0.2.3\nnameserver 192.0.2.4\nnameserver",
        &files);
    assert_int_equal(files.server_count, 3);
    assert_int_equal(files.server[1].v6, 1);
    assert_int_equal(files.server[2].bytes[3], 3);
    assert_int_equal(
        egress_host_read_hosts(
            "127.0.0.1 localhost\n::1\tlocalhost ip6-localhost\n\n#x\n1.2.3.4 A.b. bad/name # c", &files),
        0);
    assert_int_equal(files.host_count, 4);
    assert_string_equal(files.host[3].name, "a.b");
    free(files.host);
}

static void published_ports(void **state)
{
    (void)state; /* no fixture */
    struct egress_ports *ports = calloc(1, sizeof(*ports));
    struct kern_error err = {0};
    static const char *const good[] = {"8080:80", "0.0.0.0:1-3:65533-65535/udp", "[::1]:53:53/tcp+proxy",
                                       "203.0.113.1:1:2"};
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(egress_ports_add(ports, good[i], &err), 0);
    assert_int_equal(ports->count, 6);
    assert_int_equal(ports->port[0].address.bytes[0], 127);
    assert_int_equal(ports->port[3].host, 3);
    assert_int_equal(ports->port[3].box, 65535);
    assert_int_equal(ports->port[3].udp, 1);
    assert_int_equal(ports->port[4].address.v6, 1);
    assert_int_equal(ports->port[4].proxy, 1);
    static const char *const bad[] = {"",
                                      "80",
                                      ":",
                                      "1:",
                                      ":1",
                                      "1:2:3",
                                      "0:1",
                                      "1:0",
                                      "1:65536",
                                      "1-2:1",
                                      "2-1:2-1",
                                      "1:2/",
                                      "1:2/x",
                                      "1:2+x",
                                      "1:2/udp+proxy",
                                      "[::1:1:2",
                                      "[127.0.0.1]:1:2",
                                      "::1:1:2",
                                      "a:1:2",
                                      "1.2.3:1:2",
                                      "1:2 ",
                                      " 1:2",
                                      "1:-2",
                                      "1:2:3:4"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        err = (struct kern_error){0};
        if (egress_ports_add(ports, bad[i], &err) >= 0 || err.category != KERN_ERROR_REFUSED)
            fail_msg("%s", bad[i]);
    }
    assert_int_equal(ports->count, 6);
    free(ports);
}

static void one_port_of_the_host_is_published_once(void **state)
{
    (void)state; /* no fixture */
    struct egress_ports *ports = calloc(1, sizeof(*ports));
    struct kern_error err = {0};
    static const char *const good[] = {"8080:80", "0.0.0.0:1-3:65533-65535/udp", "[::1]:53:53"};
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(egress_ports_add(ports, good[i], &err), 0);
    static const struct {
        const char *text, *part;
    } told[] = {
        {"2-1:5-6", "lower end"},
        {"5-6:2-1", "lower end"},
        {"8080:81", "published already, for port 80 of the box"},
        {"0.0.0.0:8079-8080:1-2", "port 8080 of the host"},
        {"127.0.0.1:2:9/udp", "published already"},
        {"[::]:53:1", "published already"},
    };
    for (size_t i = 0; i < sizeof(told) / sizeof(told[0]); i++) {
        err = (struct kern_error){0};
        if (egress_ports_add(ports, told[i].text, &err) >= 0 || strstr(err.message, told[i].part) == NULL)
            fail_msg("%s: %s", told[i].text, err.message);
    }
    static const char *const apart[] = {"8080:80/udp", "[::1]:8080:80", "203.0.113.1:8080:80"};
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(egress_ports_add(ports, apart[i], &err), 0);
    free(ports);
}

static void peers_are_forgotten_when_they_are_silent(void **state)
{
    (void)state; /* no fixture */
    struct egress_sessions sessions = {0};
    struct egress_source port[2] = {{.fd = 1}, {.fd = 2}};
    struct egress_session session[3] = {{.listener = &port[0], .peer = {{.ss_family = 1}, .size = 2}},
                                        {.listener = &port[1], .peer = {{.ss_family = 1}, .size = 2}},
                                        {.listener = &port[0], .peer = {{.ss_family = 2}, .size = 2}}};
    struct egress_peer longer = {{.ss_family = 1}, .size = 3}, elsewhere = {{.ss_family = 1}, 2, {1}};
    for (int i = 0; i < 3; i++) {
        assert_null(egress_sessions_find(&sessions, session[i].listener, &session[i].peer));
        egress_sessions_add(&sessions, &session[i], 1000 + i);
        assert_ptr_equal(egress_sessions_find(&sessions, session[i].listener, &session[i].peer), &session[i]);
    }
    assert_null(egress_sessions_find(&sessions, &port[0], &longer));
    assert_null(egress_sessions_find(&sessions, &port[0], &elsewhere));
    assert_null(egress_sessions_take_idle(&sessions, 60999));
    session[0].used_ms = 50000; /* it said something */
    assert_ptr_equal(egress_sessions_take_idle(&sessions, 61001), &session[1]);
    assert_null(egress_sessions_take_idle(&sessions, 61001));
    assert_ptr_equal(egress_sessions_take_idle(&sessions, 109999), &session[2]);
    assert_null(egress_sessions_take_idle(&sessions, 109999));
    assert_ptr_equal(egress_sessions_take_idle(&sessions, 110000), &session[0]);
    assert_int_equal(sessions.count, 0);
    assert_null(sessions.first);
}

static void the_oldest_peer_makes_room(void **state)
{
    (void)state; /* no fixture */
    struct egress_sessions sessions = {0};
    struct egress_session *session = calloc(EGRESS_SESSIONS, sizeof(*session));
    for (int i = 0; i < EGRESS_SESSIONS; i++) {
        assert_null(egress_sessions_make_room(&sessions));
        egress_sessions_add(&sessions, &session[i], i);
    }
    session[0].used_ms = 5000;
    assert_ptr_equal(egress_sessions_make_room(&sessions), &session[1]);
    assert_null(egress_sessions_make_room(&sessions));
    egress_sessions_remove(&sessions, &session[7]);
    assert_null(egress_sessions_find(&sessions, session[7].listener, &(struct egress_peer){.size = 1}));
    assert_int_equal(sessions.count, EGRESS_SESSIONS - 2);
    free(session);
}

static void denials(void **state)
{
    (void)state; /* no fixture */
    struct egress_denials *denials = calloc(1, sizeof(*denials));
    char name[400];
    assert_int_equal(egress_denial_count(denials, "a", 80, EGRESS_DENIAL_PORT), 1);
    assert_int_equal(egress_denial_count(denials, "a", 80, EGRESS_DENIAL_PORT), 0);
    assert_int_equal(egress_denial_count(denials, "a", 81, EGRESS_DENIAL_PORT), 1);
    memset(name, 'x', sizeof(name));
    name[sizeof(name) - 1] = '\0';
    assert_int_equal(egress_denial_count(denials, name, 0, EGRESS_DENIAL_NO_RULE), 1);
    for (uint16_t port = 0; port < 2 * EGRESS_DENIAL_ROWS; port++)
        (void)egress_denial_count(denials, "b", port, EGRESS_DENIAL_PORT); /* counted below */
    assert_int_equal(denials->rows, EGRESS_DENIAL_ROWS);
    assert_int_equal(denials->row[0].count, 2);
    assert_int_equal(strlen(denials->row[2].name), EGRESS_DENIAL_NAME - 1);
    assert_int_equal(denials->more, EGRESS_DENIAL_ROWS + 3);
    free(denials);
    for (uint32_t reason = 0; reason <= EGRESS_DENIAL_COUNT; reason++)
        assert_true(strlen(egress_denial_text(reason)) > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),
        cmocka_unit_test(addresses),
        cmocka_unit_test(refused_rules),
        cmocka_unit_test(verdicts),
        cmocka_unit_test(networks),
        cmocka_unit_test(sockets_of_a_box),
        cmocka_unit_test(places_have_addresses),
        cmocka_unit_test(host_files),
        cmocka_unit_test(published_ports),
        cmocka_unit_test(one_port_of_the_host_is_published_once),
        cmocka_unit_test(peers_are_forgotten_when_they_are_silent),
        cmocka_unit_test(the_oldest_peer_makes_room),
        cmocka_unit_test(denials),
    };
    return cmocka_run_group_tests_name("egress_rules", tests, NULL, NULL);
}
