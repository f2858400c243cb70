/* References: a text is refused with words, or is one image whose full and short spellings mean the same again. */
#include "image_ref.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void same(const char *text, const char *full)
{
    struct image_ref ref;
    struct kern_error err = {0};
    char again[IMAGE_REF_SIZE];
    if (image_ref_parse(text, &ref, &err) != 0)
        abort();
    image_ref_full(&ref, again);
    if (strcmp(again, full) != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct image_ref ref;
    struct kern_error err = {0};
    char full[IMAGE_REF_SIZE], brief[IMAGE_REF_SIZE];
    char *text = strndup((const char *)data, size);
    if (text == NULL)
        return 0;
    if (image_ref_parse(text, &ref, &err) == 0) {
        image_ref_full(&ref, full);
        image_ref_short(&ref, brief);
        same(full, full);
        same(brief, full);
        if (strchr(full, '+') != NULL || full[0] == '.' || strlen(full) > 240)
            abort(); /* it is the name of a file, with "+" for "/" */
    } else if (err.message[0] == '\0') {
        abort();
    }
    free(text);
    return 0;
}
