/* The command line, word by word: what is a flag, a value, a name, a profile or the command; see args.h. One pass,
 * one allocation at most (the profile tokens). Runs in kern itself before a box exists. */
#include "args.h"

#include "args_flag.h"
#include "cleanup.h"
#include "error.h"

#include <string.h>

#define NAME_LENGTH 64

struct parser {
    const char *verb;
    uint32_t run_only; /* KERN_OPT_RUN where only such flags count, else 0 */
    int argc;
    char **argv;
    int at; /* the word under the eye */
    struct core_catalog *catalog;
    struct kern_values *values;
    int (*word)(struct parser *p, char *text, struct kern_error *err); /* takes what is not a flag */
    struct core_args args;
    int words; /* core_args_verb(): how many there are */
    int max_words;
};

static bool same(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

static bool asks_for_help(const char *word)
{
    return same(word, "--help") || same(word, "-h");
}

/* ---- Flags ------------------------------------------------------------------------------------------- */

static int check_available(const struct parser *p, const struct core_flag *flag, char letter,
                           struct kern_error *err)
{
    char short_form[8] = "";
    if (letter != '\0')
        (void)snprintf(short_form, sizeof(short_form), "-%c, ", letter); /* four characters */
    if ((flag->def->flags & KERN_OPT_LATER) != 0)
        return kern_refuse(err, 0, "%s%s is not available in this build", short_form, flag->where);
    if ((flag->def->flags & p->run_only) != p->run_only) {
        int result = kern_refuse(err, 0, "%s%s needs a box", short_form, flag->where);
        kern_hint(err, "\"kern run\" makes no box; use: kern box");
        return result;
    }
    return 0;
}

static const char *next_word(const struct parser *p)
{
    if (p->at + 1 >= p->argc || same(p->argv[p->at + 1], "--"))
        return NULL;
    return p->argv[p->at + 1];
}

static bool is_choice(const struct kern_option *def, const char *word)
{
    if (def->type != KERN_ENUM || def->choices == NULL || word == NULL)
        return false;
    for (const char *const *choice = def->choices; *choice != NULL; choice++) {
        if (same(*choice, word))
            return true;
    }
    return false;
}

/* The text of a flag that had none in its own word. An optional value is taken from the next word only where that
 * can be nothing else. The second spelling of such a flag never stands alone: `--network bridge` would mean the host's
 * network for a box called "bridge". */
static int find_text(struct parser *p, const struct core_flag *flag, const char **ret_text,
                     struct kern_error *err)
{
    const struct kern_option *def = flag->def;
    if (def->type == KERN_BOOL) {
        *ret_text = "true";
        return 0;
    }
    const char *next = next_word(p);
    if ((def->flags & KERN_OPT_OPTIONAL) != 0 && !flag->alias && !is_choice(def, next)) {
        *ret_text = def->implied;
        return 0;
    }
    if (next == NULL) {
        int result = kern_refuse(err, 0, "%s needs a value", flag->where);
        kern_hint(err, "%s %s", flag->where, def->arg != NULL ? def->arg : "VALUE");
        return result;
    }
    p->at++;
    *ret_text = next;
    return 0;
}

static int take_long(struct parser *p, const char *word, struct kern_error *err)
{
    size_t length = strcspn(word, "=");
    struct core_flag flag;
    if (!core_flag_long(p->catalog, word, length, &flag))
        return core_flag_unknown(p->catalog, p->verb, word, err);
    int r = check_available(p, &flag, '\0', err);
    if (r < 0)
        return r;
    const char *text = word + length + 1;
    if (word[length] == '\0')
        r = find_text(p, &flag, &text, err);
    return r < 0 ? r : core_flag_set(&flag, p->values, text, err);
}

/* -m 512m, -m512m, -m=512m, -it, -i=false; -h anywhere in a row of letters is a call for help. */
static int take_letters(struct parser *p, const char *word, struct kern_error *err)
{
    for (const char *letter = word + 1; *letter != '\0'; letter++) {
        struct core_flag flag;
        if (*letter == 'h') {
            p->args.help = true;
            return 0;
        }
        if (!core_flag_letter(p->catalog, *letter, &flag))
            return core_flag_unknown(p->catalog, p->verb, word, err);
        int r = check_available(p, &flag, *letter, err);
        if (r < 0)
            return r;
        const char *text = letter + 1 + (letter[1] == '=');
        bool rest = letter[1] == '=' || (letter[1] != '\0' && flag.def->type != KERN_BOOL);
        if (!rest)
            r = find_text(p, &flag, &text, err);
        if (r == 0)
            r = core_flag_set(&flag, p->values, text, err);
        if (r < 0 || rest)
            return r;
    }
    return 0;
}

static int take(struct parser *p, char *word, struct kern_error *err)
{
    if (word[0] != '-' || word[1] == '\0')
        return p->word(p, word, err);
    if (word[1] != '-')
        return take_letters(p, word, err);
    if (asks_for_help(word)) {
        p->args.help = true;
        return 0;
    }
    return take_long(p, word, err);
}

/* Whoever asks for help gets it, also after a mistake. */
static bool help_follows(const struct parser *p)
{
    for (int i = p->at + 1; i < p->argc && !same(p->argv[i], "--"); i++) {
        if (asks_for_help(p->argv[i]))
            return true;
    }
    return false;
}

/* Stops at `--` (p->at stands on it), at the end, at a call for help or at the first mistake. */
static int take_all(struct parser *p, struct kern_error *err)
{
    for (p->at = 1; p->at < p->argc && !same(p->argv[p->at], "--"); p->at++) {
        int r = take(p, p->argv[p->at], err);
        if (r < 0 && !help_follows(p))
            return r;
        if (r < 0) {
            p->args.help = true;
            *err = (struct kern_error){0};
        }
        if (p->args.help)
            return 0;
    }
    return 0;
}

/* ---- The words of box and run ------------------------------------------------------------------------ */

static bool is_alphanumeric(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static bool is_name(const char *word)
{
    if (!is_alphanumeric(word[0]) && word[0] != '_')
        return false;
    size_t length = 0;
    while (is_alphanumeric(word[length]) || (word[length] != '\0' && strchr("_.-", word[length]) != NULL))
        length++;
    return word[length] == '\0' && length <= NAME_LENGTH;
}

static int take_name(struct parser *p, const char *word, struct kern_error *err)
{
    int result = 0;
    if (p->run_only != 0) {
        result = kern_refuse(err, 0, "unexpected word \"%s\"", word);
        kern_hint(err, "the command goes after --: kern run -- %s", word);
    } else if (p->args.name != NULL) {
        result = kern_refuse(err, 0, "unexpected word \"%s\" after the name \"%s\"", word, p->args.name);
        kern_hint(err, "the command goes after --: kern box %s -- %s", p->args.name, word);
    } else if (!is_name(word)) {
        result = kern_refuse(err, 0, "\"%s\" is not a name for a box", word);
        kern_hint(err,
                  "up to %d letters, digits, \"_\", \".\" and \"-\", the first a letter, a digit or \"_\"; "
                  "the command goes after --",
                  NAME_LENGTH);
    } else {
        p->args.name = word;
    }
    return result;
}

static int refuse_kind(const struct parser *p, const char *word, size_t length, struct kern_error *err)
{
    char kinds[256] = "";
    size_t used = 0;
    for (size_t i = 0; i < p->catalog->count; i++) {
        const char *kind = p->catalog->plugin[i].table->profile;
        if (kind != NULL && used < sizeof(kinds))
            used += (size_t)snprintf(kinds + used, sizeof(kinds) - used, "%s%s", used > 0 ? ", " : "", kind);
    }
    int result = kern_refuse(err, 0, "unknown kind of profile \"%.*s\" in \"%s\"", (int)length, word, word);
    kern_hint(err, "the kinds are: %s. All profiles: kern config list", kinds);
    return result;
}

static int add_token(struct parser *p, const char *kind, const char *profile, struct kern_error *err)
{
    struct core_args *args = &p->args;
    if (args->token == NULL)
        args->token = calloc((size_t)(p->argc - p->at), sizeof(*args->token));
    if (args->token == NULL)
        return kern_refuse(err, ENOMEM, "cannot keep the profile \"%s:%s\"", kind, profile);
    args->token[args->token_count++] = (struct core_args_token){.kind = kind, .profile = profile};
    return 0;
}

static struct core_plugin *find_kind(const struct parser *p, const char *word, size_t length)
{
    char kind[64];
    if (length >= sizeof(kind))
        return NULL;
    memcpy(kind, word, length);
    kind[length] = '\0';
    return core_catalog_kind(p->catalog, kind);
}

static int take_box_word(struct parser *p, char *word, struct kern_error *err)
{
    const char *colon = strchr(word, ':');
    if (colon == NULL)
        return take_name(p, word, err);
    size_t length = (size_t)(colon - word);
    const struct core_plugin *plugin = find_kind(p, word, length);
    if (plugin == NULL)
        return refuse_kind(p, word, length, err);
    if (colon[1] == '\0') {
        int result = kern_refuse(err, 0, "\"%s\" names no profile", word);
        kern_hint(err, "all profiles: kern config list");
        return result;
    }
    return add_token(p, plugin->table->profile, colon + 1, err);
}

/* ---- Options that exclude or need each other ---------------------------------------------------------- */

static bool is_on(const struct core_value *value)
{
    return value != NULL && value->number != 0;
}

static int exclude(struct kern_values *box, const char *one, const char *other, struct kern_error *err)
{
    struct core_value *a = core_values_find(box, one);
    struct core_value *b = core_values_find(box, other);
    if (!is_on(a) || !is_on(b))
        return 0;
    if (a->source == b->source) {
        int result = kern_refuse(err, 0, "%s and %s exclude each other", one, other);
        kern_hint(err, "leave one of them out (set by %s and %s)", a->where, b->where);
        return result;
    }
    struct core_value *winner = a->source > b->source ? a : b;
    struct core_value *loser = winner == a ? b : a;
    return core_value_set(loser, "false", winner->source, winner->where, err);
}

int core_args_settle(struct kern_values *box, struct kern_error *err)
{
    int r = exclude(box, "require-limits", "allow-uncapped", err);
    if (r == 0)
        r = exclude(box, "uid-range", "no-uid-range", err);
    if (r < 0)
        return r;
    const struct core_value *bind = core_values_find(box, "bind-rootfs");
    const struct core_value *rootfs = core_values_find(box, "rootfs");
    if (is_on(bind) && (rootfs == NULL || rootfs->text == NULL || rootfs->text[0] == '\0')) {
        r = kern_refuse(err, 0, "bind-rootfs needs rootfs (set by %s)", bind->where);
        kern_hint(err, "--rootfs DIR");
    }
    return r;
}

/* ---- The whole --------------------------------------------------------------------------------------- */

void core_args_clear(struct core_args *args)
{
    if (args == NULL)
        return;
    free(args->token);
    *args = (struct core_args){0};
}

int core_args_parse(int argc, char **argv, struct core_catalog *catalog, struct kern_values *box,
                    struct core_args *ret_args, struct kern_error *err)
{
    struct parser p = {
        .verb = argv[0],
        .run_only = same(argv[0], "run") ? KERN_OPT_RUN : 0,
        .argc = argc,
        .argv = argv,
        .catalog = catalog,
        .values = box,
        .word = take_box_word,
    };
    int r = take_all(&p, err);
    if (r == 0 && !p.args.help)
        r = core_args_settle(box, err);
    if (r < 0) {
        core_args_clear(&p.args);
        return r;
    }
    if (p.at + 1 < argc && !p.args.help) {
        p.args.command = argv + p.at + 1;
        p.args.command_count = argc - p.at - 1;
    }
    *ret_args = p.args;
    return 0;
}

const char *core_args_peek(int argc, char **argv, const char *flag)
{
    size_t length = strlen(flag);
    const char *found = NULL;
    for (int i = 1; i < argc && !same(argv[i], "--"); i++) {
        if (strncmp(argv[i], flag, length) != 0)
            continue;
        if (argv[i][length] == '=')
            found = argv[i] + length + 1;
        else if (argv[i][length] == '\0' && i + 1 < argc && !same(argv[i + 1], "--"))
            found = argv[++i];
    }
    return found;
}

/* ---- Other verbs ------------------------------------------------------------------------------------- */

static int take_verb_word(struct parser *p, char *word, struct kern_error *err)
{
    if (p->words == p->max_words) {
        int result = kern_refuse(err, 0, "unexpected word \"%s\"", word);
        kern_hint(err, "kern %s --help", p->verb);
        return result;
    }
    /* Never ahead of p->at: only words that have been read are overwritten. */
    p->argv[++p->words] = word;
    return 0;
}

int core_args_verb(int argc, char **argv, const struct kern_option *table, struct kern_values *values,
                   int max_words, int *ret_words, bool *ret_help, struct kern_error *err)
{
    int r = table == NULL ? 0 : core_values_add(values, table, KERN_OPT_FLAG, err);
    if (r < 0)
        return r;
    const struct kern_plugin own = {.name = argv[0], .options = table};
    struct core_plugin one = {.table = &own, .name = argv[0], .builtin = true};
    struct core_catalog catalog = {.plugin = &one, .count = 1};
    struct parser p = {
        .verb = argv[0],
        .argc = argc,
        .argv = argv,
        .catalog = &catalog,
        .values = values,
        .word = take_verb_word,
        .max_words = max_words,
    };
    r = take_all(&p, err);
    for (int i = p.at + 1; r == 0 && !p.args.help && i < argc; i++)
        r = take_verb_word(&p, argv[i], err);
    if (r < 0)
        return r;
    *ret_words = p.words;
    *ret_help = p.args.help;
    return 0;
}
