/* What a registry asks for when it answers 401: the WWW-Authenticate header, read from whoever answers. Pure. */
#ifndef REGISTRY_CHALLENGE_H
#define REGISTRY_CHALLENGE_H

#include <stdint.h>

#define REGISTRY_AUTH_NONE   0u
#define REGISTRY_AUTH_BASIC  1u
#define REGISTRY_AUTH_BEARER 2u

struct registry_challenge {
    uint32_t scheme; /* REGISTRY_AUTH_* */
    char realm[1024];
    char service[256];
    char scope[512];
};

/* Reads the value of one header, which may hold several challenges, on top of what earlier headers said: Bearer wins over
 * Basic. What cannot be read changes nothing: then there is no challenge that could be met. */
void registry_challenge_read(const char *value, struct registry_challenge *challenge);

#endif
