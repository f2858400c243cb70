/* What one pull or login is to do, as plain data: made by kern itself from the command line, kern.toml and Docker's
 * config.json, and read by the client's worker, which inherits it. */
#ifndef REGISTRY_JOB_H
#define REGISTRY_JOB_H

#include "image_platform.h"
#include "image_ref.h"
#include "registry_url.h"

#define REGISTRY_ENDPOINTS_MAX 9u
#define REGISTRY_PLAIN_MAX     64u
#define REGISTRY_SECRET_SIZE   16384 /* tokens of cloud providers are long */

/* How one registry knows the caller. All empty: not at all. */
struct registry_credentials {
    char user[512];
    char secret[REGISTRY_SECRET_SIZE];   /* password */
    char identity[REGISTRY_SECRET_SIZE]; /* or a token to get tokens with */
};

/* A place that may have the image: a mirror or the registry itself. */
struct registry_endpoint {
    char name[300];   /* as the user writes it */
    char base[400];   /* https://HOST:PORT */
    char prefix[200]; /* of repositories there: "" or "PATH/" */
    struct registry_place place;
    struct registry_credentials credentials;
};

struct registry_job {
    struct image_ref ref;
    struct image_platform wanted;
    struct registry_policy policy;
    const char *plain[REGISTRY_PLAIN_MAX]; /* what the policy points to */
    struct registry_endpoint *endpoint;    /* in the order they are asked */
    uint32_t endpoint_count;
    char *ca; /* certificates that are trusted beside the system's; NULL: none */
    size_t ca_length;
    int64_t stall_ms; /* a transfer that moves nothing for so long is broken */
    uint32_t attempts;
    uint32_t parallel;
    int socket; /* of the worker, to kern */
};

/* Overwrites what is secret in it. */
void registry_job_clear(struct registry_job *job);

#endif
