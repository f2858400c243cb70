/* Challenges of registries, Docker's config.json, base64, tokens: whatever decides about credentials. */
#include "registry_auth.h"
#include "registry_challenge.h"
#include "registry_text.h"
#include "registry_token.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HUB IMAGE_DEFAULT_HOST

static void challenge_is(const char *header, uint32_t scheme, const char *realm, const char *service,
                         const char *scope)
{
    struct registry_challenge found = {0};
    registry_challenge_read(header, &found);
    assert_int_equal(found.scheme, scheme);
    assert_string_equal(found.realm, realm);
    assert_string_equal(found.service, service);
    assert_string_equal(found.scope, scope);
}

static void test_challenges(void **state)
{
    (void)state;
    challenge_is("Bearer realm=\"https://auth.example/token\",service=\"reg\",scope=\"repository:a/b:pull\"",
                 REGISTRY_AUTH_BEARER, "https://auth.example/token", "reg", "repository:a/b:pull");
    challenge_is("bearer  REALM = \"https://a/t\" , service=plain", REGISTRY_AUTH_BEARER, "https://a/t",
                 "plain", "");
    challenge_is("Basic realm=\"Registry \\\"one\\\"\"", REGISTRY_AUTH_BASIC, "Registry \"one\"", "", "");
    challenge_is("Basic", REGISTRY_AUTH_BASIC, "", "", "");
    challenge_is("Basic realm=\"x\", Bearer realm=\"https://a/t\"", REGISTRY_AUTH_BEARER, "https://a/t", "",
                 "");
    challenge_is("Bearer realm=\"https://a/t\", Basic realm=\"x\"", REGISTRY_AUTH_BEARER, "https://a/t", "",
                 "");
    challenge_is("Negotiate abc, Basic realm=\"x\"", REGISTRY_AUTH_BASIC, "x", "", "");
    challenge_is("Digest realm=\"x\", nonce=\"y\", Basic realm=z", REGISTRY_AUTH_BASIC, "z", "", "");
}

static void test_challenges_that_are_none(void **state)
{
    (void)state;
    challenge_is("", REGISTRY_AUTH_NONE, "", "", "");
    challenge_is("Bearer", REGISTRY_AUTH_NONE, "", "", "");
    challenge_is("Bearer service=\"x\"", REGISTRY_AUTH_NONE, "", "", "");
    challenge_is("Bearer realm=\"https://a/t", REGISTRY_AUTH_NONE, "", "", "");
    challenge_is("Bearer realm=\"https://a/\tt\"", REGISTRY_AUTH_NONE, "", "", "");
    char large[3000] = "Bearer realm=\"https://a/";
    memset(large + strlen(large), 'x', 2000);
    strcat(large, "\"");
    challenge_is(large, REGISTRY_AUTH_NONE, "", "", "");
}

static void test_base64(void **state)
{
    (void)state;
    static const char *const words[] = {"", "a", "ab", "abc", "user:secret", "x:\xc3\xa4?>"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        char back[64];
        char *text = registry_base64(words[i], strlen(words[i]));
        assert_int_equal(registry_base64_decode(text, back, sizeof(back)), strlen(words[i]));
        assert_string_equal(back, words[i]);
        free(text);
    }
    char room[4];
    assert_int_equal(registry_base64_decode("dXNlcg==", room, sizeof(room)), -EINVAL); /* too long */
    assert_int_equal(registry_base64_decode("dX*l", room, sizeof(room)), -EINVAL);
    assert_int_equal(registry_base64_decode("d", room, sizeof(room)), -EINVAL);
    assert_int_equal(registry_base64_decode("YQA=", room, sizeof(room)), -EINVAL); /* a NUL */
    assert_int_equal(registry_base64_decode("YQ===", room, sizeof(room)), -EINVAL);
}

static int find(const char *text, const char *registry, struct registry_auth *ret_auth,
                struct kern_error *err)
{
    *err = (struct kern_error){0};
    *ret_auth = (struct registry_auth){0};
    return registry_auth_find(text, strlen(text), "config.json", registry, ret_auth, err);
}

static void test_finds_credentials(void **state)
{
    (void)state;
    struct registry_auth auth;
    struct kern_error err;
    /* dXNlcjpwYTpzcw== is user:pa:ss */
    const char *text = "{\"auths\": {\"reg.example:5000\": {\"auth\": \"dXNlcjpwYTpzcw==\"},"
                       "\"https://other.example/v1/\": {\"username\": \"u\", \"password\": \"p\"},"
                       "\"https://index." HUB "/v1/\": {\"auth\": \"aDpo\", \"identitytoken\": \"tok\"},"
                       "\"part.example/team\": {\"auth\": \"dDp0\"}}, \"HttpHeaders\": {}}";
    assert_int_equal(find(text, "reg.example:5000", &auth, &err), 0);
    assert_string_equal(auth.credentials.user, "user");
    assert_string_equal(auth.credentials.secret, "pa:ss");
    assert_int_equal(find(text, "REG.example:5000", &auth, &err), 0);
    assert_string_equal(auth.credentials.user, "user");
    assert_int_equal(find(text, "other.example", &auth, &err), 0);
    assert_string_equal(auth.credentials.secret, "p");
    assert_int_equal(find(text, HUB, &auth, &err), 0);
    assert_string_equal(auth.credentials.identity, "tok");
    static const char *const strangers[] = {"reg.example",  "reg.example:5001",
                                            "example:5000", "evil.reg.example:5000",
                                            "part.example", "other.example.evil"};
    for (size_t i = 0; i < sizeof(strangers) / sizeof(strangers[0]); i++) {
        assert_int_equal(find(text, strangers[i], &auth, &err), 0);
        assert_string_equal(auth.credentials.user, "");
        assert_string_equal(auth.credentials.identity, "");
    }
}

static void test_finds_helpers(void **state)
{
    (void)state;
    struct registry_auth auth;
    struct kern_error err;
    const char *text =
        "{\"credsStore\": \"pass\", \"credHelpers\": {\"cloud.example\": \"gcr\", \"none.example\": \"\"}}";
    assert_int_equal(find(text, "any.example", &auth, &err), 0);
    assert_string_equal(auth.helper, "pass");
    assert_int_equal(find(text, "cloud.example", &auth, &err), 0);
    assert_string_equal(auth.helper, "gcr");
    assert_int_equal(find(text, "none.example", &auth, &err), 0);
    assert_string_equal(auth.helper, "");
    assert_true(find("{\"credsStore\": \"../../tmp/evil\"}", "x.example", &auth, &err) < 0);
    assert_non_null(strstr(err.message, "not the name of a credential helper"));
}

static void test_refuses_damaged_files_without_quoting_them(void **state)
{
    (void)state;
    static const char *const damaged[] = {
        "{\"auths\": {\"reg.example\": {\"auth\": \"c2VjcmV0*\"}}}",
        "{\"auths\": {\"reg.example\": {\"auth\": \"c2VjcmV0\"}}}", /* no colon */
        "secret", "[\"secret\"]", "{\"a\": secret}"};
    for (size_t i = 0; i < sizeof(damaged) / sizeof(damaged[0]); i++) {
        struct registry_auth auth;
        struct kern_error err;
        assert_true(find(damaged[i], "reg.example", &auth, &err) < 0);
        assert_int_equal(err.category, KERN_ERROR_REFUSED);
        assert_null(strstr(err.message, "secret"));
        assert_null(strstr(err.message, "c2VjcmV0"));
    }
    struct registry_auth auth;
    struct kern_error err;
    assert_int_equal(find("  \n", "reg.example", &auth, &err), 0);
}

static void test_edits(void **state)
{
    (void)state;
    struct kern_error err = {0};
    struct registry_credentials mine = {.user = "ann", .secret = "new"};
    const char *text =
        "{\"auths\": {\"https://reg.example\": {\"auth\": \"b2xkOm9sZA==\"}, \"else.example\": {}},"
        " \"psFormat\": \"x\"}";
    char *edited = NULL;
    bool had = false;
    assert_int_equal(
        registry_auth_edit(text, strlen(text), "f", "reg.example", &mine, false, &edited, &had, &err), 0);
    assert_true(had);
    assert_non_null(strstr(edited, "psFormat"));
    assert_non_null(strstr(edited, "else.example"));
    assert_null(strstr(edited, "b2xkOm9sZA=="));
    struct registry_auth auth;
    assert_int_equal(find(edited, "reg.example", &auth, &err), 0);
    assert_string_equal(auth.credentials.user, "ann");
    assert_string_equal(auth.credentials.secret, "new");
    char *again = NULL;
    assert_int_equal(
        registry_auth_edit(edited, strlen(edited), "f", "reg.example", NULL, false, &again, &had, &err), 0);
    assert_true(had);
    assert_null(strstr(again, "reg.example"));
    free(edited);
    free(again);
    /* With a helper the file says nothing but that. */
    assert_int_equal(registry_auth_edit(NULL, 0, "f", HUB, &mine, true, &edited, &had, &err), 0);
    assert_false(had);
    assert_null(strstr(edited, "auth\""));
    assert_non_null(strstr(edited, "https://index." HUB "/v1/"));
    free(edited);
    assert_true(registry_auth_edit("{\"auths\": 1}", 12, "f", HUB, &mine, true, &edited, &had, &err) < 0);
}

static void test_helper_answers(void **state)
{
    (void)state;
    struct registry_credentials found = {0};
    struct kern_error err = {0};
    const char *text = "{\"ServerURL\": \"x\", \"Username\": \"ann\", \"Secret\": \"s\"}";
    assert_int_equal(registry_auth_read_helper(text, strlen(text), &found, &err), 0);
    assert_string_equal(found.user, "ann");
    assert_string_equal(found.secret, "s");
    text = "{\"Username\": \"<token>\", \"Secret\": \"s\"}";
    assert_int_equal(registry_auth_read_helper(text, strlen(text), &found, &err), 0);
    assert_string_equal(found.user, "");
    assert_string_equal(found.identity, "s");
    assert_true(registry_auth_read_helper("{}", 2, &found, &err) < 0);
    err = (struct kern_error){0};
    assert_true(registry_auth_read_helper("", 0, &found, &err) < 0);
}

static void test_tokens(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "{}",
                                      "[]",
                                      "{\"token\": \"\"}",
                                      "{\"token\": 1}",
                                      "{\"token\": \"a b\"}",
                                      "{\"token\": \"a\\r\\nX-Evil: 1\"}",
                                      "{\"token\": \"caf\\u00e9\"}"};
    char *token = NULL;
    struct kern_error err = {0};
    assert_int_equal(registry_token_read("{\"token\": \"abc.d-e_f~+/=\"}", 26, &token, &err), 0);
    assert_string_equal(token, "abc.d-e_f~+/=");
    free(token);
    assert_int_equal(registry_token_read("{\"access_token\": \"abc\"}", 23, &token, &err), 0);
    free(token);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        err = (struct kern_error){0};
        assert_true(registry_token_read(bad[i], strlen(bad[i]), &token, &err) < 0);
        assert_int_equal(err.category, KERN_ERROR_REFUSED);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_challenges),
        cmocka_unit_test(test_challenges_that_are_none),
        cmocka_unit_test(test_base64),
        cmocka_unit_test(test_finds_credentials),
        cmocka_unit_test(test_finds_helpers),
        cmocka_unit_test(test_refuses_damaged_files_without_quoting_them),
        cmocka_unit_test(test_edits),
        cmocka_unit_test(test_helper_answers),
        cmocka_unit_test(test_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
