/* `kern probe`: what this machine could hand out to a box, as a table, as JSON, or as profiles to paste into kern.toml. What there is
 * the vgpio plugin knows, which is opened for it. Host side. */
#include "cmd.h"

#include "cleanup.h"
#include "json.h"
#include "log.h"
#include "plugin.h"
#include "vgpio/vgpio_probe.h"

#include <stdio.h>
#include <string.h>

enum form { TABLE, JSON, TOML };

struct listing {
    enum form form;
    struct core_json json;
    size_t count;
    char chip[80]; /* TOML: the pool of the chip whose lines come, */
    bool other;    /* and whether that of keys that need one though no chip is theirs has been printed */
    size_t items;
};

/* ---- The table ---- */

static void print_row(struct listing *listing, const struct vgpio_finding *found)
{
    char number[32] = "", name[128], detail[160], state[96];
    core_escape(found->name, name, sizeof(name));
    core_escape(found->detail, detail, sizeof(detail));
    core_escape(found->state, state, sizeof(state));
    if (listing->count++ == 0)
        (void)printf("%-10s %-28s %-36s %s\n", "KEY", "NAME", "WHAT IT IS", "STATE");
    if (strcmp(found->kind, "chip") == 0 && found->number >= 0)
        (void)snprintf(number, sizeof(number), ", %lld lines", (long long)found->number); /* fits */
    if (strcmp(found->kind, "cpu") == 0)
        (void)snprintf(number, sizeof(number), ", %lld CPUs", (long long)found->number); /* fits */
    if (strcmp(found->kind, "disk") == 0)
        (void)snprintf(number, sizeof(number), ", %lld MiB", (long long)(found->number >> 20)); /* fits */
    size_t used = strlen(detail);
    (void)snprintf(detail + used, sizeof(detail) - used, "%s", number); /* a cut row is still a row */
    (void)printf("%-10s %-28s %-36s %s\n", found->kind, name, detail,
                 state); /* found when stdout is closed */
}

/* ---- JSON ---- */

static void add_object(struct listing *listing, const struct vgpio_finding *found)
{
    core_json_open(&listing->json, NULL, '{');
    core_json_string(&listing->json, "kind", found->kind);
    core_json_string(&listing->json, "name", found->name);
    core_json_string(&listing->json, "detail", found->detail[0] != '\0' ? found->detail : NULL);
    core_json_string(&listing->json, "state", found->state[0] != '\0' ? found->state : NULL);
    core_json_known(&listing->json, "number", found->number);
    core_json_close(&listing->json, '}');
}

/* ---- TOML: a pool for each chip, and a profile for each device that may be had ---- */

static void close_list(struct listing *listing)
{
    if (listing->items > 0)
        (void)puts("]"); /* found when standard output is closed */
    listing->items = 0;
}

/* A name that TOML takes as it stands in quotes, and a profile's name takes too. */
static void plain(const char *text, char *ret_plain, size_t size)
{
    size_t used = 0;
    for (; *text != '\0' && used + 1 < size; text++)
        ret_plain[used++] =
            strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-", *text) != NULL ? *text
                                                                                                      : '-';
    ret_plain[used] = '\0';
}

static void print_toml(struct listing *listing, const struct vgpio_finding *found)
{
    char name[96];
    bool pin = strcmp(found->kind, "pins") == 0;
    if (!pin)
        close_list(listing);
    if (found->state[0] != '\0' && !pin)
        return;
    plain(found->name, name, sizeof(name));
    if (strcmp(found->kind, "chip") == 0) {
        plain(found->detail, listing->chip, sizeof(listing->chip));
        (void)printf("[[gpio]]\nid = \"%s\"\nchip = \"%s\"\ntotal_pins = %lld\n\n", listing->chip,
                     found->detail, (long long)found->number);
    } else if (pin && found->state[0] == '\0') {
        const char *line = strrchr(found->name, ':');
        if (listing->items++ == 0)
            (void)printf("[[vgpio]]\nname = \"%s-lines\"\nbackend = \"%s\"\npins = [%s", listing->chip,
                         listing->chip, line + 1);
        else
            (void)printf(", %s", line + 1);
    } else if (strcmp(found->kind, "cpu") == 0) {
        (void)printf("\n[[cpu]]\nid = \"all\"\ncores = %lld\n", (long long)found->number);
    } else if (strcmp(found->kind, "disk") == 0) {
        (void)printf("\n[[disk]]\nid = \"%s\"\npath = \"%s/kern-disks\"\n", name[0] == '-' ? name + 1 : name,
                     found->name);
    } else if (!pin) {
        const char *quote = found->name[0] == '{' ? "" : "\"";
        bool pooled = strcmp(found->kind, "pwm") == 0 || strcmp(found->kind, "adc") == 0 ||
                      strcmp(found->kind, "onewire") == 0;
        if (pooled && !listing->other)
            (void)printf("\n[[gpio]]\nid = \"board\"\n");
        listing->other = listing->other || pooled;
        (void)printf("\n[[vgpio]]\nname = \"%s-%s\"\n%s%s = [%s%s%s]\n", found->kind, name,
                     pooled ? "backend = \"board\"\n" : "", found->kind, quote, found->name, quote);
    }
}

static void on_found(void *data, const struct vgpio_finding *found)
{
    struct listing *listing = data;
    if (listing->form == JSON)
        add_object(listing, found);
    else if (listing->form == TOML)
        print_toml(listing, found);
    else
        print_row(listing, found);
}

static int probe(struct listing *listing, bool scan, struct kern_error *err)
{
    vgpio_probe_fn look = (vgpio_probe_fn)core_plugin_companion("vgpio", "vgpio_probe", err);
    if (look == NULL)
        return -ENOENT;
    if (listing->form == JSON)
        core_json_open(&listing->json, NULL, '[');
    look(on_found, listing, scan);
    if (listing->form == TOML)
        close_list(listing);
    if (listing->form == JSON) {
        core_json_close(&listing->json, ']');
        (void)printf("%s\n", listing->json.text != NULL ? listing->json.text
                                                        : "[]"); /* found when stdout is closed */
    }
    return 0;
}

int core_cmd_probe(struct core_call *call, struct kern_error *err)
{
    struct listing listing = {.form = kern_get_int(&call->flags, "json") != 0   ? JSON
                                      : kern_get_int(&call->flags, "toml") != 0 ? TOML
                                                                                : TABLE};
    int failed = probe(&listing, kern_get_int(&call->flags, "scan-i2c") != 0, err);
    core_json_free(&listing.json);
    return core_log_close_stdout() != 0 && failed == 0 ? 1 : failed;
}
