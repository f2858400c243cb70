/* Fuzz target of the egress rules and of --publish: any text is either a rule, which then holds for its own host, or refused with a
 * message. Runs in the fuzzer's process. */
#include "egress_ports.h"
#include "egress_rules.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int holds)
{
    if (!holds)
        abort();
}

static void check_rule(const char *text)
{
    static struct egress_rules rules;
    const struct egress_rule *by;
    struct kern_error err = {0};
    rules.count = 0;
    if (egress_rule_parse(text, 0, &rules.rule[0], &err) != 0) {
        require(err.category == KERN_ERROR_REFUSED && err.message[0] != '\0');
        return;
    }
    rules.count = 1;
    const struct egress_rule *rule = &rules.rule[0];
    require(rule->port_count > 0 && rule->port[0] > 0);
    if (rule->kind == EGRESS_NET) {
        require(egress_rules_address(&rules, &rule->net, rule->port[0], &by) == EGRESS_ALLOWED && by == rule);
        return;
    }
    char name[EGRESS_NAME_SIZE];
    require(egress_name_clean(rule->name, strlen(rule->name), name) == 0 && strcmp(name, rule->name) == 0);
    enum egress_verdict verdict = egress_rules_name(&rules, rule->name, rule->port[0], &by);
    require(verdict == (rule->kind == EGRESS_SUBDOMAINS ? EGRESS_NO_RULE : EGRESS_ALLOWED));
    require(egress_rules_name(&rules, "elsewhere.invalid", rule->port[0], &by) == EGRESS_NO_RULE ||
            strstr("elsewhere.invalid", rule->name) != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    if (text == NULL)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    check_rule(text);
    static struct egress_ports ports;
    struct kern_error err = {0};
    ports.count = 0;
    if (egress_ports_add(&ports, text, &err) == 0)
        require(ports.count > 0 && ports.port[0].host > 0 && ports.port[ports.count - 1].box > 0);
    else
        require(err.category == KERN_ERROR_REFUSED);
    free(text);
    return 0;
}
