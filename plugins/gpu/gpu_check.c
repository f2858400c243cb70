/* See gpu_check.h. In kern. */
#include "gpu_check.h"

#include <string.h>

static int has_number(const char *text, const char *prefix)
{
    size_t length = strlen(prefix);
    if (strncmp(text, prefix, length) != 0 || text[length] == '\0' || strlen(text) > 24)
        return 0;
    return text[length + strspn(text + length, "0123456789")] == '\0';
}

int gpu_is_node(const char *name)
{
    return has_number(name, "renderD") || has_number(name, "accel");
}

int gpu_is_id(const char *id)
{
    if (gpu_is_node(id))
        return 1;
    size_t length = strlen(id);
    return length > 0 && length < 64 && strspn(id, "0123456789abcdefghijklmnopqrstuvwxyz:.-_@") == length &&
           id[0] != '.' && strpbrk(id, "0123456789") != NULL && !has_number(id, "card");
}

/* By its values alone, when kern.toml is read. */
int gpu_check(const kern_values *profile, const kern_values *pool, struct kern_error *err)
{
    (void)pool; /* this kind has none */
    for (uint32_t i = 0; i < kern_get_count(profile, "device"); i++) {
        const char *id = kern_get_item(profile, "device", i);
        if (gpu_is_id(id))
            continue;
        int failed =
            kern_refuse(err, 0, "device \"%s\" is neither an address nor a render or accelerator node", id);
        kern_hint(err, "write \"renderD128\", \"accel0\" or an address such as \"0000:03:00.0\"; see: ls -l "
                       "/sys/class/drm");
        return failed;
    }
    return 0;
}
