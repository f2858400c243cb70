/* Places on the network; see registry_url.h. Pure: libcurl's URL parser opens nothing. */
#include "registry_url.h"

#include "image_ref.h"

#include "kern/cleanup.h"

#include <ctype.h>
#include <curl/curl.h>
#include <string.h>
#include <strings.h>

/* The hub of images that names without a host mean answers for its API under another name than it has in references. In
 * pieces, so that no file names a place to download from. */
#define HUB IMAGE_DEFAULT_HOST
#define HUB_API \
    "registry"  \
    "-1." HUB

static void drop_url(CURLU **url)
{
    curl_url_cleanup(*url);
}

static void drop_text(char **text)
{
    curl_free(*text);
}

static int take(CURLU *url, CURLUPart part, unsigned flags, char *ret_text, size_t size)
{
    cleanup(drop_text) char *text = NULL;
    if (curl_url_get(url, part, &text, flags) != CURLUE_OK || text == NULL || strlen(text) >= size)
        return -EINVAL;
    memcpy(ret_text, text, strlen(text) + 1);
    return 0;
}

static void lower(char *text)
{
    for (; *text != '\0'; text++)
        *text = (char)tolower((unsigned char)*text);
}

bool registry_same_place(const struct registry_place *a, const struct registry_place *b)
{
    return strcmp(a->scheme, b->scheme) == 0 && strcmp(a->host, b->host) == 0 &&
           strcmp(a->port, b->port) == 0;
}

bool registry_plain_allowed(const struct registry_policy *policy, const struct registry_place *place)
{
    size_t host = strlen(place->host);
    for (uint32_t i = 0; i < policy->plain_count; i++) {
        const char *plain = policy->plain[i];
        if (strncasecmp(plain, place->host, host) != 0)
            continue;
        if (plain[host] == '\0' || (plain[host] == ':' && strcmp(plain + host + 1, place->port) == 0))
            return true;
    }
    return false;
}

static bool has_user(CURLU *url)
{
    cleanup(drop_text) char *user = NULL;
    cleanup(drop_text) char *password = NULL;
    bool has = curl_url_get(url, CURLUPART_USER, &user, 0) == CURLUE_OK;
    return curl_url_get(url, CURLUPART_PASSWORD, &password, 0) == CURLUE_OK || has;
}

static int refuse_scheme(const char *what, const struct registry_place *place, struct kern_error *err)
{
    if (strcmp(place->scheme, "http") != 0)
        return kern_refuse(err, 0, "%s leads to \"%s:\", which is not https", what, place->scheme);
    int r = kern_refuse(err, 0, "%s leads to \"http://%s:%s\", which is not encrypted", what, place->host,
                        place->port);
    kern_hint(err, "if that is meant, in your kern.toml: [registry] plain_http = [\"%s:%s\"]", place->host,
              place->port);
    return r;
}

static int judge(const struct registry_policy *policy, CURLU *url, const char *what,
                 struct registry_place *ret_place, struct kern_error *err)
{
    struct registry_place place = {"?", "", "0"};
    (void)take(url, CURLUPART_SCHEME, 0, place.scheme,
               sizeof(place.scheme)); /* a longer one is not ours either */
    lower(place.scheme);
    bool plain = strcmp(place.scheme, "http") == 0;
    bool known = plain || strcmp(place.scheme, "https") == 0;
    if (known && (take(url, CURLUPART_HOST, 0, place.host, sizeof(place.host)) < 0 || place.host[0] == '\0' ||
                  take(url, CURLUPART_PORT, CURLU_DEFAULT_PORT, place.port, sizeof(place.port)) < 0))
        return kern_refuse(err, 0, "%s leads nowhere that https reaches", what);
    lower(place.host);
    if (!known || (plain && !registry_plain_allowed(policy, &place)))
        return refuse_scheme(what, &place, err);
    if (has_user(url))
        return kern_refuse(err, 0, "%s names a user before \"@\", which is refused", what);
    *ret_place = place;
    return 0;
}

int registry_url_check(const struct registry_policy *policy, const char *url, const char *what,
                       struct registry_place *ret_place, struct kern_error *err)
{
    cleanup(drop_url) CURLU *parsed = curl_url();
    if (parsed == NULL)
        return kern_fail(err, ENOMEM, "cannot read a URL");
    if (strlen(url) >= REGISTRY_URL_SIZE ||
        curl_url_set(parsed, CURLUPART_URL, url, CURLU_NON_SUPPORT_SCHEME) != CURLUE_OK)
        return kern_refuse(err, 0, "%s is not a URL: \"%.120s\"", what, url);
    return judge(policy, parsed, what, ret_place, err);
}

int registry_url_base(const struct registry_policy *policy, const char *registry, char *ret_url, size_t size,
                      struct registry_place *ret_place, struct kern_error *err)
{
    const char *host = strcmp(registry, HUB) == 0 ? HUB_API : registry;
    struct registry_place place;
    char url[512];
    /* Read as https first, to learn host and port; http is then a matter of configuration. */
    if (registry[0] == '\0' || strlen(host) > 300 || strpbrk(host, "/@?#\\ \t\r\n%") != NULL)
        return kern_refuse(err, 0, "\"%.120s\" is not the name of a registry", registry);
    (void)snprintf(url, sizeof(url), "https://%s", host); /* fits */
    const struct registry_policy strict = {0};
    int r = registry_url_check(&strict, url, "the registry's name", &place, err);
    if (r < 0)
        return r;
    bool has_port = strrchr(host, ':') != NULL && strchr(strrchr(host, ':'), ']') == NULL;
    struct registry_place http = place;
    memcpy(http.scheme, "http", sizeof("http"));
    if (!has_port)
        memcpy(http.port, "80", sizeof("80"));
    if (registry_plain_allowed(policy, &http))
        place = http;
    int used = snprintf(ret_url, size, "%s://%s:%s", place.scheme, place.host, place.port);
    if (used < 0 || (size_t)used >= size)
        return kern_refuse(err, ENAMETOOLONG, "\"%.120s\" is not the name of a registry", registry);
    *ret_place = place;
    return 0;
}

int registry_url_redirect(const struct registry_policy *policy, const char *url, const char *location,
                          char ret_url[REGISTRY_URL_SIZE], bool *ret_keep, struct kern_error *err)
{
    cleanup(drop_url) CURLU *parsed = curl_url();
    struct registry_place from, to;
    if (parsed == NULL)
        return kern_fail(err, ENOMEM, "cannot read a URL");
    int r = registry_url_check(policy, url, "the URL", &from, err);
    if (r < 0)
        return r;
    if (strlen(location) >= REGISTRY_URL_SIZE || curl_url_set(parsed, CURLUPART_URL, url, 0) != CURLUE_OK ||
        curl_url_set(parsed, CURLUPART_URL, location, CURLU_NON_SUPPORT_SCHEME) != CURLUE_OK)
        return kern_refuse(err, 0, "the redirect of %s:%s is not a URL: \"%.120s\"", from.host, from.port,
                           location);
    char what[300];
    (void)snprintf(what, sizeof(what), "the redirect of %.200s:%s", from.host, from.port); /* fits */
    r = judge(policy, parsed, what, &to, err);
    if (r < 0)
        return r;
    if (take(parsed, CURLUPART_URL, 0, ret_url, REGISTRY_URL_SIZE) < 0)
        return kern_refuse(err, 0, "%s is not a URL: \"%.120s\"", what, location);
    *ret_keep = registry_same_place(&from, &to);
    return 0;
}

static int add_query(CURLU *url, const char *name, const char *value)
{
    char pair[600];
    if (value[0] == '\0')
        return 0;
    int used = snprintf(pair, sizeof(pair), "%s=%s", name, value);
    if (used < 0 || (size_t)used >= sizeof(pair))
        return -EINVAL;
    return curl_url_set(url, CURLUPART_QUERY, pair, CURLU_APPENDQUERY | CURLU_URLENCODE) == CURLUE_OK
               ? 0
               : -EINVAL;
}

int registry_url_token(const struct registry_policy *policy, const char *realm, const char *service,
                       const char *scope, char ret_url[REGISTRY_URL_SIZE], struct registry_place *ret_place,
                       struct kern_error *err)
{
    cleanup(drop_url) CURLU *parsed = curl_url();
    if (parsed == NULL)
        return kern_fail(err, ENOMEM, "cannot read a URL");
    if (strlen(realm) >= REGISTRY_URL_SIZE ||
        curl_url_set(parsed, CURLUPART_URL, realm, CURLU_NON_SUPPORT_SCHEME) != CURLUE_OK)
        return kern_refuse(err, 0, "the registry's realm is not a URL: \"%.120s\"", realm);
    struct registry_place place;
    int r = judge(policy, parsed, "the registry's realm", &place, err);
    if (r < 0)
        return r;
    if (add_query(parsed, "service", service) < 0 || add_query(parsed, "scope", scope) < 0 ||
        take(parsed, CURLUPART_URL, 0, ret_url, REGISTRY_URL_SIZE) < 0)
        return kern_refuse(err, 0, "the registry's realm is too long: \"%.120s\"", realm);
    *ret_place = place;
    return 0;
}
