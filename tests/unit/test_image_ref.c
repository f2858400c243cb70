/* Image references: which words are one image, and which are none. Pure. */
#include "image_ref.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define HEX    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define HUB    IMAGE_DEFAULT_HOST
#define DIGEST "sha256:" HEX

static void assert_full(const char *text, const char *full, const char *brief)
{
    struct image_ref ref;
    struct kern_error err = {0};
    char out[IMAGE_REF_SIZE];
    if (image_ref_parse(text, &ref, &err) != 0)
        fail_msg("\"%s\": %s", text, err.message);
    image_ref_full(&ref, out);
    assert_string_equal(out, full);
    image_ref_short(&ref, out);
    assert_string_equal(out, brief);
    /* Both spellings mean the same again. */
    for (int i = 0; i < 2; i++) {
        struct image_ref again;
        assert_int_equal(image_ref_parse(i == 0 ? full : brief, &again, &err), 0);
        assert_string_equal(again.host, ref.host);
        assert_string_equal(again.repository, ref.repository);
        assert_string_equal(again.tag, ref.tag);
        assert_string_equal(again.digest, ref.digest);
    }
}

static void test_one_image_has_many_names(void **unused)
{
    (void)unused;
    assert_full("alpine", HUB "/library/alpine:latest", "alpine:latest");
    assert_full("library/alpine", HUB "/library/alpine:latest", "alpine:latest");
    assert_full(HUB "/alpine", HUB "/library/alpine:latest", "alpine:latest");
    assert_full(HUB "/library/alpine:latest", HUB "/library/alpine:latest", "alpine:latest");
    assert_full("index." HUB "/library/alpine", HUB "/library/alpine:latest", "alpine:latest");
    assert_full("python:3.12-slim", HUB "/library/python:3.12-slim", "python:3.12-slim");
    assert_full("ann/tool", HUB "/ann/tool:latest", "ann/tool:latest");
}

static void test_hosts(void **unused)
{
    (void)unused;
    assert_full("localhost/x", "localhost/x:latest", "localhost/x:latest");
    assert_full("localhost:5000/x/y:1", "localhost:5000/x/y:1", "localhost:5000/x/y:1");
    assert_full("registry.example.com/a/b/c", "registry.example.com/a/b/c:latest",
                "registry.example.com/a/b/c:latest");
    assert_full("10.0.0.1:5000/x@" DIGEST, "10.0.0.1:5000/x@" DIGEST, "10.0.0.1:5000/x@" DIGEST);
}

static void test_a_digest_wins_over_a_tag(void **unused)
{
    (void)unused;
    assert_full("alpine:3.19@" DIGEST, HUB "/library/alpine@" DIGEST, "alpine@" DIGEST);
    assert_full("a.b/c__d/e-f--g@" DIGEST, "a.b/c__d/e-f--g@" DIGEST, "a.b/c__d/e-f--g@" DIGEST);
}

static void assert_none(const char *text)
{
    struct image_ref ref = {.tag = "untouched"};
    struct kern_error err = {0};
    if (image_ref_parse(text, &ref, &err) == 0)
        fail_msg("\"%s\" was accepted", text);
    assert_int_equal(err.category, KERN_ERROR_REFUSED);
    assert_string_not_equal(err.hint, "");
    assert_string_equal(ref.tag, "untouched");
}

static void test_what_is_no_reference(void **unused)
{
    (void)unused;
    static const char *const none[] = {
        "",
        "/",
        "a/",
        "/a",
        "a//b",
        "Alpine",
        "a:",
        "a:-x",
        "a:.x",
        "a b",
        "../x",
        "a/../b",
        "a@",
        "a@sha256:12",
        "a@md5:" HEX,
        "a@sha256:0123456789ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef",
        "a:b:c",
        "a@" DIGEST "@" DIGEST,
        "a@" DIGEST ":b",
        "_a",
        "a_",
        "a..b",
        "a___b",
        "-a.b/c",
        "a..b/c",
        "h:port/x",
        "h:123456/x",
        "h:/x",
        "a\nb",
        "a+b",
        "a%b",
        ".",
        "..",
        "a/.",
        "host.x/",
        "a:b/c d",
        "\xc3\xa9"};
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
        assert_none(none[i]);
}

static void test_lengths(void **unused)
{
    (void)unused;
    char text[700];
    memset(text, 'a', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    assert_none(text);
    text[230] = '\0'; /* the default host, library/ and :latest make it too long */
    assert_none(text);
    text[200] = '\0';
    struct image_ref ref;
    struct kern_error err = {0};
    char full[IMAGE_REF_SIZE];
    assert_int_equal(image_ref_parse(text, &ref, &err), 0);
    image_ref_full(&ref, full);
    assert_int_equal(strlen(full), 200 + strlen(HUB "/library/:latest"));
    char tag[140] = "a:";
    memset(tag + 2, 't', 128);
    assert_int_equal(image_ref_parse(tag, &ref, &err), 0);
    tag[130] = 't';
    assert_none(tag);
    /* Each part at its longest: whole, or refused, never cut. */
    for (size_t host = 100; host < 140; host++) {
        char long_host[300];
        memset(long_host, 'h', host);
        (void)snprintf(long_host + host, sizeof(long_host) - host, ".x/%0100d", 0); /* fits */
        if (image_ref_parse(long_host, &ref, &err) != 0)
            continue;
        image_ref_full(&ref, full);
        assert_int_equal(strlen(full), strlen(long_host) + strlen(":latest"));
    }
}

static void test_digests(void **unused)
{
    (void)unused;
    assert_int_equal(image_digest_is_valid(DIGEST), 1);
    assert_int_equal(image_digest_is_valid(HEX), 0);
    assert_int_equal(image_digest_is_valid(DIGEST "0"), 0);
    assert_int_equal(
        image_digest_is_valid("sha256:../../../../../../../../../../../../../../etc/passwd/aaaaaaaaaaa"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_one_image_has_many_names),
                                       cmocka_unit_test(test_hosts),
                                       cmocka_unit_test(test_a_digest_wins_over_a_tag),
                                       cmocka_unit_test(test_what_is_no_reference),
                                       cmocka_unit_test(test_lengths),
                                       cmocka_unit_test(test_digests)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
