/* `--plan` and `--show-config`; see plan.h. Host side. */
#include "plan.h"

#include "log.h"
#include "order.h"
#include "plugin.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXIT_REFUSED 1

static const char *const sources[] = {"default", "kern.toml", "profile", "command line"};

static void print_text(const char *text)
{
    char clean[600];
    core_escape(text, clean, sizeof(clean));
    (void)printf("%s", clean); /* checked when standard output is closed */
}

static void print_value(const struct core_value *value)
{
    (void)printf("  %-18s ", value->def->name);
    if (value->item_count > 0) {
        for (uint32_t i = 0; i < value->item_count; i++) {
            (void)printf("%s", i > 0 ? ", " : "");
            print_text(value->item[i]);
        }
    } else {
        print_text(value->text);
    }
    bool detail = value->source != KERN_FROM_DEFAULT && value->where[0] != '\0';
    (void)printf("  (%s%s%s)\n", sources[value->source], detail ? ": " : "", detail ? value->where : "");
}

static void print_values(const char *title, const struct kern_values *values)
{
    (void)printf("%s\n", title);
    for (size_t i = 0; i < values->count; i++)
        if (values->value[i].text != NULL || values->value[i].item_count > 0)
            print_value(&values->value[i]);
}

int core_plan_show_config(kern_box *box)
{
    (void)printf("kern.toml: %s\n", core_config_path(box->config));
    print_values("box:", &box->options);
    for (size_t i = 0; i < box->catalog->count; i++) {
        const struct core_plugin *plugin = &box->catalog->plugin[i];
        char title[160];
        for (uint32_t j = 0; j < plugin->profile_count; j++) {
            (void)snprintf(title, sizeof(title), "%s:%s:", plugin->table->profile,
                           plugin->profile[j].name); /* names are short */
            print_values(title, &plugin->profile[j].values);
        }
        (void)snprintf(title, sizeof(title), "plugin %s:", plugin->name); /* names are short */
        if (!plugin->builtin && plugin->own.count > 0)
            print_values(title, &plugin->own);
    }
    return core_log_close_stdout();
}

static const char *const stage_names[] = {"?",     "limit",   "root",     "mount", "device",
                                          "pivot", "network", "identity", "filter"};

static const char *stage_name(uint32_t stage)
{
    uint32_t index = stage / 10;
    return index < sizeof(stage_names) / sizeof(stage_names[0]) ? stage_names[index] : "?";
}

static void print_root(const kern_box *box)
{
    const char *directory = kern_get_string(&box->options, "rootfs");
    bool bind = kern_get_int(&box->options, "bind-rootfs") != 0;
    (void)printf("root:      %s%s%s\n",
                 directory != NULL ? directory : "the host's programs, read-only, and a generated /etc",
                 directory == NULL ? ""
                 : bind            ? ", bound: the box writes into it"
                                   : ", below an overlay: changes are thrown away",
                 box->read_only ? "; read-only" : "");
}

static void print_command(const kern_box *box)
{
    (void)printf("command:  ");
    for (char **word = box->command; *word != NULL; word++) {
        (void)printf(" ");
        print_text(*word);
    }
    (void)printf("%s\n", box->own_terminal ? "  (with a terminal of its own)" : "");
}

/* Opens and orders what a run would, and stops there: no hook runs, nothing is made. */
int core_plan_print(kern_box *box)
{
    struct kern_error err = {0};
    struct core_plugin **order = calloc(box->catalog->count, sizeof(struct core_plugin *));
    size_t count = 0;
    int failed = order == NULL ? kern_fail(&err, ENOMEM, "cannot order the plugins")
                               : core_plugin_load_wanted(box->catalog, &err);
    if (failed == 0)
        failed = core_order(box->catalog, order, &count, &err);
    if (failed != 0) {
        core_log_error(&err);
        free(order);
        return EXIT_REFUSED;
    }
    (void)printf("box:       %s\n", box->named ? box->name : "(a generated name)");
    print_root(box);
    print_command(box);
    const char *net = kern_get_string(&box->options, "net");
    (void)printf("network:   %s\n",
                 net != NULL && strcmp(net, "host") == 0 ? "the host's" : "an isolated loopback");
    const char *cpus = kern_get_string(&box->options, "cpus");
    (void)printf("limits:    memory %s, pids %s, cpus %s\n", kern_get_string(&box->options, "memory"),
                 kern_get_string(&box->options, "pids-limit"), cpus != NULL ? cpus : "uncapped");
    static const char *const lists[] = {"volume", "mount", "tmpfs"};
    for (size_t kind = 0; kind < sizeof(lists) / sizeof(lists[0]); kind++)
        for (uint32_t i = 0; i < kern_get_count(&box->options, lists[kind]); i++)
            (void)printf("%-10s %s\n",
                         kind == 2 ? "tmpfs:" : "volume:", kern_get_item(&box->options, lists[kind], i));
    (void)printf("plugins, in the order in which they enter:\n");
    for (size_t i = 0; i < count; i++)
        (void)printf("  %-9s %-10s %s\n", stage_name(order[i]->table->stage), order[i]->name,
                     order[i]->table->summary);
    free(order);
    return core_log_close_stdout();
}
