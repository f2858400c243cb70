/* SHA-256 by libcrypto, which libcurl loads anyway; see registry_digest.h. Pure. */
#include "registry_digest.h"

#include "kern/cleanup.h"

#include <openssl/evp.h>
#include <string.h>

#define PREFIX     "sha256:"
#define HEX_DIGITS 64

struct registry_hash {
    EVP_MD_CTX *context;
};

bool registry_digest_is_valid(const char *text)
{
    if (text == NULL || strncmp(text, PREFIX, strlen(PREFIX)) != 0)
        return false;
    text += strlen(PREFIX);
    return strlen(text) == HEX_DIGITS && strspn(text, "0123456789abcdef") == HEX_DIGITS;
}

void registry_hash_free(struct registry_hash *hash)
{
    if (hash == NULL)
        return;
    EVP_MD_CTX_free(hash->context);
    free(hash);
}

struct registry_hash *registry_hash_new(void)
{
    cleanup(registry_hash_drop) struct registry_hash *hash = calloc(1, sizeof(*hash));
    if (hash == NULL)
        return NULL;
    hash->context = EVP_MD_CTX_new();
    if (hash->context == NULL || EVP_DigestInit_ex(hash->context, EVP_sha256(), NULL) != 1)
        return NULL;
    return steal_ptr(hash);
}

bool registry_hash_add(struct registry_hash *hash, const void *bytes, size_t length)
{
    return EVP_DigestUpdate(hash->context, bytes, length) == 1;
}

bool registry_hash_end(struct registry_hash *hash, char ret_digest[REGISTRY_DIGEST_SIZE])
{
    static const char digits[] = "0123456789abcdef";
    unsigned char raw[EVP_MAX_MD_SIZE];
    unsigned length = 0;
    if (EVP_DigestFinal_ex(hash->context, raw, &length) != 1 || length * 2 != HEX_DIGITS)
        return false;
    memcpy(ret_digest, PREFIX, strlen(PREFIX));
    char *at = ret_digest + strlen(PREFIX);
    for (unsigned i = 0; i < length; i++) {
        *at++ = digits[raw[i] >> 4];
        *at++ = digits[raw[i] & 15];
    }
    *at = '\0';
    return true;
}

bool registry_digest_of(const void *bytes, size_t length, char ret_digest[REGISTRY_DIGEST_SIZE])
{
    cleanup(registry_hash_drop) struct registry_hash *hash = registry_hash_new();
    return hash != NULL && registry_hash_add(hash, bytes, length) && registry_hash_end(hash, ret_digest);
}
