/* What an archive may name; see image_vet.h. Pure; used by the process that unpacks. */
#include "image_vet.h"

#include <string.h>

const char *image_vet_name(const char *name, char ret_path[static PATH_MAX])
{
    size_t used = 0, depth = 0;
    if (name[0] == '\0')
        return "its name is empty";
    if (name[0] == '/')
        return "its name is absolute";
    if (strlen(name) >= PATH_MAX)
        return "its name is longer than 4095 bytes";
    for (const char *at = name; *at != '\0';) {
        size_t length = strcspn(at, "/");
        if (length == 2 && at[0] == '.' && at[1] == '.')
            return "its name leads up with \"..\"";
        if (length > NAME_MAX)
            return "a part of its name is longer than 255 bytes";
        if (length > 0 && !(length == 1 && at[0] == '.')) {
            if (++depth > IMAGE_DEEPEST)
                return "it is deeper than 512 directories";
            if (used > 0)
                ret_path[used++] = '/';
            memcpy(ret_path + used, at, length);
            used += length;
        }
        at += length;
        at += strspn(at, "/");
    }
    ret_path[used] = '\0';
    return NULL;
}

int image_vet_whiteout(const char *base, const char **ret_hidden)
{
    if (strncmp(base, ".wh.", 4) != 0)
        return IMAGE_NAME_PLAIN;
    const char *hidden = base + 4;
    if (strcmp(hidden, ".wh..opq") == 0)
        return IMAGE_NAME_OPAQUE;
    if (strncmp(hidden, ".wh.", 4) == 0)
        return IMAGE_NAME_IGNORED;
    if (hidden[0] == '\0' || strcmp(hidden, ".") == 0 || strcmp(hidden, "..") == 0)
        return IMAGE_NAME_BAD;
    *ret_hidden = hidden;
    return IMAGE_NAME_WHITEOUT;
}

int image_vet_xattr(const char *name)
{
    if (strcmp(name, "security.capability") == 0)
        return 1;
    return strncmp(name, "user.", 5) == 0 && strncmp(name, "user.overlay.", 13) != 0;
}
