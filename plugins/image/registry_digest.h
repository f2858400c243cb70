/* Content digests: what a valid one looks like, and SHA-256 over a stream. Part of the registry client (an object of its
 * own that only a pull opens); pure. Used by kern itself and by the client's worker. */
#ifndef REGISTRY_DIGEST_H
#define REGISTRY_DIGEST_H

#include <stdbool.h>
#include <stddef.h>

#define REGISTRY_DIGEST_SIZE 72 /* "sha256:", 64 digits, the end */

/* "sha256:" and 64 lower-case hexadecimal digits; nothing else may become a part of a path or a URL. */
bool registry_digest_is_valid(const char *text);

struct registry_hash;                          /* opaque */
struct registry_hash *registry_hash_new(void); /* NULL: no memory */
void registry_hash_free(struct registry_hash *hash);
bool registry_hash_add(struct registry_hash *hash, const void *bytes, size_t length);
/* Ends the hash; it can only be freed afterwards. */
bool registry_hash_end(struct registry_hash *hash, char ret_digest[REGISTRY_DIGEST_SIZE]);
/* All at once. */
bool registry_digest_of(const void *bytes, size_t length, char ret_digest[REGISTRY_DIGEST_SIZE]);

static inline void registry_hash_drop(struct registry_hash **hash)
{
    registry_hash_free(*hash);
    *hash = NULL;
}

#endif
