/* libFuzzer target: any bytes as a manifest or an index, as Docker's config.json, as an answer of a token server or of a
 * credential helper; the first byte says which. What is accepted must be within the limits that the rest of the client
 * relies on. */
#include "image_document.h"
#include "registry_auth.h"
#include "registry_token.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int holds)
{
    if (!holds)
        abort();
}

static void judge(int r, const struct kern_error *err)
{
    must(r == 0 || (err->category != KERN_ERROR_NONE && err->message[0] != '\0'));
}

static void try_document(const char *text, size_t length)
{
    struct image_document document;
    struct kern_error err = {0};
    int r = image_document_read(text, length, NULL, &document, &err);
    judge(r, &err);
    if (r < 0)
        return;
    struct image_platform native;
    const struct image_entry *entry = NULL;
    image_platform_native(&native);
    for (uint32_t i = 0; i < document.layer_count; i++) {
        must(image_digest_is_valid(document.layer[i].digest));
        must(document.layer[i].size <= IMAGE_BLOB_MAX);
    }
    must(document.is_index != 0 || (document.layer_count > 0 && document.layer_count <= IMAGE_LAYERS_MOST));
    if (document.is_index != 0 && image_document_choose(&document, &native, &entry, &err) == 0)
        must(image_digest_is_valid(entry->blob.digest));
    image_document_clear(&document);
}

static void try_config(const char *text, size_t length)
{
    static const struct registry_credentials credentials = {.user = "u", .secret = "p"};
    struct registry_auth auth = {0};
    struct kern_error err = {0};
    int whole = registry_auth_find(text, length, "f", "reg.example:5000", &auth, &err);
    judge(whole, &err);
    must(strchr(auth.helper, '/') == NULL);
    char *edited = NULL;
    bool had = false;
    err = (struct kern_error){0};
    int r =
        registry_auth_edit(text, length, "f", "reg.example:5000", &credentials, false, &edited, &had, &err);
    judge(r, &err);
    if (r < 0)
        return;
    /* The entry is what it was made, unless another part of the file is at fault. */
    must(registry_auth_find(edited, strlen(edited), "f", "reg.example:5000", &auth, &err) == 0 || whole < 0);
    must(whole < 0 || strcmp(auth.credentials.secret, "p") == 0);
    free(edited);
}

static void try_answers(const char *text, size_t length)
{
    struct registry_credentials found = {0};
    struct kern_error err = {0};
    char *token = NULL;
    int r = registry_token_read(text, length, &token, &err);
    judge(r, &err);
    must(r < 0 || strpbrk(token, " \r\n\t") == NULL);
    free(token);
    err = (struct kern_error){0};
    judge(registry_auth_read_helper(text, length, &found, &err), &err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    const char *text = (const char *)data + 1;
    if (data[0] == 'c')
        try_config(text, size - 1);
    else if (data[0] == 't')
        try_answers(text, size - 1);
    else
        try_document(text, size - 1);
    return 0;
}
