/* Completion for fish; see completion.h. Host side. */
#include "completion.h"

#include "help.h"

#include <string.h>

static const char head[] =
    "# fish completion for kern, printed by: kern completion fish\n"
    "\n"
    "function __kern_profiles\n"
    "    kern config list 2>/dev/null </dev/null | string match -r '^[A-Za-z0-9_-]+:[A-Za-z0-9_.-]+'\n"
    "end\n"
    "\n"
    "complete -c kern -f\n"
    "complete -c kern -n __fish_use_subcommand -l help -d 'print help'\n"
    "complete -c kern -n __fish_use_subcommand -l version -d 'print the version'\n";

static void quoted(FILE *out, const char *text)
{
    fputs("'", out);
    for (; *text != '\0'; text++)
        fprintf(out, strchr("'\\", *text) != NULL ? "\\%c" : "%c", *text);
    fputs("'", out);
}

static void begin(FILE *out, const struct core_verb *verb)
{
    fprintf(out, "complete -c kern -n '__fish_seen_subcommand_from %s'", verb->name);
}

static void words(FILE *out, const char *const *word)
{
    fputs(" -a '", out);
    for (const char *const *each = word; *each != NULL; each++)
        fprintf(out, "%s%s", each == word ? "" : " ", *each);
    fputs("'", out);
}

static void flag(FILE *out, const struct core_verb *verb, const struct kern_option *option)
{
    char help[512];
    core_help_line(option, help, sizeof(help));
    begin(out, verb);
    fprintf(out, " -l %s", option->name);
    if (option->letter != NULL)
        fprintf(out, " -s %s", option->letter);
    if (option->alias != NULL)
        fprintf(out, " -l %s", option->alias);
    if (option->type == KERN_PATH)
        fputs(" -r -F", out);
    else if (option->type != KERN_BOOL)
        fputs(" -x", out);
    if (option->choices != NULL)
        words(out, option->choices);
    fputs(" -d ", out);
    quoted(out, help);
    fputs("\n", out);
}

static void plain_words(FILE *out, const struct core_verb *verb)
{
    if (verb->words != NULL) {
        begin(out, verb);
        words(out, verb->words);
        fputs("\n", out);
    }
    if (verb->plugin_flags != 0) {
        begin(out, verb);
        fputs(" -a '(__kern_profiles)'\n", out);
        begin(out, verb);
        fprintf(out, " -a '(kern plugin flags %s 2>/dev/null </dev/null)'\n", verb->name);
    }
    if (strcmp(verb->name, "validate") == 0 || strcmp(verb->name, "config") == 0) {
        begin(out, verb);
        fputs(" -F\n", out);
    }
}

void core_completion_fish(FILE *out, const struct core_catalog *catalog)
{
    fputs(head, out);
    for (const struct core_verb *verb = core_verbs(); verb->name != NULL; verb++) {
        fprintf(out, "complete -c kern -n __fish_use_subcommand -a %s -d ", verb->name);
        quoted(out, verb->summary);
        fputs("\n", out);
    }
    for (const struct core_verb *verb = core_verbs(); verb->name != NULL; verb++) {
        begin(out, verb);
        fputs(" -l help -d 'print help'\n", out);
        core_completion_each(out, verb, catalog, flag);
        plain_words(out, verb);
    }
}
