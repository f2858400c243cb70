/* The verbs of kern: one function each, in cmd_NAME.c. What they return is the exit code; or it is negative, and core/dispatch.c,
 * which calls them, prints `err` and makes it 1. Host side. */
#ifndef CORE_CMD_H
#define CORE_CMD_H

#include <stdbool.h>

#include "options.h"
#include "verbs.h"

/* What stands on the command line after `kern`. `word` and `flags` are filled by the verb's entry in the table: flags that it
 * knows, and as many words as it takes. A verb that is `raw` reads `argv` itself. */
struct core_call {
    const struct core_verb *verb;
    struct kern_values flags; /* cleared by the caller */
    char **word;
    int words;
    char **argv; /* argv[0] is the verb */
    int argc;
};

int core_cmd_attach(struct core_call *call, struct kern_error *err);
int core_cmd_box(struct core_call *call, struct kern_error *err);
int core_cmd_recover(struct core_call *call, struct kern_error *err);
int core_cmd_run(struct core_call *call, struct kern_error *err);
int core_cmd_completion(struct core_call *call, struct kern_error *err);
int core_cmd_cp(struct core_call *call, struct kern_error *err);
int core_cmd_config(struct core_call *call, struct kern_error *err);
int core_cmd_diff(struct core_call *call, struct kern_error *err);
int core_cmd_doctor(struct core_call *call, struct kern_error *err);
int core_cmd_exec(struct core_call *call, struct kern_error *err);
int core_cmd_examples(struct core_call *call, struct kern_error *err);
int core_cmd_config_write(struct core_call *call, struct kern_error *err);
int core_cmd_probe(struct core_call *call, struct kern_error *err);
int core_cmd_image(struct core_call *call, struct kern_error *err);
/* Whether the store has an image that this word means. */
bool core_image_is_here(const char *word);
int core_cmd_help(struct core_call *call, struct kern_error *err);
int core_cmd_inspect(struct core_call *call, struct kern_error *err);
int core_cmd_kill(struct core_call *call, struct kern_error *err);
int core_cmd_login(struct core_call *call, struct kern_error *err); /* logout, too */
int core_cmd_logs(struct core_call *call, struct kern_error *err);
int core_cmd_pause(struct core_call *call, struct kern_error *err); /* and unpause */
int core_cmd_plugin(struct core_call *call, struct kern_error *err);
int core_cmd_prune(struct core_call *call, struct kern_error *err);
int core_cmd_ps(struct core_call *call, struct kern_error *err);
int core_cmd_pull(struct core_call *call, struct kern_error *err);
int core_cmd_rm(struct core_call *call, struct kern_error *err);
int core_cmd_stats(struct core_call *call, struct kern_error *err);
int core_cmd_stop(struct core_call *call, struct kern_error *err);
int core_cmd_validate(struct core_call *call, struct kern_error *err);
int core_cmd_volume(struct core_call *call, struct kern_error *err);
int core_cmd_version(struct core_call *call, struct kern_error *err);
int core_cmd_wait(struct core_call *call, struct kern_error *err);

/* Makes standard streams that exist and lead to no folder of the host, and keeps everything else that was inherited from what
 * kern starts. First of all in a verb that starts something. */
int core_secure_descriptors(struct kern_error *err);

#endif
