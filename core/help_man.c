/* Help as roff: the prose of a man page comes from its template, verbs and options from the tables; see help.h. Runs
 * when kern is built (`kern help --roff TEMPLATE`). */
#include "help.h"

#include "cleanup.h"
#include "image/registry_manifest.h"

#include <string.h>

/* Text that no character of which is a request or an escape to roff. */
static void plain(FILE *out, const char *text)
{
    if (*text == '.' || *text == '\'')
        fputs("\\&", out);
    for (; *text != '\0'; text++) {
        switch (*text) {
        case '\\':
            fputs("\\e", out);
            break;
        case '-':
            fputs("\\-", out);
            break;
        case '\'':
            fputs("\\(aq", out);
            break;
        case '\n':
            fputs("\n.PP\n", out);
            break;
        default:
            fputc(*text, out);
        }
    }
}

static void bold(FILE *out, const char *dashes, const char *text)
{
    fputs("\\fB", out);
    plain(out, dashes);
    plain(out, text);
    fputs("\\fR", out);
}

static void line_of(FILE *out, const struct kern_option *def)
{
    char help[512];
    core_help_line(def, help, sizeof(help));
    fputs("\n", out);
    plain(out, help);
    fputs("\n", out);
}

static void flag(FILE *out, const struct kern_option *def)
{
    char arg[80];
    core_help_arg(def, arg, sizeof(arg));
    fputs(".TP\n", out);
    if (def->letter != NULL) {
        bold(out, "-", def->letter);
        fputs(", ", out);
    }
    bold(out, "--", def->name);
    if (def->alias != NULL) {
        fputs(", ", out);
        bold(out, "--", def->alias);
    }
    if (arg[0] != '\0') {
        fputs(" \\fI", out);
        plain(out, arg);
        fputs("\\fR", out);
    }
    line_of(out, def);
}

static const char *type_name(uint32_t type)
{
    static const char *const names[] = {"",     "string",   "integer", "number", "boolean",
                                        "size", "duration", "string",  "path",   "table"};
    return type < sizeof(names) / sizeof(names[0]) ? names[type] : "";
}

static void key(FILE *out, const struct kern_option *def)
{
    fputs(".TP\n", out);
    bold(out, "", def->name);
    fprintf(out, " (%s%s)", (def->flags & KERN_OPT_LIST) != 0 ? "array of " : "", type_name(def->type));
    line_of(out, def);
}

/* Those of a table that have a flag of `mask`; true when there was one. `title` stands before the first. */
static bool table(FILE *out, const char *title, const struct kern_option *def, uint32_t mask)
{
    bool any = false;
    for (; def != NULL && def->name != NULL; def++) {
        if (!core_help_shows(def, mask))
            continue;
        if (!any && title != NULL) {
            fputs(".SS ", out);
            plain(out, title);
            fputs("\n", out);
        }
        any = true;
        if (mask == KERN_OPT_FLAG)
            flag(out, def);
        else
            key(out, def);
    }
    return any;
}

static void tables(FILE *out, const struct core_catalog *catalog, uint32_t mask)
{
    for (size_t i = 0; i < catalog->count; i++) {
        const struct core_plugin *plugin = &catalog->plugin[i];
        (void)table(out, plugin->name, plugin->table->options, mask); /* a plugin may have no such option */
    }
}

static void profile_tables(FILE *out, const struct core_catalog *catalog)
{
    for (size_t i = 0; i < catalog->count; i++) {
        const struct kern_plugin *plugin = catalog->plugin[i].table;
        char title[128];
        if (plugin->profile == NULL)
            continue;
        (void)snprintf(title, sizeof(title), "[[%s]]", plugin->profile); /* kinds are short */
        (void)table(out, title, plugin->options, KERN_OPT_PROFILE);      /* as above */
        if (plugin->pool == NULL)
            continue;
        (void)snprintf(title, sizeof(title), "[[%s]]", plugin->pool); /* as above */
        (void)table(out, title, plugin->options, KERN_OPT_POOL);      /* as above */
    }
}

static void usage(FILE *out, const char *forms)
{
    const char *gap = ".nf\n";
    while (*forms != '\0') {
        char form[256];
        int length = (int)strcspn(forms, "\n");
        (void)snprintf(form, sizeof(form), "kern %.*s", length, forms); /* usages fit a line */
        fputs(gap, out);
        bold(out, "", form);
        gap = "\n";
        forms += length + (forms[length] == '\n');
    }
    fputs("\n.fi\n", out);
}

static void detail(FILE *out, const char *text)
{
    while (text != NULL && *text != '\0') {
        size_t length = strcspn(text, "\n");
        auto_free char *line = strndup(text, length);
        if (line != NULL && length > 0) {
            fputs(".PP\n", out);
            plain(out, line);
            fputs("\n", out);
        }
        text += length + (text[length] == '\n');
    }
}

static void verbs(FILE *out)
{
    for (const struct core_verb *verb = core_verbs(); verb->name != NULL; verb++) {
        fprintf(out, ".SS %s\n", verb->name);
        usage(out, verb->usage);
        fputs(".PP\n", out);
        plain(out, verb->summary);
        fputs(".\n", out);
        if (strcmp(verb->name, "box") == 0)
            fputs("See\n.BR kern\\-box (1).\n", out);
        else
            detail(out, verb->detail);
        if (verb->plugin_flags == KERN_OPT_RUN)
            fputs(".PP\nThe options are those of\n.BR kern\\-box (1)\nthat need no box; \"kern run "
                  "\\-\\-help\" lists them.\n",
                  out);
        (void)table(out, NULL, verb->options, KERN_OPT_FLAG); /* most verbs have no option */
    }
}

/* @title NAME SECTION */
static void title(FILE *out, const char *words)
{
    fprintf(out, ".TH %s \"\" \"kern ", words);
    plain(out, KERN_VERSION);
    fputs("\" \"kern manual\"\n", out);
}

static int directive(FILE *out, const char *line, const struct core_catalog *catalog, struct kern_error *err)
{
    const struct core_verb *box = core_verb_find("box");
    if (strncmp(line, "@title ", 7) == 0)
        title(out, line + 7);
    else if (strcmp(line, "@verbs") == 0)
        verbs(out);
    else if (strcmp(line, "@box-usage") == 0)
        usage(out, box->usage);
    else if (strcmp(line, "@box-detail") == 0)
        detail(out, box->detail);
    else if (strcmp(line, "@box-options") == 0)
        tables(out, catalog, KERN_OPT_FLAG);
    else if (strcmp(line, "@box-keys") == 0)
        tables(out, catalog, KERN_OPT_BOX);
    else if (strcmp(line, "@registry-keys") == 0)
        (void)table(out, NULL, registry_option_table, KERN_OPT_PLUGIN); /* it has some */
    else if (strcmp(line, "@profile-keys") == 0)
        profile_tables(out, catalog);
    else
        return kern_refuse(err, 0, "unknown directive \"%s\" in a man page template", line);
    return 0;
}

int core_help_roff(FILE *in, FILE *out, const struct core_catalog *catalog, struct kern_error *err)
{
    auto_free char *line = NULL;
    size_t size = 0;
    for (ssize_t length = getline(&line, &size, in); length >= 0; length = getline(&line, &size, in)) {
        if (length > 0 && line[length - 1] == '\n')
            line[length - 1] = '\0';
        if (line[0] != '@') {
            fprintf(out, "%s\n", line);
            continue;
        }
        int r = directive(out, line, catalog, err);
        if (r < 0)
            return r;
    }
    if (ferror(in) != 0)
        return kern_refuse(err, EIO, "cannot read a man page template");
    return 0;
}
