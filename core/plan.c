/* `--plan` and `--show-config`; see plan.h. Host side. */
#include "plan.h"

#include "log.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

static const char *const sources[] = {"default", "kern.toml", "profile", "command line"};

/* Who asks for the plan of somebody else's kern.toml is not to read what that one's words make of the terminal. */
static void print_text(const char *text)
{
    char clean[4 * PATH_MAX]; /* each byte may take four */
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

/* `places`: one of these flags (KERN_OPT_*) an option must have to count here. */
static void print_values(const char *title, const struct kern_values *values, uint32_t places)
{
    (void)printf("%s\n", title);
    for (size_t i = 0; i < values->count; i++)
        if ((values->value[i].def->flags & places) != 0 &&
            (values->value[i].text != NULL || values->value[i].item_count > 0))
            print_value(&values->value[i]);
}

int core_plan_show_config(kern_box *box)
{
    (void)printf("kern.toml: %s\n", core_config_path(box->config));
    print_values(box->bare ? "run:" : "box:", &box->options, box->bare ? KERN_OPT_RUN : UINT32_MAX);
    for (size_t i = 0; i < box->catalog->count; i++) {
        const struct core_plugin *plugin = &box->catalog->plugin[i];
        char title[160];
        for (uint32_t j = 0; j < plugin->profile_count; j++) {
            const char *name = plugin->profile[j].name;
            (void)snprintf(title, sizeof(title),
                           name[0] != '\0' ? "%s:%s:" : "[%s]%s:", plugin->table->profile,
                           name); /* names are short */
            print_values(title, &plugin->profile[j].values, UINT32_MAX);
        }
        (void)snprintf(title, sizeof(title), "plugin %s:", plugin->name); /* names are short */
        if (!plugin->builtin && plugin->own.count > 0 && plugin->wanted)
            print_values(title, &plugin->own, UINT32_MAX);
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
    if (box->image_ref != NULL) {
        (void)printf("root:      image ");
        print_text(box->image_ref);
        (void)printf(" (%s), %u layer%s below an overlay: changes are thrown away%s\n", box->image_digest,
                     box->layer_count, box->layer_count == 1 ? "" : "s", box->read_only ? "; read-only" : "");
        return;
    }
    bool bind = kern_get_int(&box->options, "bind-rootfs") != 0;
    (void)printf("root:      ");
    print_text(directory != NULL ? directory : "the host's programs, read-only, and a generated /etc");
    (void)printf("%s%s\n",
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

static const char *describe_ids(const kern_box *box, char *text, size_t size)
{
    const struct kern_ids *ids = &box->ids;
    if (ids->how == KERN_IDS_NONE)
        return "the host's: root in the box is root outside";
    if (ids->how == KERN_IDS_SELF)
        (void)snprintf(text, size, "one: %u in the box is %u outside", ids->inside,
                       ids->base); /* sized for it */
    else if (ids->shifted != 0)
        (void)snprintf(text, size, "%u of the box's own, from %u on", ids->count,
                       ids->base); /* sized for it */
    else
        (void)snprintf(text, size, "%u: 0 in the box is %u outside, the rest is subordinate", ids->count,
                       ids->base); /* sized for it */
    return text;
}

static void print_mounts(const kern_box *box)
{
    for (size_t i = 0; i < box->mount_count; i++) {
        const struct core_mount *mount = &box->mount[i];
        if (mount->kind == CORE_LINK)
            continue; /* it gives access to nothing */
        const char *access =
            (mount->flags & KERN_MOUNT_READ_ONLY) != 0 || mount->kind == CORE_FILE ? "read-only" : "writable";
        (void)printf("mount:     ");
        print_text(mount->target);
        (void)printf(", %s, from ", access);
        print_text(mount->kind == CORE_BIND    ? mount->source
                   : mount->kind == CORE_TMPFS ? "a new tmpfs"
                                               : "a generated file");
        (void)printf("\n");
    }
}

static const char *by(const struct kern_limit *limit)
{
    return limit->enforced != 0 ? " by " : "";
}

static void print_limits(const kern_box *box)
{
    for (uint32_t i = 0; i < box->limit_count; i++) {
        const struct kern_limit *limit = &box->limit[i];
        (void)printf("limit:     %s %s, %s%s%s\n", limit->name, limit->asked,
                     limit->enforced == 1   ? "enforced"
                     : limit->enforced == 0 ? "not enforced"
                                            : "perhaps enforced",
                     by(limit), limit->enforced != 0 ? limit->by : "");
    }
}

static const char *describe_network(const kern_box *box)
{
    const char *net = kern_get_string(&box->options, "net");
    if (net != NULL && strcmp(net, "host") == 0)
        return "the host's";
    return kern_has_egress(box) ? "an isolated loopback, which leads to the hosts of the egress rules"
                                : "an isolated loopback";
}

static void print_items(const char *title, const struct kern_values *values, const char *option)
{
    for (uint32_t i = 0; i < kern_get_count(values, option); i++) {
        (void)printf("%-11s", title);
        print_text(kern_get_item(values, option, i));
        (void)printf("\n");
    }
}

static void print_network(const kern_box *box)
{
    const struct core_plugin *egress = core_catalog_find(box->catalog, "egress");
    (void)printf("network:   %s\n", describe_network(box));
    print_items("allowed:", &box->options, "egress-allow");
    print_items("denied:", &box->options, "egress-deny");
    for (uint32_t i = 0; egress != NULL && i < egress->profile_count; i++) {
        const struct kern_values *profile = &egress->profile[i].values;
        bool standing =
            kern_get_string(profile, "name") == NULL; /* [egress]: what the line allows stands instead */
        if (!standing || kern_get_source(&box->options, "egress-allow") != KERN_FROM_FLAG)
            print_items("allowed:", profile, "allow");
        print_items("denied:", profile, "deny");
    }
    print_items("port:", &box->options, "publish");
}

void core_plan_print(const kern_box *box)
{
    char text[160];
    (void)printf("box:       %s\n", box->named ? box->name : "(a generated name)");
    print_root(box);
    print_command(box);
    (void)printf("ids:       %s\n", describe_ids(box, text, sizeof(text)));
    print_network(box);
    print_limits(box);
    print_mounts(box);
    (void)printf("plugins, in the order in which they enter:\n");
    for (size_t i = 0; i < box->order_count; i++)
        (void)printf("  %-9s %-10s %s\n", stage_name(box->order[i]->table->stage), box->order[i]->name,
                     box->order[i]->table->summary);
}

void core_plan_panel(kern_box *box)
{
    char text[160];
    const char *directory = kern_get_string(&box->options, "rootfs");
    kern_note(box, "ids: %s", describe_ids(box, text, sizeof(text)));
    kern_note(box, "root: %s%s", directory != NULL ? directory : "the host's programs, read-only",
              box->read_only ? ", read-only" : "");
    kern_note(box, "network: %s", describe_network(box));
    for (uint32_t i = 0; i < box->limit_count; i++)
        kern_note(box, "limit: %s %s, %s%s%s", box->limit[i].name, box->limit[i].asked,
                  box->limit[i].enforced == 1 ? "enforced" : "not enforced", by(&box->limit[i]),
                  box->limit[i].enforced != 0 ? box->limit[i].by : "");
    kern_note(box, "filter: %s%s",
              box->untrusted ? "untrusted profile" : "calls outside the allowlist get ENOSYS, 24 kill",
              box->privileged ? ", five relaxed" : "");
}
