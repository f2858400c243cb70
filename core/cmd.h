/* The verbs of kern: one function each, in cmd_NAME.c. argv[0] is the verb; what they return is the exit code. Host
 * side; core/verbs.c calls them. */
#ifndef CORE_CMD_H
#define CORE_CMD_H

int core_cmd_box(int argc, char **argv);
int core_cmd_completion(int argc, char **argv);
int core_cmd_config(int argc, char **argv);
int core_cmd_doctor(int argc, char **argv);
int core_cmd_examples(int argc, char **argv);
int core_cmd_help(int argc, char **argv);
int core_cmd_plugin(int argc, char **argv);
int core_cmd_validate(int argc, char **argv);
int core_cmd_version(int argc, char **argv);

#endif
