/* SHA-256 by libcrypto, which uses the processor's own instructions; see image_hash.h.
 *
 * The old calls on purpose: the newer EVP ones would bring all of libcrypto, its providers and a third of a megabyte of
 * relocations into a kern with its plugins compiled in, at each start of a box. */
#define OPENSSL_SUPPRESS_DEPRECATED
#include "image_hash.h"

#include <errno.h>
#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>

/* The library's context under our own name. */
struct image_hash {
    SHA256_CTX context;
};

struct image_hash *image_hash_new(void)
{
    struct image_hash *hash = malloc(sizeof(*hash));
    if (hash != NULL)
        (void)SHA256_Init(&hash->context); /* cannot fail */
    return hash;
}

void image_hash_add(struct image_hash *hash, const void *bytes, size_t length)
{
    (void)SHA256_Update(&hash->context, bytes, length); /* cannot fail */
}

void image_hash_end(struct image_hash *hash, char ret_digest[static IMAGE_DIGEST_SIZE])
{
    static const char hex[] = "0123456789abcdef";
    unsigned char sum[SHA256_DIGEST_LENGTH];
    (void)SHA256_Final(sum, &hash->context); /* cannot fail */
    (void)SHA256_Init(&hash->context);       /* as above */
    memcpy(ret_digest, "sha256:", 7);
    for (size_t i = 0; i < sizeof(sum); i++) {
        ret_digest[7 + 2 * i] = hex[sum[i] >> 4];
        ret_digest[8 + 2 * i] = hex[sum[i] & 15];
    }
    ret_digest[IMAGE_DIGEST_SIZE - 1] = '\0';
}

void image_hash_free(struct image_hash *hash)
{
    free(hash);
}

int image_digest_of(const void *bytes, size_t length, char ret_digest[static IMAGE_DIGEST_SIZE])
{
    ret_digest[0] = '\0';
    auto_hash hash = image_hash_new();
    if (hash == NULL)
        return -ENOMEM;
    image_hash_add(hash, bytes, length);
    image_hash_end(hash, ret_digest);
    return 0;
}
