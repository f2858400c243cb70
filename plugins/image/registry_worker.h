/* The client's worker: all that talks to registries and reads what they send. */
#ifndef REGISTRY_WORKER_H
#define REGISTRY_WORKER_H

#include "registry_job.h"

/* The life of the worker of a pull, confined before; does not return. */
_Noreturn void registry_worker_pull(const struct registry_job *job);
/* The same for a login: does the first endpoint accept its credentials? */
_Noreturn void registry_worker_login(const struct registry_job *job);

#endif
