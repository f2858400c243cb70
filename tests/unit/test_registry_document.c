/* Manifests, indexes and platforms, as registries send them and as nobody should. */
#include "image_document.h"
#include "registry_wire.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define A   "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define B   "sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define OCI "application/vnd.oci.image."
#define DKR "application/vnd.docker."

#define CONFIG "\"config\": {\"mediaType\": \"" OCI "config.v1+json\", \"digest\": \"" A "\", \"size\": 7}"
#define LAYER(media, digest, size) \
    "{\"mediaType\": \"" media "\", \"digest\": \"" digest "\", \"size\": " size "}"
#define MANIFEST(layers) "{\"schemaVersion\": 2, " CONFIG ", \"layers\": [" layers "]}"

static int read_as(const char *text, const char *media, struct image_document *ret_document,
                   struct kern_error *err)
{
    *err = (struct kern_error){0};
    return image_document_read(text, strlen(text), media, ret_document, err);
}

static void test_manifest(void **state)
{
    (void)state;
    struct image_document document;
    struct kern_error err;
    const char *text = MANIFEST(LAYER(OCI "layer.v1.tar+gzip", A, "12") "," LAYER(
        OCI "layer.v1.tar+zstd", B, "0") "," LAYER(DKR "image.rootfs.diff.tar", B, "5"));
    assert_int_equal(read_as(text, OCI "manifest.v1+json; charset=utf-8", &document, &err), 0);
    assert_int_equal(document.is_index, 0);
    assert_int_equal(document.layer_count, 3);
    assert_int_equal(document.layer[0].size, 12);
    assert_string_equal(document.config.digest, A);
    image_document_clear(&document);
}

static void refused(const char *text, const char *media, const char *why)
{
    struct image_document document = {.layer_count = 77};
    struct kern_error err;
    assert_true(read_as(text, media, &document, &err) < 0);
    assert_int_equal(err.category, KERN_ERROR_REFUSED);
    assert_non_null(strstr(err.message, why));
    assert_int_equal(document.layer_count, 77);
}

static void test_refused(void **state)
{
    (void)state;
    const char *ok = LAYER(OCI "layer.v1.tar", B, "1");
    (void)ok;
    refused("", NULL, "not JSON");
    refused("[]", NULL, "not a JSON object");
    refused("{}", NULL, "neither layers nor");
    refused("{\"a\": 1, \"a\": 2}", NULL, "not JSON");
    refused(MANIFEST(""), NULL, "0 layers");
    refused(MANIFEST(LAYER(OCI "layer.v1.tar", "sha256:abc", "1")), NULL, "not a sha256 digest");
    refused(MANIFEST(LAYER(OCI "layer.v1.tar", "../../../../etc/passwd", "1")), NULL, "not a sha256 digest");
    refused(MANIFEST(LAYER(OCI "layer.v1.tar", B, "-1")), NULL, "size of -1");
    refused(MANIFEST(LAYER(OCI "layer.v1.tar", B, "9000000000000000000")), NULL, "size of");
    refused(MANIFEST(LAYER(OCI "layer.v1.tar", B, "\"1\"")), NULL, "no size");
    refused(MANIFEST(LAYER("application/x-helm", B, "1")), NULL, "not a layer");
    refused(MANIFEST(LAYER(OCI "layer.v1.tar", B, "1")), OCI "index.v1+json", "ambiguous");
    refused(MANIFEST(LAYER(OCI "layer.v1.tar", B, "1")), "text/html", "instead of a manifest");
    refused(MANIFEST(LAYER(OCI "layer.v1.tar", B, "1")), DKR "distribution.manifest.v1+prettyjws",
            "schema 1");
    refused("{\"schemaVersion\": 1, \"fsLayers\": []}", NULL, "schema 1");
    refused("{\"schemaVersion\": 2, \"manifests\": [], " CONFIG ", \"layers\": []}", NULL, "ambiguous");
    refused("{\"schemaVersion\": 3, " CONFIG ", \"layers\": []}", NULL, "schema version 2");
    refused("{\"schemaVersion\": 2, \"config\": {\"mediaType\": \"application/x-helm\", \"digest\": \"" A
            "\", \"size\": 1}, \"layers\": []}",
            NULL, "not an image");
    refused("{\"schemaVersion\": 2, \"config\": {\"digest\": \"" A "\", \"size\": 99999999}, \"layers\": []}",
            NULL, "configuration is 99999999 bytes");
    refused("{\"schemaVersion\": 2, \"manifests\": []}", NULL, "lists 0 images");
}

static void test_too_many(void **state)
{
    (void)state;
    static const char one[] = LAYER(OCI "layer.v1.tar", B, "1");
    size_t size = 4096 + (sizeof(one) + 2) * 200;
    char *text = calloc(1, size);
    strcpy(text, "{\"schemaVersion\": 2, " CONFIG ", \"layers\": [");
    for (int i = 0; i < 200; i++)
        sprintf(text + strlen(text), "%s%s", i > 0 ? "," : "", one);
    strcat(text, "]}");
    refused(text, NULL, "200 layers");
    free(text);
    char *deep = malloc(IMAGE_DOCUMENT_MAX + 2);
    memset(deep, '[', IMAGE_DOCUMENT_MAX + 1);
    deep[IMAGE_DOCUMENT_MAX + 1] = '\0';
    refused(deep, NULL, "longer than");
    deep[1 << 20] = '\0';
    refused(deep, NULL, "not JSON");
    free(deep);
}

#define ENTRY(digest, platform) "{\"digest\": \"" digest "\", \"size\": 5" platform "}"
#define ON(os, arch, variant) \
    ", \"platform\": {\"os\": \"" os "\", \"architecture\": \"" arch "\", \"variant\": \"" variant "\"}"
#define INDEX(entries) "{\"schemaVersion\": 2, \"manifests\": [" entries "]}"

static void chosen(const char *text, const char *platform, const char *digest)
{
    struct image_document document;
    struct image_platform wanted;
    struct kern_error err;
    const struct image_entry *entry = NULL;
    assert_int_equal(read_as(text, NULL, &document, &err), 0);
    assert_int_equal(image_platform_parse(platform, &wanted, &err), 0);
    int r = image_document_choose(&document, &wanted, &entry, &err);
    if (digest == NULL) {
        assert_true(r < 0);
    } else {
        assert_int_equal(r, 0);
        assert_string_equal(entry->blob.digest, digest);
    }
    image_document_clear(&document);
}

static void test_platforms(void **state)
{
    (void)state;
    const char *text = INDEX(ENTRY(A, ON("linux", "amd64", "")) "," ENTRY(B, ON("linux", "arm64", "v8")));
    chosen(text, "linux/amd64", A);
    chosen(text, "x86_64", A);
    chosen(text, "linux/arm64", B);
    chosen(text, "aarch64", B);
    chosen(text, "linux/arm64/v9", B);
    chosen(text, "linux/s390x", NULL);
    chosen(text, "windows/amd64", NULL);
    text = INDEX(ENTRY(A, ON("linux", "arm", "v6")) "," ENTRY(B, ON("linux", "arm", "v7")));
    chosen(text, "linux/arm", B);
    chosen(text, "linux/arm/v6", A);
    chosen(text, "linux/arm/v5", NULL);
    text = INDEX(ENTRY(A, ON("linux", "amd64", "v3")) "," ENTRY(B, ON("unknown", "unknown", "")));
    chosen(text, "linux/amd64", NULL);
    chosen(text, "linux/amd64/v4", A);
    chosen(INDEX(ENTRY(A, "")), "linux/amd64", A);
    chosen(INDEX(ENTRY(A, "") "," ENTRY(B, "")), "linux/amd64", NULL);
}

static void test_platform_refusal_lists(void **state)
{
    (void)state;
    struct image_document document;
    struct image_platform wanted;
    struct kern_error err;
    const struct image_entry *entry;
    assert_int_equal(read_as(INDEX(ENTRY(A, ON("linux", "riscv64", ""))), NULL, &document, &err), 0);
    image_platform_native(&wanted);
    assert_true(image_document_choose(&document, &wanted, &entry, &err) < 0);
    assert_non_null(strstr(err.message, "there is: linux/riscv64"));
    assert_string_equal(err.hint, "--platform linux/riscv64");
    image_document_clear(&document);
    static const char *const bad[] = {"",          "/",           "linux/", "a/b/c/d", "linux/am d64",
                                      "linux//v8", "linux/amd64/"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        err = (struct kern_error){0};
        assert_true(image_platform_parse(bad[i], &wanted, &err) < 0);
    }
}

static void test_wire(void **state)
{
    (void)state;
    int pair[2];
    struct wire_reader reader = {0};
    struct wire_frame frame;
    const void *payload;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    assert_int_equal(wire_send(pair[0], WIRE_DATA, 3, 9, "bytes", 5), 0);
    assert_int_equal(wire_send(pair[0], WIRE_END, 0, 0, NULL, 0), 0);
    assert_int_equal(wire_reader_fill(&reader, pair[1]), 0);
    assert_int_equal(wire_reader_next(&reader, &frame, &payload), 1);
    assert_int_equal(frame.index, 3);
    assert_int_equal(frame.value, 9);
    assert_memory_equal(payload, "bytes", 5);
    assert_int_equal(wire_reader_next(&reader, &frame, &payload), 1);
    assert_int_equal(frame.type, WIRE_END);
    assert_int_equal(wire_reader_next(&reader, &frame, &payload), 0);
    struct wire_frame lie = {.type = WIRE_DATA, .length = 0xffffffff};
    assert_int_equal(write(pair[0], &lie, sizeof(lie)), sizeof(lie));
    assert_int_equal(wire_reader_fill(&reader, pair[1]), 0);
    assert_int_equal(wire_reader_next(&reader, &frame, &payload), -EPROTO);
    wire_reader_clear(&reader);
    close(pair[0]);
    assert_int_equal(wire_reader_fill(&reader, pair[1]), 0);
    assert_true(reader.ended);
    wire_reader_clear(&reader);
    close(pair[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_manifest),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_too_many),
        cmocka_unit_test(test_platforms),
        cmocka_unit_test(test_platform_refusal_lists),
        cmocka_unit_test(test_wire),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
