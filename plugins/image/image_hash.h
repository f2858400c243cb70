/* SHA-256 by libcrypto. */
#ifndef IMAGE_HASH_H
#define IMAGE_HASH_H

#include "image_ref.h"

#include <stddef.h>

struct image_hash;
struct image_hash *image_hash_new(void); /* NULL: no memory */
void image_hash_add(struct image_hash *hash, const void *bytes, size_t length);
/* "sha256:HEX"; the hash begins anew. */
void image_hash_end(struct image_hash *hash, char ret_digest[static IMAGE_DIGEST_SIZE]);
void image_hash_free(struct image_hash *hash); /* NULL is fine */

/* All at once. 0, or -ENOMEM with "", which equals no digest. */
int image_digest_of(const void *bytes, size_t length, char ret_digest[static IMAGE_DIGEST_SIZE]);

static inline void image_hash_drop(struct image_hash **hash)
{
    image_hash_free(*hash);
}
#define auto_hash __attribute__((__cleanup__(image_hash_drop))) struct image_hash *

#endif
