/* The worker's cage: what a process that reads what registries send has no need of, it loses. */
#ifndef REGISTRY_CONFINE_H
#define REGISTRY_CONFINE_H

#include "kern/plugin.h"

/* In a new process, before it talks to anybody: closes all descriptors but `keep` and standard error, gives up ids and
 * capabilities, sees of the file system what resolving names and trusting certificates take, executes nothing. Dies with
 * `parent`. */
int registry_confine(int keep, int parent, struct kern_error *err);

#endif
