/* What an archive may name, and what a resolved image's file says. Pure. */
#include "image_resolved.h"
#include "image_vet.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void assert_path(const char *name, const char *expected)
{
    char path[PATH_MAX];
    const char *why = image_vet_name(name, path);
    if (why != NULL)
        fail_msg("\"%s\" was refused: %s", name, why);
    assert_string_equal(path, expected);
}

static void test_names(void **unused)
{
    (void)unused;
    assert_path("a", "a");
    assert_path("./a/b/", "a/b");
    assert_path("a//./b", "a/b");
    assert_path(".", "");
    assert_path("./", "");
    assert_path("..a/b..", "..a/b..");
    assert_path("...", "...");
    assert_path("a\n\xff", "a\n\xff");
}

static void test_names_that_are_refused(void **unused)
{
    (void)unused;
    char path[PATH_MAX], text[2 * PATH_MAX];
    static const char *const bad[] = {"", "/", "/a", "..", "../a", "a/..", "a/../b", "./..", "a/..//"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (image_vet_name(bad[i], path) == NULL)
            fail_msg("\"%s\" was accepted", bad[i]);
    memset(text, 'a', sizeof(text));
    text[255] = '\0';
    assert_null(image_vet_name(text, path));
    text[255] = 'a', text[256] = '\0';
    assert_non_null(image_vet_name(text, path));
    for (size_t i = 0; i < sizeof(text) - 1; i++)
        text[i] = i % 2 == 0 ? 'a' : '/';
    text[1023] = '\0';
    assert_null(image_vet_name(text, path)); /* 512 parts */
    text[1023] = '/', text[1024] = 'b', text[1025] = '\0';
    assert_non_null(image_vet_name(text, path));
    text[1025] = '/', text[4096] = '\0';
    assert_non_null(image_vet_name(text, path));
}

static void test_whiteouts(void **unused)
{
    (void)unused;
    const char *hidden = NULL;
    assert_int_equal(image_vet_whiteout("a", &hidden), IMAGE_NAME_PLAIN);
    assert_int_equal(image_vet_whiteout(".wh", &hidden), IMAGE_NAME_PLAIN);
    assert_int_equal(image_vet_whiteout(".wh.a", &hidden), IMAGE_NAME_WHITEOUT);
    assert_string_equal(hidden, "a");
    assert_int_equal(image_vet_whiteout(".wh..wh..opq", &hidden), IMAGE_NAME_OPAQUE);
    assert_int_equal(image_vet_whiteout(".wh..wh.plnk", &hidden), IMAGE_NAME_IGNORED);
    static const char *const bad[] = {".wh.", ".wh..", ".wh..."};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(image_vet_whiteout(bad[i], &hidden), IMAGE_NAME_BAD);
    assert_string_equal(hidden, "a");
}

static void test_attributes(void **unused)
{
    (void)unused;
    assert_int_equal(image_vet_xattr("user.a"), 1);
    assert_int_equal(image_vet_xattr("security.capability"), 1);
    static const char *const bad[] = {
        "user.overlay.opaque", "user.overlay.redirect",   "trusted.overlay.opaque", "trusted.a",
        "security.selinux",    "system.posix_acl_access", "security.ima",           ""};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(image_vet_xattr(bad[i]), 0);
}

#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define WHOLE                                                                                     \
    "kern-image 1\nref h/x:1\ndigest sha256:" HEX "\nmanifest sha256:" HEX "\nconfig sha256:" HEX \
    "\npulled 77\nlayer a b 1\nlayer c d 2\nplatform linux/amd64\n"

static void test_resolved(void **unused)
{
    (void)unused;
    struct image_text text = {0};
    struct image_resolved image;
    assert_int_equal(image_text_line(&text, "env", "A=1\n2%"), 0);
    char *whole = NULL;
    assert_true(asprintf(&whole, "%s%sentrypoint \nworkdir /x y\nfuture word\nend\n", WHOLE, text.text) > 0);
    free(text.text);
    assert_int_equal(image_resolved_parse(whole, &image), 0);
    assert_string_equal(image.ref, "h/x:1");
    assert_int_equal(image.pulled, 77);
    assert_int_equal(image.layer.count, 2);
    assert_string_equal(image.layer.item[1], "c d 2");
    assert_int_equal(image.env.count, 1);
    assert_string_equal(image.env.item[0], "A=1\n2%");
    assert_string_equal(image.entrypoint.item[0], "");
    assert_string_equal(image.workdir, "/x y");
    assert_null(image.user);
    image_resolved_clear(&image);
}

static void test_resolved_that_is_not_whole(void **unused)
{
    (void)unused;
    static const char *const bad[] = {"",
                                      "end\n",
                                      "kern-image 2\nend\n",
                                      "kern-image 1\nend\n",
                                      WHOLE,
                                      WHOLE "end",
                                      WHOLE "end\nmore\n",
                                      WHOLE "env %0\nend\n",
                                      WHOLE "env %00\nend\n",
                                      WHOLE "env %zz\nend\n",
                                      WHOLE "layer e f 3\nenv A\nlayer g h 4\nend\n"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct image_resolved image;
        if (image_resolved_parse(strdup(bad[i]), &image) == 0)
            fail_msg("text %zu was accepted", i);
    }
    /* Cut anywhere. */
    static const char whole[] = WHOLE "env A=1\nend\n";
    for (size_t length = 0; length < sizeof(whole) - 1; length++) {
        struct image_resolved image;
        assert_int_not_equal(image_resolved_parse(strndup(whole, length), &image), 0);
    }
    char *many = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&many, &size);
    assert_non_null(out);
    (void)fputs(WHOLE, out);
    for (unsigned i = 0; i < IMAGE_VALUES_MOST; i++)
        (void)fputs("env A=1\n", out);
    (void)fputs("end\n", out);
    assert_int_equal(fclose(out), 0);
    struct image_resolved image;
    assert_int_equal(image_resolved_parse(many, &image), -EBADMSG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),     cmocka_unit_test(test_names_that_are_refused),
        cmocka_unit_test(test_whiteouts), cmocka_unit_test(test_attributes),
        cmocka_unit_test(test_resolved),  cmocka_unit_test(test_resolved_that_is_not_whole)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
