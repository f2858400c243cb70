/* What a layer may name: a name that is accepted leads nowhere but down, and judging the result again changes nothing. And the
 * file of a resolved image: any bytes are refused or read. */
#include "image_resolved.h"
#include "image_vet.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void judge(const char *name)
{
    char path[PATH_MAX], again[PATH_MAX];
    if (image_vet_name(name, path) != NULL)
        return;
    if (path[0] == '/' || strlen(path) > strlen(name) || strstr(path, "//") != NULL)
        abort();
    for (const char *part = path; *part != '\0'; part += strspn(part, "/")) {
        size_t length = strcspn(part, "/");
        if (length > NAME_MAX || (length == 1 && part[0] == '.') ||
            (length == 2 && memcmp(part, "..", 2) == 0))
            abort();
        part += length;
    }
    if (path[0] != '\0' && (image_vet_name(path, again) != NULL || strcmp(again, path) != 0))
        abort();
    const char *slash = strrchr(path, '/'), *base = slash != NULL ? slash + 1 : path, *hidden = NULL;
    if (image_vet_whiteout(base, &hidden) == IMAGE_NAME_WHITEOUT &&
        (hidden[0] == '\0' || strcmp(hidden, ".") == 0 || strcmp(hidden, "..") == 0 ||
         strchr(hidden, '/') != NULL))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct image_resolved image;
    char *text = strndup((const char *)data, size);
    if (text == NULL)
        return 0;
    judge(text);
    if (image_resolved_parse(text, &image) == 0) /* the text is its own from here */
        image_resolved_clear(&image);
    return 0;
}
