/* Platforms of images, "linux/arm64/v8": reading one, and whether an image built for one runs on another. Pure. */
#ifndef REGISTRY_PLATFORM_H
#define REGISTRY_PLATFORM_H

#include "kern/plugin.h"

struct registry_platform {
    char os[24];
    char architecture[24];
    char variant[12]; /* "" where it was not given */
};

/* [OS/]ARCHITECTURE[/VARIANT]; names that uname uses (x86_64, aarch64) are taken too. */
int registry_platform_parse(const char *text, struct registry_platform *ret_platform, struct kern_error *err);
void registry_platform_native(struct registry_platform *ret_platform);
/* How well an image for `offered` serves `wanted`: 0 not at all, else the higher the better. */
unsigned registry_platform_rank(const struct registry_platform *wanted,
                                const struct registry_platform *offered);
/* "linux/arm64/v8"; always terminated, cut where it does not fit. */
void registry_platform_print(const struct registry_platform *platform, char *ret_text, size_t size);

#endif
