/* Platforms of images; see image_platform.h. Pure. */
#include "image_platform.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What else an architecture is called, and the variant that this name means. */
static const struct {
    char other[12], name[12], variant[8];
} aliases[] = {
    {"x86_64", "amd64", ""}, {"x86-64", "amd64", ""}, {"aarch64", "arm64", ""},
    {"armhf", "arm", "v7"},  {"armv7l", "arm", "v7"}, {"armel", "arm", "v6"},
    {"i386", "386", ""},     {"i686", "386", ""},     {"ppc64el", "ppc64le", ""},
};

/* The variant that is meant where none is given, and the newest that an image may ask for then. */
static const struct {
    char architecture[12];
    unsigned variant;
} usual[] = {{"arm64", 8}, {"arm", 7}, {"amd64", 1}};

static int take(const char *part, size_t length, char *ret_text, size_t size)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    if (length == 0 || length >= size || strspn(part, allowed) < length)
        return -EINVAL;
    memcpy(ret_text, part, length);
    ret_text[length] = '\0';
    return 0;
}

static void rename_architecture(struct image_platform *platform)
{
    for (size_t i = 0; i < sizeof(aliases) / sizeof(aliases[0]); i++) {
        if (strcmp(platform->architecture, aliases[i].other) != 0)
            continue;
        memcpy(platform->architecture, aliases[i].name, sizeof(aliases[i].name));
        if (platform->variant[0] == '\0')
            memcpy(platform->variant, aliases[i].variant, sizeof(aliases[i].variant));
        return;
    }
}

int image_platform_parse(const char *text, struct image_platform *ret_platform, struct kern_error *err)
{
    struct image_platform platform = {.os = "linux"};
    const char *part[3];
    size_t length[3], count = 0;
    const char *at = text;
    bool more = true;
    for (; more && count < 3; count++) {
        part[count] = at;
        length[count] = strcspn(at, "/");
        more = at[length[count]] == '/';
        at += length[count] + (more ? 1 : 0);
    }
    int r = more ? -EINVAL : 0;
    size_t architecture = count > 1 ? 1 : 0;
    if (r == 0 && count > 1)
        r = take(part[0], length[0], platform.os, sizeof(platform.os));
    if (r == 0)
        r = take(part[architecture], length[architecture], platform.architecture,
                 sizeof(platform.architecture));
    if (r == 0 && count == 3)
        r = take(part[2], length[2], platform.variant, sizeof(platform.variant));
    if (r < 0) {
        r = kern_refuse(err, 0, "\"%s\" is not a platform", text);
        kern_hint(err, "a platform is OS/ARCHITECTURE[/VARIANT], as in --platform linux/arm64");
        return r;
    }
    rename_architecture(&platform);
    *ret_platform = platform;
    return 0;
}

void image_platform_native(struct image_platform *ret_platform)
{
#if defined(__x86_64__)
    *ret_platform = (struct image_platform){.os = "linux", .architecture = "amd64"};
#else
    *ret_platform = (struct image_platform){.os = "linux", .architecture = "arm64", .variant = "v8"};
#endif
}

/* "v7" is 7; what is not of this form is 0. */
static unsigned variant_number(const struct image_platform *platform)
{
    const char *text = platform->variant;
    if (text[0] == '\0') {
        for (size_t i = 0; i < sizeof(usual) / sizeof(usual[0]); i++)
            if (strcmp(platform->architecture, usual[i].architecture) == 0)
                return usual[i].variant;
        return 1;
    }
    char *end = NULL;
    unsigned long number =
        text[0] == 'v' && text[1] >= '0' && text[1] <= '9' ? strtoul(text + 1, &end, 10) : 0;
    return end != NULL && *end == '\0' && number < 1000 ? (unsigned)number : 0;
}

unsigned image_platform_rank(const struct image_platform *wanted, const struct image_platform *offered)
{
    if (strcmp(wanted->os, offered->os) != 0 || strcmp(wanted->architecture, offered->architecture) != 0)
        return 0;
    if (strcmp(wanted->variant, offered->variant) == 0)
        return 2000;
    unsigned want = variant_number(wanted), offer = variant_number(offered);
    return offer != 0 && offer <= want ? offer : 0;
}

void image_platform_print(const struct image_platform *platform, char *ret_text, size_t size)
{
    (void)snprintf(ret_text, size, "%s/%s%s%s", platform->os, platform->architecture,
                   platform->variant[0] != '\0' ? "/" : "", platform->variant); /* a cut name is still one */
}
