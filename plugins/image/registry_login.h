/* Credentials on disk and in helper programs. Runs in kern itself, with the caller's rights: these are the caller's files. */
#ifndef REGISTRY_LOGIN_H
#define REGISTRY_LOGIN_H

#include "registry_job.h"

/* What the caller's config.json or helper knows about a registry; empty when that is nothing. */
int registry_credentials_get(const char *registry, struct registry_credentials *ret_credentials,
                             struct kern_error *err);
/* Keeps them there: with the helper where one is configured, else in the file, 0600. *ret_where (200 bytes) names the place. */
int registry_credentials_store(const char *registry, const struct registry_credentials *credentials,
                               char *ret_where, bool *ret_plain, struct kern_error *err);
/* -ENOENT without an error text when there were none. */
int registry_credentials_erase(const char *registry, struct kern_error *err);

#endif
