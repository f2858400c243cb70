/* Platforms of images, "linux/arm64/v8": reading one, and whether an image built for one runs on another. Pure. */
#ifndef IMAGE_PLATFORM_H
#define IMAGE_PLATFORM_H

#include "kern/plugin.h"

struct image_platform {
    char os[24];
    char architecture[24];
    char variant[12]; /* "" where it was not given */
};

/* [OS/]ARCHITECTURE[/VARIANT]; names that uname uses (x86_64, aarch64) are taken too. */
int image_platform_parse(const char *text, struct image_platform *ret_platform, struct kern_error *err);
void image_platform_native(struct image_platform *ret_platform);
/* How well an image for `offered` serves `wanted`: 0 not at all, else the higher the better. */
unsigned image_platform_rank(const struct image_platform *wanted, const struct image_platform *offered);
/* "linux/arm64/v8"; always terminated, cut where it does not fit. */
void image_platform_print(const struct image_platform *platform, char *ret_text, size_t size);

#endif
