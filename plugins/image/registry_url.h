/* Places on the network: the base URL of a registry, where a redirect or a realm may lead, and what goes along. One parser
 * for judging and for using: libcurl's. Pure (nothing is resolved or opened). */
#ifndef REGISTRY_URL_H
#define REGISTRY_URL_H

#include "kern/plugin.h"

#include <stdbool.h>

#define REGISTRY_URL_SIZE 4096

/* What a URL says of where it leads. */
struct registry_place {
    char scheme[8]; /* "http" or "https" */
    char host[256]; /* lower case; an IPv6 address in brackets */
    char port[6];   /* always there */
};

/* [registry] of kern.toml, as far as it decides where one may go. */
struct registry_policy {
    const char *const *plain; /* "host:port" (or "host", then any port): http instead of https */
    uint32_t plain_count;
};

/* Whether http is configured for this host and port. */
bool registry_plain_allowed(const struct registry_policy *policy, const struct registry_place *place);
bool registry_same_place(const struct registry_place *a, const struct registry_place *b);

/* The place of a registry that is named "host" or "host:port", and its base URL without a slash at the end. */
int registry_url_base(const struct registry_policy *policy, const char *registry, char *ret_url, size_t size,
                      struct registry_place *ret_place, struct kern_error *err);

/* Judges an absolute URL: https, or http where that is configured; no user in it; nothing but these two schemes. */
int registry_url_check(const struct registry_policy *policy, const char *url, const char *what,
                       struct registry_place *ret_place, struct kern_error *err);

/* Where `location` leads from `url`, checked like the above: *ret_url is the new one. *ret_keep says whether the
 * Authorization header may go along: only to the same scheme, host and port. */
int registry_url_redirect(const struct registry_policy *policy, const char *url, const char *location,
                          char ret_url[REGISTRY_URL_SIZE], bool *ret_keep, struct kern_error *err);

/* The URL of a token for one repository: `realm` with service and scope added. `registry` is the base URL that named the
 * realm. Credentials go there only when *ret_place passes registry_url_check(). */
int registry_url_token(const struct registry_policy *policy, const char *realm, const char *service,
                       const char *scope, char ret_url[REGISTRY_URL_SIZE], struct registry_place *ret_place,
                       struct kern_error *err);

#endif
