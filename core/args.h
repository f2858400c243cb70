/* The words of the command line: the name, the profiles, the flags and the command of `kern box` (and `run`), and
 * the flags of every other verb. The option tables say which flags exist. Host side, once a run, before anything
 * is opened; pure but for KERN_OPT_MUST_EXIST paths. */
#ifndef CORE_ARGS_H
#define CORE_ARGS_H

#include "catalog.h"

/* KIND:PROFILE, checked against the kinds of the catalog; whether the profile exists is the config's to say. */
struct core_args_token {
    const char *kind;    /* the plugin's own spelling */
    const char *profile; /* points into argv */
};

struct core_args {
    const char *name; /* NULL: to be generated */
    struct core_args_token *token;
    size_t token_count;
    char **command; /* what follows `--`, inside argv; NULL when there is none */
    int command_count;
    bool help; /* -h or --help stood before `--`; nothing else has been checked then */
};

/* argv[0] is the verb, "box" or "run". Flags of kern's own go into `box` at rank KERN_FROM_FLAG, those of
 * third-party plugins (--NAME-OPTION) into plugin->own. [box] of kern.toml should be in `box` already: pairs of
 * options are judged as they stand at the end. On failure `box` may hold some of the flags. */
int core_args_parse(int argc, char **argv, struct core_catalog *catalog, struct kern_values *box,
                    struct core_args *ret_args, struct kern_error *err);
void core_args_clear(struct core_args *args);

/* Options that exclude or need each other. At one rank they are an error; otherwise the higher rank wins and the
 * other is switched off. core_args_parse() ends with it; call it again when profiles have set options since. */
int core_args_settle(struct kern_values *box, struct kern_error *err);

/* The value of `flag` ("--config") as FLAG VALUE or FLAG=VALUE before `--`, the last one if there are several; NULL
 * when it is not there. For what must be known before the plugins, and so the other flags, are. */
const char *core_args_peek(int argc, char **argv, const char *flag);

/* Flags of a verb with a table of its own (NULL: none). Adds the table's options to `values`, moves the other words
 * to argv[1] .. argv[*ret_words] and says in `ret_help` whether -h or --help was among them. More than `max_words`
 * words are refused. `--` makes words of all that follow. */
int core_args_verb(int argc, char **argv, const struct kern_option *table, struct kern_values *values,
                   int max_words, int *ret_words, bool *ret_help, struct kern_error *err);

#endif
