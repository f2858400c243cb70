/* libFuzzer target: any bytes as a WWW-Authenticate header, a redirect, a realm, a registry's name, a platform, base64. Where
 * they lead must be https, or http to the one place that is configured, and without a user. */
#include "image_platform.h"
#include "registry_challenge.h"
#include "registry_retry.h"
#include "registry_setup.h"
#include "registry_text.h"
#include "registry_url.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const plain[] = {"plain.example:5000"};
static const struct registry_policy policy = {plain, 1};

static void must(int holds)
{
    if (!holds)
        abort();
}

static void judge_url(const char *url)
{
    struct registry_place place;
    struct kern_error err = {0};
    must(registry_url_check(&policy, url, "it", &place, &err) ==
         0); /* what was accepted once is accepted again */
    must(strcmp(place.scheme, "https") == 0 ||
         (strcmp(place.scheme, "http") == 0 && strcmp(place.host, "plain.example") == 0 &&
          strcmp(place.port, "5000") == 0));
    must(strpbrk(url, "\r\n") == NULL);
}

static void try_urls(const char *text)
{
    char url[REGISTRY_URL_SIZE];
    struct registry_place place;
    struct kern_error err = {0};
    bool keep = true;
    if (registry_url_redirect(&policy, "https://reg.example:443/v2/x", text, url, &keep, &err) == 0) {
        judge_url(url);
        must(registry_url_check(&policy, url, "it", &place, &err) == 0);
        must(keep == (strcmp(place.scheme, "https") == 0 && strcmp(place.host, "reg.example") == 0 &&
                      strcmp(place.port, "443") == 0));
    }
    if (registry_url_token(&policy, text, "s", "repository:a:pull", url, &place, &err) == 0)
        judge_url(url);
    if (registry_url_base(&policy, text, url, sizeof(url), &place, &err) == 0)
        judge_url(url);
}

static void try_words(const char *text)
{
    struct registry_challenge challenge = {0};
    struct image_platform platform;
    struct kern_error err = {0};
    char buffer[512], host[300], prefix[200];
    registry_challenge_read(text, &challenge);
    must(challenge.scheme != REGISTRY_AUTH_BEARER || challenge.realm[0] != '\0');
    must(strpbrk(challenge.realm, "\r\n") == NULL);
    must(registry_retry_after(text, 1000) >= -1);
    if (image_platform_parse(text, &platform, &err) == 0)
        must(platform.architecture[0] != '\0' && platform.os[0] != '\0');
    (void)registry_base64_decode(text, buffer,
                                 sizeof(buffer)); /* that it stays within its bounds is looked at */
    if (registry_mirror_read(text, "reg.example", host, prefix, &err) == 1)
        must(host[0] != '\0' && strstr(prefix, "..") == NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    if (text == NULL)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    try_urls(text);
    try_words(text);
    free(text);
    return 0;
}
