/* Which sockets a box needs for its rules; see egress.h. Pure; in kern, in prepare. */
#include "egress.h"

#include <errno.h>
#include <string.h>

void egress_place_address(uint32_t index, int v6, struct egress_address *ret_address)
{
    /* The ranges for benchmarks between networks, RFC 2544 and RFC 5180: nobody is there. Numbers start at 1, for no address
     * should look like that of a network. */
    uint32_t number = index + 1;
    *ret_address = (struct egress_address){.v6 = v6 != 0};
    if (v6) {
        const uint8_t bytes[16] = {
            0x20, 0x01, 0x00, 0x02, [14] = (uint8_t)(number >> 8), [15] = (uint8_t)number};
        memcpy(ret_address->bytes, bytes, sizeof(bytes));
    } else {
        const uint8_t bytes[4] = {198, 18, (uint8_t)(number >> 8), (uint8_t)number};
        memcpy(ret_address->bytes, bytes, sizeof(bytes));
    }
}

static int add_slot(struct egress_state *state, const struct egress_slot *slot)
{
    if (state->slot_count == EGRESS_MAX_SLOTS)
        return 0;
    state->slot[state->slot_count++] = *slot;
    return 1;
}

static void add_services(struct egress_state *state)
{
    struct egress_slot slot = {
        .kind = EGRESS_SLOT_DNS_UDP, .port = 53, .address = {.bytes = {127, 0, 0, 11}}, .listening = 1};
    (void)add_slot(state, &slot); /* the first three: there is room */
    slot.kind = EGRESS_SLOT_DNS_TCP;
    (void)add_slot(state, &slot);
    slot = (struct egress_slot){.kind = EGRESS_SLOT_PROXY,
                                .port = EGRESS_PROXY_PORT,
                                .address = {.bytes = {127, 0, 0, 1}},
                                .listening = 1};
    (void)add_slot(state, &slot);
}

static int add_pair(struct egress_state *state, uint32_t place, uint16_t port, int listening)
{
    struct egress_slot slot = {
        .kind = EGRESS_SLOT_HOST, .port = port, .host = (uint16_t)place, .listening = listening != 0};
    int there = 1;
    for (int v6 = 0; v6 < 2 && there; v6++) {
        egress_place_address(place, v6, &slot.address);
        there = add_slot(state, &slot);
    }
    return there;
}

static uint32_t find_place(const struct egress_state *state, const char *name)
{
    uint32_t i = 0;
    while (i < state->place_count && strcmp(state->place[i].name, name) != 0)
        i++;
    return i;
}

/* Each port of 1 to 65535 that a rule names and the verdict for `name` allows, once. */
static uint32_t ports_of(const struct egress_rules *rules, const char *name, uint16_t *ret_port,
                         uint32_t most)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < rules->count; i++)
        for (uint8_t j = 0; j < rules->rule[i].port_count; j++) {
            const struct egress_rule *rule = &rules->rule[i], *by;
            uint16_t port = rule->port[j];
            uint32_t known = 0;
            while (known < count && ret_port[known] != port)
                known++;
            int wanted = name != NULL ? egress_rules_name(rules, name, port, &by) == EGRESS_ALLOWED
                                      : !rule->deny &&
                                            (rule->kind == EGRESS_SUBDOMAINS || rule->kind == EGRESS_DOMAIN);
            if (known == count && count < most && wanted)
                ret_port[count++] = port;
        }
    return count;
}

static int add_named(struct egress_state *state, const char *name)
{
    uint16_t port[64];
    if (find_place(state, name) < state->place_count)
        return 1;
    uint32_t count = ports_of(state->rules, name, port, 64);
    if (count == 0)
        return 1; /* denied by another rule */
    if (state->place_count == EGRESS_MAX_PLACES)
        return 0;
    struct egress_place *place = &state->place[state->place_count++];
    place->fixed = 1;
    memcpy(place->name, name, sizeof(place->name));
    int there = 1;
    for (uint32_t i = 0; i < count; i++)
        there &= add_pair(state, state->place_count - 1, port[i], 1);
    return there;
}

static void next_address(struct egress_address *address)
{
    for (int i = address->v6 ? 15 : 3; i >= 0 && ++address->bytes[i] == 0; i--)
        continue;
}

#define MANY_BITS 16 /* of addresses that a network has 2 to the power of: more than there ever is room for */

static unsigned free_bits(const struct egress_rule *rule)
{
    unsigned bits = (rule->net.v6 ? 128u : 32u) - rule->prefix;
    return bits > MANY_BITS ? MANY_BITS : bits;
}

/* A listener for each address: a range is only small enough to be reached without the proxy. */
static int add_net(struct egress_state *state, const struct egress_rule *rule, uint32_t *budget)
{
    uint32_t addresses = 1u << free_bits(rule);
    if (addresses * rule->port_count > *budget)
        return 0;
    *budget -= addresses * rule->port_count;
    struct egress_slot slot = {.kind = EGRESS_SLOT_NET, .listening = 1, .address = rule->net};
    int there = 1;
    for (uint32_t i = 0; i < addresses; i++, next_address(&slot.address))
        for (uint8_t j = 0; j < rule->port_count; j++) {
            const struct egress_rule *by;
            slot.port = rule->port[j];
            int twice = 0;
            for (uint32_t k = 0; k < state->slot_count; k++)
                twice |= state->slot[k].port == slot.port &&
                         memcmp(&state->slot[k].address, &slot.address, sizeof(slot.address)) == 0;
            if (!twice && egress_rules_address(state->rules, &slot.address, slot.port, &by) == EGRESS_ALLOWED)
                there &= add_slot(state, &slot);
        }
    return there;
}

/* The smallest first: what a large one takes would leave nothing for a single address. Returns whether all found room. */
static int add_nets(struct egress_state *state)
{
    uint32_t budget = EGRESS_NET_SLOTS;
    const struct egress_rules *rules = state->rules;
    int there = 1, any = 0;
    for (uint32_t i = 0; i < rules->count; i++)
        any |= rules->rule[i].kind == EGRESS_NET;
    for (unsigned bits = 0; any && bits <= MANY_BITS; bits++)
        for (uint32_t i = 0; i < rules->count; i++) {
            const struct egress_rule *rule = &rules->rule[i];
            if (rule->kind == EGRESS_NET && !rule->deny && free_bits(rule) == bits)
                there &= add_net(state, rule, &budget);
        }
    return there;
}

static void add_pool(struct egress_state *state)
{
    uint16_t port[EGRESS_POOL_PORTS];
    uint32_t ports = ports_of(state->rules, NULL, port, EGRESS_POOL_PORTS);
    if (ports == 0)
        return;
    uint32_t names = EGRESS_POOL_SLOTS / (2 * ports);
    for (uint32_t i = 0; i < names && state->place_count < EGRESS_MAX_PLACES; i++) {
        uint32_t place = state->place_count++;
        for (uint32_t j = 0; j < ports; j++)
            if (!add_pair(state, place, port[j], 0))
                return;
    }
}

int egress_plan(struct egress_state *state, int *ret_cut, struct kern_error *err)
{
    int there = 1;
    add_services(state);
    for (uint32_t i = 0; i < state->rules->count; i++) {
        const struct egress_rule *rule = &state->rules->rule[i];
        if (!rule->deny && (rule->kind == EGRESS_HOST || rule->kind == EGRESS_DOMAIN))
            there &= add_named(state, rule->name);
    }
    if (!there) {
        kern_refuse(err, 0, "cannot use so many egress rules: a box has room for %d hosts and ports",
                    EGRESS_MAX_SLOTS / 2);
        kern_hint(err, "one rule covers a domain with all below it: *.example.com");
        return -EINVAL;
    }
    *ret_cut = !add_nets(state);
    add_pool(state);
    return 0;
}
