/* Help as text: verbs and options in columns, wrapped at the width of the terminal; see help.h. Host side. */
#include "help.h"

#include "declared.h"
#include "log.h"

#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define PLAIN_WIDTH 80
#define TEXT_COLUMN 28 /* where the help of an option begins */

/* Sets `text` between `left` and `width`, as if `column` characters stood on the line already. */
static void wrap(FILE *out, const char *text, int left, int column, int width)
{
    bool first = true;
    while (*text != '\0') {
        if (*text == '\n') {
            fputs("\n", out);
            column = 0;
            first = true;
            text++;
            continue;
        }
        int length = (int)strcspn(text, " \n");
        if (!first && column + 1 + length > width) {
            fputs("\n", out);
            column = 0;
            first = true;
        }
        if (first)
            column += fprintf(out, "%*s", left > column ? left - column : 0, "");
        column += fprintf(out, "%s%.*s", first ? "" : " ", length, text);
        first = false;
        text += length;
        text += strspn(text, " ");
    }
    fputs("\n", out);
}

static void paragraph(FILE *out, const char *text, int width)
{
    fputs("\n", out);
    wrap(out, text, 0, 0, width);
}

static void option(FILE *out, const struct kern_option *def, int width)
{
    char arg[80];
    char help[512];
    char label[256];
    core_help_arg(def, arg, sizeof(arg));
    core_help_line(def, help, sizeof(help));
    (void)snprintf(label, sizeof(label), "  %s%s%s--%s%s%s%s%s", def->letter != NULL ? "-" : "  ",
                   def->letter != NULL ? def->letter : "", def->letter != NULL ? ", " : "  ", def->name,
                   def->alias != NULL ? ", --" : "", def->alias != NULL ? def->alias : "",
                   arg[0] != '\0' ? " " : "", arg); /* names and placeholders are short */
    int column = fprintf(out, "%s", label);
    if (column + 2 > TEXT_COLUMN) {
        fputs("\n", out);
        column = 0;
    }
    wrap(out, help, TEXT_COLUMN, column, width);
}

static bool has_shown(const struct kern_option *def, uint32_t mask)
{
    for (; def != NULL && def->name != NULL; def++) {
        if (core_help_shows(def, mask))
            return true;
    }
    return false;
}

static void options(FILE *out, const struct kern_option *def, uint32_t mask, int width)
{
    for (; def != NULL && def->name != NULL; def++) {
        if (!core_help_shows(def, mask))
            continue;
        struct kern_option shown = *def;
        if (mask == KERN_OPT_RUN)
            shown.fallback = NULL; /* the defaults are those of a box */
        option(out, &shown, width);
    }
}

/* --NAME-OPTION, for nobody's flags may stand in the way of kern's own. */
static void foreign_options(FILE *out, const struct core_plugin *plugin, uint32_t mask, int width)
{
    for (const struct kern_option *def = plugin->table->options; def->name != NULL; def++) {
        char name[128], help[512];
        if (!core_help_shows(def, mask) || (def->flags & KERN_OPT_FLAG) == 0)
            continue;
        (void)snprintf(name, sizeof(name), "%s-%s", plugin->name, def->name); /* a longer one is cut */
        core_escape(def->help != NULL ? def->help : "", help, sizeof(help));
        struct kern_option shown = *def;
        shown.name = name;
        shown.help = help;
        shown.letter = shown.alias = NULL;
        option(out, &shown, width);
    }
}

static void plugin_options(FILE *out, const struct core_catalog *catalog, uint32_t mask, int width)
{
    for (size_t i = 0; i < catalog->count; i++) {
        const struct core_plugin *plugin = &catalog->plugin[i];
        if (!has_shown(plugin->table->options, mask))
            continue;
        char summary[512];
        core_escape(plugin->table->summary != NULL ? plugin->table->summary : "", summary, sizeof(summary));
        fprintf(out, "\n%s: %s\n", plugin->name, summary);
        if (plugin->builtin)
            options(out, plugin->table->options, mask, width);
        else
            foreign_options(out, plugin, mask, width);
    }
}

static void usage(FILE *out, const char *forms)
{
    const char *lead = "usage: kern";
    while (*forms != '\0') {
        int length = (int)strcspn(forms, "\n");
        fprintf(out, "%s %.*s\n", lead, length, forms);
        lead = "       kern";
        forms += length + (forms[length] == '\n');
    }
}

void core_help_verb(FILE *out, const struct core_verb *verb, const struct core_catalog *catalog, int width)
{
    usage(out, verb->usage);
    fprintf(out, "\nkern %s: ", verb->name);
    wrap(out, verb->summary, 0, (int)strlen(verb->name) + 7, width);
    if (verb->detail != NULL)
        paragraph(out, verb->detail, width);
    if (verb->plugin_flags != 0)
        plugin_options(out, catalog, verb->plugin_flags, width);
    if (has_shown(verb->options, KERN_OPT_FLAG)) {
        fputs("\noptions:\n", out);
        options(out, verb->options, KERN_OPT_FLAG, width);
    }
}

void core_help_kern(FILE *out, int width)
{
    usage(out, "VERB [OPTIONS]\n--version");
    paragraph(out, "kern runs a program in a box: a container without a daemon and without root.", width);
    fputs("\nverbs:\n", out);
    for (const struct core_verb *verb = core_verbs(); verb->name != NULL; verb++) {
        int column = fprintf(out, "  %-11s", verb->name);
        wrap(out, verb->summary, column, column, width);
    }
    paragraph(out,
              "More on a verb: kern help VERB\n"
              "To begin with:  kern box vcpu:heavy -- sh -c 'echo from a box'",
              width);
}

static int terminal_width(void)
{
    struct winsize size;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0 || size.ws_col == 0)
        return PLAIN_WIDTH;
    /* A narrower one would leave no room beside the column of flags, a wider one is hard to read. */
    return size.ws_col < 60 ? 60 : size.ws_col > 120 ? 120 : size.ws_col;
}

int core_help_print(const struct core_verb *verb)
{
    struct kern_error err = {0};
    struct core_catalog catalog = {0};
    if (core_catalog_builtin(&catalog, &err) < 0) {
        core_log_error(&err);
        return 1;
    }
    if (verb != NULL && verb->plugin_flags != 0)
        core_declared_show(&catalog);
    if (verb == NULL)
        core_help_kern(stdout, terminal_width());
    else
        core_help_verb(stdout, verb, &catalog, terminal_width());
    core_catalog_clear(&catalog);
    return core_log_close_stdout();
}
