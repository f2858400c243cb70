/* Completion for bash; see completion.h. Host side. */
#include "completion.h"

/* The words are cut by hand because bash cuts COMP_WORDS at ":" and "=", which kern's words contain; for the same
 * reason a reply leaves out what stands before the last of these. Names come from a kern.toml that may be
 * another's: they are compared, never expanded, and only plain ones are offered. */
static const char tail[] =
    "_kern_offer()\n"
    "{\n"
    "    local cur=$1 cut=$2 word\n"
    "    shift 2\n"
    "    for word in \"$@\"; do\n"
    "        [[ $word == \"$cur\"* ]] && COMPREPLY+=(\"${word#\"$cut\"}\")\n"
    "    done\n"
    "}\n"
    "\n"
    "_kern_files()\n"
    "{\n"
    "    compopt -o filenames 2>/dev/null\n"
    "    mapfile -t COMPREPLY < <(compgen -f -- \"$1\")\n"
    "}\n"
    "\n"
    "_kern_profiles()\n"
    "{\n"
    "    local word rest cut=\n"
    "    [[ $1 == *:* && $COMP_WORDBREAKS == *:* ]] && cut=${1%\"${1##*:}\"}\n"
    "    while read -r word rest; do\n"
    "        [[ $word =~ ^[A-Za-z0-9_-]+:[A-Za-z0-9_.-]+$ ]] && _kern_offer \"$1\" \"$cut\" \"$word\"\n"
    "    done < <(kern config list 2>/dev/null </dev/null)\n"
    "}\n"
    "\n"
    "_kern_plugin_flags()\n"
    "{\n"
    "    local word rest\n"
    "    while read -r word rest; do\n"
    "        [[ $word =~ ^--[a-z0-9-]+$ ]] && _kern_offer \"$1\" '' \"$word\"\n"
    "    done < <(kern plugin flags $verb 2>/dev/null </dev/null)\n"
    "}\n"
    "\n"
    "_kern()\n"
    "{\n"
    "    local line=${COMP_LINE:0:COMP_POINT} cur prev verb word\n"
    "    local -a words list\n"
    "    COMPREPLY=()\n"
    "    read -ra words <<<\"$line\"\n"
    "    [[ $line == *[[:space:]] ]] && words+=(\"\")\n"
    "    local count=${#words[@]}\n"
    "    ((count >= 2)) || return 0\n"
    "    cur=${words[count - 1]} prev=${words[count - 2]} verb=${words[1]}\n"
    "    if ((count == 2)); then\n"
    "        read -ra list <<<\"$(_kern_words '')\"\n"
    "        _kern_offer \"$cur\" '' \"${list[@]}\"\n"
    "        return 0\n"
    "    fi\n"
    "    for word in \"${words[@]:2:count-3}\"; do\n"
    "        [[ $word == -- ]] && { _kern_files \"$cur\"; return 0; }\n"
    "    done\n"
    "    local before=\n"
    "    if [[ $cur == --*=* ]]; then\n"
    "        prev=${cur%%=*} cur=${cur#*=}\n"
    "        [[ $COMP_WORDBREAKS == *=* ]] || before=$prev=\n"
    "    fi\n"
    "    read -ra list <<<\"$(_kern_values \"$verb $prev\")\"\n"
    "    case ${list[0]-} in\n"
    "    '') ;;\n"
    "    @file) _kern_files \"$cur\"; return 0 ;;\n"
    "    @any) return 0 ;;\n"
    "    *)\n"
    "        _kern_offer \"$before$cur\" '' \"${list[@]/#/$before}\"\n"
    "        return 0\n"
    "        ;;\n"
    "    esac\n"
    "    read -ra list <<<\"$(_kern_words \"$verb\")\"\n"
    "    _kern_offer \"$cur\" '' \"${list[@]}\"\n"
    "    [[ $cur == --* && ($verb == box || $verb == run) ]] && _kern_plugin_flags \"$cur\"\n"
    "    [[ $cur == -* ]] && return 0\n"
    "    case $verb in\n"
    "    box | run) _kern_profiles \"$cur\" ;;\n"
    "    validate | config) _kern_files_too \"$cur\" ;;\n"
    "    esac\n"
    "    return 0\n"
    "}\n"
    "\n"
    "_kern_files_too()\n"
    "{\n"
    "    local -a keep=(\"${COMPREPLY[@]}\")\n"
    "    _kern_files \"$1\"\n"
    "    COMPREPLY+=(\"${keep[@]}\")\n"
    "}\n"
    "\n"
    "complete -F _kern kern\n";

static void flag_words(FILE *out, const struct core_verb *verb, const struct kern_option *option)
{
    (void)verb;
    fprintf(out, " --%s", option->name);
    if (option->letter != NULL)
        fprintf(out, " -%s", option->letter);
    if (option->alias != NULL)
        fprintf(out, " --%s", option->alias);
}

static void value_case(FILE *out, const struct core_verb *verb, const struct kern_option *option)
{
    if (option->type == KERN_BOOL)
        return;
    fprintf(out, "    '%s --%s'", verb->name, option->name);
    if (option->letter != NULL)
        fprintf(out, " | '%s -%s'", verb->name, option->letter);
    if (option->alias != NULL)
        fprintf(out, " | '%s --%s'", verb->name, option->alias);
    fputs(") echo '", out);
    if (option->type == KERN_PATH)
        fputs("@file", out);
    else if (option->choices == NULL)
        fputs("@any", out);
    for (const char *const *choice = option->choices; choice != NULL && *choice != NULL; choice++)
        fprintf(out, "%s%s", choice == option->choices ? "" : " ", *choice);
    fputs("' ;;\n", out);
}

static void print_words(FILE *out, const struct core_catalog *catalog)
{
    fputs("_kern_words()\n{\n    case $1 in\n    '') echo '--help --version", out);
    for (const struct core_verb *verb = core_verbs(); verb->name != NULL; verb++)
        fprintf(out, " %s", verb->name);
    fputs("' ;;\n    help) echo '--help", out);
    for (const struct core_verb *verb = core_verbs(); verb->name != NULL; verb++)
        fprintf(out, " %s", verb->name);
    fputs("' ;;\n", out);
    for (const struct core_verb *verb = core_verbs(); verb->name != NULL; verb++) {
        fprintf(out, "    %s) echo '--help", verb->name);
        for (const char *const *word = verb->words; word != NULL && *word != NULL; word++)
            fprintf(out, " %s", *word);
        core_completion_each(out, verb, catalog, flag_words);
        fputs("' ;;\n", out);
    }
    fputs("    esac\n}\n\n", out);
}

void core_completion_bash(FILE *out, const struct core_catalog *catalog)
{
    fputs("# bash completion for kern, printed by: kern completion bash\n\n", out);
    print_words(out, catalog);
    fputs("_kern_values()\n{\n    case $1 in\n", out);
    for (const struct core_verb *verb = core_verbs(); verb->name != NULL; verb++)
        core_completion_each(out, verb, catalog, value_case);
    fputs("    esac\n}\n\n", out);
    fputs(tail, out);
}
