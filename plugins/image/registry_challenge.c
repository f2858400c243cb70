/* The WWW-Authenticate header (RFC 9110, 11.6.1); see registry_challenge.h. Pure. */
#include "registry_challenge.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

static bool is_token(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

static const char *skip_spaces(const char *at)
{
    return at + strspn(at, " \t");
}

static const char *skip_separators(const char *at)
{
    return at + strspn(at, " \t,");
}

static const char *skip_token(const char *at)
{
    while (is_token(*at))
        at++;
    return at;
}

/* A value in quotes or a bare one. NULL when it does not end or does not fit: half a realm is none. */
static const char *read_value(const char *at, char *ret_text, size_t size)
{
    size_t used = 0;
    bool quoted = *at == '"';
    if (quoted)
        at++;
    while (*at != '\0' && (quoted ? *at != '"' : is_token(*at) || *at == '/' || *at == ':')) {
        if (quoted && *at == '\\' && at[1] != '\0')
            at++;
        if (used + 1 >= size || (unsigned char)*at < 0x20 || *at == 0x7f)
            return NULL;
        ret_text[used++] = *at++;
    }
    if (quoted && *at != '"')
        return NULL;
    ret_text[used] = '\0';
    return quoted ? at + 1 : at;
}

static bool names(const char *at, size_t length, const char *word)
{
    return strlen(word) == length && strncasecmp(at, word, length) == 0;
}

/* Whether NAME = VALUE begins here; otherwise it is the name of the next scheme. */
static bool is_parameter(const char *at)
{
    const char *end = skip_token(at);
    return end > at && *skip_spaces(end) == '=' && skip_spaces(end)[1] != '=';
}

/* The parameters of one challenge. NULL when they cannot be read. */
static const char *read_parameters(const char *at, struct registry_challenge *challenge)
{
    at = skip_separators(at);
    while (is_parameter(at)) {
        const char *name = at, *end = skip_token(at);
        char unknown[1024];
        char *text = unknown;
        size_t size = sizeof(unknown), length = (size_t)(end - name);
        if (names(name, length, "realm")) {
            text = challenge->realm;
            size = sizeof(challenge->realm);
        } else if (names(name, length, "service")) {
            text = challenge->service;
            size = sizeof(challenge->service);
        } else if (names(name, length, "scope")) {
            text = challenge->scope;
            size = sizeof(challenge->scope);
        }
        at = read_value(skip_spaces(skip_spaces(end) + 1), text, size);
        if (at == NULL)
            return NULL;
        at = skip_separators(at);
    }
    return at;
}

void registry_challenge_read(const char *value, struct registry_challenge *challenge)
{
    const char *at = skip_separators(value);
    while (is_token(*at)) {
        const char *end = skip_token(at);
        struct registry_challenge found = {.scheme = REGISTRY_AUTH_NONE};
        if (names(at, (size_t)(end - at), "bearer"))
            found.scheme = REGISTRY_AUTH_BEARER;
        else if (names(at, (size_t)(end - at), "basic"))
            found.scheme = REGISTRY_AUTH_BASIC;
        at = read_parameters(end, &found);
        if (at == NULL)
            return;
        if (found.scheme == REGISTRY_AUTH_BEARER && found.realm[0] == '\0')
            continue; /* nobody to ask for a token */
        if (found.scheme > challenge->scheme)
            *challenge = found;
    }
}
