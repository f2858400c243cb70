/* Where the registry client may go, what goes along, and when it asks again. */
#include "registry_retry.h"
#include "registry_setup.h"
#include "registry_url.h"

#include <curl/curl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define HUB IMAGE_DEFAULT_HOST

static const char *const plain_names[] = {"plain.example:5000", "any.example"};
static const struct registry_policy policy = {plain_names, 2};

static void base_is(const char *registry, const char *expected)
{
    char url[400];
    struct registry_place place;
    struct kern_error err = {0};
    assert_int_equal(registry_url_base(&policy, registry, url, sizeof(url), &place, &err), 0);
    assert_string_equal(url, expected);
}

static void test_bases(void **state)
{
    (void)state;
    base_is("reg.example", "https://reg.example:443");
    base_is("reg.example:5000", "https://reg.example:5000");
    base_is("REG.example", "https://reg.example:443");
    base_is("plain.example:5000", "http://plain.example:5000");
    base_is("plain.example", "https://plain.example:443");
    base_is("any.example", "http://any.example:80");
    base_is("any.example:77", "http://any.example:77");
    base_is("localhost:5000", "https://localhost:5000");
    base_is("127.0.0.1:5000", "https://127.0.0.1:5000");
    base_is("[::1]:5000", "https://[::1]:5000");
    base_is(HUB, "https://registry"
                 "-1." HUB ":443");
    static const char *const bad[] = {"",    "a@b",  "a/b",   "a?b",   "a#b",
                                      "a b", "a\\b", "a%2fb", ":5000", "a:99999"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char url[400] = "untouched";
        struct registry_place place;
        struct kern_error err = {0};
        assert_true(registry_url_base(&policy, bad[i], url, sizeof(url), &place, &err) < 0);
        assert_string_equal(url, "untouched");
    }
}

static void redirect_is(const char *from, const char *location, const char *expected, bool keep)
{
    char url[REGISTRY_URL_SIZE] = "untouched";
    bool kept = !keep;
    struct kern_error err = {0};
    int r = registry_url_redirect(&policy, from, location, url, &kept, &err);
    if (expected == NULL) {
        assert_true(r < 0);
        assert_int_equal(err.category, KERN_ERROR_REFUSED);
        assert_string_equal(url, "untouched");
        return;
    }
    assert_int_equal(r, 0);
    assert_string_equal(url, expected);
    assert_int_equal(kept, keep);
}

static void test_redirects(void **state)
{
    (void)state;
    const char *from = "https://reg.example:443/v2/a/blobs/x";
    redirect_is(from, "https://cdn.example/y?sig=1", "https://cdn.example/y?sig=1", false);
    redirect_is(from, "/other", "https://reg.example:443/other", true);
    redirect_is(from, "https://reg.example/other", "https://reg.example/other", true);
    redirect_is(from, "https://REG.EXAMPLE/other", "https://REG.EXAMPLE/other", true);
    redirect_is(from, "https://reg.example:444/other", "https://reg.example:444/other", false);
    redirect_is(from, "//cdn.example/y", "https://cdn.example/y", false);
    redirect_is(from, "http://plain.example:5000/y", "http://plain.example:5000/y", false);
    redirect_is(from, "http://reg.example/y", NULL, false);
    redirect_is(from, "http://127.0.0.1:2375/y", NULL, false);
    redirect_is(from, "file:///etc/shadow", NULL, false);
    redirect_is(from, "ftp://cdn.example/y", NULL, false);
    redirect_is(from, "gopher://cdn.example/y", NULL, false);
    redirect_is(from, "javascript:1", NULL, false);
    redirect_is(from, "https://user:pw@cdn.example/y", NULL, false);
    redirect_is(from, "https://user@cdn.example/y", NULL, false);
    redirect_is("http://plain.example:5000/x", "https://plain.example:5000/y", "https://plain.example:5000/y",
                false);
    redirect_is("http://plain.example:5000/x", "http://plain.example:5001/y", NULL, false);
}

static void test_plain_is_exact(void **state)
{
    (void)state;
    struct registry_place place = {"http", "plain.example", "5000"};
    assert_true(registry_plain_allowed(&policy, &place));
    static const struct registry_place strangers[] = {{"http", "plain.example", "500"},
                                                      {"http", "plain.example", "50000"},
                                                      {"http", "plain.exampl", "5000"},
                                                      {"http", "xplain.example", "5000"},
                                                      {"http", "any.example.evil", "80"}};
    for (size_t i = 0; i < sizeof(strangers) / sizeof(strangers[0]); i++)
        assert_false(registry_plain_allowed(&policy, &strangers[i]));
}

static void test_token_urls(void **state)
{
    (void)state;
    char url[REGISTRY_URL_SIZE] = "";
    struct registry_place place;
    struct kern_error err = {0};
    assert_int_equal(registry_url_token(&policy, "https://auth.example/token?x=1", "reg a",
                                        "repository:a/b:pull", url, &place, &err),
                     0);
    assert_string_equal(place.host, "auth.example");
    assert_non_null(strstr(url, "https://auth.example/token?x=1&service=reg"));
    assert_null(strchr(url, ' '));
    assert_non_null(strstr(url, "scope="));
    static const char *const bad[] = {"http://auth.example/token",
                                      "file:///etc/passwd",
                                      "https://u:p@auth.example/",
                                      "not a url",
                                      "",
                                      "https://"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        err = (struct kern_error){0};
        assert_true(registry_url_token(&policy, bad[i], "s", "c", url, &place, &err) < 0);
        assert_int_equal(err.category, KERN_ERROR_REFUSED);
    }
}

static void test_retries(void **state)
{
    (void)state;
    struct registry_attempt attempt = {.number = 1, .status = 503, .retry_after = -1};
    assert_in_range(registry_retry(&attempt, 5, 0), 200, 250);
    attempt.number = 3;
    assert_in_range(registry_retry(&attempt, 5, 99), 800, 1000);
    attempt.number = 5;
    assert_int_equal(registry_retry(&attempt, 5, 0), -1);
    attempt.progressed = 1;
    assert_in_range(registry_retry(&attempt, 5, 0), 200, 250);
    attempt = (struct registry_attempt){.number = 1, .status = 429, .retry_after = 7};
    assert_int_equal(registry_retry(&attempt, 5, 0), 7000);
    attempt.retry_after = 61;
    assert_int_equal(registry_retry(&attempt, 5, 0), -1);
    static const uint32_t final[] = {400, 401, 403, 404, 416, 418};
    for (size_t i = 0; i < sizeof(final) / sizeof(final[0]); i++) {
        attempt = (struct registry_attempt){.number = 1, .status = final[i], .retry_after = 1};
        assert_int_equal(registry_retry(&attempt, 5, 0), -1);
    }
    attempt = (struct registry_attempt){.number = 1, .connection = CURLE_RECV_ERROR, .retry_after = -1};
    assert_true(registry_retry(&attempt, 5, 0) > 0);
    attempt.connection = CURLE_PEER_FAILED_VERIFICATION;
    assert_int_equal(registry_retry(&attempt, 5, 0), -1);
    attempt.connection = CURLE_COULDNT_CONNECT;
    assert_true(registry_retry(&attempt, 5, 0) > 0);
    attempt.number = 2;
    assert_int_equal(registry_retry(&attempt, 5, 0), -1);
}

static void test_retry_after(void **state)
{
    (void)state;
    assert_int_equal(registry_retry_after("12", 0), 12);
    assert_int_equal(registry_retry_after(" 0 ", 0), 0);
    assert_int_equal(registry_retry_after("99999999999999999999", 0), 999999999);
    assert_int_equal(registry_retry_after("Thu, 01 Jan 1970 00:01:40 GMT", 60), 40);
    assert_int_equal(registry_retry_after("Thu, 01 Jan 1970 00:01:40 GMT", 200), 0);
    assert_int_equal(registry_retry_after("soon", 0), -1);
    assert_int_equal(registry_retry_after("-5", 0), -1);
}

static void mirror_is(const char *text, const char *registry, int expected, const char *host,
                      const char *prefix)
{
    char found[300] = "", path[200] = "";
    struct kern_error err = {0};
    int r = registry_mirror_read(text, registry, found, path, &err);
    if (expected < 0) {
        assert_true(r < 0);
        return;
    }
    assert_int_equal(r, expected);
    assert_string_equal(found, host);
    assert_string_equal(path, prefix);
}

static void test_mirrors(void **state)
{
    (void)state;
    mirror_is("m.example:5000", HUB, 1, "m.example:5000", "");
    mirror_is("m.example:5000", "reg.example", 0, "", "");
    mirror_is("reg.example=m.example", "reg.example", 1, "m.example", "");
    mirror_is("reg.example=m.example", HUB, 0, "", "");
    mirror_is("m.example/cache/hub/", HUB, 1, "m.example", "cache/hub/");
    mirror_is("m.example/cache", HUB, 1, "m.example", "cache/");
    mirror_is("m.example/", HUB, 1, "m.example", "");
    mirror_is("", HUB, -1, "", "");
    mirror_is("https://m.example", HUB, -1, "", "");
    mirror_is("m.example/../x", HUB, -1, "", "");
    mirror_is("m.example/a?b", HUB, -1, "", "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bases),          cmocka_unit_test(test_redirects),
        cmocka_unit_test(test_plain_is_exact), cmocka_unit_test(test_token_urls),
        cmocka_unit_test(test_retries),        cmocka_unit_test(test_retry_after),
        cmocka_unit_test(test_mirrors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
