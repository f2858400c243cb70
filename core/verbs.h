/* The one table of verbs: what `kern NAME` runs, and what help, man pages and completions say about it. Host side. */
#ifndef CORE_VERBS_H
#define CORE_VERBS_H

#include "kern/plugin.h"

struct core_verb {
    const char *name;
    const char *summary;               /* one line, no full stop */
    const char *usage;                 /* what follows "kern "; one form a line */
    const char *detail;                /* a paragraph or more, separated by an empty line; or NULL */
    const struct kern_option *options; /* flags of its own; NULL: none. `box` takes those of the plugins */
    const char *const *words;          /* what its first word may be; NULL: anything */
    int (*run)(int argc, char **argv);
    uint32_t plugin_flags; /* it takes those options of the plugins that have this flag; 0: none */
};

/* Ends with name == NULL. */
const struct core_verb *core_verbs(void);
const struct core_verb *core_verb_find(const char *name);

/* kern itself: dispatches argv[1] and returns the exit code. */
int core_verbs_run(int argc, char **argv);

#endif
