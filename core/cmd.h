/* The verbs of kern: one function each, in cmd_NAME.c. argv[0] is the verb; what they return is the exit code. Host
 * side; core/verbs.c calls them. */
#ifndef CORE_CMD_H
#define CORE_CMD_H

#include <stdbool.h>

#include "kern/plugin.h"

int core_cmd_attach(int argc, char **argv);
int core_cmd_box(int argc, char **argv);
int core_cmd_recover(int argc, char **argv);
int core_cmd_run(int argc, char **argv);
int core_cmd_completion(int argc, char **argv);
int core_cmd_cp(int argc, char **argv);
int core_cmd_config(int argc, char **argv);
int core_cmd_diff(int argc, char **argv);
int core_cmd_doctor(int argc, char **argv);
int core_cmd_exec(int argc, char **argv);
int core_cmd_examples(int argc, char **argv);
int core_cmd_config_write(int argc, char **argv);
int core_cmd_probe(int argc, char **argv);
int core_cmd_image(int argc, char **argv);
/* Whether the store has an image that this word means. */
bool core_image_is_here(const char *word);
int core_cmd_help(int argc, char **argv);
int core_cmd_inspect(int argc, char **argv);
int core_cmd_kill(int argc, char **argv);
int core_cmd_login(int argc, char **argv); /* logout, too */
int core_cmd_logs(int argc, char **argv);
int core_cmd_pause(int argc, char **argv); /* and unpause */
int core_cmd_plugin(int argc, char **argv);
int core_cmd_prune(int argc, char **argv);
int core_cmd_ps(int argc, char **argv);
int core_cmd_pull(int argc, char **argv);
int core_cmd_rm(int argc, char **argv);
int core_cmd_stats(int argc, char **argv);
int core_cmd_stop(int argc, char **argv);
int core_cmd_validate(int argc, char **argv);
int core_cmd_volume(int argc, char **argv);
int core_cmd_version(int argc, char **argv);
int core_cmd_wait(int argc, char **argv);

/* Makes standard streams that exist and lead to no folder of the host, and keeps everything else that was inherited from what
 * kern starts. First of all in a verb that starts something. */
int core_secure_descriptors(struct kern_error *err);

#endif
