/* See known.h. In kern, and in the test programs of plugins. */
#include "known.h"

#include "kern/foundation.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define OPTION_FLAGS                                                                                     \
    (KERN_OPT_FLAG | KERN_OPT_BOX | KERN_OPT_PROFILE | KERN_OPT_POOL | KERN_OPT_PLUGIN | KERN_OPT_LIST | \
     KERN_OPT_RUN | KERN_OPT_OPTIONAL | KERN_OPT_LATER | KERN_OPT_REQUIRED | KERN_OPT_MUST_EXIST |       \
     KERN_OPT_GUARDED | KERN_OPT_COMMAS | KERN_OPT_APART)
#define PLUGIN_FLAGS (KERN_PLUGIN_LEAN | KERN_PLUGIN_STANDING | KERN_PLUGIN_FIRST)
#define MOUNT_FLAGS                                                                                         \
    (KERN_MOUNT_READ_ONLY | KERN_MOUNT_EXEC | KERN_MOUNT_DEVICE | KERN_MOUNT_RECURSIVE | KERN_MOUNT_SHOWN | \
     KERN_MOUNT_KERNEL)
#define HINT_NEWER "update kern, or build the plugin against the headers of kern " KERN_VERSION
#define HINT_OLDER "build the plugin again, against the headers of kern " KERN_VERSION

static int refuse(struct kern_error *err, const char *hint)
{
    kern_hint(err, "%s", hint);
    return -EPROTO;
}

/* ---- The table ---- */

static int check_interface(const struct kern_plugin *table, const char *path, struct kern_error *err)
{
    uint32_t speaks = table->abi & 0xff, release = table->abi >> 8;
    if (speaks != KERN_ABI) {
        kern_refuse(err, 0, "cannot load plugin \"%s\": it speaks plugin ABI %u, this kern speaks %u", path,
                    speaks, KERN_ABI);
        return refuse(err, speaks > KERN_ABI ? HINT_NEWER : HINT_OLDER);
    }
    if (release == 0 || release == KERN_FOUNDATION_RELEASE)
        return 0;
    kern_refuse(err, 0,
                "cannot load plugin \"%s\": it was built with kern/foundation.h of kern %u.%u.%u, which "
                "counts for that "
                "release only: this is kern " KERN_VERSION,
                path, release / 10000, release / 100 % 100, release % 100);
    return refuse(err, release > KERN_FOUNDATION_RELEASE ? HINT_NEWER : HINT_OLDER);
}

/* The table of kern 0.1.0 ended with `check`. */
static int check_size(const struct kern_plugin *table, const char *path, struct kern_error *err)
{
    const uint32_t least = offsetof(struct kern_plugin, check), most = sizeof(struct kern_plugin);
    if (table->struct_size >= least && table->struct_size <= most)
        return 0;
    bool newer = table->struct_size > most;
    kern_refuse(err, 0,
                "cannot load plugin \"%s\": it was built for %s kern than " KERN_VERSION
                ": its table has %u bytes, %s %u",
                path, newer ? "a newer" : "an older", table->struct_size,
                newer ? "that of this kern has" : "the shortest had", newer ? most : least);
    return refuse(err, newer ? HINT_NEWER : HINT_OLDER);
}

static int refuse_unknown(const char *path, const char *what, uint32_t value, struct kern_error *err)
{
    kern_refuse(err, 0,
                "cannot load plugin \"%s\": it was built for a newer kern than " KERN_VERSION
                ": %s 0x%x is not known",
                path, what, value);
    return refuse(err, HINT_NEWER);
}

static int check_options(const struct kern_plugin *table, const char *path, struct kern_error *err)
{
    char what[80];
    for (const struct kern_option *option = table->options; option != NULL && option->name != NULL;
         option++) {
        bool type = option->type < KERN_STRING || option->type > KERN_ANY;
        if (option->type == KERN_ENUM && (option->choices == NULL || option->choices[0] == NULL)) {
            kern_refuse(err, 0,
                        "cannot load plugin \"%s\": its option \"%.40s\" is an enum that needs choices", path,
                        option->name);
            kern_hint(err, "write .choices = (const char *const[]){\"one\", \"other\", NULL}");
            return -EPROTO;
        }
        if (!type && (option->flags & ~OPTION_FLAGS) == 0)
            continue;
        (void)snprintf(what, sizeof(what), "%s of its option \"%.40s\",", type ? "the type" : "a flag",
                       option->name); /* fits */
        if (type && option->type == 0)
            return kern_refuse(err, 0, "cannot load plugin \"%s\": its option \"%.40s\" has no type", path,
                               option->name);
        return refuse_unknown(path, what, type ? option->type : option->flags & ~OPTION_FLAGS, err);
    }
    return 0;
}

/* Of a-z, 0-9 and -, for it stands in flags, tokens and paths. */
static bool is_word(const char *text)
{
    return text != NULL && text[0] >= 'a' && text[0] <= 'z' && strlen(text) <= 31 &&
           text[strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-")] == '\0';
}

int core_known_table(const struct kern_plugin *table, const char *path, struct kern_error *err)
{
    int failed = check_interface(table, path, err);
    if (failed == 0)
        failed = check_size(table, path, err);
    if (failed != 0)
        return failed;
    if (!is_word(table->name))
        return kern_refuse(err, 0, "cannot load plugin \"%s\": its table has no valid name", path);
    if (table->profile != NULL && !is_word(table->profile))
        return kern_refuse(err, 0, "cannot load plugin \"%s\": its table has no valid .profile", path);
    if ((table->flags & ~PLUGIN_FLAGS) != 0)
        return refuse_unknown(path, "a flag of its table,", table->flags & ~PLUGIN_FLAGS, err);
    return check_options(table, path, err);
}

/* NULL leads nowhere, and is allowed for most texts. */
static size_t reach(const char *text)
{
    return text != NULL ? strlen(text) : 0;
}

static size_t reach_all(const char *const *list)
{
    size_t bytes = 0;
    for (; list != NULL && *list != NULL; list++)
        bytes += strlen(*list);
    return bytes;
}

size_t core_known_reach(const struct kern_plugin *table)
{
    size_t bytes = reach(table->name) + reach(table->version) + reach(table->summary) +
                   reach(table->profile) + reach(table->pool) + reach_all(table->after) +
                   reach_all(table->before);
    for (const struct kern_option *option = table->options; option != NULL && option->name != NULL; option++)
        bytes += reach(option->name) + reach(option->fallback) + reach(option->arg) + reach(option->help) +
                 reach(option->letter) + reach(option->implied) + reach_all(option->choices);
    return bytes;
}

/* ---- What its hooks ask for ---- */

int core_known_mount(const char *target, uint32_t flags, struct kern_error *err)
{
    if ((flags & ~MOUNT_FLAGS) == 0)
        return 0;
    kern_fail(err, 0,
              "cannot mount onto \"%s\": the plugin was built for a newer kern than " KERN_VERSION
              ": flag 0x%x is not known",
              target, flags & ~MOUNT_FLAGS);
    return refuse(err, HINT_NEWER);
}

int core_known_rule(const struct kern_rule *rule, struct kern_error *err)
{
    /* That of kern 0.1.0 was so long: what is appended later, a plugin of that time does not have. */
    const size_t least = offsetof(struct kern_rule, arg) + sizeof(rule->arg);
    if (rule->struct_size < least || rule->arg_count > sizeof(rule->arg) / sizeof(rule->arg[0]))
        return kern_fail(
            err, EINVAL,
            "cannot add a filter rule: it is malformed (struct_size %u of at least %zu, %u conditions)",
            rule->struct_size, least, rule->arg_count);
    bool known = rule->struct_size <= sizeof(*rule) && rule->action >= KERN_RULE_ALLOW &&
                 rule->action <= KERN_RULE_NOTIFY;
    for (uint32_t i = 0; i < rule->arg_count; i++)
        known = known && rule->arg[i].index <= 5 &&
                (rule->arg[i].op == KERN_ARG_EQUAL || rule->arg[i].op == KERN_ARG_NOT_EQUAL);
    if (known)
        return 0;
    kern_fail(err, ENOSYS,
              "cannot add a filter rule for call %d: the plugin was built for a newer kern than " KERN_VERSION
              ": its size (%u bytes), action (%u) or a condition is not known",
              rule->call, rule->struct_size, rule->action);
    return refuse(err, HINT_NEWER);
}
