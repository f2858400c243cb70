/* Docker's config.json: who the caller is at which registry, and the program that knows. Pure: texts in, texts out. */
#ifndef REGISTRY_AUTH_H
#define REGISTRY_AUTH_H

#include "registry_job.h"

#define REGISTRY_HELPER_SIZE 64

/* What the file says of one registry. */
struct registry_auth {
    char helper[REGISTRY_HELPER_SIZE]; /* "pass" of docker-credential-pass, or "" */
    struct registry_credentials credentials;
};

/* `text` is the file; `file` its name for messages. `registry` as in references. */
int registry_auth_find(const char *text, size_t length, const char *file, const char *registry,
                       struct registry_auth *ret_auth, struct kern_error *err);
/* Only the helper: an entry that is damaged is no reason not to replace it. "" where there is none. */
int registry_auth_helper(const char *text, size_t length, const char *file, const char *registry,
                         char ret_helper[REGISTRY_HELPER_SIZE], struct kern_error *err);
/* The file with this registry's entry replaced: by the credentials (NULL: taken out), or by an empty one that says that a
 * helper has them. All else stays as it is. `text` may be NULL. *ret_had: there was an entry. free() the result after
 * wiping it. */
int registry_auth_edit(const char *text, size_t length, const char *file, const char *registry,
                       const struct registry_credentials *credentials, bool by_helper, char **ret_text,
                       bool *ret_had, struct kern_error *err);
/* What a helper prints for "get". */
int registry_auth_read_helper(const char *text, size_t length, struct registry_credentials *ret_credentials,
                              struct kern_error *err);
/* What a helper reads for "store": free() it after wiping it. */
char *registry_auth_helper_entry(const char *registry, const struct registry_credentials *credentials);
/* The name that helpers and the file know a registry by. */
const char *registry_auth_key(const char *registry);

#endif
