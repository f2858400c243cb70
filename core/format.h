/* --format TEMPLATE of the verbs that list things: {{.field}} stands for a field of the row that --json prints. Host side, pure but
 * for what core_format_print() prints. */
#ifndef CORE_FORMAT_H
#define CORE_FORMAT_H

#include "kern/plugin.h"

/* Refuses a template that is not closed, or names a field that is none of `fields` (NULL-terminated). Case and _ do not count:
 * {{.ExitCode}} is exit_code. {{json .}} is the whole row. */
int core_format_check(const char *template, const char *const *fields, struct kern_error *err);

/* Prints one row and a newline. `row` is a JSON object as core_json writes it; a field that this row does not have, or that is
 * null, is empty. Control characters of texts are made visible. */
void core_format_print(const char *template, const char *row);

#endif
