/* SHA-256 by libcrypto, which uses the processor's own instructions; see image_hash.h. */
#include "image_hash.h"

#include <openssl/evp.h>
#include <string.h>

/* The library's context under our own name. */
struct image_hash *image_hash_new(void)
{
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    if (context != NULL && EVP_DigestInit_ex(context, EVP_sha256(), NULL) != 1) {
        EVP_MD_CTX_free(context);
        context = NULL;
    }
    return (struct image_hash *)context;
}

void image_hash_add(struct image_hash *hash, const void *bytes, size_t length)
{
    (void)EVP_DigestUpdate((EVP_MD_CTX *)hash, bytes, length); /* cannot fail for SHA-256 */
}

void image_hash_end(struct image_hash *hash, char ret_digest[static IMAGE_DIGEST_SIZE])
{
    static const char hex[] = "0123456789abcdef";
    unsigned char sum[EVP_MAX_MD_SIZE] = {0};
    (void)EVP_DigestFinal_ex((EVP_MD_CTX *)hash, sum, NULL);         /* as above */
    (void)EVP_DigestInit_ex((EVP_MD_CTX *)hash, EVP_sha256(), NULL); /* as above */
    memcpy(ret_digest, "sha256:", 7);
    for (size_t i = 0; i < 32; i++) {
        ret_digest[7 + 2 * i] = hex[sum[i] >> 4];
        ret_digest[8 + 2 * i] = hex[sum[i] & 15];
    }
    ret_digest[IMAGE_DIGEST_SIZE - 1] = '\0';
}

void image_hash_free(struct image_hash *hash)
{
    EVP_MD_CTX_free((EVP_MD_CTX *)hash);
}
