/* Completion for zsh; see completion.h. Host side. */
#include "completion.h"

#include "help.h"

#include <string.h>

static const char head[] =
    "#compdef kern\n"
    "# zsh completion for kern, printed by: kern completion zsh\n"
    "\n"
    /* Written as --flag=[help]:value: for _arguments; only plain flags are taken. */
    "_kern_plugin_flags() {\n"
    "    local line\n"
    "    for line in ${(f)\"$(kern plugin flags $1 2>/dev/null </dev/null)\"}; do\n"
    "        line=${line%%[[:space:]]*}\n"
    "        [[ $line =~ '^--[a-z0-9-]+$' ]] && print -r -- \"*${line}=[of a plugin]: : \"\n"
    "    done\n"
    "}\n"
    "\n"
    "_kern_profiles() {\n"
    "    local line\n"
    "    local -a names\n"
    "    for line in ${(f)\"$(kern config list 2>/dev/null </dev/null)\"}; do\n"
    "        line=${line%%[[:space:]]*}\n"
    "        [[ $line =~ '^[A-Za-z0-9_-]+:[A-Za-z0-9_.-]+$' ]] && names+=(\"$line\")\n"
    "    done\n"
    "    compadd -a names\n"
    "}\n"
    "\n";

static const char tail[] = "_kern() {\n"
                           "    local context state state_descr line\n"
                           "    typeset -A opt_args\n"
                           "    _arguments -C '(- *)--help[print help]' '(- *)--version[print the version]' "
                           "'1: :->verb' '*:: :->rest'\n"
                           "    case $state in\n"
                           "    verb) _kern_verbs ;;\n"
                           "    rest) (( $+functions[_kern_verb_$words[1]] )) && _kern_verb_$words[1] ;;\n"
                           "    esac\n"
                           "}\n"
                           "\n"
                           /* Autoloaded, the file is the function; sourced, it only declares it. */
                           "if [[ ${funcstack[1]-} == _kern ]]; then\n"
                           "    _kern \"$@\"\n"
                           "else\n"
                           "    (( $+functions[compdef] )) && compdef _kern kern\n"
                           "fi\n";

/* Inside '...' and inside the brackets or between the colons of a specification. */
static void quoted(FILE *out, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '\'')
            fputs("'\\''", out);
        else if (strchr("[]:\\", *text) != NULL)
            fprintf(out, "\\%c", *text);
        else
            fputc(*text, out);
    }
}

static void action(FILE *out, const struct kern_option *option)
{
    if (option->type == KERN_PATH) {
        fputs("_files", out);
    } else if (option->choices == NULL) {
        fputs(" ", out);
    } else {
        for (const char *const *choice = option->choices; *choice != NULL; choice++)
            fprintf(out, "%s%s", choice == option->choices ? "(" : " ", *choice);
        fputs(")", out);
    }
}

/* One specification for each spelling; `others` are ruled out by this one unless it may be repeated. */
static void spec(FILE *out, const struct kern_option *option, const char *dashes, const char *spelling,
                 const char *ending)
{
    char help[512];
    core_help_line(option, help, sizeof(help));
    fputs(" \\\n        '", out);
    if ((option->flags & KERN_OPT_LIST) != 0) {
        fputs("*", out);
    } else {
        fprintf(out, "(--%s", option->name);
        if (option->letter != NULL)
            fprintf(out, " -%s", option->letter);
        if (option->alias != NULL)
            fprintf(out, " --%s", option->alias);
        fputs(")", out);
    }
    fprintf(out, "%s%s%s[", dashes, spelling, option->type == KERN_BOOL ? "" : ending);
    quoted(out, help);
    fputs("]", out);
    if (option->type != KERN_BOOL) {
        fputs((option->flags & KERN_OPT_OPTIONAL) != 0 ? "::" : ":", out);
        quoted(out, option->arg != NULL ? option->arg : "VALUE");
        fputs(":", out);
        action(out, option);
    }
    fputs("'", out);
}

static void specs(FILE *out, const struct core_verb *verb, const struct kern_option *option)
{
    (void)verb;
    spec(out, option, "--", option->name, "=");
    if (option->letter != NULL)
        spec(out, option, "-", option->letter, "+");
    if (option->alias != NULL)
        spec(out, option, "--", option->alias, "=");
}

static void first_word(FILE *out, const struct core_verb *verb)
{
    if (verb->plugin_flags != 0) {
        fprintf(out, " \\\n        ${(f)\"$(_kern_plugin_flags %s)\"} '*: :_kern_profiles'", verb->name);
    } else if (strcmp(verb->name, "help") == 0) {
        fputs(" \\\n        '1: :_kern_verbs'", out);
    } else if (verb->words != NULL) {
        fputs(" \\\n        '1: :(", out);
        for (const char *const *word = verb->words; *word != NULL; word++)
            fprintf(out, "%s%s", word == verb->words ? "" : " ", *word);
        fputs(")' \\\n        '2: :_files'", out);
    } else {
        fputs(" \\\n        '1: :_files'", out);
    }
}

void core_completion_zsh(FILE *out, const struct core_catalog *catalog)
{
    fputs(head, out);
    fputs("_kern_verbs() {\n    local -a verbs=(\n", out);
    for (const struct core_verb *verb = core_verbs(); verb->name != NULL; verb++) {
        fprintf(out, "        '%s:", verb->name);
        quoted(out, verb->summary);
        fputs("'\n", out);
    }
    fputs("    )\n    _describe verb verbs\n}\n\n", out);
    for (const struct core_verb *verb = core_verbs(); verb->name != NULL; verb++) {
        fprintf(out, "_kern_verb_%s() {\n    _arguments -s -S '(- *)--help[print help]'", verb->name);
        core_completion_each(out, verb, catalog, specs);
        first_word(out, verb);
        fputs("\n}\n\n", out);
    }
    fputs(tail, out);
}
