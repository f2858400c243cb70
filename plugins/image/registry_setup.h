/* From a reference, [registry] of kern.toml and Docker's config.json to a job. Runs in kern itself. */
#ifndef REGISTRY_SETUP_H
#define REGISTRY_SETUP_H

#include "registry_job.h"

/* `job` is zeroed before and cleared after by the caller, also after a failure, and stays where it is: it points into itself,
 * and into `settings`. */
int registry_setup(const struct image_ref *ref, const char *platform, const kern_values *settings,
                   struct registry_job *job, struct kern_error *err);
/* The same for a login: one endpoint, the credentials given. */
int registry_setup_login(const char *registry, const struct registry_credentials *credentials,
                         const kern_values *settings, struct registry_job *job, struct kern_error *err);
/* Pure. Takes "[REGISTRY=]HOST[:PORT][/PATH]" apart: 1 when it is a mirror of `registry`, 0 when of another. */
int registry_mirror_read(const char *text, const char *registry, char ret_host[300], char ret_prefix[200],
                         struct kern_error *err);

/* Starts the worker in a process of its own and returns kern's end of the socket. */
int registry_start(struct registry_job *job, void (*run)(const struct registry_job *job), int *ret_socket,
                   int *ret_pid, struct kern_error *err);

#endif
