/* The one table of verbs: what `kern NAME` runs, and what help, man pages and completions say about it. Host side. */
#ifndef CORE_VERBS_H
#define CORE_VERBS_H

#include <stdbool.h>

#include "kern/plugin.h"

/* As many words as there are. */
#define CORE_ANY_WORDS INT32_MAX

struct core_call;

struct core_verb {
    const char *name;
    const char *summary;               /* one line, no full stop */
    const char *usage;                 /* what follows "kern "; one form a line */
    const char *detail;                /* a paragraph or more, separated by an empty line; or NULL */
    const struct kern_option *options; /* flags of its own; NULL: none. `box` takes those of the plugins */
    const char *const *words;          /* what its first word may be; NULL: anything */
    int (*run)(struct core_call *call, struct kern_error *err);
    uint32_t plugin_flags; /* it takes those options of the plugins that have this flag; 0: none */
    int min_words, max_words;
    bool raw; /* it reads its words and flags itself */
    /* What is said when words are missing: "QUESTION? kern NAME takes TAKES", and a hint. */
    const char *question, *takes, *hint;
};

/* Ends with name == NULL. */
const struct core_verb *core_verbs(void);
const struct core_verb *core_verb_find(const char *name);

#endif
